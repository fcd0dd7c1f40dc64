"""The generated codecs are up to date with the schemas, and the generator supports every feature of a schema."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from types import ModuleType
from typing import Any

import pytest
from codegen import module_of
from schema import Message, SchemaError, parse

from stuntbroker.protocol.primitives import DecodeError
from tests.kit.message_samples import ROOT, encoded, random_struct

EVERYTHING = """
request EverythingRequest key=999 versions=0-6 flexible=3+
  Flag bool
  Tiny int8
  Port uint16 1+
  Crc uint32 1-4
  Ratio float64 2+ =0.5
  Id uuid 0-5
  Flags [bool] 1+
  Ports [uint16]?2-4
  Ratios [float64]
  Ids [uuid]
  Names [string]?
  Blobs [bytes] 2+
  Blob bytes?4+ 1+
  Note string?2-5
  Batch records
  Place Place 2+
    Row int32 =7
    Seat string? 3-4
  Spare Place? 3+
  Stops [Stop]?1+ 0-5
    Place Place
    Inner [Inner]
      Value int16 3+ tag=1 =-1
      Names [string]? 4+ tag=0 =null
      Size int64
    Ids [int64] 4+ tag=3
  TagFlag bool 3+ tag=9 =true
  TagText string 4+ tag=0 =hello
  TagNull string?5+ 4+ tag=1
  TagBlob bytes 3+ tag=4
  TagId uuid 3-4 tag=2
  TagRatio float64 3+ tag=3 =-2.5
  TagPlace Place 4-5 tag=5
  TagStops [Inner]? 3+ tag=300
  TagPorts [uint32] 6+ tag=7
