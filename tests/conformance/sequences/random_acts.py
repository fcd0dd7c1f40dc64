"""Generate random sequences of requests as abstract acts; a seed determines the sequence.

An act describes its values instead of containing them: "the last producer id of x0.a", "the next sequence number, or one too
many". Each side fills in its own values when it plays the act (random_play.py). This makes the two sides comparable, and acts
can be removed from a sequence without invalidating the others.

Most acts come from lives: a producer or a group member endlessly repeats the steps of a client of some version. Several
lives are interleaved, and any act may contain a mistake: a wrong epoch, a gap, another client version. Sequences therefore
reach deep states, and always contain some errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

TRANSACTIONAL: Final = ("x0.a", "x0.b", "x1.a", "x1.b", "x2.a")
"""Producers: two of them share the transactional id x0, two x1."""
IDEMPOTENT: Final = ("i0", "i1")
PARTITIONS: Final = ("t0-0", "t0-1", "t1-0", "t1-1")
GROUPS: Final = ("g0", "g1")
MEMBERS: Final = ("m0", "m1")
FEATURE: Final = "transaction.version"
SLIP_SHARE: Final = 0.22
THEMES: Final = ("transactions", "producers", "first_batches", "groups", "topics", "mixed", "features", "expiry")

APIS: Final = (
    "init", "add", "add_offsets", "put", "commit_offsets", "end", "fetch", "list_offsets", "offset_commit", "offset_fetch",
    "join", "sync", "heartbeat", "leave_group",
)  # fmt: skip
ERAS: Final[dict[str, dict[str, int]]] = {
    era: dict(zip(APIS, versions, strict=True))
    for era, versions in {
        #       init add offs put toff end fetch list ocom ofet join sync beat leave
        "0.11": (0,  0,  0,   3,  0,   0,  5,    2,   2,   3,   1,   0,   0,   0),
        "1.1":  (0,  0,  0,   5,  0,   0,  7,    2,   3,   3,   2,   1,   1,   1),
        "2.1":  (1,  1,  1,   7,  2,   1,  10,   5,   5,   5,   3,   2,   2,   2),
        "2.4":  (2,  1,  1,   8,  2,   1,  11,   5,   7,   6,   6,   4,   4,   4),
        "2.5":  (3,  1,  1,   8,  3,   1,  11,   5,   8,   7,   7,   5,   4,   4),
        "2.8":  (4,  3,  3,   9,  3,   3,  12,   6,   8,   7,   7,   5,   4,   4),
        "3.6":  (4,  3,  3,   9,  3,   3,  15,   8,   8,   8,   9,   5,   4,   5),
        "3.9":  (5,  3,  4,   11, 4,   4,  17,   9,   9,   9,   9,   5,   4,   5),
        "4.0":  (5,  3,  4,   12, 5,   5,  17,   10,  9,   9,   9,   5,   4,   5),
        "4.3":  (5,  3,  4,   13, 5,   5,  18,   11,  10,  10,  9,   5,   4,   5),
    }.items()
}  # fmt: skip
"""Client version -> the request versions that it uses."""
IMPLICIT_ADD_FROM: Final = 12


class Act(NamedTuple):
    kind: str
    """A method of Player."""
    args: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in self.args.items())})"


Life = Iterator[Act]

STALE: Final[list[dict[str, Any]]] = [
    {"epoch": -1}, {"epoch": 1}, {"cred": "old"}, {"cred": "other"}, {"cred": "nobody"}, {"txn": "other"}, {"txn": "unknown"},
    {"epoch": 5}, {"cred": "none"},
]  # fmt: skip
"""Wrong credentials; `epoch` is added to the correct epoch."""

SLIPS: Final[dict[str, list[dict[str, Any]]]] = {
    "init": [
        {"give": "own"}, {"give": "old"}, {"give": "other"}, {"give": "nobody"}, {"give": "own", "epoch": 1}, {"timeout_ms": 0},
        {"give": "own", "epoch": -1}, {"forget": True}, {"forget": True, "give": "own"}, {"give": "half"},
        {"timeout_ms": 900_001},
    ],
    "add": [*STALE, {"parts": ["t0-7"]}, {"parts": ["t0-0", "t9-0"]}, {"parts": []}],
    "add_offsets": [*STALE, {"group": "g1"}],
    "put": [
        *STALE, {"sequence": "gap"}, {"sequence": "gap"}, {"sequence": "again"}, {"sequence": "again"}, {"sequence": "zero"},
        {"sequence": "far"}, {"sequence": "before"}, {"forget": True}, {"forget": True}, {"txn": "none"}, {"plain": True},
        {"acks": 1},
        {"acks": 0}, {"parts": ["t0-7"]}, {"parts": ["t0-0", "t1-1"]}, {"parts": ["t0-0", "t0-1", "t9-0"]}, {"acks": 2},
        {"sequence": "two"}, {"sequence": "one"}, {"control": True}, {"codec": 1}, {"count": 4},
    ],
    "commit_offsets": [
        *STALE, {"group": "g1"}, {"member": "m0"}, {"member": "m0", "generation": 1}, {"member": "m0", "generation": -1},
        {"parts": ["t0-7"]}, {"offset": -1}, {"metadata": 5_000}, {"member": "unknown"}, {"parts": ["t0-0", "t9-0"]},
    ],
    "end": [*STALE, {"forget": True}, {"forget": True}, {"forget": True}],
    "join": [{"id": "nobody"}, {"id": ""}, {"kind": "connect"}, {"protocols": ["other"]}],
    "sync": [{"generation": 1}, {"generation": -1}, {"id": "nobody"}, {"id": ""}],
    "heartbeat": [{"generation": 1}, {"generation": -1}, {"id": "nobody"}, {"id": ""}],
    "leave_group": [{"id": "nobody"}, {"id": ""}],
    "offset_commit": [{"generation": 1}, {"generation": -1}, {"id": "nobody"}, {"id": ""}, {"parts": ["t0-7"]}, {"offset": -1}],
}  # fmt: skip
"""Kind of act -> its possible mistakes, of which one is chosen."""


def slipped(rng: Random, act: Act) -> Act:
    """Return the act, sometimes with a mistake."""
    if act.kind not in SLIPS or rng.random() >= SLIP_SHARE:
        return act
    if act.kind in APIS and rng.random() < 0.15:
        return act._replace(args=act.args | {"version": rng.choice(list(ERAS.values()))[act.kind]})
    return act._replace(args=act.args | rng.choice(SLIPS[act.kind]))


# --- lives


def transactional(rng: Random, who: str) -> Life:
    """Run transactions, for some time each as a client of one version."""
    while True:
        era = ERAS[rng.choice(list(ERAS))]
        timeout = {"timeout_ms": 400} if rng.random() < 0.01 else {}
        yield Act("init", {"who": who, "version": era["init"], **timeout})
        for _ in range(rng.choice((1, 2, 3, 5))):
            yield from _transaction(rng, who, era)
            if timeout:
                break
        if rng.random() < 0.3 and era["init"] >= 3:
            yield Act("init", {"who": who, "version": era["init"], "give": "own"})


def _transaction(rng: Random, who: str, era: dict[str, int]) -> Life:
    implicit = era["put"] >= IMPLICIT_ADD_FROM
    parts = rng.sample(PARTITIONS, rng.choice((1, 1, 2, 3)))
    if not implicit and rng.random() < 0.93:
        yield Act("add", {"who": who, "parts": parts, "version": era["add"]})
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5))):
        where = parts if rng.random() < 0.1 else [rng.choice(parts)]
        yield Act("put", {"who": who, "parts": where, "version": era["put"], "count": rng.choice((1, 1, 2, 3))})
    if rng.random() < 0.3:
        group = rng.choice(GROUPS)
        if not implicit or rng.random() < 0.1:
            yield Act("add_offsets", {"who": who, "group": group, "version": era["add_offsets"]})
        for _ in range(rng.choice((1, 1, 2))):
            args = {"who": who, "group": group, "parts": [rng.choice(PARTITIONS)], "offset": rng.randrange(50)}
            yield Act("commit_offsets", {**args, "version": era["commit_offsets"]})
    if rng.random() < 0.05:
        return  # Leave the transaction open; the next producer has to deal with it.
    commit = rng.random() < 0.6
    for _ in range(rng.choice((1, 1, 1, 1, 2))):
        yield Act("end", {"who": who, "commit": commit, "version": era["end"]})
    if rng.random() < 0.06:
        yield Act("end", {"who": who, "commit": not commit, "version": era["end"]})


def idempotent(rng: Random, who: str) -> Life:
    while True:
        era = ERAS[rng.choice(list(ERAS))]
        yield Act("init", {"who": who, "version": era["init"]})
        for _ in range(rng.choice((3, 6, 12))):
            args = {"who": who, "parts": [rng.choice(PARTITIONS)], "count": rng.choice((1, 2, 3))}
            yield Act("put", {**args, "version": era["put"]})
            if rng.random() < 0.08:
                yield Act("bump", {"who": who})


def mixed_versions(rng: Random, who: str) -> Life:
    """A producer that uses a random version for each request, inside or outside transactions, with foreign markers.

    The first batch of a transaction in a partition is often a duplicate or is rejected.
    """
    while True:
        yield Act("init", {"who": who, "version": rng.choice((1, 4, 5)), **rng.choice(({}, {"give": "own"}))})
        for _ in range(rng.choice((6, 12, 24))):
            parts = rng.choice((["t0-0"], ["t0-0"], ["t0-1"], ["t0-0", "t0-1"]))
            marker = {"part": parts[0], "epoch": rng.choice((0, 0, 0, -1)), "transaction_version": rng.choice((0, 2))}
            yield rng.choices(
                (
                    Act("put", {
                        "who": who, "parts": parts, "version": rng.choice((9, 11, 12, 12, 12, 13)),
                        "count": rng.choice((1, 1, 1, 2)), "plain": rng.random() < 0.3,
                        "sequence": rng.choice(("next", "next", "again", "again", "zero", "one", "two", "gap", "before")),
                    }),
                    Act("add", {"who": who, "parts": parts, "version": 3}),
                    Act("end", {"who": who, "commit": rng.random() < 0.5, "version": rng.choice((4, 4, 4, 5))}),
                    Act("write_marker", {"who": who, "commit": rng.random() < 0.5, "version": 2, **marker}),
                ),
                (12, 2, 4, 2),
            )[0]  # fmt: skip


def plain(rng: Random, who: str) -> Life:
    """A producer without a producer id."""
    while True:
        era = ERAS[rng.choice(list(ERAS))]
        yield Act("put", {"who": who, "parts": [rng.choice(PARTITIONS)], "version": era["put"]})


def reader(rng: Random, who: str) -> Life:
    """A reader that fetches records and offsets and describes producers and transactions."""
    while True:
        era = ERAS[rng.choice(list(ERAS))]
        parts = rng.sample(PARTITIONS, rng.choice((1, 1, 2, 4)))
        isolation = rng.randrange(2)
        act = rng.choices(
            (
                Act("fetch", {
                    "parts": parts, "isolation": isolation, "version": era["fetch"],
                    "offset": rng.choice(("start", "start", 0, 1, 3, 7)),
                    "limit": rng.choice((1 << 20, 1 << 20, 150, 1)),
                }),
                Act("list_offsets", {
                    "parts": parts, "isolation": isolation, "version": era["list_offsets"],
                    "timestamp": rng.choice((-1, -1, -2, -3, "T0", "T0+")),
                }),
                Act("describe_producers", {"parts": parts}),
                Act("describe_transactions", {"ids": rng.choice((["x0"], ["x1", "x2"], ["x0", "x9"]))}),
                Act("list_transactions", {
                    "version": rng.randrange(3), "states": rng.choice(([], [], ["Ongoing"], ["Empty", "CompleteCommit"])),
                }),
                Act("offset_fetch", {
                    "group": rng.choice(GROUPS), "version": era["offset_fetch"], "stable": rng.random() < 0.6,
                    "parts": rng.choice((None, ["t0-0", "t0-1"], list(PARTITIONS))),
                }),
            ),
            (6, 3, 2, 3, 1, 3),
        )[0]  # fmt: skip
        yield act


def meddler(rng: Random, who: str) -> Life:
    """Send admin requests that interfere with running transactions."""
    while True:
        yield rng.choices(
            (
                Act("delete_records", {
                    "part": rng.choice(PARTITIONS), "to": rng.choice(("end", 1, 2, 4, "end", "beyond")),
                    "version": rng.randrange(3),
                }),
                Act("write_marker", {
                    "who": rng.choice((*TRANSACTIONAL, "nobody", "i0")), "part": rng.choice(PARTITIONS),
                    "epoch": rng.choice((0, 0, -1)),
                    "commit": rng.random() < 0.5, "version": rng.choice((1, 2)),
                }),
                Act("verify", {
                    "who": rng.choice(TRANSACTIONAL), "parts": rng.sample(PARTITIONS, 2), "epoch": rng.choice((0, 0, 0, 1, -1)),
                    "version": rng.choice((4, 5)),
                }),
                Act("add_batch", {
                    "who": rng.sample(TRANSACTIONAL, 2), "parts": rng.sample(PARTITIONS, 1), "version": rng.choice((4, 5)),
                }),
                Act("offset_commit", {
                    "group": rng.choice(GROUPS), "parts": [rng.choice(PARTITIONS)], "offset": rng.randrange(60),
                    "version": rng.choice(list(ERAS.values()))["offset_commit"],
                }),
                Act("offset_delete", {"group": rng.choice(GROUPS), "parts": rng.sample(PARTITIONS, rng.choice((1, 2)))}),
                Act("delete_group", {"group": rng.choice(GROUPS), "version": rng.randrange(3)}),
                Act("time_out", {"who": rng.choice(TRANSACTIONAL)}),
            ),
            (4, 2, 3, 1, 3, 1, 1, 0.15),
        )[0]  # fmt: skip


def member(rng: Random, who: str) -> Life:
    """A member of a classic group, such as `g0/m1`. Groups have at most two members, as the leader of more would be random."""
    group, name = who.split("/")
    while True:
        era = ERAS[rng.choice(list(ERAS))]
        instance = name if rng.random() < 0.3 and era["join"] >= 5 else None
        protocols = rng.choice((["range"], ["range"], ["range", "roundrobin"]))
        args: dict[str, Any] = {"group": group, "member": name}
        static = {"instance": instance} if instance else {}
        yield Act("join", {**args, "protocols": protocols, "version": era["join"], **static})
        for _ in range(rng.choice((1, 2, 4))):
            yield Act("sync", {**args, "version": era["sync"], **static})
            for _ in range(rng.choice((0, 1, 2))):
                yield Act("heartbeat", {**args, "version": era["heartbeat"], **static})
            if rng.random() < 0.5:
                where = {"parts": [rng.choice(PARTITIONS)], "offset": rng.randrange(60)}
                yield Act("offset_commit", {**args, **where, "version": era["offset_commit"], **static})
            yield Act("join", {**args, "protocols": protocols, "version": era["join"], **static})
        if rng.random() < 0.7:
            yield Act("leave_group", {**args, "version": era["leave_group"], **static})


def group_watcher(rng: Random, who: str) -> Life:
    while True:
        group = rng.choice(GROUPS)
        yield rng.choices(
            (
                Act("describe_group", {"group": group, "version": rng.randrange(7)}),
                Act("list_groups", {"version": rng.randrange(6)}),
                Act("delete_group", {"group": group, "version": rng.randrange(3)}),
                Act("offset_delete", {"group": group, "parts": rng.sample(PARTITIONS, 2)}),
                Act("offset_fetch", {"group": group, "parts": None, "version": rng.choice((3, 5, 7, 8, 9)), "stable": False}),
                Act("offset_commit", {
                    "group": group, "parts": [rng.choice(PARTITIONS)], "offset": 3, "version": rng.choice((2, 6, 8, 9, 10)),
                }),
            ),
            (5, 1, 1, 1, 2, 1),
        )[0]  # fmt: skip


def topic_keeper(rng: Random, who: str) -> Life:
    names = ("t0", "t1", "t2", "t3")
    while True:
        topic = rng.choice(names)
        yield rng.choices(
            (
                Act("create_topic", {
                    "topic": topic, "partitions": rng.choice((1, 2, 3, -1)), "version": rng.choice((2, 4, 5, 7)),
                    "configs": rng.choice(({}, {}, {"message.timestamp.type": "LogAppendTime"}, {"max.message.bytes": "200"})),
                }),
                Act("delete_topic", {"topic": topic, "version": rng.choice((1, 3, 5, 6))}),
                Act("create_partitions", {"topic": topic, "count": rng.choice((2, 3, 4)), "version": rng.randrange(4)}),
                Act("metadata", {"topics": rng.sample(names, 2), "version": rng.choice((4, 7, 9, 10, 12, 13))}),
                Act("describe_topic_partitions", {"topics": rng.sample(names, 2), "limit": rng.choice((1, 2, 100))}),
                Act("configure", {
                    "topic": topic, "op": rng.choice((0, 0, 1)),
                    "config": rng.choice((
                        ("max.message.bytes", "200"), ("max.message.bytes", "1000000"),
                        ("message.timestamp.type", "LogAppendTime"),
                        ("message.timestamp.type", "CreateTime"), ("retention.ms", "-1"), ("compression.type", "producer"),
                        ("retention.ms", "nonsense"), ("no.such.key", "1"),
                    )),
                }),
                Act("describe_configs", {"topic": topic, "version": rng.randrange(1, 5)}),
                Act("leader_epoch", {
                    "part": rng.choice(PARTITIONS), "epoch": rng.choice((0, 0, 1, -1)), "version": rng.choice((2, 3, 4)),
                }),
                Act("delete_records", {
                    "part": rng.choice(PARTITIONS), "to": rng.choice(("end", 1, 2, "beyond")), "version": rng.randrange(3),
                }),
            ),
            (4, 2, 2, 3, 1, 3, 2, 1, 2),
        )[0]  # fmt: skip


def feature_keeper(rng: Random, who: str) -> Life:
    """UpdateFeatures up, down and invalid; never from level 2 to 0, where Kafka cannot store its transaction state."""
    levels = rng.choice(((1, 2), (1, 2), (0, 1)))
    while True:
        right = (FEATURE, rng.choice(levels), rng.choice((1, 2, 2, 3)))
        wrong = rng.choice((
            (FEATURE, rng.choice((-1, 3, 32_767)), rng.choice((1, 2))), (FEATURE, rng.choice(levels), rng.choice((0, 4))),
            ("bogus.version", rng.randrange(2), 1),
        ))  # fmt: skip
        several = rng.choices(([right], [wrong], [right, wrong], [wrong, right], [right, right]), (12, 2, 1, 1, 1))[0]
        validate_only = rng.random() < 0.15
        yield Act("update_features", {"version": rng.randrange(3), "updates": several, "validate_only": validate_only})


def interrupted(rng: Random, who: str) -> Life:
    """A producer whose transactions keep timing out; the transaction version determines whether it may continue."""
    while True:
        era = ERAS[rng.choice([name for name, versions in ERAS.items() if versions["init"] >= 3])]
        yield Act("time_out", {"who": who})
        if rng.random() < 0.3:
            yield Act("end", {"who": who, "commit": rng.random() < 0.5, "version": era["end"]})
        yield Act("init", {"who": who, "version": era["init"], "give": "own"})
        yield from _transaction(rng, who, era)


def has_level_0(acts: Sequence[Act]) -> bool:
    """Whether the acts may set `transaction.version` to 0."""
    return any(update[:2] == (FEATURE, 0) for act in acts for update in act.args.get("updates", ()))


def passing_committer(rng: Random, who: str) -> Life:
    """Commit offsets with a short retention."""
    while True:
        yield Act("commit_for_a_while", {
            "group": rng.choice(GROUPS), "version": rng.choice((2, 3, 4)), "part": rng.choice(PARTITIONS),
            "offset": rng.randrange(60), "retention_ms": 1_500,
        })  # fmt: skip


# --- sequences

Source = tuple[Callable[[Random, str], Life], str, float]

LIVES: Final[dict[str, list[Source]]] = {
    "transactions": [
        *((transactional, who, 4.0) for who in TRANSACTIONAL), (plain, "p", 0.5), (reader, "reader", 5),
        (meddler, "meddler", 1.5),
    ],
    "producers": [
        *((idempotent, who, 5.0) for who in IDEMPOTENT), (transactional, "x0.a", 4), (plain, "p", 1), (reader, "reader", 3),
        (meddler, "meddler", 1),
    ],
    "first_batches": [
        *((mixed_versions, who, 5.0) for who in ("x0.a", "x1.a")), (mixed_versions, "x1.b", 1), (reader, "reader", 1),
        (meddler, "meddler", 0.3),
    ],
    "groups": [
        *((member, f"{group}/{name}", 3.0) for group in GROUPS for name in MEMBERS), (group_watcher, "watcher", 4),
        (transactional, "x0.a", 2),
    ],
    "topics": [
        (topic_keeper, "keeper", 6), (idempotent, "i0", 2), (transactional, "x0.a", 4), (plain, "p", 2), (reader, "reader", 4),
    ],
    "mixed": [
        (transactional, "x0.a", 4), (transactional, "x0.b", 2), (transactional, "x1.a", 3), (idempotent, "i0", 2),
        (plain, "p", 1), (reader, "reader", 3), (meddler, "meddler", 1), (member, "g0/m0", 2), (member, "g0/m1", 1),
        (group_watcher, "watcher", 1), (topic_keeper, "keeper", 0.7),
    ],
    "features": [
        *((transactional, who, 3.0) for who in TRANSACTIONAL[:-1]), (interrupted, TRANSACTIONAL[-1], 4), (reader, "reader", 3),
        (meddler, "meddler", 1), (feature_keeper, "keeper", 2),
    ],
    "expiry": [
        *((transactional, who, 4.0) for who in TRANSACTIONAL[:-1]), (interrupted, TRANSACTIONAL[-1], 3),
        *((idempotent, who, 3.0) for who in IDEMPOTENT), (reader, "reader", 3), (meddler, "meddler", 1),
        (passing_committer, "committer", 1.5),
    ],
}  # fmt: skip
"""Theme -> (life, name of its client, weight of its acts)."""
WAITS: Final[dict[str, tuple[Act, ...]]] = {
    "expiry": (Act("expire", {"what": "first"}), Act("expire", {"what": "all"})),
}
"""Theme -> waits that are inserted in turn. The brokers' expiration times are long enough that nothing expires in between."""
ACTS_BETWEEN_WAITS: Final = 14


