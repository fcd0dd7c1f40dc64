"""GENERATED from tools/schemas by tools/generate.py (`make generate`): ApiVersionsResponse, key 18, versions 0-5."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, Struct
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    Message,
    read_compact_string,
    read_tags,
    read_uvarint,
    skip_tags,
    write_compact_string,
    write_tags,
    write_uvarint,
)

_unpack_o = Struct(">?").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_hh = Struct(">hh").unpack_from
_unpack_hhh = Struct(">hhh").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_q = Struct(">q").unpack_from
_pack_o = Struct(">?").pack
_pack_h = Struct(">h").pack
_pack_hhh = Struct(">hhh").pack
_pack_hhhx = Struct(">hhhx").pack
_pack_hhx = Struct(">hhx").pack
_pack_i = Struct(">i").pack
_pack_q = Struct(">q").pack


class ApiVersion(Message):
    """An element of `api_keys` of ApiVersionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("api_key", "min_version", "max_version")
    __slots__ = FIELDS

    def __init__(
        self,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    """An element of `supported_features` of ApiVersionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "min_version", "max_version")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    """An element of `finalized_features` of ApiVersionsResponse."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "max_version_level", "min_version_level")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(Message):
    """The message ApiVersionsResponse, versions 0-5."""

    FIELDS: ClassVar[tuple[str, ...]] = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready")
    __slots__ = FIELDS

    def __init__(
        self,
        error_code: int = 0,
        api_keys: Sequence[ApiVersion] = (),
        throttle_time_ms: int = 0,
        supported_features: Sequence[SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Sequence[FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> ApiVersionsResponse:
        try:
            if version >= 3:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("ApiVersionsResponse ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 3:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> ApiVersionsResponse:
    end = len(buf)
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("ApiKeys counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ApiKeys is null", pos)
    api_keys_list: list[ApiVersion] = []
    for _ in range(elements):
        a_api_key, a_min_version, a_max_version = _unpack_hhh(buf, pos)
        pos += 6
        a = ApiVersion(a_api_key, a_min_version, a_max_version)
        api_keys_list.append(a)
    api_keys: Sequence[ApiVersion] = api_keys_list
    if version >= 1:
        throttle_time_ms = _unpack_i(buf, pos)[0]
        pos += 4
    else:
        throttle_time_ms = 0
    message = ApiVersionsResponse(error_code, api_keys, throttle_time_ms, (), -1, (), False)
    return message


def _encode_classic(out: bytearray, message: ApiVersionsResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    out += _pack_i(len(message.api_keys))
    for a in message.api_keys:
        out += _pack_hhh(a.api_key, a.min_version, a.max_version)
    if version >= 1:
        out += _pack_i(message.throttle_time_ms)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> ApiVersionsResponse:
    end = len(buf)
    error_code = _unpack_h(buf, pos)[0]
    pos += 2
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 7:
        raise DecodeError("ApiKeys counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("ApiKeys is null", pos)
    api_keys_list: list[ApiVersion] = []
    for _ in range(elements):
        a_api_key, a_min_version, a_max_version = _unpack_hhh(buf, pos)
        pos += 6
        if buf[pos]:
            pos = skip_tags(buf, pos)
        else:
            pos += 1
        a = ApiVersion(a_api_key, a_min_version, a_max_version)
        api_keys_list.append(a)
    api_keys: Sequence[ApiVersion] = api_keys_list
    throttle_time_ms = _unpack_i(buf, pos)[0]
    pos += 4
    supported_features: Sequence[SupportedFeatureKey] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeatureKey] = ()
    zk_migration_ready: bool = False
    if buf[pos]:
        tags, after = read_tags(buf, pos)
        if 0 in tags:
            pos, stop = tags[0]
            elements = buf[pos]
            if elements > 127:
                elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            elements -= 1
            if elements > (end - pos) // 6:
                raise DecodeError("SupportedFeatures counts more elements than there are bytes", pos)
            if elements < 0:
                raise DecodeError("SupportedFeatures is null", pos)
            supported_features_list: list[SupportedFeatureKey] = []
            for _ in range(elements):
                s_name, pos = read_compact_string(buf, pos)
                s_min_version, s_max_version = _unpack_hh(buf, pos)
                pos += 4
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                s = SupportedFeatureKey(s_name, s_min_version, s_max_version)
                supported_features_list.append(s)
            supported_features = supported_features_list
            if pos != stop:
                raise DecodeError("tagged field SupportedFeatures is not of the size given", pos)
        if 1 in tags:
            pos, stop = tags[1]
            finalized_features_epoch = _unpack_q(buf, pos)[0]
            pos += 8
            if pos != stop:
                raise DecodeError("tagged field FinalizedFeaturesEpoch is not of the size given", pos)
        if 2 in tags:
            pos, stop = tags[2]
            elements = buf[pos]
            if elements > 127:
                elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            elements -= 1
            if elements > (end - pos) // 6:
                raise DecodeError("FinalizedFeatures counts more elements than there are bytes", pos)
            if elements < 0:
                raise DecodeError("FinalizedFeatures is null", pos)
            finalized_features_list: list[FinalizedFeatureKey] = []
            for _ in range(elements):
                f_name, pos = read_compact_string(buf, pos)
                f_max_version_level, f_min_version_level = _unpack_hh(buf, pos)
                pos += 4
                if buf[pos]:
                    pos = skip_tags(buf, pos)
                else:
                    pos += 1
                f = FinalizedFeatureKey(f_name, f_max_version_level, f_min_version_level)
                finalized_features_list.append(f)
            finalized_features = finalized_features_list
            if pos != stop:
                raise DecodeError("tagged field FinalizedFeatures is not of the size given", pos)
        if 3 in tags:
            pos, stop = tags[3]
            zk_migration_ready = _unpack_o(buf, pos)[0]
            pos += 1
            if pos != stop:
                raise DecodeError("tagged field ZkMigrationReady is not of the size given", pos)
        pos = after
    else:
        pos += 1
    message = ApiVersionsResponse(error_code, api_keys, throttle_time_ms, supported_features, finalized_features_epoch, finalized_features, zk_migration_ready)
    return message


def _encode_flexible(out: bytearray, message: ApiVersionsResponse, version: int) -> None:
    out += _pack_h(message.error_code)
    count = len(message.api_keys) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for a in message.api_keys:
        out += _pack_hhhx(a.api_key, a.min_version, a.max_version)
    out += _pack_i(message.throttle_time_ms)
    if message.supported_features or message.finalized_features_epoch != -1 or message.finalized_features or message.zk_migration_ready is not False:
        tags: list[tuple[int, bytearray]] = []
        outer = out
        if message.supported_features:
            out = bytearray()
            count = len(message.supported_features) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for s in message.supported_features:
                write_compact_string(out, s.name)
                out += _pack_hhx(s.min_version, s.max_version)
            tags.append((0, out))
        if message.finalized_features_epoch != -1:
            out = bytearray()
            out += _pack_q(message.finalized_features_epoch)
            tags.append((1, out))
        if message.finalized_features:
            out = bytearray()
            count = len(message.finalized_features) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            for f in message.finalized_features:
                write_compact_string(out, f.name)
                out += _pack_hhx(f.max_version_level, f.min_version_level)
            tags.append((2, out))
        if message.zk_migration_ready is not False:
            out = bytearray()
            out += _pack_o(message.zk_migration_ready)
            tags.append((3, out))
        out = outer
        write_tags(out, tags)
    else:
        out.append(0)
