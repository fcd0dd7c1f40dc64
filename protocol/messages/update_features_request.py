"""GENERATED from tools/schemas by tools/generate.py (`make generate`): UpdateFeaturesRequest, key 57, versions 0-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_b = Struct(">b").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_pack_o = Struct(">?").pack
_pack_b = Struct(">b").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack


class FeatureUpdateKey(Message):
    """An element of `feature_updates` of UpdateFeaturesRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")
    __slots__ = FIELDS

    def __init__(
        self,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(Message):
    """The message UpdateFeaturesRequest, versions 0-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("timeout_ms", "feature_updates", "validate_only")
    __slots__ = FIELDS

    def __init__(
        self,
        timeout_ms: int = 60000,
        feature_updates: Sequence[FeatureUpdateKey] = (),
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = feature_updates
        self.validate_only = validate_only

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> UpdateFeaturesRequest:
        try:
            return _decode_flexible(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("UpdateFeaturesRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        _encode_flexible(out, self, version)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> UpdateFeaturesRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    timeout_ms = _unpack_i(buf, pos)[0]
    pos += 4
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 4:
        raise DecodeError("FeatureUpdates counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("FeatureUpdates is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    feature_updates_list: list[FeatureUpdateKey] = []
    for _ in range(elements):
        f_feature, pos = read_compact_string(buf, pos)
        f_max_version_level = _unpack_h(buf, pos)[0]
        pos += 2
        if version <= 0:
            f_allow_downgrade = _unpack_o(buf, pos)[0]
            pos += 1
        else:
            f_allow_downgrade = False
        if version >= 1:
            f_upgrade_type = _unpack_b(buf, pos)[0]
            pos += 1
        else:
            f_upgrade_type = 1
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        f = FeatureUpdateKey(f_feature, f_max_version_level, f_allow_downgrade, f_upgrade_type)
        feature_updates_list.append(f)
    feature_updates: Sequence[FeatureUpdateKey] = feature_updates_list
    if version >= 1:
        validate_only = _unpack_o(buf, pos)[0]
        pos += 1
    else:
        validate_only = False
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = UpdateFeaturesRequest(timeout_ms, feature_updates, validate_only)
    return message


def _encode_flexible(out: bytearray, message: UpdateFeaturesRequest, version: int) -> None:
    out += _pack_i(message.timeout_ms)
    count = len(message.feature_updates) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for f in message.feature_updates:
        write_compact_string(out, f.feature)
        out += _pack_h(f.max_version_level)
        if version <= 0:
            out += _pack_o(f.allow_downgrade)
        if version >= 1:
            out += _pack_b(f.upgrade_type)
        out += b"\x00"
    if version >= 1:
        out += _pack_o(message.validate_only)
    out += b"\x00"
