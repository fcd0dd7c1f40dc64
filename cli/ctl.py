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
from stuntbroker.cli.tables import instant, shown, table
from stuntbroker.fixture.control import ADVANCE_TIMEOUT_S, MS, TIMEOUT_S, ControlClient, ControlError, plan_document

NAMES_OF_IDS: Final = ("transactional_id", "v3_and_below_transactional_id", "group_id", "key")
"""Fields of requests that say whose they are, the first one first."""
USAGE: Final = """\
usage: stuntbroker ctl COMMAND [options]

  clock              the broker's time
  advance TIME       let time pass at once: 500ms, 90s, 15m, 2h, 7d
  pause              stop the broker's time
  resume             let it go on
  faults             all faults, with how often each has fired
  fault RULE         make a fault: {"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"lose_answer": true}}
  stops              all points at which the broker can stop, and all stops
  stop POINT [RULE]  stop there: {"action": "park", "match": {"transactional_id": "pay-*"}, "nth": 1, "times": 1}
  release ID         resume the requests that a fault holds or a stop has parked
  remove ID|--all    remove a fault or a stop, or all; what is kept there goes on
  plans              the plans that come with the broker
  plan [NAME|FILE]   carry out a plan (JSON or YAML: states, faults, stops, nodes, clock), or show what is at work
  wait-stop ID       until a stop has fired, so often [--count N], at most --timeout TIME (10s)
  wait CONDITION     until it is true, at most --timeout TIME (10s): {"topic": "orders", "last_stable_offset": 5}
  seed STATE         bring about a state: {"hanging": {"topic": "orders"}}
  late REQUEST       have a request arrive late: {"api": "EndTxn", "transactional_id": "pay-1"}
  nodes              all nodes (serve --nodes N), and what each of them leads
  node ID CHANGE     stop, start or slow down a node: stopped, running, {"slow_ms": 200}
  move WHAT          have another node lead or coordinate: {"transactional_id": "pay-1", "node": 2, "load_ms": 500}
  snapshots          all snapshots
  snapshot [NAME]    keep the broker's whole state, open transactions included
  forget NAME        delete a snapshot
  restore NAME       put the broker into the state of a snapshot
  reset              put it into the state of its start
  forks              the copies that run beside it
  fork [NAME]        start copies in the state of a snapshot, or of now   [--count N]
  unfork [ID]        stop a copy, or all
  requests           the last requests         [--limit N, default 20]
  transactions [ID]  every transactional id, or one with its last requests and fences
  fences [ID]        who was told to be fenced, and why; or one fence with what to do
  topics             all partitions, and what holds back their last stable offsets
  groups             all consumer groups
  clients            who is connected
  oracle             whether every promise of transactions was kept so far
  exactly-once RULE  what was not written exactly once: {"input": "orders", "output": "payments", "key": "key"}
  left-open          transactions, members, producers that nobody has ended; faults, stops that never fired

  They work against a broker that was started with --control, and take
                     --control URL                 default: the variable STUNTBROKER_CONTROL_URL
                     --control-token TOKEN         default: the variable STUNTBROKER_CONTROL_TOKEN
                     --json                        one JSON document on standard output instead of a table
  They exit 0 when done, 1 when it failed, with a line that says why, and 2 when the command line is wrong.

Examples:
  stuntbroker ctl advance 15m --control http://127.0.0.1:40123
  stuntbroker ctl fault '{"match": {"api": "EndTxn"}, "when": {"times": 1}, "do": {"error": "NOT_COORDINATOR"}}'
"""
CONTROL_OPTIONS: Final = ("--control", "--control-token")
UNITS: Final = {"ms": "ms", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TIME: Final = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h|d)")
Options = dict[str, list[str]]


