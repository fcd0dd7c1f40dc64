"""A group coordinator for each test."""

from __future__ import annotations

import pytest

from tests.kit.groups.group_world import World


@pytest.fixture
def world() -> World:
    return World()
