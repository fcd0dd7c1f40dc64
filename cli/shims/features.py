"""kafka-features: shows the features of a cluster, and changes their levels."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from stuntbroker.cli.shims.arguments import Parser, UsageFault, guarded, run_with_cluster
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.features import describe_features, update_features
from stuntbroker.client.errors import BrokerError
from stuntbroker.protocol.features import UpgradeType
from stuntbroker.protocol.primitives import INT16_MAX

DONE: Final = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}
"""Operation that changes levels -> what the command says has been done."""


def run(command: str, arguments: list[str]) -> int:
    """Run the command; return the exit status."""
    return guarded("", lambda: _run(command, arguments))


def _run(command: str, arguments: list[str]) -> int:
    parser = Parser(command)
    parser.add_cluster_options()
    # Unlike Kafka: no version-mapping and no feature-dependencies.
    parser.add_argument("operation", nargs="?", choices=["describe", *DONE], help="show or change levels")
    parser.add_argument(
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a feature and its new level, such as transaction.version=2; only its name to disable it; may be repeated",
    )
    for name in ("--metadata", "--release-version"):
        parser.add_argument(name, metavar="VERSION", help="refused: there is no metadata.version here")
    parser.add_flags(
        {
            "--dry-run": "only say what would be changed",
            "--unsafe": "downgrade although information may be lost",
        }
    )
    options = parser.parse_args(arguments)
    if options.operation is None:
        raise UsageFault(f"give an operation: describe, {', '.join(DONE)}")
    if options.operation == "describe":
        return run_with_cluster(options, _describe)
    if options.metadata or options.release_version:
        raise UsageFault("there is no metadata.version here: give --feature transaction.version=LEVEL")
    if not options.feature:
        raise UsageFault(f"You must specify at least one feature to {options.operation}")
    levels: dict[str, int] = {}
    for text in options.feature:
        name, level = _level(text, options.operation)
        if name in levels:
            raise UsageFault(f"Feature {name} was specified more than once.")
        levels[name] = level
    return run_with_cluster(options, lambda cluster: _update(cluster, levels, options))


def _level(text: str, operation: str) -> tuple[str, int]:
    """Return name and level of a feature, 0 to disable it. Raises UsageFault."""
    name, equals, level = text.partition("=")
    if operation == "disable" and not equals:
        return name.strip(), 0
    if not equals:
        raise UsageFault(f"Can't parse feature=level string {text}: equals sign not found.")
    level = level.strip()
    if not (level.isascii() and level.isdigit() and len(level) < 6 and int(level) <= INT16_MAX):
        raise UsageFault(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name.strip(), int(level)


def _describe(cluster: Cluster) -> int:
    features, epoch = describe_features(cluster)
    for each in features:
        sys.stdout.write(
            f"Feature: {each.name:<42}SupportedMinVersion: {each.min_level:<17}SupportedMaxVersion: {each.max_level:<17}"
            f"FinalizedVersionLevel: {each.finalized_level:<17}Epoch: {epoch}\n"
        )
    return 0


def _update(cluster: Cluster, levels: dict[str, int], options: argparse.Namespace) -> int:
    if options.operation == "upgrade":
        upgrade_type = UpgradeType.UPGRADE
    else:
        upgrade_type = UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE
    failure = ""
    try:
        update_features(cluster, levels, upgrade_type, options.dry_run)
    except BrokerError as fault:
        failure = fault.message or str(fault)
    could_not, was = ("Can not", "can be") if options.dry_run else ("Could not", "was")
    for name, level in sorted(levels.items()):
        to = "" if options.operation == "disable" else f" to {level}"
        if failure:
            sys.stdout.write(f"{could_not} {options.operation} {name}{to}. {failure}\n")
        else:
            sys.stdout.write(f"{name} {was} {DONE[options.operation]}{to}.\n")
    if failure:
        sys.stderr.write(f"{len(levels)} out of {len(levels)} operation(s) failed.\n")
    return 1 if failure else 0
