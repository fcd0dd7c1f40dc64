"""`stuntbroker ctl`: time, faults and the last requests of a broker that was started with --control."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from stuntbroker.cli.arguments import UsageError, number, options, single, unknown_command
from stuntbroker.cli.commands import ctl_answers as answers
from stuntbroker.cli.tables import shown
from stuntbroker.fixture.control import (
    ADVANCE_MS_MAX,
    ADVANCE_TIMEOUT_S,
    MS,
    TIMEOUT_S,
    ControlClient,
    ControlError,
    put_plan,
)

USAGE: Final = """\
usage: stuntbroker ctl COMMAND [options]        for a broker with --control

  clock | pause | resume       show the broker's clock, stop it, or let it run again
  advance TIME                 advance the clock: 500ms, 90s, 15m, 2h, 7d
  faults | fault RULE          list the faults, or add one: {"match": {"api": "EndTxn"}, "do": {"lose_response": true}}
  stops | stop POINT [RULE]    list the points and the stops, or add one: {"action": "park", "nth": 1, "times": 1}
  release ID | remove ID|--all   resume held and parked requests; `remove` also removes their fault or stop, or all
  wait-stop ID                 wait until a stop has fired  [--count N] [--timeout TIME, default 10s]
  wait CONDITION               wait for a condition  [--timeout TIME]: {"topic": "orders", "last_stable_offset": 5}
  plans | plan [NAME|FILE]     list the built-in plans; apply a plan (JSON or YAML), or show the current one
  seed STATE                   create a state: {"hanging": {"topic": "orders"}}
  late REQUEST                 deliver a delayed request: {"api": "EndTxn", "transactional_id": "pay-1"}
  nodes | node ID CHANGE       list the nodes with their partitions; change a node: stopped, running, {"slow_ms": 200}
  move WHAT                    move a leader or coordinator: {"transactional_id": "pay-1", "node": 2}
  snapshots | snapshot [NAME]  list the snapshots, or save the broker's complete state, with its open transactions
  restore | delete-snapshot NAME   restore or delete a snapshot; `reset` restores the state of the broker's start
  forks | fork [NAME] | remove-fork [ID]   list, start [--count N] or stop copies that run beside the broker
  requests | clients           show the last requests [--limit N, default 20]; list the connections
  topics | groups              list the partitions, with what holds back their last stable offsets; list the groups
  transactions | fences [ID]   list the transactional ids or the fenced producers, or show one with causes and advice
  oracle | left-open           check all transactional guarantees; list what is open, and faults that never fired
  exactly-once RULE            find what was not written once: {"input": "orders", "output": "payments", "key": "key"}

  --control URL                default: the variable STUNTBROKER_CONTROL_URL
  --control-token TOKEN        default: the variable STUNTBROKER_CONTROL_TOKEN
  --json                       print one JSON document instead of a table
Exit status: 0 success, 1 failure with a message, 2 invalid command line.
Examples:
  stuntbroker ctl advance 15m --control http://127.0.0.1:40123
  stuntbroker ctl fault '{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"error": "NOT_COORDINATOR"}}'
"""
CONTROL_OPTIONS: Final = ("--control", "--control-token")
UNITS: Final = {"ms": "ms", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TIME: Final = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h|d)")
LISTING, BY_COMMAND = re.compile(r"GET /v1/([a-z]+)(?![a-z./-])"), r"'stuntbroker ctl \1'"
"""Pattern for requests named in the API's hints, and the `ctl` command to show instead."""
Options = dict[str, list[str]]


class Command(NamedTuple):
    """One command: `ask` returns the JSON document of the response, `show` formats it as text."""

    ask: Callable[[ControlClient, Options], Any]
    show: Callable[[Any], str]
    word: str = ""
    """Name of the positional argument."""
    words_max: int = 1
    words_min: int = 1
    options: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def ctl(arguments: list[str]) -> int:
    """Run one of the commands; return the exit status. Raises UsageError."""
    name, others = (arguments[0], arguments[1:]) if arguments else ("", [])
    command = COMMANDS.get(name)
    if command is None:
        raise unknown_command(name, COMMANDS, "ctl")
    known = (*CONTROL_OPTIONS, *command.options)
    given = options(others, known, ("--json", *command.flags), has_positionals=bool(command.word))
    words = given.get("", [])
    is_for_all = bool(given.keys() & set(command.flags))
    if is_for_all and words:
        raise UsageError(f"ctl {name}: {' '.join(command.flags)} and {words[0]!r} exclude each other")
    if command.word and len(words) < command.words_min and not is_for_all:
        raise UsageError(f"ctl {name} needs one {command.word}")
    if len(words) > command.words_max:
        raise UsageError(f"ctl {name} takes at most {command.words_max} {command.word}, not {len(words)}")
    url = single(given, "--control", os.environ.get("STUNTBROKER_CONTROL_URL", ""))
    if not url:
        raise UsageError(
            "ctl needs --control URL, or the variable STUNTBROKER_CONTROL_URL: the ready line of the broker has it"
        )
    token = single(given, "--control-token", os.environ.get("STUNTBROKER_CONTROL_TOKEN", ""))
    client: ControlClient | None = None
    try:
        client = ControlClient(url, token)
        document = command.ask(client, given)
    except ControlError as fault:
        sys.stderr.write(f"stuntbroker: {shown(LISTING.sub(BY_COMMAND, str(fault)))}\n")
        return 1
    finally:
        if client is not None:
            client.close()
    sys.stdout.write(json.dumps(document, indent=2) + "\n" if "--json" in given else command.show(document))
    return 0


