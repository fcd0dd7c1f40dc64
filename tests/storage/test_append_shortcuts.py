"""`append_client` skips `admit` for a batch that continues its producer's sequence: `admit` would return OK."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from stuntbroker.protocol.batches.records import SEQUENCE_MAX, BatchHeader, read_header
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.storage.marker import new_marker
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.producers import ProducerStates, RememberedBatch
from tests.kit.logs import NOW_MS, OK, batch, facts_of, killed, new_log

producers = st.integers(0, 1)
epochs = st.integers(0, 2)
EXPECTED = -1
"""Placeholder for the next sequence that the log expects of the producer."""
sequences = st.none() | st.just(EXPECTED) | st.sampled_from([0, 1, 2, 5, SEQUENCE_MAX - 1, SEQUENCE_MAX])
flags = st.booleans()
headers = st.tuples(producers, epochs, sequences, st.integers(1, 3), st.sampled_from([True, True, True, False]))
steps = st.one_of(
    st.tuples(st.just("data"), headers, flags),
    st.tuples(st.just("data"), headers, flags),
    st.tuples(st.just("mark_unresolved"), headers, flags),
    st.tuples(st.just("mark"), producers, epochs, epochs, st.sampled_from([0, 1, 2]), flags),
    st.tuples(st.just("restart")),
)


def facts(states: ProducerStates) -> object:
    return (
        facts_of(states),
        list(states.open_txns.items()),
        states.unresolved_batches,
    )


def log_with(log: PartitionLog, header: tuple[int, int, int | None, int, bool]) -> tuple[bytes, BatchHeader]:
    """A batch for the log. Without a sequence, it continues the producer's last batch."""
    pid, epoch, sequence, count, txn = header
    known = log.producers.producers.get(pid)
    if sequence is None:
        sequence = (known.last_sequence + 1) % 2**31 if known else 0
    elif sequence == EXPECTED:
        sequence = known.next_sequence if known else 0
    data = batch(count, pid=pid, epoch=epoch, seq=sequence, txn=txn)
    return data, read_header(data)


@settings(max_examples=200, deadline=None)
@given(walk=st.lists(steps, min_size=12, max_size=40))
def test_random_appends_end_in_the_producer_state_of_the_rules(walk: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log, rules = new_log(f"{folder}/t-0"), ProducerStates()
        for step in walk:
            match step:
                case ("data", header, bool(zero)):
                    data, read = log_with(log, header)  # type: ignore[arg-type]
                    verdict = rules.admit(read, zero)
                    error, offset, _ = log.append_client(data, read, NOW_MS, zero)
                    if isinstance(verdict, RememberedBatch):
                        assert (error, offset) == (OK, verdict.first_offset)
                    else:
                        assert error is verdict
                        if verdict is OK:
                            rules.appended(read, offset)
                case ("mark_unresolved", header, bool(zero)):
                    _, read = log_with(log, header)  # type: ignore[arg-type]
                    for states in (rules, log.producers):
                        states.mark_unresolved(read, zero, NOW_MS)
                case ("mark", int(pid), int(epoch), int(coordinator), int(version), bool(commit)):
                    wrong: ErrorCode = rules.check_marker(pid, epoch, coordinator, version)
                    offset = log.next_offset
                    assert log.append_marker(new_marker(commit, pid, epoch, coordinator, version, NOW_MS)) is wrong
                    if wrong is OK:
                        rules.marker_appended(pid, epoch, coordinator, NOW_MS, offset, commit)
                case _:
                    rules = ProducerStates.from_snapshot(rules.snapshot())
                    log.producers = ProducerStates.from_snapshot(log.producers.snapshot())
            assert facts(log.producers) == facts(rules)
        killed(log)
