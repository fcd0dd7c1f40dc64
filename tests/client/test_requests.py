"""Our codecs behind aiokafka's connection: the bytes are those of the plain connection."""

from __future__ import annotations

from io import BytesIO

import pytest

from stuntbroker.client.requests import Call
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse

REQUESTS = {
    # key 26, version, correlation id 7, client "c"; transactional id "t", producer id 1, epoch 2, commit
    0: bytes.fromhex("001a 0000 00000007 0001 63" + "0001 74 0000000000000001 0002 01"),
    5: bytes.fromhex("001a 0005 00000007 0001 63 00" + "02 74 0000000000000001 0002 01 00"),
}


@pytest.mark.parametrize("version", REQUESTS)
def test_a_request_is_a_header_with_tags_from_the_flexible_versions_on_and_our_codecs_bytes(version: int) -> None:
    call = Call(26, version, EndTxnRequest("t", 1, 2, True), EndTxnResponse)
    prepared = call.prepare({})

    assert prepared.build_request_header(7, "c").encode() + prepared.encode() == REQUESTS[version]


@pytest.mark.parametrize("version", REQUESTS)
def test_a_response_is_decoded_after_its_header(version: int) -> None:
    call = Call(26, version, EndTxnRequest(), EndTxnResponse)
    wanted = EndTxnResponse(3, 51, *((9, 4) if version >= 5 else ()))
    body = bytearray()
    wanted.encode(body, version)
    frame = BytesIO(bytes.fromhex("00000007") + (b"\x00" if version >= 3 else b"") + body)

    assert call.parse_response_header(frame).correlation_id == 7
    assert call.RESPONSE_TYPE.decode(frame) == wanted
