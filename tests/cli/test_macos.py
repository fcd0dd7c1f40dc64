"""Brokers run where Python has only what it has on macOS (simulated: see tests/kit/processes/macos)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.kit import processes
from tests.kit.processes.process import DEADLINE_S, run, serving

MACOS = str(Path(processes.__path__[0]) / "macos")
USE_TLS = """
import os, ssl, socket, stuntbroker, sys
assert not hasattr(os, "memfd_create") and not hasattr(os, "pidfd_open")
listeners = {
    "listeners": "SSL://localhost:0,PLAINTEXT://localhost:0",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": sys.argv[1],
}
with stuntbroker.broker(properties=listeners) as broker:
    broker.produce("t", "x")
    context = ssl.create_default_context(cafile=sys.argv[2])
    host, _, port = broker.listeners["SSL"].rpartition(":")
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname="localhost"):
        print(broker.values("t"))
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_broker_without_the_system_calls_of_linux_keeps_what_it_acknowledged(tmp_path: Path, durability: str) -> None:
    words = ("--data-dir", str(tmp_path / "data"), "--durability", durability, "--topic", "t")
    for number, (value, ending) in enumerate((("first", signal.SIGKILL), ("second", signal.SIGTERM))):
        with serving(*words, PYTHONPATH=MACOS) as broker:
            bootstrap = f"127.0.0.1:{broker.address[1]}"
            transactional = ("--transactional-id", "id", "--bootstrap", bootstrap)
            sent = run("produce", "t", value, *transactional, PYTHONPATH=MACOS)
            assert (sent.returncode, sent.stderr) == (0, "committed 1 record to t\n")
            read = run("consume", "t", "--bootstrap", bootstrap, PYTHONPATH=MACOS)
            assert read.stdout.split() == ["first", "second"][: number + 1]
            status, _, log = broker.end(ending)
        assert status == (-ending if ending == signal.SIGKILL else 0)
        assert "max_connections_lowered" not in log


def test_the_fork_server_and_tls_need_no_system_calls_of_linux(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "broker.pem"))

    done = subprocess.run(
        [sys.executable, "-c", USE_TLS, tmp_path / "broker.pem", tmp_path / "ca.pem"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=os.environ | {"PYTHONPATH": MACOS},
    )

    assert (done.stdout, done.stderr) == ("[b'x']\n", "")
