"""`stuntbroker advertise` finds the broker of its container, and waits for it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stuntbroker.cli.commands.advertise import advertise
from stuntbroker.cli.serving import container
from stuntbroker.client.commands.cluster import Cluster
from stuntbroker.client.commands.configs import describe_config
from stuntbroker.protocol.addresses import parse_bootstrap
from stuntbroker.protocol.config_resources import ResourceType
from tests.kit.processes.free_ports import free_port
from tests.kit.processes.process import COMMAND, DEADLINE_S, run, serving

NAME = "stuntbroker.mapped.address"


def mapped_address(bootstrap: str) -> str | None:
    with Cluster(parse_bootstrap(bootstrap), DEADLINE_S) as cluster:
        (config,) = describe_config(cluster, ResourceType.BROKER, str(cluster.controller_id()), [NAME])
    return config.value


def test_advertise_waits_until_the_broker_is_up() -> None:
    port = free_port()
    command = [*COMMAND, "advertise", "localhost:1234", "--bootstrap", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().endswith(f"127.0.0.1:{port}: Connection refused; trying again for 60 s\n")
        with serving("--set", f"listeners=PLAINTEXT://127.0.0.1:{port}"):
            assert waiting.wait(DEADLINE_S) == 0
            assert mapped_address(f"127.0.0.1:{port}") == "localhost:1234"


def test_advertise_gives_up_at_its_time_out() -> None:
    done = run("advertise", "localhost:1234", "--bootstrap", f"127.0.0.1:{free_port()}", "--timeout", "0.3")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("Connection refused")


def test_advertise_finds_the_broker_of_its_container_on_any_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "stuntbroker.ready"
    monkeypatch.setattr(container, "READY_FILES", (str(ready),))
    with serving() as broker:
        address = f"127.0.0.1:{broker.address[1]}"
        ready.write_text(json.dumps({"kafka": address, "pid": broker.process.pid}))
        assert advertise(["localhost:1234"]) == 0
        assert mapped_address(address) == "localhost:1234"


def test_a_refused_connection_is_reported_where_another_address_of_the_host_has_no_route() -> None:
    """In a container, localhost also resolves to ::1, which has no route."""
    done = run("topic", "list", "--bootstrap", f"localhost:{free_port()}", "--timeout", "1")
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
