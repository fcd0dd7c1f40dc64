"""The scenes to explore: those of every test run, and the larger ones of `make explore`."""

from __future__ import annotations

from txn_world import Budget, Client, Rules

Scene = tuple[Rules, tuple[Client, ...], Budget]


def two(first: int, second: int) -> tuple[Client, ...]:
    """Two one-phase clients of these transaction versions."""
    return Client("A", first), Client("B", second)


def two_phase(version: int, instances: int = 2) -> tuple[Client, ...]:
    return tuple(Client(name, version, True) for name in "ABC"[:instances])


def batching(clients: tuple[Client, ...], batches: int) -> tuple[Client, ...]:
    return tuple(client._replace(batches=batches) for client in clients)


TV1, TV2 = two(1, 1), two(2, 2)
PREPARING_1, PREPARING_2 = two_phase(1), two_phase(2)
THREE_1, THREE_2 = two_phase(1, 3), two_phase(2, 3)
ONCE = (1, 1, 1)
LAST = 32_766
TROUBLE = Budget(crashes=1, losses=1, time_outs=1)
CRASH, LOSS = Budget(1, 0, 0), Budget(0, 1, 0)
FORCED = Budget(0, 0, 0, forced=1)
RETURNS = Budget(0, 0, 0, returns=1)

