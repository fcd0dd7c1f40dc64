"""Every error code, in the response to every request: the application of KIP-691 loses nothing and writes nothing twice."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from model_broker import ModelBroker

from stuntbroker.client import CommitFailedError
from stuntbroker.client.producer.error_table import TABLE, Request, kind_of
from stuntbroker.protocol.errors import ErrorCode
from tests.kit.transactions.application import Application
from tests.kit.transactions.faults import CASES, FATAL, Fault, fault_of

INPUTS = 3
EVERY_TRANSACTION = {
    Request.ADD_PARTITIONS,
    Request.ADD_OFFSETS,
    Request.TXN_OFFSET_COMMIT,
    Request.END_TXN_COMMIT,
    Request.PRODUCE,
}


async def run(level: int, request: Request, fault: Fault, count: int = 1) -> tuple[Application, ModelBroker]:
    """The application against a broker that does this to the `count`th request."""

    def script(name: str, number: int) -> Fault | None:
        return fault if name == request.value and number == count else None

    with ModelBroker(level, script) as broker:
        application = Application(INPUTS, broker.committed_position, bootstrap_servers=str(broker.address))
        await application.run()
        assert broker.counts[request.value] >= count, "the request was never sent"
    return application, broker


async def wrong_outcomes(level: int, request: Request, codes: Iterable[ErrorCode], count: int = 1) -> list[object]:
    """What contradicts the table, for each code by itself."""
    wrong: list[object] = []
    for code in codes:
        application, broker = await run(level, request, fault_of(request, code), count)
        kind = kind_of(request, code)
        if not application.has_written(broker.committed):
            wrong.append((code.name, kind.name, broker.committed))
        if (application.processes > 1) is not (kind in FATAL):
            wrong.append((code.name, kind.name, application.processes, application.fatal, application.abortable))
    return wrong


@pytest.mark.parametrize(("level", "request_kind"), CASES)
async def test_an_error_stops_the_process_only_if_it_is_fatal(level: int, request_kind: Request) -> None:
    codes = [code for code in ErrorCode if code is not ErrorCode.NONE]

    assert await wrong_outcomes(level, request_kind, codes) == []


@pytest.mark.parametrize(("level", "request_kind"), [case for case in CASES if case.values[1] in EVERY_TRANSACTION])
async def test_an_error_in_a_later_transaction_stops_the_process_only_if_it_is_fatal(
    level: int, request_kind: Request
) -> None:
    codes = [code for code in ErrorCode if code in TABLE[request_kind]]

    assert await wrong_outcomes(level, request_kind, codes, count=2) == []


@pytest.mark.parametrize(("level", "request_kind"), CASES)
@pytest.mark.parametrize("is_applied", [False, True], ids=["lost request", "lost response"])
async def test_a_broken_connection_never_stops_the_process(level: int, request_kind: Request, is_applied: bool) -> None:
    application, broker = await run(level, request_kind, Fault(None, is_applied))

    assert application.has_written(broker.committed), broker.committed
    assert (application.processes, application.fatal) == (1, [])


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    "next_request", [Request.FIND_COORDINATOR, Request.END_TXN_COMMIT], ids=lambda each: each.value
)
async def test_a_commit_whose_response_was_lost_is_never_reported_as_failed(level: int, next_request: Request) -> None:
    wrong = []
    for code in ErrorCode:

        def script(name: str, number: int, code: ErrorCode = code) -> Fault | None:
            if name == Request.END_TXN_COMMIT.value and number == 1:
                return Fault(None, is_applied=True)
            return Fault(code) if code and name == next_request.value and number == 2 else None

        with ModelBroker(level, script) as broker:
            application = Application(INPUTS, broker.committed_position, bootstrap_servers=str(broker.address))
            await application.run()
        denied = [error for error in application.abortable if isinstance(error, CommitFailedError)]
        if denied or not application.has_written(broker.committed):
            wrong.append((code.name, denied, broker.committed))
    assert wrong == []
