"""Records of `__consumer_offsets`: the one place that knows all kinds of them.

A key begins with an int16, the kind of record; a value begins with an int16, its version. A null value is a
tombstone.

    kind  key                            value
    0, 1  group, topic, partition        an offset, versions 0 to 4 (`offset_records`)
    2     group                          a classic group with its members, versions 0 to 4 (`classic.records`)

Other kinds belong to groups of other types; such records are ignored.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from stuntbroker.groups.classic.records import GROUP_METADATA, group_id_of, read_group
from stuntbroker.groups.classic.state import Group
from stuntbroker.groups.offset_records import OFFSET_COMMIT_KINDS, OffsetRecord, read_offset
from stuntbroker.protocol.primitives import Buffer, DecodeError

_INT16: Final = Struct(">h")


class GroupRecord(NamedTuple):
    """A record of a group's state; `group` is None for a tombstone."""

    group_id: str
    group: Group | None
    """None for a tombstone."""


def read_record(record_offset: int, key: Buffer | None, value: Buffer | None) -> OffsetRecord | GroupRecord | None:
    """Decode a record; return None for one of another kind. Raises DecodeError for invalid bytes."""
    if key is None or len(key) < 2:
        raise DecodeError("a record of the offsets topic has no key", 0)
    kind = _INT16.unpack_from(key)[0]
    if kind in OFFSET_COMMIT_KINDS:
        return read_offset(record_offset, kind, key, value)
    if kind == GROUP_METADATA:
        group_id = group_id_of(key)
        return GroupRecord(group_id, None if value is None else read_group(group_id, value))
    return None