ONE_PHASE: dict[str, Scene] = {
    # name                          TV of the cluster, transactions, first epoch    clients     what may go wrong
    "TV0":                          (Rules(0, ONCE),        TV1,        Budget(1, 1, 0)),
    "TV1":                          (Rules(1, ONCE),        TV1,        TROUBLE),
    "TV2":                          (Rules(2, ONCE),        TV2,        TROUBLE),
    "TV2, clients of TV1":          (Rules(2, ONCE),        TV1,        Budget(1, 0, 1)),
    "TV2, first client of TV1":     (Rules(2, ONCE),        two(1, 2),  Budget(1, 0, 1)),
    "TV2, second client of TV1":    (Rules(2, ONCE),        two(2, 1),  Budget(0, 1, 1)),
    "TV1, last epoch":              (Rules(1, ONCE, LAST),  TV1,        Budget(1, 0, 1)),
    "TV2, last epoch":              (Rules(2, ONCE, LAST),  TV2,        Budget(1, 1, 0)),
    "TV1, two transactions":        (Rules(1, (2, 2)),      TV1,        Budget(0, 0, 1)),
    "TV2, two transactions":        (Rules(2, (2, 2)),      TV2,        Budget(0, 0, 1)),
    "TV2, a late copy":             (Rules(2, (2, 2)),      TV2,        Budget(0, 0, 0, copies=1)),
    "TV2, a late copy and trouble": (Rules(2, (2, 1)),      TV2,        Budget(0, 1, 0, copies=1)),
    "TV2, two crashes":             (Rules(2, ONCE),        TV2,        Budget(2, 0, 0)),
}  # fmt: skip
TWO_PHASE: dict[str, Scene] = {
    "2PC TV0":                      (Rules(0, ONCE),        PREPARING_1, TROUBLE),
    "2PC TV1":                      (Rules(1, ONCE),        PREPARING_1, TROUBLE),
    "2PC TV2":                      (Rules(2, ONCE),        PREPARING_2, TROUBLE),
    "2PC TV1, three instances":     (Rules(1, ONCE),        THREE_1,    CRASH),
    "2PC TV2, three instances":     (Rules(2, ONCE),        THREE_2,    CRASH),
    "2PC TV2, three, a lost reply": (Rules(2, ONCE),        THREE_2,    LOSS),
    "2PC TV1, terminated":          (Rules(1, ONCE),        THREE_1,    FORCED),
    "2PC TV2, terminated":          (Rules(2, ONCE),        THREE_2,    FORCED),
    "2PC TV1, they come back":      (Rules(1, ONCE),        PREPARING_1, Budget(0, 1, 0, returns=1)),
    "2PC TV2, they come back":      (Rules(2, ONCE),        THREE_2,    RETURNS),
    "2PC TV2, last epoch":          (Rules(2, ONCE, LAST),  THREE_2,    CRASH),
    "2PC TV2, last but one epoch":  (Rules(2, ONCE, LAST - 1), THREE_2, FORCED),
    "2PC TV1, last epoch":          (Rules(1, ONCE, LAST),  PREPARING_1, Budget(1, 0, 0, forced=1)),
    "2PC TV2, a late copy":         (Rules(2, (2, 1)),      PREPARING_2, Budget(0, 1, 0, copies=1)),
    "2PC, then one phase":          (Rules(2, ONCE),        (PREPARING_2[0], TV2[1]), Budget(1, 0, 1)),
    "2PC, clients of TV1 and TV2":  (Rules(2, ONCE),        (PREPARING_1[0], PREPARING_2[1]), Budget(1, 0, 1)),
}  # fmt: skip
REMEMBERED: dict[str, Scene] = {
    "KIP-588 TV0":                  (Rules(0, ONCE, 0, True), TV1,      Budget(1, 0, 1)),
    "KIP-588 TV1":                  (Rules(1, ONCE, 0, True), TV1,      Budget(0, 1, 2)),
    "KIP-588 TV2":                  (Rules(2, ONCE, 0, True), TV2,      Budget(1, 0, 1)),
    "KIP-588 TV1, last epoch":      (Rules(1, ONCE, LAST, True), TV1,   Budget(0, 1, 1)),
}  # fmt: skip
BATCHED: dict[str, Scene] = {
    "batches TV1":                  (Rules(1, ONCE),        batching(TV1, 1), Budget(1, 0, 1)),
    "batches TV1, second":          (Rules(1, ONCE),        batching(TV1, 2), Budget(1, 0, 1)),
    "batches TV2":                  (Rules(2, ONCE),        batching(TV2, 1), Budget(1, 1, 1)),
    "batches TV2, second":          (Rules(2, ONCE),        batching(TV2, 2), Budget(1, 0, 1)),
    "batches 2PC TV1, second":      (Rules(1, ONCE),        batching(PREPARING_1, 2), Budget(1, 1, 0)),
    "batches 2PC TV2":              (Rules(2, ONCE),        batching(PREPARING_2, 1), Budget(1, 1, 0)),
    "batches 2PC TV2, second":      (Rules(2, ONCE),        batching(PREPARING_2, 2), Budget(1, 1, 0)),
}  # fmt: skip
"""Requests with batches for both partitions; in "second" such a request follows a write to the first partition."""
POWER: dict[str, Scene] = {
    "power TV1":                    (Rules(1, ONCE, power=True), TV1,   Budget(1, 0, 1)),
    "power TV2":                    (Rules(2, ONCE, power=True), TV2,   Budget(1, 0, 1)),
    "power TV2, batches":           (Rules(2, ONCE, power=True), batching(TV2, 2), Budget(1, 0, 1)),
    "power TV2, two transactions":  (Rules(2, (2, 1), power=True), TV2, CRASH),
    "power 2PC TV1":                (Rules(1, ONCE, power=True), PREPARING_1, Budget(1, 1, 0)),
    "power 2PC TV2":                (Rules(2, ONCE, power=True), PREPARING_2, Budget(1, 1, 0)),
    "power 2PC TV2, batches":       (Rules(2, ONCE, power=True), batching(PREPARING_2, 2), CRASH),
    "power 2PC TV2, terminated":    (Rules(2, ONCE, power=True), PREPARING_2, Budget(1, 0, 0, forced=1)),
}  # fmt: skip
SCENES = ONE_PHASE | TWO_PHASE | REMEMBERED | BATCHED | POWER

