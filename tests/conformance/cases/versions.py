"""ApiVersions, and frames that no client should send."""

from __future__ import annotations

import struct
from typing import Final

from stuntbroker.protocol.api_keys import APIS
from tests.conformance.side import Side
from tests.conformance.wire import header

CLIENT: Final = {"client_software_name": "conformance", "client_software_version": "1.0"}
SHORT_S: Final = 0.3


def api_versions(side: Side) -> None:
    for version in range(5):
        reply = side.quiet("ApiVersions", version, **CLIENT)
        side.note(f"error v{version}", reply.error_code)
        side.table(f"ranges v{version}", {str(a.api_key): f"{a.min_version}-{a.max_version}" for a in reply.api_keys})
        side.table(
            f"supported v{version}", {f.name: f"{f.min_version}-{f.max_version}" for f in reply.supported_features}
        )
        side.table(
            f"finalized v{version}",
            {f.name: f"{f.min_version_level}-{f.max_version_level}" for f in reply.finalized_features},
        )


def api_versions_of_a_later_day(side: Side) -> None:
    side.raw(header(18, 99, 5, flexible=True) + b"\x02x\x02y\x00", "ApiVersions v99")
    side.raw(header(18, 5, 5, flexible=True) + b"\x02x\x02y\x00", "ApiVersions v5")
    side.raw(header(18, -1, 5, flexible=False), "ApiVersions v-1")
    side.raw(header(18, 99, 5, flexible=False), "ApiVersions v99, header v1")


def api_versions_of_bad_names(side: Side) -> None:
    for name, version in (
        ("", "1"),
        ("a b", "1"),
        ("-a", "1"),
        ("a", ""),
        ("a.b-c", "1.0-x"),
        ("a", "1_0"),
        ("ä", "1"),
        ("a-", "1"),
    ):
        reply = side.quiet("ApiVersions", 3, client_software_name=name, client_software_version=version)
        side.note(f"{name!r} {version!r}", reply.error_code)
        side.note(f"{name!r} {version!r} keys", bool(reply.api_keys))
    side.raw(header(18, 3, 5, flexible=True) + b"\x00\x02y\x00", "null name")
    side.raw(header(18, 3, 5, flexible=True) + b"\x02x", "cut short")
    side.raw(header(18, 3, 5, flexible=True), "no body")


def versions_out_of_range(side: Side) -> None:
    for api in APIS.values():
        for version in (api.version_min - 1, 99, -1):
            if api.key != 18:
                side.raw(
                    header(api.key, version, 5, flexible=version >= api.flexible_from) + bytes(40),
                    f"{api.name} v{version}",
                )
    for key in (-1, 4, 5, 6, 7, 56, 58, 62, 67, 93, 999, 32_767, -32_768):
        side.raw(header(key, 0, 5, flexible=True) + bytes(40), f"key {key}")


