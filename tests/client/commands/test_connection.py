"""One connection: version negotiation, responses in the order of their requests, and invalid responses, which are errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import pack
from typing import Any

import pytest
from fake_broker import API_VERSIONS, METADATA, FakeBroker

from stuntbroker.client.commands.connection import FRAME_SIZE_MAX, Connection, Deadline, Pending
from stuntbroker.client.errors import AuthenticationFailed, BrokerError, ConnectionFailed, UnsupportedVersion
from stuntbroker.client.security import Security, authenticate
from stuntbroker.protocol.addresses import Address
from stuntbroker.protocol.api_keys import APIS, END_TXN
from stuntbroker.protocol.messages.api_versions_response import ApiVersionsResponse
from stuntbroker.protocol.messages.end_txn_request import EndTxnRequest
from stuntbroker.protocol.messages.end_txn_response import EndTxnResponse
from stuntbroker.protocol.messages.metadata_request import MetadataRequest
from stuntbroker.protocol.messages.metadata_response import MetadataResponse
from stuntbroker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from stuntbroker.protocol.primitives import Message

LONG_S, SHORT_S = 20.0, 0.05


@contextmanager
def connected(broker: FakeBroker) -> Iterator[Connection]:
    connection = Connection(broker.address, Deadline(LONG_S))
    try:
        yield connection
    finally:
        connection.close()


def ask(connection: Connection, version: int = 9, timeout_s: float = LONG_S) -> MetadataResponse:
    return connection.ask(METADATA, version, MetadataRequest([]), MetadataResponse, Deadline(timeout_s))


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_a_request_is_answered_at_the_version_that_it_was_sent_with(broker: FakeBroker, version: int) -> None:
    with connected(broker) as connection:
        for _ in range(2):
            assert [each.node_id for each in ask(connection, version).brokers] == [1]
    assert [(name, sent) for name, sent, _ in broker.seen] == [("Metadata", version)] * 2


@pytest.mark.parametrize("newest", [0, 2], ids=lambda each: f"ApiVersions up to {each}")
def test_api_versions_falls_back_to_an_older_version_for_an_old_broker(broker: FakeBroker, newest: int) -> None:
    broker.versions[API_VERSIONS] = (0, newest)
    broker.versions[METADATA] = (0, 5)
    with connected(broker) as connection:
        assert connection.version(METADATA) == 5


VERSIONS: dict[str, tuple[tuple[int, int] | None, int, int, int | str]] = {
    # Versions of the broker, minimum and maximum that the client asks for, version used or error.
    "both have many": ((0, 99), 0, 99, APIS[METADATA].version_max),
    "an older broker": ((0, 4), 0, 99, 4),
    "no more than is asked for": ((0, 13), 0, 7, 7),
    "a broker that is too old for the use": ((0, 3), 4, 99, "has Metadata 0-3, needed is version 4-13"),
    "a broker that is too new for the use": ((9, 13), 0, 8, "has Metadata 9-13, needed is version 0-8"),
    "a broker of the far future": ((50, 60), 0, 99, "has Metadata 50-60, needed is version 0-13"),
    "a broker without it": (None, 0, 99, "has no Metadata, needed is version 0-13"),
}


@pytest.mark.parametrize("what", VERSIONS)
def test_the_highest_version_that_both_have_is_taken(broker: FakeBroker, what: str) -> None:
    has, least, most, expected = VERSIONS[what]
    if has is None:
        del broker.versions[METADATA]
    else:
        broker.versions[METADATA] = has
    with connected(broker) as connection:
        if isinstance(expected, int):
            assert connection.version(METADATA, least, most) == expected
        else:
            with pytest.raises(UnsupportedVersion, match=expected):
                connection.version(METADATA, least, most)


def whole_answer(correlation_id: int, cluster_id: str | None = None) -> bytes:
    body = bytearray(pack(">ib", correlation_id, 0))
    MetadataResponse(cluster_id=cluster_id).encode(body, 9)
    return pack(">i", len(body)) + body


BROKEN: dict[str, Callable[[Any, int], bytes | None]] = {
    "closed without an answer": lambda request, version: None,
    "the answer to another request": lambda request, version: whole_answer(77),
    "an answer without a correlation id": lambda request, version: pack(">i", 3) + b"\0\0\0",
    "a negative size": lambda request, version: pack(">i", -1) + b"x" * 20,
    "a size beyond the limit": lambda request, version: pack(">i", FRAME_SIZE_MAX + 1),
    "a message that ends too early": lambda request, version: pack(">iibi", 9, 2, 0, 0),
    "no header behind the correlation id": lambda request, version: pack(">ii", 4, 2),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_invalid_response_fails_in_one_line_and_closes_the_connection(broker: FakeBroker, what: str) -> None:
    broker.handlers[METADATA] = BROKEN[what]
    with connected(broker) as connection:
        with pytest.raises(ConnectionFailed) as caught:
            ask(connection)
        assert str(caught.value).startswith(f"Metadata to {broker.address}: ")
        assert "\n" not in str(caught.value)
        # The stream may be out of sync, so the client does not read from it any more.
        broker.handlers[METADATA] = lambda request, version: whole_answer(3)
        with pytest.raises(ConnectionFailed):
            ask(connection)


def test_a_complete_response_with_the_right_correlation_id_is_accepted(broker: FakeBroker) -> None:
    """This is the valid response that the invalid ones of these tests are derived from: the second, after ApiVersions."""
    broker.handlers[METADATA] = lambda request, version: whole_answer(2)
    with connected(broker) as connection:
        assert ask(connection) == MetadataResponse()


@pytest.mark.parametrize("length", [3, 16_384], ids=["short", "long"])
def test_responses_that_arrive_together_are_matched_to_their_requests(broker: FakeBroker, length: int) -> None:
    long, short = "a" * length, "b"
    answers = iter([b"", b"", whole_answer(2, short) + whole_answer(3, long) + whole_answer(4, short)])
    broker.handlers[METADATA] = lambda request, version: next(answers)
    deadline = Deadline(LONG_S)
    with connected(broker) as connection:
        sent = [connection.send(METADATA, 9, MetadataRequest([]), MetadataResponse, deadline) for _ in range(3)]
        assert [each.result(deadline).cluster_id for each in sent] == [short, long, short]


def test_a_missing_response_fails_at_the_deadline(broker: FakeBroker) -> None:
    broker.handlers[METADATA] = lambda request, version: b""
    with connected(broker) as connection, pytest.raises(ConnectionFailed, match="no response in time"):
        ask(connection, timeout_s=SHORT_S)


def test_an_incomplete_response_fails_at_the_deadline(broker: FakeBroker) -> None:
    broker.handlers[METADATA] = lambda request, version: pack(">i", 100) + b"\0" * 50
    with connected(broker) as connection, pytest.raises(ConnectionFailed, match="no response in time"):
        ask(connection, timeout_s=SHORT_S)


def send(connection: Connection, number: int) -> Pending[EndTxnResponse]:
    return connection.send(END_TXN, 5, EndTxnRequest("t", number, 0, True), EndTxnResponse, Deadline(LONG_S))


def test_responses_to_many_requests_in_flight_belong_to_their_requests(broker: FakeBroker) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse(0, 0, request.producer_id, 0)
    with connected(broker) as connection:
        pending = [send(connection, number) for number in range(100)]
        last = pending[70].result(Deadline(LONG_S))

        assert last.producer_id == 70
        assert [each.result(Deadline(LONG_S)).producer_id for each in pending] == list(range(100))


def test_a_connection_that_breaks_fails_every_request_in_flight(broker: FakeBroker) -> None:
    answers = {2: b"", 3: b"", 4: None}  # No response, and then the end.
    broker.handlers[END_TXN] = lambda request, version: answers.get(request.producer_id, EndTxnResponse())
    with connected(broker) as connection:
        pending = [send(connection, number) for number in range(5)]

        for number, each in enumerate(pending):
            if number < 2:
                assert each.result(Deadline(LONG_S)) == EndTxnResponse()
            else:
                with pytest.raises(
                    ConnectionFailed, match=r"EndTxn to 127\.0\.0\.1:\d+: (the broker closed|Connection reset)"
                ):
                    each.result(Deadline(LONG_S))
        with pytest.raises(ConnectionFailed, match="EndTxn to "):
            send(connection, 5)


def test_an_interrupted_wait_for_a_response_closes_the_connection(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.handlers[END_TXN] = lambda request, version: EndTxnResponse()

    def interrupted(self: Connection, deadline: Deadline) -> bytes:
        raise KeyboardInterrupt

    with connected(broker) as connection:
        monkeypatch.setattr(Connection, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            send(connection, 1).result(Deadline(LONG_S))
        with pytest.raises(ConnectionFailed, match="the connection is closed"):
            send(connection, 2)


def test_an_error_in_api_versions_is_a_broker_error_and_not_a_connection_failure(broker: FakeBroker) -> None:
    broker.handlers[API_VERSIONS] = lambda request, version: ApiVersionsResponse(42)
    with pytest.raises(BrokerError, match="INVALID_REQUEST"):
        Connection(broker.address, Deadline(LONG_S))


@pytest.mark.parametrize(
    "host, port", [("127.0.0.1", 1), ("no-such-host.invalid", 9092), ("a..b", 1), ("h\0", 1), ("::1", 65_537)]
)
def test_an_unreachable_address_fails_in_one_line(host: str, port: int) -> None:
    with pytest.raises(ConnectionFailed, match="cannot connect to") as caught:
        Connection(Address(host, port), Deadline(LONG_S))
    assert "\n" not in str(caught.value)


def test_a_deadline_never_gives_a_negative_wait() -> None:
    now = [10.0]
    deadline = Deadline(2.0, lambda: now[0])
    assert (deadline.left_s(), deadline.left_s(0.5)) == (2.0, 0.5)
    now[0] = 13.0
    assert deadline.left_s() == 0.0


@pytest.mark.parametrize(("code", "said"), [(34, "ILLEGAL_SASL_STATE"), (999, "999")])
def test_an_error_of_the_handshake_is_reported_also_if_its_code_is_unknown(code: int, said: str) -> None:
    security: Security = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}

    def ask(key: int, version: int, request: Message, answer: type[Any], /) -> Any:
        return SaslHandshakeResponse(code, [])

    with pytest.raises(AuthenticationFailed, match=f"h:1 refuses SaslHandshake: {said}$"):
        authenticate(Address("h", 1), security, ask, lambda key: 2)
