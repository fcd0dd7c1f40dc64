"""GENERATED from tools/schemas by tools/generate.py (`make generate`): AlterReplicaLogDirsRequest, key 34, versions 1-2."""

from __future__ import annotations

from collections.abc import Sequence
from struct import error as StructError, pack as struct_pack, Struct, unpack_from
from typing import ClassVar

from stuntbroker.protocol.primitives import (
    Buffer,
    DecodeError,
    ELEMENTS_MAX,
    Message,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_counted_tags,
    skip_tags,
    write_compact_string,
    write_string,
    write_uvarint,
)

_unpack_i = Struct(">i").unpack_from
_pack_i = Struct(">i").pack


class AlterReplicaLogDirTopic(Message):
    """An element of `topics` of AlterReplicaLogDir."""

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "partitions")
    __slots__ = FIELDS

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterReplicaLogDir(Message):
    """An element of `dirs` of AlterReplicaLogDirsRequest."""

    FIELDS: ClassVar[tuple[str, ...]] = ("path", "topics")
    __slots__ = FIELDS

    def __init__(
        self,
        path: str = "",
        topics: Sequence[AlterReplicaLogDirTopic] = (),
    ) -> None:
        self.path = path
        self.topics = topics


class AlterReplicaLogDirsRequest(Message):
    """The message AlterReplicaLogDirsRequest, versions 1-2."""

    FIELDS: ClassVar[tuple[str, ...]] = ("dirs",)
    __slots__ = FIELDS

    def __init__(
        self,
        dirs: Sequence[AlterReplicaLogDir] = (),
    ) -> None:
        self.dirs = dirs

    @classmethod
    def decode(cls, buf: Buffer, version: int, pos: int = 0) -> AlterReplicaLogDirsRequest:
        try:
            if version >= 2:
                return _decode_flexible(buf, pos, version)
            return _decode_classic(buf, pos, version)
        except (IndexError, StructError) as fault:
            raise DecodeError("AlterReplicaLogDirsRequest ends too early", len(buf)) from fault

    def encode(self, out: bytearray, version: int) -> None:
        if version >= 2:
            _encode_flexible(out, self, version)
        else:
            _encode_classic(out, self, version)


def _decode_classic(buf: Buffer, pos: int, version: int) -> AlterReplicaLogDirsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = _unpack_i(buf, pos)[0]
    pos += 4
    if elements > (end - pos) // 6:
        raise DecodeError("Dirs counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Dirs is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    dirs_list: list[AlterReplicaLogDir] = []
    for _ in range(elements):
        d_path, pos = read_string(buf, pos)
        d_elements = _unpack_i(buf, pos)[0]
        pos += 4
        if d_elements > (end - pos) // 6:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if d_elements < 0:
            raise DecodeError("Topics is null", pos)
        left -= d_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        d_topics_list: list[AlterReplicaLogDirTopic] = []
        for _ in range(d_elements):
            d_t_name, pos = read_string(buf, pos)
            d_t_elements = _unpack_i(buf, pos)[0]
            pos += 4
            if d_t_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if d_t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            left -= d_t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            d_t_partitions: Sequence[int] = list(unpack_from(f">{d_t_elements}i", buf, pos))
            pos += 4 * d_t_elements
            d_t = AlterReplicaLogDirTopic(d_t_name, d_t_partitions)
            d_topics_list.append(d_t)
        d_topics: Sequence[AlterReplicaLogDirTopic] = d_topics_list
        d = AlterReplicaLogDir(d_path, d_topics)
        dirs_list.append(d)
    dirs: Sequence[AlterReplicaLogDir] = dirs_list
    message = AlterReplicaLogDirsRequest(dirs)
    return message


def _encode_classic(out: bytearray, message: AlterReplicaLogDirsRequest, version: int) -> None:
    out += _pack_i(len(message.dirs))
    for d in message.dirs:
        write_string(out, d.path)
        out += _pack_i(len(d.topics))
        for d_t in d.topics:
            write_string(out, d_t.name)
            out += _pack_i(len(d_t.partitions))
            out += struct_pack(f">{len(d_t.partitions)}i", *d_t.partitions)


def _decode_flexible(buf: Buffer, pos: int, version: int) -> AlterReplicaLogDirsRequest:
    end = len(buf)
    left = ELEMENTS_MAX
    elements = buf[pos]
    if elements > 127:
        elements, pos = read_uvarint(buf, pos)
    else:
        pos += 1
    elements -= 1
    if elements > (end - pos) // 3:
        raise DecodeError("Dirs counts more elements than there are bytes", pos)
    if elements < 0:
        raise DecodeError("Dirs is null", pos)
    left -= elements
    if left < 0:
        raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
    dirs_list: list[AlterReplicaLogDir] = []
    for _ in range(elements):
        d_path, pos = read_compact_string(buf, pos)
        d_elements = buf[pos]
        if d_elements > 127:
            d_elements, pos = read_uvarint(buf, pos)
        else:
            pos += 1
        d_elements -= 1
        if d_elements > (end - pos) // 3:
            raise DecodeError("Topics counts more elements than there are bytes", pos)
        if d_elements < 0:
            raise DecodeError("Topics is null", pos)
        left -= d_elements
        if left < 0:
            raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
        d_topics_list: list[AlterReplicaLogDirTopic] = []
        for _ in range(d_elements):
            d_t_name, pos = read_compact_string(buf, pos)
            d_t_elements = buf[pos]
            if d_t_elements > 127:
                d_t_elements, pos = read_uvarint(buf, pos)
            else:
                pos += 1
            d_t_elements -= 1
            if d_t_elements > (end - pos) // 4:
                raise DecodeError("Partitions counts more elements than there are bytes", pos)
            if d_t_elements < 0:
                raise DecodeError("Partitions is null", pos)
            left -= d_t_elements
            if left < 0:
                raise DecodeError(f"more than {ELEMENTS_MAX} elements", pos)
            d_t_partitions: Sequence[int] = list(unpack_from(f">{d_t_elements}i", buf, pos))
            pos += 4 * d_t_elements
            if buf[pos]:
                pos, left = skip_counted_tags(buf, pos, left)
            else:
                pos += 1
            d_t = AlterReplicaLogDirTopic(d_t_name, d_t_partitions)
            d_topics_list.append(d_t)
        d_topics: Sequence[AlterReplicaLogDirTopic] = d_topics_list
        if buf[pos]:
            pos, left = skip_counted_tags(buf, pos, left)
        else:
            pos += 1
        d = AlterReplicaLogDir(d_path, d_topics)
        dirs_list.append(d)
    dirs: Sequence[AlterReplicaLogDir] = dirs_list
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    message = AlterReplicaLogDirsRequest(dirs)
    return message


def _encode_flexible(out: bytearray, message: AlterReplicaLogDirsRequest, version: int) -> None:
    count = len(message.dirs) + 1
    if count > 127:
        write_uvarint(out, count)
    else:
        out.append(count)
    for d in message.dirs:
        write_compact_string(out, d.path)
        count = len(d.topics) + 1
        if count > 127:
            write_uvarint(out, count)
        else:
            out.append(count)
        for d_t in d.topics:
            write_compact_string(out, d_t.name)
            count = len(d_t.partitions) + 1
            if count > 127:
                write_uvarint(out, count)
            else:
                out.append(count)
            out += struct_pack(f">{len(d_t.partitions)}i", *d_t.partitions)
            out += b"\x00"
        out += b"\x00"
    out += b"\x00"