class Command(NamedTuple):
    """One command: `ask` returns the JSON document, `show` makes it readable."""

    ask: Callable[[ControlClient, Options], Any]
    show: Callable[[Any], str]
    word: str = ""
    """What the word is that is no option."""
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
    given = options(others, known, ("--json", *command.flags), with_words=bool(command.word))
    words = given.get("", [])
    if (
        command.word
        and not command.words_min <= len(words) <= command.words_max
        and not given.keys() & set(command.flags)
    ):
        raise UsageError(f"ctl {name} needs one {command.word}")
    url = single(given, "--control", os.environ.get("STUNTBROKER_CONTROL_URL", ""))
    if not url:
        raise UsageError(
            "ctl needs --control URL, or the variable STUNTBROKER_CONTROL_URL: the ready line of the broker has it"
        )
    token = single(given, "--control-token", os.environ.get("STUNTBROKER_CONTROL_TOKEN", ""))
    client = ControlClient(url if "://" in url else f"http://{url}", token)
    try:
        document = command.ask(client, given)
    except ControlError as fault:
        sys.stderr.write(f"stuntbroker: {shown(str(fault))}\n")
        return 1
    finally:
        client.close()
    sys.stdout.write(json.dumps(document, indent=2) + "\n" if "--json" in given else command.show(document))
    return 0


# --- asking