def sequence(theme: str, seed: int, steps: int) -> list[Act]:
    rng = Random(f"{theme} {seed}")
    chosen = [source for source in LIVES[theme] if rng.random() < 0.85] or LIVES[theme]
    lives = [life(rng, who) for life, who, _ in chosen]
    weights = [weight * rng.choice((0.3, 1, 1, 3)) for _, _, weight in chosen]
    waits, acts = WAITS.get(theme, ()), []
    for step in range(steps):
        turn, at = divmod(step, ACTS_BETWEEN_WAITS + 1)
        if waits and at == ACTS_BETWEEN_WAITS:
            acts.append(waits[turn % len(waits)])
        else:
            acts.append(slipped(rng, next(rng.choices(lives, weights)[0])))
    return acts


EPILOGUE: Final = [
    *(
        Act("fetch", {"version": version, "parts": list(PARTITIONS), "isolation": at})
        for at, version in enumerate((12, 17))
    ),
    *(
        Act("list_offsets", {"version": 7, "parts": list(PARTITIONS), "isolation": at, "timestamp": -1})
        for at in range(2)
    ),
    Act("describe_producers", {"parts": list(PARTITIONS)}),
    Act("describe_transactions", {"ids": ["x0", "x1", "x2"]}),
    *(
        Act("offset_fetch", {"version": 8, "group": group, "parts": None, "stable": at})
        for group in GROUPS
        for at in (True, False)
    ),
    *(Act("describe_group", {"version": 6, "group": group}) for group in GROUPS),
]
"""Acts at the end of every sequence, which read everything."""