DEEP: dict[str, Scene] = {
    "TV1, trouble":                 (Rules(1, (2, 1)),      TV1,        TROUBLE),
    "TV2, trouble":                 (Rules(2, (2, 1)),      TV2,        TROUBLE),
    "TV2, all and copies":          (Rules(2, ONCE),        TV2,        Budget(1, 1, 1, copies=1)),
    "TV1, last epoch, trouble":     (Rules(1, (2, 1), LAST), TV1,       TROUBLE),
    "TV2, last epoch, trouble":     (Rules(2, (2, 1), LAST), TV2,       Budget(2, 1, 0)),
    "2PC TV0, three, trouble":      (Rules(0, ONCE),        THREE_1,    Budget(1, 1, 0)),
    "2PC TV1, three, trouble":      (Rules(1, ONCE),        THREE_1,    Budget(1, 1, 0)),
    "2PC TV2, three, trouble":      (Rules(2, ONCE),        THREE_2,    Budget(1, 1, 0)),
    "2PC TV2, three, two crashes":  (Rules(2, ONCE),        THREE_2,    Budget(2, 0, 0)),
    "2PC TV1, three, terminated":   (Rules(1, ONCE),        THREE_1,    Budget(1, 0, 0, forced=1)),
    "2PC TV2, three, terminated":   (Rules(2, ONCE),        THREE_2,    Budget(1, 0, 0, forced=1)),
    "2PC TV2, everything":          (Rules(2, ONCE),        PREPARING_2, Budget(1, 1, 0, forced=1, returns=1)),
    "2PC TV2, they all come back":  (Rules(2, ONCE),        THREE_2,    Budget(1, 0, 0, returns=1)),
    "2PC TV2, last epoch, trouble": (Rules(2, ONCE, LAST),  THREE_2,    Budget(1, 1, 0)),
    "2PC TV2, last epoch, returns": (Rules(2, ONCE, LAST),  THREE_2,    Budget(1, 0, 0, returns=1)),
    "2PC TV2, two transactions":    (Rules(2, (2, 2)),      PREPARING_2, Budget(1, 1, 0, copies=1)),
    "batches TV1, trouble":         (Rules(1, (2, 1)),      batching(TV1, 2), TROUBLE),
    "batches TV2, trouble":         (Rules(2, (2, 1)),      batching(TV2, 2), TROUBLE),
    "batches 2PC TV2, three":       (Rules(2, ONCE),        batching(THREE_2, 2), Budget(1, 1, 0)),
    "batches TV2, last epoch":      (Rules(2, ONCE, LAST),  batching(TV2, 2), TROUBLE),
    "power TV2, two cuts":          (Rules(2, ONCE, power=True), TV2,   Budget(2, 1, 0)),
    "power TV1, trouble":           (Rules(1, (2, 1), power=True), TV1, TROUBLE),
    "power TV2, trouble":           (Rules(2, (2, 1), power=True), TV2, TROUBLE),
    "power TV2, last epoch":        (Rules(2, ONCE, LAST, power=True), TV2, TROUBLE),
    "power 2PC TV2, three":         (Rules(2, ONCE, power=True), THREE_2, Budget(1, 1, 0)),
    "power 2PC TV2, two cuts":      (Rules(2, ONCE, power=True), PREPARING_2, Budget(2, 1, 0)),
    "power TV2, batches, trouble":  (Rules(2, ONCE, power=True), batching(TV2, 2), Budget(2, 1, 1)),
    "KIP-588 TV1, trouble":         (Rules(1, (2, 1), 0, True), TV1,    TROUBLE),
    "KIP-588 TV2, trouble":         (Rules(2, (2, 1), 0, True), TV2,    TROUBLE),
    "KIP-588, two-phase first":     (Rules(2, ONCE, 0, True), (PREPARING_2[0], TV2[1]), TROUBLE),
}  # fmt: skip
"""Larger scenes, with more transactions or more faults."""