def _advance(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/clock/advance", {"ms": _time("advance", given[""][0])}, ADVANCE_TIMEOUT_S)


def _time(what: str, text: str) -> int:
    """In ms. Raises UsageError."""
    match = TIME.fullmatch(text)
    if match is None:
        raise UsageError(f"ctl {what} {text!r}: it must be a time, as 500ms, 90s, 15m, 2h or 7d")
    return round(float(match[1]) * MS[UNITS[match[2]]])


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
    """Where a fault or a stop is, by its id; a stop also by the name of its point."""
    return f"/v1/{'faults' if name.startswith('fault-') else 'stops'}/{_in_path(name)}"


def _plan(client: ControlClient, given: Options) -> Any:
    if not given.get(""):
        return client.get("/v1/plan")
    return client.put("/v1/plan", plan_document(client, given[""][0]))


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
    rule = {"state": change} if change in ("running", "stopped") else _rule("node", change)
    return {"nodes": [client.post(f"/v1/nodes/{_in_path(node_id)}", rule)]}


def _move(client: ControlClient, given: Options) -> Any:
    return client.post("/v1/move", _rule("move", given[""][0]))


def _take_snapshot(client: ControlClient, given: Options) -> Any:
    return {"snapshots": [client.post("/v1/snapshot", {"name": "".join(given.get("", []))})]}


def _forget(client: ControlClient, given: Options) -> Any:
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


# --- showing


def _show_clock(document: Any) -> str:
    state = "stands still" if document["paused"] else "goes"
    return f"{document['now_ms']} ms since 1970, moved by {document['moved_ms']} ms, {state}\n"


def _show_faults(document: Any) -> str:
    rows = [
        (
            each["id"],
            str(each["fired"]),
            str(each["matched"]),
            str(each["held"]),
            json.dumps({name: each[name] for name in ("match", "when", "do") if each[name]}),
        )
        for each in document["faults"]
    ]
    return table(("ID", "FIRED", "MATCHED", "HELD", "RULE"), rows)


def _show_stops(document: Any) -> str:
    rows = [
        (
            each["id"],
            each["point"],
            each["action"],
            str(each["fired"]),
            str(each["matched"]),
            ", ".join(each["parked"]),
            json.dumps(each["match"]),
        )
        for each in document["stops"]
    ]
    text = table(("ID", "POINT", "ACTION", "FIRED", "MATCHED", "PARKED", "MATCH"), rows)
    if "points" in document:
        text += "\n" + table(("POINT", "WHERE"), [(name, point["text"]) for name, point in document["points"].items()])
    return text


def _show_late(document: Any) -> str:
    return f"{document['api']} v{document['version']}: {', '.join(document['errors']) or 'no error'}\n"


def _show_findings(document: Any) -> str:
    rows = [(each["kind"], each["text"]) for each in document["findings"]]
    ended = f"{document['transactions']} transactions have ended, " if "transactions" in document else ""
    checked = f"{ended}{len(rows)} findings\n"
    return (table(("FINDING", "WHERE"), rows) if rows else "") + checked


def _show_snapshots(document: Any) -> str:
    rows = [(each["id"], each["name"], str(each["bytes"]), ", ".join(each["parked"])) for each in document["snapshots"]]
    return table(("ID", "NAME", "BYTES", "PARKED"), rows)


def _show_nodes(document: Any) -> str:
    rows = [
        (
            str(each["id"]),
            each["state"],
            each["rack"] or "",
            ", ".join(each["listeners"].values()),
            str(each["connections"]),
            ", ".join(f"{name} {count}" for name, count in each["leads"].items()),
        )
        for each in document["nodes"]
    ]
    return table(("NODE", "STATE", "RACK", "KAFKA", "CLIENTS", "PARTITIONS THAT IT LEADS"), rows)


def _show_move(document: Any) -> str:
    place = f"{document['topic']}-{document['partition']}"
    return f"node {document['node']} leads {place}, in leader epoch {document['leader_epoch']}\n"


def _show_forks(document: Any) -> str:
    return table(
        ("ID", "KAFKA", "CONTROL"), [(each["id"], each["kafka"], each["control"]) for each in document["forks"]]
    )


def _show_jsons(document: Any) -> str:
    return table(("PLAN", "WHAT HAPPENS"), [(name, plan["about"]) for name, plan in document["plans"].items()])


def _show_json(document: Any) -> str:
    return json.dumps(document, indent=2) + "\n"


def _show_removed(document: Any) -> str:
    faults = _show_faults(document) if "faults" in document else ""
    return faults + (_show_stops(document) if "stops" in document else "")


def _show_requests(document: Any) -> str:
    rows = [
        (
            str(each["number"]),
            each["client_id"],
            f"{each['api']} v{each['version']}",
            next((str(each["fields"][name]) for name in NAMES_OF_IDS if each["fields"].get(name)), ""),
            ", ".join(each["errors"]) or each["state"],
            each["fault"],
        )
        for each in document["requests"]
    ]
    return table(("NUMBER", "CLIENT", "REQUEST", "ID", "ANSWER", "FAULT"), rows)


def _show_transactions(document: Any) -> str:
    if "transactions" not in document:
        shown_parts = [_show_transactions({"transactions": [document]})]
        shown_parts += [_show_moments(document["fenced"])] if document["fenced"] else []
        shown_parts += [_show_requests(document)] + ([_show_fences(document)] if document["fences"] else [])
        return "".join(shown_parts)
    rows = [
        (
            each["transactional_id"],
            each["phase"],
            str(each["producer_id"]),
            str(each["producer_epoch"]),
            ", ".join(f"{place['topic']}-{place['partition']}" for place in each["partitions"]),
        )
        for each in document["transactions"]
    ]
    return table(("TRANSACTIONAL ID", "PHASE", "PRODUCER", "EPOCH", "PARTITIONS"), rows)


def _show_moments(moments: Any) -> str:
    rows = [
        (
            instant(each["at_ms"]),
            f"{each['producer_id']}:{each['producer_epoch']}",
            each["cause"],
            each.get("by_client_id", ""),
        )
        for each in moments
    ]
    return table(("FENCED AT", "PRODUCER", "CAUSE", "BY"), rows)


def _show_fences(document: Any) -> str:
    if "fences" not in document:
        return _show_fences({"fences": [document]}) + f"{shown(document['advice'])}\n"
    rows = [
        (
            each["id"],
            each["transactional_id"],
            each["client_id"],
            each["request"],
            each["cause"],
            each.get("by_client_id", ""),
        )
        for each in document["fences"]
    ]
    return table(("ID", "TRANSACTIONAL ID", "CLIENT", "REQUEST", "CAUSE", "BY"), rows)


def _held_back_by(txn: Any) -> str:
    whose = "hanging" if txn["transactional_id"] is None else txn["transactional_id"]
    return f"{whose}, producer {txn['producer_id']} from {txn['first_offset']}"


def _show_topics(document: Any) -> str:
    rows = [
        (
            f"{topic['name']}-{each['partition']}",
            str(each["log_start_offset"]),
            str(each["last_stable_offset"]),
            str(each["end_offset"]),
            ", ".join(_held_back_by(txn) for txn in each["open_transactions"]),
        )
        for topic in document["topics"]
        for each in topic["partitions"]
        if not topic["internal"]
    ]
    return table(("PARTITION", "START", "LAST STABLE", "END", "HELD BACK BY"), rows)


def _show_groups(document: Any) -> str:
    rows = [
        (each["group_id"], each["state"], str(each["generation"]), ", ".join(m["member_id"] for m in each["members"]))
        for each in document["groups"]
    ]
    return table(("GROUP", "STATE", "GENERATION", "MEMBERS"), rows)


def _show_clients(document: Any) -> str:
    rows = [
        (each["client_id"], each["client"], each["listener"], each["transactional_id"] or "")
        for each in document["clients"]
    ]
    return table(("CLIENT", "ADDRESS", "LISTENER", "TRANSACTIONAL ID"), rows)


def _show_left_open(document: Any) -> str:
    rows = [("transaction", each["transactional_id"], each["phase"]) for each in document["transactions"]]
    for group in document["groups"]:
        rows += [("member", each["member_id"], f"of {group['group_id']}") for each in group["members"]]
    rows += [("producer", each["client_id"], each["transactional_id"] or "") for each in document["producers"]]
    rows += [("fault", each["id"], "never fired") for each in document["faults"]]
    rows += [("stop", each["id"], "never fired") for each in document["stops"]]
    return table(("WHAT", "NAME", "STATE"), rows)


COMMANDS: Final = {
    "clock": Command(_get("/v1/clock"), _show_clock),
    "advance": Command(_advance, _show_clock, "TIME"),
    "pause": Command(_post("/v1/clock/pause"), _show_clock),
    "resume": Command(_post("/v1/clock/resume"), _show_clock),
    "faults": Command(_get("/v1/faults"), _show_faults),
    "fault": Command(_add_fault, _show_faults, "RULE"),
    "stops": Command(_get("/v1/stops"), _show_stops),
    "stop": Command(_add_stop, _show_stops, "POINT", words_max=2),
    "release": Command(_release, lambda document: f"released {document['released']}\n", "ID"),
    "remove": Command(_remove, _show_removed, "ID", flags=("--all",)),
    "plans": Command(_get("/v1/plans"), _show_jsons),
    "plan": Command(_plan, _show_json, "NAME", words_min=0),
    "wait-stop": Command(_wait_for_stop, _show_stops, "ID", options=("--count", "--timeout")),
    "wait": Command(_wait, lambda document: "it is so\n", "CONDITION", options=("--timeout",)),
    "seed": Command(_seed, _show_json, "STATE"),
    "late": Command(_deliver_late, _show_late, "REQUEST"),
    "nodes": Command(_get("/v1/nodes"), _show_nodes),
    "node": Command(_change_node, _show_nodes, "ID and a CHANGE", words_min=2, words_max=2),
    "move": Command(_move, _show_move, "WHAT"),
    "snapshots": Command(_get("/v1/snapshots"), _show_snapshots),
    "snapshot": Command(_take_snapshot, _show_snapshots, "NAME", words_min=0),
    "forget": Command(_forget, _show_snapshots, "NAME"),
    "restore": Command(_restore, _show_snapshots, "NAME"),
    "reset": Command(_post("/v1/reset"), lambda document: "the broker is as at its start\n"),
    "forks": Command(_get("/v1/forks"), _show_forks),
    "fork": Command(_fork, _show_forks, "NAME", words_min=0, options=("--count",)),
    "unfork": Command(_remove_forks, _show_forks, "ID", words_min=0),
    "requests": Command(_requests, _show_requests, options=("--limit",)),
    "transactions": Command(_one_or_all("/v1/transactions"), _show_transactions, "ID", words_min=0),
    "fences": Command(_one_or_all("/v1/fences"), _show_fences, "ID", words_min=0),
    "topics": Command(_get("/v1/topics"), _show_topics),
    "groups": Command(_get("/v1/groups"), _show_groups),
    "clients": Command(_get("/v1/clients"), _show_clients),
    "oracle": Command(_get("/v1/oracle"), _show_findings),
    "exactly-once": Command(_exactly_once, _show_findings, "RULE"),
    "left-open": Command(_get("/v1/left-open"), _show_left_open),
}
