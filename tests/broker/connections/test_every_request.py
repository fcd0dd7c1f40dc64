"""Requests of every API and version: valid, truncated at every byte, and with extreme values of every byte, length and count.

Every request gets a response, waits if its API may wait, or has its connection closed. Other clients are not affected.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from struct import pack

import pytest

from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.protocol.api_keys import APIS
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.produce_request import ProduceRequest
from stuntbroker.protocol.primitives import DecodeError
from tests.kit.bystander import Bystander
from tests.kit.message_samples import CASES as SAMPLE_CASES
from tests.kit.message_samples import random_message
from tests.kit.rig import Client, Rig, decode, frame, raw_frame, running_rig, turn
from tests.kit.valid_requests import CASES, IDS, MAY_WAIT, TOPIC, TXN, valid_request

EXTREME_BYTES = (0x00, 0x7F, 0x80, 0xFF)
EXTREME_WORDS = (pack(">i", 2**31 - 1), pack(">I", 2**32 - 1), pack(">i", -(2**31)), bytes(4), b"\xff\xff\xff\xff\x0f")
PEAK_MAX = 8 << 20
"""Limit of the memory, in bytes, that the broker may use for one malformed request of a hundred bytes."""


class Attacker:
    """A client that reconnects after the broker has closed its connection."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.client = rig.client()

    def prepare(self) -> tuple[bytes, int, int]:
        """Return the (topic id, producer id, epoch) that the valid requests use."""
        topic_id: bytes = self.rig.topic(TOPIC).id
        created = self.rig.client().ask(InitProducerIdRequest(TXN, 60_000), 4)
        return topic_id, created.producer_id, created.producer_epoch

    def send(self, key: int, version: int, body: bytes) -> str:
        """Send one frame; return its outcome: `answered`, `waits`, `silent` (acks=0) or `closed`. Fail on any other outcome."""
        client = self.client
        client.feed(raw_frame(body))
        answers = client.answers()
        if client.transport.closed:
            assert not answers
            outcome = "closed"
        elif answers:
            assert len(answers) == 1
            assert answers[0][:4] == body[4:8]
            return "answered"
        elif client.connection.is_busy:
            assert key in MAY_WAIT, f"a request of {APIS[key].name} waits"
            outcome = "waits"
        else:
            assert not ProduceRequest.decode(body, version, _after_header(body, version)).acks
            return "silent"
        client.disconnect()
        self.client = self.rig.client()
        return outcome


def _after_header(body: bytes, version: int) -> int:
    length = max(0, int.from_bytes(body[8:10], "big", signed=True))
    return 10 + length + (1 if version >= 9 else 0)


def cuts(body: bytes) -> Iterator[bytes]:
    for size in range(len(body)):
        yield body[:size]


def extremes(body: bytes, first: int = 8) -> Iterator[bytes]:
    """Yield the body with extreme values in each byte after the correlation id, and in each window of four or five bytes."""
    for at in range(first, len(body)):
        for byte in EXTREME_BYTES:
            if body[at] != byte:
                yield body[:at] + bytes((byte,)) + body[at + 1 :]
        for word in EXTREME_WORDS:
            yield body[:at] + word + body[at + len(word) :]


def body_of(attacker: Attacker, key: int, version: int) -> bytes:
    return frame(valid_request(key, version, *attacker.prepare()), version)[4:]


async def test_every_api_that_is_served_has_a_valid_request_here() -> None:
    assert {key for key, _ in CASES} == set(SERVED)


