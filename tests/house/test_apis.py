"""The served APIs and versions match the handlers, the codecs and the README."""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from stuntbroker.broker.cluster.gate import GATED, OF_EVERY_NODE
from stuntbroker.broker.permissions.gate import CHECKS, NEEDING_NONE
from stuntbroker.broker.requests.apis import SERVED
from stuntbroker.broker.requests.personality import PERSONALITIES
from stuntbroker.protocol.api_keys import APIS

ROOT = Path(__file__).parents[2]
HANDLERS = sorted(path.stem for path in (ROOT / "broker" / "handlers").glob("k*.py"))


def test_every_handler_is_served_and_nothing_is_served_without_one() -> None:
    served = {module for _, _, module in SERVED.values()}

    assert not set(HANDLERS) - served, "add a row for each of them to broker/requests/apis.py"
    assert not served - set(HANDLERS), (
        "broker/requests/apis.py has rows for them, and broker/handlers/ has no such files"
    )


def test_every_served_api_has_its_versions_in_older_releases() -> None:
    """APIs that are newer than 4.0 would have to be listed here."""
    missing = set(SERVED) - set(PERSONALITIES["4.0"])

    assert not missing, "broker/requests/personality.py says which releases have an API, and up to which version"


def test_an_older_release_has_no_api_or_version_that_the_next_has_not() -> None:
    releases = list(PERSONALITIES.values())
    for older, newer in itertools.pairwise(releases):
        assert {key: newer.get(key, -1) for key in older} == {key: max(older[key], newer.get(key, -1)) for key in older}


def test_every_api_has_permission_checks_or_needs_none() -> None:
    assert set(SERVED) == CHECKS.keys() | NEEDING_NONE, "broker/permissions/gate.py has the permissions of each API"
    assert CHECKS.keys() & NEEDING_NONE == set()


def test_every_api_is_answered_by_every_node_or_by_one() -> None:
    assert set(SERVED) == GATED | OF_EVERY_NODE, "broker/cluster/gate.py says which node answers each API"
    assert set() == GATED & OF_EVERY_NODE


@pytest.mark.parametrize("key", SERVED)
def test_the_table_and_the_handler_name_the_same_key_and_versions(key: int) -> None:
    low, high, module = SERVED[key]
    handler = import_module(f"stuntbroker.broker.handlers.{module}")

    assert (key, range(low, high + 1)) == (handler.KEY, handler.VERSIONS)
    assert module.startswith(f"k{key:02d}_")


@pytest.mark.parametrize("key", SERVED)
def test_every_served_version_has_a_codec(key: int) -> None:
    low, high, _ = SERVED[key]

    assert APIS[key].version_min <= low <= high <= APIS[key].version_max


def test_the_table_in_the_readme_is_up_to_date() -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "tools" / "api_table.py", "--check"], check=False, capture_output=True, text=True
    )

    assert said.returncode == 0, said.stdout + said.stderr