def frames_of_odd_sizes(side: Side) -> None:
    for size in range(0, 12):
        side.raw(bytes(size), f"{size} zero bytes", wait_s=SHORT_S)
    side.raw(struct.pack(">i", -1), "length -1", whole=True)
    side.raw(struct.pack(">i", -(2**31)), "length -2^31", whole=True)
    side.raw(struct.pack(">i", 104_857_601) + bytes(10), "length over the limit", whole=True)
    side.raw(struct.pack(">i", 104_857_600) + bytes(10), "length at the limit", whole=True, wait_s=SHORT_S)
    side.raw(b"GET / HTTP/1.1\r\n\r\n", "HTTP", whole=True)
    side.raw(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1", "TLS hello", whole=True, wait_s=SHORT_S)


def client_ids(side: Side) -> None:
    start = struct.pack(">hhi", 18, 0, 7)
    for length, remaining, note in (
        (-1, b"", "null"), (0, b"", "empty"), (-2, b"", "-2"), (-32_768, b"", "-32768"), (5, b"ab", "longer than the frame"),
        (2, b"\xff\xfe", "not UTF-8"), (2, b"ab", "ab"), (1, b"ab", "one byte too many behind it"),
    ):  # fmt: skip
        side.raw_prefix(start + struct.pack(">h", length) + remaining, f"client id {note}")
    start = struct.pack(">hhi", 18, 3, 7)
    body = b"\x02x\x02y\x00"
    for tail, note in (
        (b"\x00", "no tags"), (b"\x01\x05\x01z", "tag 5"), (b"\x02\x05\x01z\x06\x00", "two tags"),
        (b"\x02\x05\x01z\x05\x00", "a tag twice"),
        (b"\x01\x05\x7fz", "tag longer than the frame"), (b"\xff\xff\xff\xff\x0f", "2^32-1 tags"), (b"\x80\x00", "a long zero"),
    ):  # fmt: skip
        side.raw_prefix(start + b"\xff\xff" + tail + body, f"header v2, {note}")


def bytes_behind_a_request(side: Side) -> None:
    for version in (0, 2, 3, 4):
        body = b"\x02x\x02y\x00" if version >= 3 else b""
        side.raw_prefix(header(18, version, 7, flexible=version >= 3) + body + b"extra", f"ApiVersions v{version}")
    side.raw_prefix(header(3, 1, 7, flexible=False) + b"\x00\x00\x00\x00" + b"extra", "Metadata v1")
    side.raw_prefix(header(12, 4, 7, flexible=True) + b"\x02g\x00\x00\x00\x01\x02m\x00\x00" + b"extra", "Heartbeat v4")
    side.raw_prefix(
        header(12, 4, 7, flexible=True) + b"\x02g\x00\x00\x00\x01\x02m\x00\x01\x63\x02ab", "Heartbeat v4, unknown tag"
    )
    side.raw_prefix(
        header(12, 3, 7, flexible=False) + b"\x00\x01g\x00\x00\x00\x01\x00\x01m\xff\xff" + b"extra", "Heartbeat v3"
    )


def bodies_that_lie(side: Side) -> None:
    for count in (-2, -1, 0x7FFFFFFF, -0x80000000, 3):
        side.raw(
            header(3, 1, 7, flexible=False) + struct.pack(">i", count), f"Metadata v1 with {count} topics", wait_s=1
        )
        side.raw(header(2, 1, 7, flexible=False) + struct.pack(">ii", -1, count), f"ListOffsets v1 with {count} topics")
    side.raw(header(12, 4, 7, flexible=True) + b"\x00\x00\x00\x00\x01\x02m\x00\x00", "Heartbeat v4, group null")
    side.raw(header(12, 4, 7, flexible=True) + b"\xff\xff\xff\xff\x0f", "Heartbeat v4, a group of 4 GB")
    side.raw(header(12, 4, 7, flexible=True) + b"\xff\xff\xff\xff\xff\xff\x0f", "Heartbeat v4, a length without end")
    side.raw(
        header(12, 3, 7, flexible=False) + b"\xff\xff\x00\x00\x00\x01\x00\x01m\xff\xff", "Heartbeat v3, group null"
    )
    side.raw(header(12, 3, 7, flexible=False) + b"\xff\xfe\x00\x00\x00\x01\x00\x01m\xff\xff", "Heartbeat v3, group -2")
    side.raw(
        header(12, 3, 7, flexible=False) + b"\x00\x02\xff\xfe\x00\x00\x00\x01\x00\x01m\xff\xff",
        "Heartbeat v3, group not UTF-8",
    )
    side.raw(
        header(12, 3, 7, flexible=False) + b"\x00\x01g\x00\x00\x00\x01\x00\x01m\xff\xfe", "Heartbeat v3, instance -2"
    )


def two_requests_at_once(side: Side) -> None:
    """Replies come in the order of the requests."""
    each = header(18, 0, 1, flexible=False)
    two = header(16, 0, 2, flexible=False)
    link = side.link("both")
    link.send(struct.pack(">i", len(each)) + each + struct.pack(">i", len(two)) + two)
    for _ in range(2):
        answer = link.receive()
        side.note("correlation", answer[:4].hex() if isinstance(answer, bytes) else answer)