async def test_every_request_in_every_version_is_answered_in_that_version(data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        attacker = Attacker(rig)
        for key, version in CASES:
            client = rig.client()
            client.feed(frame(valid_request(key, version, *attacker.prepare()), version))
            if client.connection.is_busy:
                rig.pass_time(10_000)
            (answer,) = client.answers()
            decode(answer, key, version)
            assert not client.transport.closed


@pytest.mark.parametrize("key", SERVED, ids=lambda key: APIS[key].name)
async def test_a_request_cut_at_any_byte_closes_its_own_connection_only(key: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        attacker, bystander = Attacker(rig), Bystander(rig)
        low, high, _ = SERVED[key]
        for version in range(low, high + 1):
            body = body_of(attacker, key, version)
            assert {attacker.send(key, version, part) for part in cuts(body)} <= {"closed", "answered"}
            bystander.work()
        assert rig.events.names().count("request_malformed") > 10


@pytest.mark.parametrize("key", SERVED, ids=lambda key: APIS[key].name)
async def test_a_request_with_any_byte_length_or_count_at_its_extremes_harms_no_other_client(
    key: int, data_dir: Path
) -> None:
    async with running_rig(data_dir, {"num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}) as rig:
        attacker, bystander = Attacker(rig), Bystander(rig)
        low, high, _ = SERVED[key]
        for version in range(low, high + 1):
            body = body_of(attacker, key, version)
            for part in extremes(body):
                attacker.send(key, version, part)
            bystander.work()
        await turn()


@pytest.mark.parametrize("key", SERVED, ids=lambda key: APIS[key].name)
async def test_random_values_of_every_field_harm_no_other_client(key: int, data_dir: Path) -> None:
    """The requests are well-formed but senseless. Some are large, and are decoded inside the receive buffer."""
    random = Random(key)
    samples = [(m, v) for m, v in SAMPLE_CASES if m.name == f"{APIS[key].name}Request"]
    async with running_rig(data_dir) as rig:
        attacker, bystander = Attacker(rig), Bystander(rig)
        attacker.prepare()
        low, high, _ = SERVED[key]
        for message, version in samples:
            if low <= version <= high:
                for number in range(30):
                    name = b"c" * (10_000 if number % 3 == 0 else 5)
                    attacker.send(key, version, frame(random_message(message, version, random), version, 7, name)[4:])
                bystander.work()
        await turn()


@pytest.mark.parametrize(("key", "version"), CASES[::7], ids=IDS[::7])
async def test_a_false_length_in_a_request_allocates_no_memory(key: int, version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        attacker = Attacker(rig)
        body = body_of(attacker, key, version)
        attacker.send(key, version, body)
        tracemalloc.start()
        try:
            for at in range(8, len(body)):
                for word in EXTREME_WORDS:
                    attacker.send(key, version, body[:at] + word + body[at + len(word) :])
            assert tracemalloc.get_traced_memory()[1] < PEAK_MAX
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("key", "version"), [(3, 14), (3, -1), (0, 2), (1, 3), (22, 7), (17, 2), (4, 0), (-1, 0), (999, 0)]
)
async def test_an_unknown_api_key_or_version_closes_the_connection_with_one_log_event(
    key: int, version: int, data_dir: Path
) -> None:
    async with running_rig(data_dir) as rig:
        client: Client = rig.client()
        client.feed(raw_frame(pack(">hhih", key, version, 1, -1) + bytes(20)))
        assert client.transport.closed
        assert not client.answers()
        assert rig.events.names() == ["request_not_served"]


@pytest.mark.parametrize("version", [-1, 5, 99, 32_767])
async def test_api_versions_of_an_unknown_version_is_answered_in_version_0(version: int, data_dir: Path) -> None:
    async with running_rig(data_dir) as rig:
        client = rig.client()
        client.feed(raw_frame(pack(">hhih", 18, version, 77, -1) + b"\x00\x01\x02"))
        (answer,) = client.answers()
        assert answer == pack(">ihihhh", 77, 35, 1, 18, 0, 4)
        assert not client.transport.closed


async def test_names_that_are_not_utf_8_are_answered_or_refused(data_dir: Path) -> None:
    """A response needs three bytes for each invalid byte, so a long name of them no longer fits."""
    async with running_rig(data_dir) as rig:
        attacker, bystander = Attacker(rig), Bystander(rig)
        for key, version in CASES:
            for size in (10, 30_000):
                text = TOPIC.encode() if key not in (10, 22, 25, 26) else b"attacked"
                body = body_of(attacker, key, version)
                at = body.find(text, 12)
                if at < 0:
                    continue
                bad = b"\xff" * size
                if version >= APIS[key].flexible_from:
                    end = at + body[at - 1] - 1
                    length = size + 1
                    head = (
                        bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))
                        if size > 99
                        else bytes((length,))
                    )
                    body = body[: at - 1] + head + bad + body[end:]
                else:
                    end = at + int.from_bytes(body[at - 2 : at], "big")
                    body = body[: at - 2] + pack(">h", size) + bad + body[end:]
                assert attacker.send(key, version, body) in ("answered", "closed", "waits")
        bystander.work()


def test_the_extreme_values_include_maximal_bytes_and_lengths() -> None:
    created = set(extremes(b"12345678ab"))
    assert b"12345678\xffb" in created
    assert b"12345678" + pack(">i", 2**31 - 1) in created
    with pytest.raises(DecodeError):
        ProduceRequest.decode(b"", 3)
