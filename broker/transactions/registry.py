"""The registry of transactional ids and their actors, and the ports through which actors use log, clock and partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from stuntbroker.broker.configuration.properties import KIP_588
from stuntbroker.broker.metadata.topics import coordinator_of
from stuntbroker.broker.requests.interception import continue_request
from stuntbroker.broker.transactions.fences import Fences
from stuntbroker.broker.transactions.marker_slices import MarkerSlices
from stuntbroker.broker.transactions.producer_ids import ProducerIds
from stuntbroker.broker.transactions.txn_markers import end_in_partition
from stuntbroker.coordinator.actor import MARKERS_IN_A_SLICE_MAX, Actor, AfterMarkers, Hold, OnReply
from stuntbroker.coordinator.records import (
    batch_at_level_0,
    batch_of,
    last_values,
    open_ids,
    phase_of,
    producer_id_of,
    state_of,
    updated_at_ms_of,
)
from stuntbroker.coordinator.requests import AddPartitions, Context, EndTxn, InitProducerId, Reply, Request, TimeOut
from stuntbroker.coordinator.state import (
    MAY_EXPIRE,
    OPEN_PHASES,
    PREPARE_COMMIT,
    PREPARED,
    IdSummary,
    Txn,
    expires_at_ms,
    has_expired,
    new_txn,
)
from stuntbroker.protocol.errors import ErrorCode
from stuntbroker.protocol.hashing import partition_for
from stuntbroker.protocol.topic_names import TXN_STATE, TopicPartition
from stuntbroker.storage.errors import StorageError
from stuntbroker.storage.leader_epochs import FIRST_EPOCH
from stuntbroker.storage.marker import new_marker
from stuntbroker.storage.partition import PartitionLog
from stuntbroker.storage.recovery import checked_batches

if TYPE_CHECKING:
    from stuntbroker.broker.connections.client_connection import Requester
    from stuntbroker.broker.transactions.transaction_ports import TransactionServices, TxnStops

NO_CONTEXT: Final = Context(-1, 0, -1)
BUSY_RECHECK_MS: Final = 60_000
IDS_PER_SLICE: Final = 1_000
"""Number of ids that one slice of the expiry checks."""


class Transactions:
    """All transactional ids of the broker; implements the ports of their actors (`coordinator.actor.Ports`)."""

    def __init__(self, broker: TransactionServices, producer_ids: ProducerIds) -> None:
        self.broker = broker
        self.producer_ids = producer_ids
        self._actors: dict[str, Actor] = {}
        self._dormant: dict[str, bytes] = {}
        """Transactional id -> encoded state, of ids not used since the start. An actor is created on the first use."""
        self._timing_out: set[Actor] = set()
        """Actors whose transaction is being aborted after its time-out."""
        self._resumed: set[Actor] = set()
        """Actors whose transaction was prepared before the start, and is not complete yet."""
        self.open: set[Actor] = set()
        """Actors with a transaction that is not complete: Ongoing or prepared."""
        self._context = NO_CONTEXT
        """The last context, which is reused for all requests of the same millisecond."""
        self._log: list[PartitionLog] = []
        """Partitions of the transaction log; empty before it is created."""
        self._has_moved = False
        """Whether a partition of the transaction log has changed its leader."""
        self.use_version(broker.features.transaction_version)
        broker.features.changed = self.use_version
        self._initial_epoch: int = broker.config["stuntbroker.initial.producer.epoch"]
        profiles = {listener.profile for listener in broker.listeners}
        self.remembers_time_outs = KIP_588 in profiles
        """Whether a listener has profile kip-588, so that timed-out epochs in the log are used."""
        self._init_version_unknown = 0 if profiles == {KIP_588} else -1
        """InitProducerId version of ids logged without one: 0 (an old client) if all listeners have profile kip-588, else -1."""
        self._never_syncs = broker.syncer is None
        """Whether written data is as durable as configured without a sync."""
        self.hold: Hold | None = None
        self.markers_at_once_max = MARKERS_IN_A_SLICE_MAX
        self._slices = MarkerSlices(broker, self._write_markers)
        self._stops: TxnStops | None = None
        self.replayed: Callable[[], None] | None = None
        """Called after all actors were restored, before prepared transactions are finished; used by a copy of a broker."""
        self._none_expires_before_ms = 0
        self._expiry: Iterator[None] | None = None
        """Remaining slices of the expiry that is in progress, else None."""
        self.timed_out_count = 0
        self.fences = Fences(broker.clock, broker.events, self.state_of)
        self.expired_count = 0
        self.load_times_ms: list[int] = []
        """Time to replay each partition of the transaction log at the start, in ms."""

    def use_version(self, level: int) -> None:
        """Use this level of `transaction.version` from the next request on."""
        self.transaction_version = level
        self._context = NO_CONTEXT
        self._use_log(self._log)

    def use_stops(self, stops: TxnStops | None) -> None:
        """Pass every transaction through these stop points from now on; None removes them."""
        self._stops = stops
        self.hold = None if stops is None else stops.hold
        self.update_markers_at_once_max()

    def update_markers_at_once_max(self) -> None:
        """Update the number of markers that may be written in one turn: none while there are stops or a node is stopped."""
        are_up = all(node.is_up for node in self.broker.topics.nodes.by_id.values())
        is_free = self._stops is None and are_up and not self._slices.unwritten
        self.markers_at_once_max = MARKERS_IN_A_SLICE_MAX if is_free else -1

    def leader_changed(self) -> None:
        """Note a changed leader of the transaction log: a partition's leader epoch is the coordinator epoch of its ids."""
        self._has_moved = any(log.leader_epoch != FIRST_EPOCH for log in self._log)

    def leader_elected(self, partition: TopicPartition) -> None:
        """Continue the transactions whose markers waited for the leader of a partition."""
        for transactional_id in self._slices.waiting_for(partition):
            actor = self.actor_of(transactional_id)
            if actor is not None and actor.txn.phase in PREPARED and not actor.busy:
                actor.finish(self)

    def _use_log(self, partitions: list[PartitionLog]) -> None:
        self._log = partitions
        self.leader_changed()
        for log in partitions:
            log.flush_buffered()
            # Unlike Kafka: at level 0, Kafka cannot write the fields that EndTxn v5 and Produce v12 need; the id then never
            # responds again, or responds UNSUPPORTED_VERSION if its state was written at a higher level.
            log.batch_of = batch_of if self.transaction_version else batch_at_level_0

    # --- requests

    def actor_of(self, transactional_id: str) -> Actor | None:
        """Return the actor of a transactional id, None if the id is unknown."""
        return self._actors.get(transactional_id) or self._wake(transactional_id)

    def _wake(self, transactional_id: str) -> Actor | None:
        """Create and return the actor of an id that was not used since the start; None if there is no such id."""
        txn = self.state_of(transactional_id)
        if txn is None:
            return None
        del self._dormant[transactional_id]
        actor = self._actors[transactional_id] = Actor(txn, self._log_of(transactional_id))
        return actor

    def _log_of(self, transactional_id: str) -> PartitionLog:
        return self._log[partition_for(transactional_id, len(self._log))]

    def ids(self) -> list[str]:
        """Return all transactional ids."""
        return [*self._actors, *self._dormant]

    def count(self) -> int:
        """Return the number of transactional ids."""
        return len(self._actors) + len(self._dormant)

    def state_of(self, transactional_id: str) -> Txn | None:
        """Return the state of an id without creating an actor for it; None if there is no such id."""
        actor = self._actors.get(transactional_id)
        if actor is not None:
            return actor.txn
        value = self._dormant.get(transactional_id)
        if value is None:
            return None
        return state_of(transactional_id, value, self.remembers_time_outs, self._init_version_unknown)

    def summary(self, transactional_id: str) -> IdSummary | None:
        """Return phase and producer id for listings, ten times as fast as `state_of`; None if there is no such id."""
        value = self._dormant.get(transactional_id)
        if value is not None:
            return IdSummary(phase_of(value, transactional_id), producer_id_of(value))
        actor = self._actors.get(transactional_id)
        return None if actor is None else IdSummary(actor.txn.phase, actor.txn.producer_id)

    def is_recovered(self, transactional_id: str) -> bool:
        """Return whether a new instance has taken over the transaction (KeepPreparedTxn, KIP-939): it accepts no more records."""
        txn = self.state_of(transactional_id)
        return txn is not None and txn.is_recovered

    def ask(self, asker: Requester, transactional_id: str, request: Request, on_reply: OnReply) -> None:
        """Handle a request; call `on_reply` immediately, or later if the id is busy or the log must sync. Raises StorageError.

        An exception of `on_reply` ends the request of `asker`, not that during which it is called.
        """
        on_reply = partial(continue_request, asker, on_reply)
        actor = self.actor_of(transactional_id)
        if actor is None:
            if type(request) is not InitProducerId:
                on_reply(
                    Reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING if transactional_id else ErrorCode.INVALID_REQUEST)
                )
                return
            actor = self._new_actor(transactional_id)
        actor.ask(request, on_reply, self)

    def try_immediately(self, transactional_id: str, request: AddPartitions | EndTxn) -> Reply | None:
        """Handle a request and return the reply if that is possible now; else do nothing and return None. Raises StorageError."""
        actor = self._actors.get(transactional_id) or self._wake(transactional_id)
        if actor is None or not self._never_syncs or self.hold is not None:
            return None
        if request.__class__ is EndTxn and len(actor.txn.partitions) > self.markers_at_once_max:
            return None
        return actor.try_immediately(request, self)

    def _new_actor(self, transactional_id: str) -> Actor:
        return self._add_actor(new_txn(transactional_id, self.producer_ids.take()))

    def _add_actor(self, txn: Txn) -> Actor:
        if not self._log:
            self._use_log(self.broker.topics.internal_topic(TXN_STATE).partitions)
        actor = self._actors[txn.transactional_id] = Actor(txn, self._log_of(txn.transactional_id))
        return actor

    def adopt(self, txn: Txn) -> Actor:
        """Return the actor of an id; create it in this state if the id is not in the log. Used by a copy of a broker."""
        return self.actor_of(txn.transactional_id) or self._add_actor(txn)

    def is_in_use(self, transactional_id: str) -> bool:
        """Whether an id has an open transaction, or a request in progress."""
        actor = self.actor_of(transactional_id)
        return actor is not None and (actor.busy or actor.txn.phase in OPEN_PHASES)

    def set_ids(self, transactional_id: str, producer_id: int | None, producer_epoch: int) -> Txn:
        """Set producer id and epoch of an id that is not in use, for tests. Raises StorageError."""
        actor = self.actor_of(transactional_id) or self._new_actor(transactional_id)
        actor.set_ids(producer_id, producer_epoch, self.broker.clock.now_ms(), self)
        return actor.txn

    def fence_by_admin(self, request: Requester, producer_id: int) -> None:
        """Record that an administrator fenced this producer by writing a marker."""
        for actor in self.open:
            if actor.txn.producer_id == producer_id:
                self.fences.record_fence(actor.txn, "admin", request)

    def busy_ids(self) -> list[str]:
        """Return the transactional ids that have a request in progress."""
        return [transactional_id for transactional_id, actor in self._actors.items() if actor.busy]

    # --- ports of the actors

    def context(self) -> Context:
        """Return the context of a decision. Raises StorageError if no producer id can be reserved."""
        now_ms, context = self.broker.clock.now_ms(), self._context
        if context.now_ms == now_ms and context.next_producer_id == self.producer_ids.next:
            return context
        next_id = self.producer_ids.peek()
        context = Context(now_ms, self.transaction_version, next_id, self._initial_epoch)
        self._context = context
        return context

    def producer_id_allocated(self) -> None:
        """Record that the next producer id of the last context was allocated."""
        self.producer_ids.take()

    def append(self, actor: Actor, txn: Txn, deferred: bool) -> bool:
        """Append a transaction's new state to its log; return whether it needs no sync. Raises StorageError."""
        if deferred:
            actor.log.append_deferred(txn.transactional_id, txn, txn.updated_at_ms)
        else:
            actor.log.append_record(txn.transactional_id, txn, txn.updated_at_ms)
        return self._never_syncs

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back when everything that was written until now is on the disk."""
        assert self.broker.syncer is not None
        self.broker.syncer.when_synced(self._reporting(callback))

    def _reporting(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Wrap a callback so that its StorageError is logged and the following callbacks still run."""

        def call() -> None:
            try:
                callback()
            except StorageError as fault:
                self.broker.events.error("txn_log_failed", fault=str(fault))

        return call

    def write_markers(self, txn: Txn) -> bool:
        """Write the markers of a transaction; return whether they need no sync. Raises StorageError."""
        self._slices.unwritten.pop(txn.transactional_id, None)
        self._write_markers(txn, txn.partitions)
        return self._never_syncs

    def write_markers_in_slices(self, txn: Txn, callbacks: AfterMarkers) -> None:
        """Write the markers of a transaction in several turns: with very many partitions, stop points, or stopped nodes."""
        on_written, on_failed, on_waiting = map(self._reporting, callbacks)

        def begin_waiting() -> None:
            self.update_markers_at_once_max()
            on_waiting()

        when_durable = on_written if self._never_syncs else partial(self.when_synced, on_written)
        reporting = AfterMarkers(when_durable, on_failed, begin_waiting)
        if self._stops is None:
            self._slices.write(txn, reporting)
        elif any(map(self._slices.has_no_leader, txn.partitions)):
            self._slices.wait(txn, begin_waiting, lambda: self.write_markers_in_slices(txn, callbacks))
        else:
            self._slices.unwritten.pop(txn.transactional_id, None)
            self._stops.write_markers(txn, partial(self._write_markers, txn), reporting)
        self.update_markers_at_once_max()

    def _write_markers(self, txn: Txn, partitions: Iterable[TopicPartition]) -> None:
        broker = self.broker
        producer_id, commit = txn.producer_id, txn.phase is PREPARE_COMMIT
        epoch = self._log_of(txn.transactional_id).leader_epoch if self._has_moved else FIRST_EPOCH
        marker = new_marker(commit, producer_id, txn.producer_epoch, epoch, txn.client_version, txn.updated_at_ms)
        log_of = broker.topics.logs.get
        for partition in partitions:
            log = log_of(partition)
            if log is None:
                continue  # The topic was deleted.
            error = end_in_partition(broker, log, marker)
            if error:
                # Unlike Kafka: Kafka abandons the transaction, and the id stays blocked until its log is loaded again.
                broker.events.warning(
                    "txn_marker_refused",
                    topic=log.topic,
                    partition=log.index,
                    error=error.name,
                    producer_id=producer_id,
                )

    def reject_new_records(self, txn: Txn) -> None:
        """Refuse further records of a recovered transaction (KIP-939)."""
        for name, index in txn.partitions:
            if (log := self.broker.topics.log(name, index)) is not None:
                log.producers.reject_new_records(txn.producer_id)

    def phase_changed(self, actor: Actor, before: Txn) -> None:
        """Update the set of open transactions after a change of phase."""
        if actor.txn.phase in OPEN_PHASES:
            self.open.add(actor)
        else:
            self.open.discard(actor)
            if actor in self._resumed:
                self._resumed.discard(actor)
                self.broker.events.info("txn_completed_after_restart", transactional_id=actor.txn.transactional_id)
        if self._timing_out and actor in self._timing_out:
            self._timing_out.discard(actor)
            self._timed_out(before)

    # --- time-outs and expiry

    def sweep_wanted_at_ms(self) -> int | None:
        """Return the monotonic time in ms before which `sweep` has nothing to do; None until the next request of a client."""
        if any(log.own_records for log in self._log):
            return 0
        txns = [actor.txn for actor in self._idle()]
        times_ms = (0 if txn.phase in PREPARED else expires_at_ms(txn) for txn in txns)
        soonest_ms = min((each for each in times_ms if each is not None), default=None)
        return None if soonest_ms is None else self.broker.clock.monotonic_at_ms(soonest_ms)

    def _idle(self) -> list[Actor]:
        """Return open transactions without a request in progress whose coordinator is loaded."""
        idle = [actor for actor in self.open if not actor.busy]
        if not idle or not self.broker.topics.nodes.are_many:
            return idle
        topic = self.broker.topics.by_name[TXN_STATE]
        return [actor for actor in idle if coordinator_of(topic, actor.txn.transactional_id).is_loaded]

    def sweep(self) -> None:
        """Write deferred records, abort transactions that timed out, and complete those that a fault left prepared."""
        try:
            for log in self._log:
                log.assign_offsets()
        except StorageError:
            return  # The failed write was reported, and the broker ends.
        now_ms = self.broker.clock.now_ms()
        for actor in [a for a in self._idle() if a.txn.phase in PREPARED or has_expired(a.txn, now_ms)]:
            txn = actor.txn
            try:
                if txn.phase in PREPARED:
                    actor.finish(self)
                    continue
                self._timing_out.add(actor)
                actor.ask(TimeOut(), None, self)
            except StorageError as fault:
                self.broker.events.error("txn_not_completed", transactional_id=txn.transactional_id, fault=str(fault))
            if not actor.busy:
                self._timing_out.discard(actor)

    def _timed_out(self, txn: Txn) -> None:
        """Record a transaction that timed out, after the decision to abort it was appended to the log."""
        self.timed_out_count += 1
        self.fences.record_fence(txn, "timeout", None)
        self.broker.events.info(
            "txn_timed_out",
            transactional_id=txn.transactional_id,
            producer_id=txn.producer_id,
            producer_epoch=txn.producer_epoch,
            timeout_ms=txn.timeout_ms,
        )

    def expire(self) -> None:
        """Expire ids unused for `transactional.id.expiration.ms`, in slices of a bounded number of ids."""
        now_ms, age_ms = self.broker.clock.now_ms(), self.broker.config["transactional.id.expiration.ms"]
        if now_ms < self._none_expires_before_ms <= now_ms + age_ms:  # It is later only if the clock was set back.
            return
        if self._expiry is None:
            self._expiry = self._expiry_slices(now_ms, age_ms)
            self._next_expiry_slice()

    def expire_wanted_at_ms(self) -> int:
        """Return the monotonic time in ms before which `expire` has nothing to do."""
        return self.broker.clock.monotonic_at_ms(self._none_expires_before_ms)

    def _next_expiry_slice(self) -> None:
        assert self._expiry is not None
        try:
            next(self._expiry)
        except StopIteration:
            self._expiry = None
        except StorageError:
            self._expiry = None  # The failed write was reported, and the broker ends.
        else:
            self.broker.timers.soon(self._next_expiry_slice)

    def _expiry_slices(self, now_ms: int, age_ms: int) -> Iterator[None]:
        # Transitions only postpone the expiry of an id, so the next check is due when the oldest current id may expire.
        soonest_ms = now_ms + age_ms
        ids = self.ids()
        for start in range(0, len(ids), IDS_PER_SLICE):
            if start:
                yield
            for transactional_id in ids[start : start + IDS_PER_SLICE]:
                value = self._dormant.get(transactional_id)
                if value is not None:
                    updated_at_ms, may_expire = updated_at_ms_of(value), True
                else:
                    actor = self._actors.get(transactional_id)
                    if actor is None:
                        continue
                    updated_at_ms = actor.txn.updated_at_ms
                    may_expire = actor.txn.phase in MAY_EXPIRE and updated_at_ms >= 0
                    if actor.busy:  # The request is nearly done, or a test has parked it for an unknown time.
                        soonest_ms = min(soonest_ms, now_ms + BUSY_RECHECK_MS)
                        continue
                expires_ms = updated_at_ms + age_ms
                if expires_ms > now_ms:
                    soonest_ms = min(soonest_ms, expires_ms)
                elif may_expire:
                    self._forget(transactional_id, now_ms)
        self._none_expires_before_ms = soonest_ms

    def _forget(self, transactional_id: str, now_ms: int) -> None:
        """Remove an id and write its tombstone. Raises StorageError."""
        self._log_of(transactional_id).append_record(transactional_id, None, now_ms)
        self.fences.record_expiry(transactional_id)
        self._actors.pop(transactional_id, None)
        self._dormant.pop(transactional_id, None)
        self.expired_count += 1
        self.broker.events.info("transactional_id_expired", transactional_id=transactional_id)

    # --- start-up

    def replay(self) -> None:
        """Restore every transactional id from the log. `resume` then finishes prepared transactions. Raises StorageError."""
        if (topic := self.broker.topics.get(TXN_STATE)) is not None:
            self._use_log(topic.partitions)
        for log in self._log:
            began_ms = self.broker.clock.monotonic_ms()
            self._replay_partition(log)
            self.load_times_ms.append(self.broker.clock.monotonic_ms() - began_ms)

    def _replay_partition(self, log: PartitionLog) -> None:
        values = last_values(checked_batches(log))
        self._dormant |= values
        for transactional_id in open_ids(values):
            actor = self._wake(transactional_id)
            assert actor is not None
            self.open.add(actor)

    def resume(self) -> None:
        """Finish the transactions that were prepared at the last shutdown: their markers are written (again).

        Recovered transactions (KIP-939) stay open, but accept no more records.
        """
        if self.replayed is not None:
            self.replayed()
        for actor in self.open:
            if actor.txn.is_recovered:
                self.reject_new_records(actor.txn)
        for actor in [a for a in self.open if a.txn.phase in PREPARED and not a.busy]:
            self._resumed.add(actor)
            actor.finish(self)
