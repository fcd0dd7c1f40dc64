"""Applications on frameworks for the JVM, unchanged, with Maven: `make frameworks`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit.processes.process import serving

HERE = Path(__file__).parent
FRAMEWORKS = {
    "spring": ["--topic", "orders:3", "--topic", "payments"],
    "streams": ["--topic", "orders:3", "--topic", "counts"],
    "flink": ["--topic", "orders:3", "--topic", "payments"],
    "connect": [],
}
"""Folder -> options of the broker."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_application_passes_its_own_tests(name: str, tmp_path: Path) -> None:
    if not os.environ.get("STUNTBROKER_FRAMEWORKS"):
        pytest.skip("it takes Maven, and hundreds of megabytes on first use: `make frameworks` runs it")
    if shutil.which("mvn") is None:
        pytest.skip("there is no Maven here (mvn)")
    project = tmp_path / name
    shutil.copytree(HERE / name, project)
    with serving(*FRAMEWORKS[name]) as broker:
        bootstrap = "{}:{}".format(*broker.address)
        done = subprocess.run(
            ["mvn", "-B", "-q", "test"],
            cwd=project,
            env=os.environ | {"KAFKA_BOOTSTRAP": bootstrap, "SPRING_KAFKA_BOOTSTRAP_SERVERS": bootstrap},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    classes = ["PaymentsTest", *(["ContainerTest"] if name == "spring" and os.environ.get("STUNTBROKER_IMAGE") else [])]
    for tested in classes:
        (report,) = (project / "target" / "surefire-reports").glob(f"*{tested}.txt")
        assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in report.read_text(encoding="utf-8"), tested
