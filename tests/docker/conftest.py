"""The image under test, which STUNTBROKER_IMAGE names (`make containers` sets it); the tests need a container engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.kit.processes.engine import docker

collect_ignore = ["ci_services"]
"""This folder has the test of an example repository, which a CI system runs."""


@pytest.fixture(scope="session")
def image() -> str:
    """The name of the image; skips where no image is named."""
    name = os.environ.get("STUNTBROKER_IMAGE")
    if not name:
        pytest.skip("needs a container engine and an image: `make containers` builds one and sets STUNTBROKER_IMAGE")
    if shutil.which("docker") is None:
        pytest.fail("STUNTBROKER_IMAGE is set, and there is no docker command")
    return name


@pytest.fixture
def started(image: str) -> Iterator[Callable[..., str]]:
    """Starts a container of the image: `started(*options, command=[...])` returns its id. All are removed afterwards."""
    ids: list[str] = []

    def start(*options: str, command: tuple[str, ...] = ()) -> str:
        ids.append(docker("run", "--detach", *options, image, *command).strip())
        return ids[-1]

    yield start
    for each in ids:
        docker("rm", "--force", "--volumes", each, check=False)
