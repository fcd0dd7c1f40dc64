"""Our codecs behind aiokafka's connection: the bytes are those of the plain connection."""

from __future__ import annotations

from io import BytesIO

import pytest
from fake_broker import FakeBroker

from stuntbroker.client.cluster import Cluster
from stuntbroker.client.requests import Call
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from stuntbroker.protocol.messages.init_producer_id_response import InitProducerIdResponse

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
def test_an_answer_is_read_behind_its_header(version: int) -> None:
    call = Call(26, version, EndTxnRequest(), EndTxnResponse)
    wanted = EndTxnResponse(3, 51, *((9, 4) if version >= 5 else ()))
    body = bytearray()
    wanted.encode(body, version)
    frame = BytesIO(bytes.fromhex("00000007") + (b"\x00" if version >= 3 else b"") + body)

    assert call.parse_response_header(frame).correlation_id == 7
    assert call.RESPONSE_TYPE.decode(frame) == wanted


def test_flags_of_two_phase_commit_travel_in_version_6(broker: FakeBroker) -> None:
    """Version 6 has the flags Enable2Pc and KeepPreparedTxn (KIP-939)."""
    broker.handlers[22] = lambda request, version: InitProducerIdResponse(0, 0, 5, 6, 7, 8)
    wanted = InitProducerIdRequest("t", 60_000, -1, -1, True, True)
    with Cluster([broker.address]) as cluster:
        answer = cluster.retrying(lambda: cluster.ask(1, 22, wanted, InitProducerIdResponse, least=6))

    assert [(version, request) for name, version, request in broker.seen if name == "InitProducerId"] == [(6, wanted)]
    assert answer == InitProducerIdResponse(0, 0, 5, 6, 7, 8)
