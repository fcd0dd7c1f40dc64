"""`rpk group`: lists, describes and deletes consumer groups."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final

from stuntbroker.cli.commands.group import OffsetRow, offset_rows
from stuntbroker.cli.shims.arguments import Parser
from stuntbroker.cli.shims.rpk.commands import NONE, REGEX_HELP, Command, for_each, is_matched
from stuntbroker.cli.tables import table
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.fetching import list_offset
from stuntbroker.client.commands.groups import GroupDescription, delete_group, describe_group, list_groups
from stuntbroker.client.errors import NotFound
from stuntbroker.protocol.request_values import EARLIEST, READ_UNCOMMITTED


def _no_more_options(parser: Parser) -> None:
    pass


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    rows = [(cluster.group_coordinator(each.group_id), each.group_id) for each in list_groups(cluster)]
    sys.stdout.write(table(("BROKER", "GROUP"), rows))
    return 0


def _delete_options(parser: Parser) -> None:
    parser.add_argument("groups", nargs="+", help="consumer groups without members")


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    return for_each("GROUP", options.groups, lambda group: delete_group(cluster, group))


def _describe_options(parser: Parser) -> None:
    parser.add_argument("groups", nargs="+", help="consumer groups")
    parser.add_argument("--print-summary", "-s", action="store_true", help="print only the summary")
    parser.add_argument("--print-commits", "-c", action="store_true", help="print only the offsets")
    parser.add_argument(
        "--instance-ID",
        "-i",
        dest="instance_id",
        action="store_true",
        help="print the instance ids of static members, too",
    )
    parser.add_argument("--regex", "-r", action="store_true", help=REGEX_HELP)


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    groups = options.groups
    if options.regex:
        listed = [each.group_id for each in list_groups(cluster)]
        groups = [group for group in listed if is_matched(group, options.groups)]
    texts = [_description(cluster, group, options) for group in groups]
    sys.stdout.write("\n".join(texts))
    return 0


def _description(cluster: Cluster, group_id: str, options: argparse.Namespace) -> str:
    try:
        group = describe_group(cluster, group_id)
    except NotFound:
        group = GroupDescription(group_id, cluster.group_coordinator(group_id), "Dead", "", "", ())
    rows = offset_rows(cluster, group)

    def start_offset(row: OffsetRow) -> int:
        return list_offset(cluster, row.topic, row.partition, EARLIEST, READ_UNCOMMITTED)

    columns: dict[str, Callable[[OffsetRow], object]] = {
        "TOPIC": lambda row: row.topic,
        "PARTITION": lambda row: row.partition,
        "CURRENT-OFFSET": lambda row: NONE if row.committed is None else row.committed,
        "LOG-START-OFFSET": lambda row: NONE if row.end < 0 else start_offset(row),
        "LOG-END-OFFSET": lambda row: NONE if row.end < 0 else row.end,
        "LAG": lambda row: NONE if row.lag is None else row.lag,
    }
    if group.members:
        columns["MEMBER-ID"] = lambda row: row.member.member_id if row.member else NONE
        if options.instance_id or any(member.instance_id for member in group.members):
            columns["INSTANCE-ID"] = lambda row: (row.member and row.member.instance_id) or NONE
        columns["CLIENT-ID"] = lambda row: row.member.client_id if row.member else NONE
        columns["HOST"] = lambda row: row.member.client_host if row.member else NONE
    summary = {
        "GROUP": group_id,
        "COORDINATOR": group.coordinator_id,
        "STATE": group.state,
        "BALANCER": group.protocol,
        "MEMBERS": len(group.members),
        "TOTAL-LAG": sum(row.lag or 0 for row in rows),
    }
    texts = []
    if not options.print_commits:
        texts.append("".join(f"{name:<12} {value}".rstrip() + "\n" for name, value in summary.items()))
    if not options.print_summary and rows:
        texts.append(table(list(columns), [[cell(row) for cell in columns.values()] for row in rows]))
    return "\n".join(texts)


COMMANDS: Final[dict[str, Command]] = {
    "group list": Command(_no_more_options, _list),
    "group describe": Command(_describe_options, _describe),
    "group delete": Command(_delete_options, _delete),
}
"""Words after `rpk` -> command."""
