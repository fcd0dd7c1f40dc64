"""Responses of the control API as text for a terminal, for `stuntbroker ctl`. Each function takes the JSON document."""

from __future__ import annotations

import json
from typing import Any, Final

from stuntbroker.cli.tables import instant, shown, table
from stuntbroker.pipeline.counting import count

NAMES_OF_IDS: Final = ("transactional_id", "v3_and_below_transactional_id", "group_id", "key")
"""Request fields that identify the client's transaction or group, in order of preference."""


def clock_as_text(document: Any) -> str:
    """Format the broker's clock."""
    state = "paused" if document["paused"] else "running"
    return f"{document['now_ms']} ms since 1970, {document['ahead_ms']} ms ahead of the machine's clock, {state}\n"


def faults_as_text(document: Any) -> str:
    """Format faults, with how often each has fired."""
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


def stops_as_text(document: Any) -> str:
    """Format stops, with the requests that are parked at each, and the points if the document has them."""
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


def late_as_text(document: Any) -> str:
    """Format the response to a late request."""
    return f"{document['api']} v{document['version']}: {', '.join(document['errors']) or 'no error'}\n"


def findings_as_text(document: Any) -> str:
    """Format the oracle's findings and how much it has checked."""
    rows = [(each["kind"], each["text"]) for each in document["findings"]]
    ended = f"{count(document['transactions'], 'ended transaction')}, " if "transactions" in document else ""
    checked = f"{ended}{count(len(rows), 'finding')}\n"
    return (table(("FINDING", "WHERE"), rows) if rows else "") + checked


def snapshots_as_text(document: Any) -> str:
    """Format snapshots, with the ids that are parked in each."""
    rows = [(each["id"], each["name"], str(each["bytes"]), ", ".join(each["parked"])) for each in document["snapshots"]]
    return table(("ID", "NAME", "BYTES", "PARKED"), rows)


def nodes_as_text(document: Any) -> str:
    """Format nodes, and what each of them leads."""
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


def move_as_text(document: Any) -> str:
    """Format the new leader of a partition that was moved."""
    place = f"{document['topic']}-{document['partition']}"
    return f"node {document['node']} leads {place}, in leader epoch {document['leader_epoch']}\n"


def forks_as_text(document: Any) -> str:
    """Format copies of the broker, with their addresses."""
    return table(
        ("ID", "KAFKA", "CONTROL"), [(each["id"], each["kafka"], each["control"]) for each in document["forks"]]
    )


def plans_as_text(document: Any) -> str:
    """Format the plans that come with the broker."""
    return table(("PLAN", "WHAT HAPPENS"), [(name, plan["about"]) for name, plan in document["plans"].items()])


def json_as_text(document: Any) -> str:
    """Format the document as JSON."""
    return json.dumps(document, indent=2) + "\n"


def removed_as_text(document: Any) -> str:
    """Format the faults and the stops that were removed."""
    faults = faults_as_text(document) if "faults" in document else ""
    return faults + (stops_as_text(document) if "stops" in document else "")


def requests_as_text(document: Any) -> str:
    """Format requests, with the error codes of their responses."""
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


def transactions_as_text(document: Any) -> str:
    """Format transactional ids; for a single one, also when its producers were fenced, and its last requests."""
    if "transactions" not in document:
        shown_parts = [transactions_as_text({"transactions": [document]})]
        shown_parts += [_moments_as_text(document["fenced"])] if document["fenced"] else []
        shown_parts += [requests_as_text(document)] + ([fences_as_text(document)] if document["fences"] else [])
        return "".join(shown_parts)
    rows = [
        (
            each["transactional_id"],
            each["phase"],
            str(each["producer_id"]),
            str(each["producer_epoch"]),
            str(each.get("age_ms", "")),
            ", ".join(f"{place['topic']}-{place['partition']}" for place in each["partitions"]),
        )
        for each in document["transactions"]
    ]
    return table(("TRANSACTIONAL ID", "PHASE", "PRODUCER", "EPOCH", "AGE-MS", "PARTITIONS"), rows)


def _moments_as_text(moments: Any) -> str:
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


def fences_as_text(document: Any) -> str:
    """Format the producers that got fencing errors, with causes; for a single one also the advice."""
    if "fences" not in document:
        return fences_as_text({"fences": [document]}) + f"{shown(document['advice'])}\n"
    rows = [
        (
            each["id"],
            instant(each["at_ms"]),
            each["transactional_id"],
            f"{each['client_id']} at {each['client']}",
            each["request"],
            each["cause"],
            f"{each['by_client_id']} at {each['by_client']}" if "by_client" in each else "",
        )
        for each in document["fences"]
    ]
    return table(("ID", "WHEN", "TRANSACTIONAL ID", "WHO WAS FENCED", "REQUEST", "CAUSE", "BY"), rows)


def _held_back_by(txn: Any) -> str:
    whose = "hanging" if txn["transactional_id"] is None else txn["transactional_id"]
    return f"{whose}, producer {txn['producer_id']} from {txn['first_offset']}"


def topics_as_text(document: Any) -> str:
    """Format partitions, with the transactions that hold back their last stable offsets."""
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


def groups_as_text(document: Any) -> str:
    """Format consumer groups, with their members."""
    rows = [
        (each["group_id"], each["state"], str(each["generation"]), ", ".join(m["member_id"] for m in each["members"]))
        for each in document["groups"]
    ]
    return table(("GROUP", "STATE", "GENERATION", "MEMBERS"), rows)


def clients_as_text(document: Any) -> str:
    """Format the connections of clients."""
    rows = [
        (each["client_id"], each["client"], each["listener"], each["transactional_id"] or "")
        for each in document["clients"]
    ]
    return table(("CLIENT", "ADDRESS", "LISTENER", "TRANSACTIONAL ID"), rows)


def left_open_as_text(document: Any) -> str:
    """Format what clients left open, and rules that never fired."""
    rows = [("transaction", each["transactional_id"], each["phase"]) for each in document["transactions"]]
    for group in document["groups"]:
        rows += [("member", each["member_id"], f"of {group['group_id']}") for each in group["members"]]
    rows += [("producer", each["client_id"], each["transactional_id"] or "") for each in document["producers"]]
    rows += [("fault", each["id"], "never fired") for each in document["faults"]]
    rows += [("stop", each["id"], "never fired") for each in document["stops"]]
    return table(("WHAT", "NAME", "STATE"), rows)