# --- requests


def _advance(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/clock/advance", {"ms": _time("advance", given[""][0])}, ADVANCE_TIMEOUT_S)


def _time(what: str, text: str) -> int:
    """Parse a time such as 90s; return milliseconds. Raises UsageError."""
    match = TIME.fullmatch(text)
    if match is None:
        raise UsageError(f"ctl {what} {text!r}: it must be a time such as 500ms, 90s, 15m, 2h or 7d")
    ms = round(float(match[1]) * MS[UNITS[match[2]]])
    if ms > ADVANCE_MS_MAX:
        raise UsageError(f"ctl {what} {text!r}: it can be at most 366d")
    return ms


def _rule(command: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as fault:
        raise UsageError(f"ctl {command}: the rule is not JSON: {fault}") from None


def _add_fault(client: ControlClient, given: Options) -> Any:
    return {"faults": [client.post("/v1/faults", _rule("fault", given[""][0]))]}


def _add_stop(client: ControlClient, given: Options) -> Any:
    point, *rules = given[""]
    rule = _rule("stop", rules[0]) if rules else {}
    return {"stops": [client.post(f"/v1/stops/{_in_path(point)}", rule)]}


def _path_of(name: str) -> str:
    """Return the API path of a fault or stop id, or of a stop point's name. Raises UsageError."""
    if not name.startswith(("fault-", "stop-")) and "." not in name:
        raise UsageError(
            f"ctl: {name!r} is neither the id of a fault or a stop, such as fault-1, nor a point, such as txn.reply"
        )
    return f"/v1/{'faults' if name.startswith('fault-') else 'stops'}/{_in_path(name)}"


def _plan(client: ControlClient, given: Options) -> Any:
    if not given.get(""):
        return client.get("/v1/plan")
    return put_plan(client, given[""][0])


def _wait(client: ControlClient, given: Options) -> Any:
    ms = _time("wait --timeout", single(given, "--timeout", "10s"))
    body = {"until": _rule("wait", given[""][0]), "timeout_ms": ms}
    return client.post("/v1/wait", body, ms / 1_000 + TIMEOUT_S)


def _wait_for_stop(client: ControlClient, given: Options) -> Any:
    ms = _time("wait-stop --timeout", single(given, "--timeout", "10s"))
    body = {"count": number(given, "--count", 1, 1, 1 << 31), "timeout_ms": ms}
    return client.post(f"/v1/stops/{_in_path(given[''][0])}/wait", body, ms / 1_000 + TIMEOUT_S)


def _in_path(name: str) -> str:
    return quote(name, safe="")


def _one_or_all(path: str) -> Callable[[ControlClient, Options], Any]:
    return lambda client, given: client.get("/".join((path, *map(_in_path, given.get("", [])))))


def _seed(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/seed", _rule("seed", given[""][0]))


def _deliver_late(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/late", _rule("late", given[""][0]), ADVANCE_TIMEOUT_S)


def _change_node(client: ControlClient, given: Options) -> Any:
    node_id, change = given[""]
    if change not in ("running", "stopped") and not change.startswith("{"):
        raise UsageError(f'ctl node {change!r}: it must be running, stopped, or a rule such as {{"slow_ms": 100}}')
    rule = _rule("node", change) if change.startswith("{") else {"state": change}
    return {"nodes": [client.post(f"/v1/nodes/{_in_path(node_id)}", rule)]}


def _move(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/move", _rule("move", given[""][0]))


def _take_snapshot(client: ControlClient, given: Options) -> Any:
    return {"snapshots": [client.post("/v1/snapshot", {"name": "".join(given.get("", []))})]}


def _delete_snapshot(client: ControlClient, given: Options) -> Any:
    return {"snapshots": [client.delete(f"/v1/snapshots/{_in_path(given[''][0])}")]}


def _exactly_once(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/oracle/exactly-once", _rule("exactly-once", given[""][0]))


def _restore(client: ControlClient, given: Options) -> Any:
    return {"snapshots": [client.post("/v1/restore", {"snapshot": given[""][0]})]}


def _fork(client: ControlClient, given: Options) -> Any:
    from stuntbroker.control.http.schemas import FORKS_AT_ONCE_MAX  # Loads what no other command needs.

    body: dict[str, Any] = {"count": number(given, "--count", 1, 1, FORKS_AT_ONCE_MAX)}
    if given.get(""):
        body["snapshot"] = given[""][0]
    return client.post("/v1/fork", body)


def _remove_forks(client: ControlClient, given: Options) -> Any:
    if not given.get(""):
        return client.delete("/v1/forks")
    return {"forks": [client.delete(f"/v1/forks/{_in_path(given[''][0])}")]}


def _release(client: ControlClient, given: Options) -> Any:
    return client.post(f"{_path_of(given[''][0])}/release")


def _remove(client: ControlClient, given: Options) -> Any:
    if "--all" in given:
        return client.delete("/v1/faults") | client.delete("/v1/stops")
    removed = client.delete(_path_of(given[""][0]))
    return removed if "stops" in removed else {"faults": [removed]}


def _requests(client: ControlClient, given: Options) -> Any:
    return client.get(f"/v1/requests?limit={number(given, '--limit', 20, 1, 1_000)}")


def _get(path: str) -> Callable[[ControlClient, Options], Any]:
    return lambda client, given: client.get(path)


def _post(path: str) -> Callable[[ControlClient, Options], Any]:
    return lambda client, given: client.post(path)


COMMANDS: Final = {
    "clock": Command(_get("/v1/clock"), answers.clock_as_text),
    "advance": Command(_advance, answers.clock_as_text, "TIME"),
    "pause": Command(_post("/v1/clock/pause"), answers.clock_as_text),
    "resume": Command(_post("/v1/clock/resume"), answers.clock_as_text),
    "faults": Command(_get("/v1/faults"), answers.faults_as_text),
    "fault": Command(_add_fault, answers.faults_as_text, "RULE"),
    "stops": Command(_get("/v1/stops"), answers.stops_as_text),
    "stop": Command(_add_stop, answers.stops_as_text, "POINT", words_max=2),
    "release": Command(_release, lambda document: f"released {document['released']}\n", "ID"),
    "remove": Command(_remove, answers.removed_as_text, "ID", flags=("--all",)),
    "plans": Command(_get("/v1/plans"), answers.plans_as_text),
    "plan": Command(_plan, answers.json_as_text, "NAME", words_min=0),
    "wait-stop": Command(_wait_for_stop, answers.stops_as_text, "ID", options=("--count", "--timeout")),
    "wait": Command(_wait, lambda document: "the condition is true\n", "CONDITION", options=("--timeout",)),
    "seed": Command(_seed, answers.json_as_text, "STATE"),
    "late": Command(_deliver_late, answers.late_as_text, "REQUEST"),
    "nodes": Command(_get("/v1/nodes"), answers.nodes_as_text),
    "node": Command(_change_node, answers.nodes_as_text, "ID and a CHANGE", words_min=2, words_max=2),
    "move": Command(_move, answers.move_as_text, "WHAT"),
    "snapshots": Command(_get("/v1/snapshots"), answers.snapshots_as_text),
    "snapshot": Command(_take_snapshot, answers.snapshots_as_text, "NAME", words_min=0),
    "delete-snapshot": Command(_delete_snapshot, answers.snapshots_as_text, "NAME"),
    "restore": Command(_restore, answers.snapshots_as_text, "NAME"),
    "reset": Command(_post("/v1/reset"), lambda document: "the broker is in its initial state\n"),
    "forks": Command(_get("/v1/forks"), answers.forks_as_text),
    "fork": Command(_fork, answers.forks_as_text, "NAME", words_min=0, options=("--count",)),
    "remove-fork": Command(_remove_forks, answers.forks_as_text, "ID", words_min=0),
    "requests": Command(_requests, answers.requests_as_text, options=("--limit",)),
    "transactions": Command(_one_or_all("/v1/transactions"), answers.transactions_as_text, "ID", words_min=0),
    "fences": Command(_one_or_all("/v1/fences"), answers.fences_as_text, "ID", words_min=0),
    "topics": Command(_get("/v1/topics"), answers.topics_as_text),
    "groups": Command(_get("/v1/groups"), answers.groups_as_text),
    "clients": Command(_get("/v1/clients"), answers.clients_as_text),
    "oracle": Command(_get("/v1/oracle"), answers.findings_as_text),
    "exactly-once": Command(_exactly_once, answers.findings_as_text, "RULE"),
    "left-open": Command(_get("/v1/left-open"), answers.left_open_as_text),
}