"""


def built(text: str) -> tuple[Message, Any]:
    """The message of a schema, and the module that is generated for it."""
    (message,) = parse(text, "test")
    module = ModuleType("generated")
    exec(compile(module_of(message), f"<generated {message.name}>", "exec"), module.__dict__)
    return message, module


@pytest.fixture(scope="module")
def everything() -> tuple[Message, Any]:
    return built(EVERYTHING)


def test_the_committed_codecs_are_up_to_date_with_the_schemas() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize("version", range(7))
def test_every_feature_of_a_schema_survives_a_round_trip(everything: tuple[Message, Any], version: int) -> None:
    message, module = everything
    random = Random(version)
    for _ in range(100):
        sent = random_struct(message.root, version, random, module)
        wire = encoded(sent, version)

        assert module.EverythingRequest.decode(wire, version) == sent
        assert module.EverythingRequest.decode(memoryview(wire), version) == sent


@pytest.mark.parametrize("version", range(7))
def test_a_generated_decoder_raises_only_decode_error(everything: tuple[Message, Any], version: int) -> None:
    message, module = everything
    random = Random(version)
    for _ in range(20):
        wire = encoded(random_struct(message.root, version, random, module), version)
        for at in range(len(wire)):
            damaged = wire[:at] + random.choice([b"", b"\xff", b"\xff" * 4, b"\x7f\xff\xff\xff"]) + wire[at + 1 :]
            for buf in (wire[:at], damaged):
                try:
                    module.EverythingRequest.decode(buf, version)
                except DecodeError:
                    continue
                assert buf is damaged, f"cut at {at}"


def test_defaults_are_those_of_the_schema(everything: tuple[Message, Any]) -> None:
    _, module = everything
    fresh = module.EverythingRequest()

    assert (fresh.tag_flag, fresh.tag_text, fresh.tag_ratio, fresh.ratio, fresh.note) == (True, "hello", -2.5, 0.5, "")
    assert (fresh.place, fresh.spare, fresh.tag_place, fresh.id) == (module.Place(row=7), None, None, bytes(16))
    assert (fresh.stops, fresh.tag_stops, fresh.blob, fresh.port) == ((), (), b"", 0)


def test_two_messages_do_not_share_a_structure_that_was_left_out(everything: tuple[Message, Any]) -> None:
    _, module = everything
    each, other = module.EverythingRequest(), module.EverythingRequest()
    each.place.row = 8

    assert other.place.row == 7


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_a_tagged_field_with_its_default_is_not_sent(everything: tuple[Message, Any], version: int) -> None:
    _, module = everything

    assert encoded(module.EverythingRequest(), version)[-1] == 0
    assert encoded(module.EverythingRequest(tag_flag=False), version)[-4:] == bytes([1, 9, 1, 0])


def test_a_tag_of_another_version_is_skipped(everything: tuple[Message, Any]) -> None:
    _, module = everything
    section = b"\x02" + b"\x00\x02\x02x" + b"\x09\x01\x00"  # TagText, which came with version 4, and TagFlag.
    read = module.EverythingRequest.decode(encoded(module.EverythingRequest(), 3)[:-1] + section, 3)

    assert encoded(module.EverythingRequest(tag_text="x", tag_flag=False), 4).endswith(section)
    assert (read.tag_text, read.tag_flag) == ("hello", False)


@pytest.mark.parametrize("marker", range(256))
def test_a_structure_is_null_when_its_first_byte_is_negative(marker: int) -> None:
    _, module = built("data Holder versions=0 flexible=0+\n  Place Place?\n    Row int8\n")
    wire = bytes([marker]) + b"\x05\x00\x00"

    if marker < 128:
        assert module.Holder.decode(wire, 0).place == module.Place(5)
    else:
        assert module.Holder.decode(wire[:1] + b"\x00", 0).place is None


@pytest.mark.parametrize(
    ("version", "given", "allowed"),
    [
        (0, {"stops": None}, False), (1, {"stops": None}, True), (5, {"stops": None}, True),
        (1, {"note": None}, False), (2, {"note": None}, True), (5, {"note": None}, True), (6, {"note": None}, False),
        (1, {"ports": None}, False), (2, {"ports": None}, True), (4, {"ports": None}, True),
        (5, {"ports": None}, False),
        (3, {"blob": None}, False), (4, {"blob": None}, True),
        (4, {"tag_null": None}, False), (5, {"tag_null": None}, True),
    ],
)  # fmt: skip
def test_null_goes_out_only_where_the_schema_allows_it(
    everything: tuple[Message, Any], version: int, given: dict[str, Any], allowed: bool
) -> None:
    _, module = everything
    (name,) = given
    value = module.EverythingRequest(**given)

    if allowed:
        assert getattr(module.EverythingRequest.decode(encoded(value, version), version), name) is None
    else:
        with pytest.raises((ValueError, AttributeError, TypeError)):
            encoded(value, version)


HEAD = "request R key=1 versions=0-3 flexible=2+\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "  Name\n",                              "t.txt:2: the field 'Name' has no type"),
        (HEAD + "  Size int31\n",                        "t.txt:2: there is no type 'int31'"),
        (HEAD + "  Size [int32\n",                       "t.txt:2: cannot read the type '[int32'"),
        (HEAD + "  Size int32]\n",                       "t.txt:2: cannot read the type 'int32]'"),
        (HEAD + "  Size int32 3-1\n",                    "t.txt:2: the range 3-1 is empty"),
        (HEAD + "  Size int32 1..2\n",                   "t.txt:2: '1..2' is no range of versions"),
        (HEAD + "  Size int32?x\n",                      "t.txt:2: 'x' is no range of versions"),
        (HEAD + "  Size int32 tagged=1\n",               "t.txt:2: cannot read 'tagged=1'"),
        (HEAD + "  Size int32 2+ tag=x\n",               "t.txt:2: cannot read 'tag=x'"),
        (HEAD + "  Size int32\n  Size int16\n",          "t.txt:3: R has two fields Size"),
        (HEAD + "  A int8 2+ tag=0\n  B int8 2+ tag=0\n", "t.txt:3: R has two fields of the tag 0"),
        (HEAD + "  A int8 tag=0\n",                      "t.txt:2: A has a tag before it is flexible"),
        (HEAD + "  Items [Item]\n",                      "t.txt:1: R uses Item and gives it no fields"),
        (HEAD + "   A int8\n",                           "t.txt:2: a field is two spaces deeper"),
        (HEAD + "    A int8\n",                          "t.txt:2: a field is two spaces deeper"),
        (HEAD + "  A int8\n    B int8\n",                "t.txt:3: a field is two spaces deeper"),
        ("  A int8\n",                                   "t.txt:1: a field is two spaces deeper"),
        ("message R key=1 versions=0 flexible=0+\n",     "t.txt:1: a message starts with"),
        ("request\n",                                    "t.txt:1: a message starts with"),
        ("request R key=1 flexible=0+\n",                "t.txt:1: R does not tell its versions"),
        ("request R versions=0 flexible=0+\n",           "t.txt:1: R does not tell its key"),
        ("data R versions=0\n",                          "t.txt:1: R does not tell its flexible"),
        ("data R versions=zero flexible=0+\n",           "t.txt:1: 'zero' is no range of versions"),
        ("data R versions=0 flexible=0+ color=red\n",    "t.txt:1: cannot read 'color'"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_schema_is_reported_with_its_line(text: str, says: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse(text, "t.txt")

    assert str(refused.value).startswith(says)


def test_a_field_named_as_a_variable_of_the_generated_code_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"t\.txt:2: the generated code uses the name elements itself"):
        module_of(parse(HEAD + "  Elements int32\n", "t.txt")[0])
