"""The image without a container engine: its install steps, entry point and health check as processes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


def instruction(name: str) -> list[str]:
    """The JSON form of an instruction: the words that an engine would start."""
    found = re.search(rf"^{name}\b[^\[\n]*(\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found, f"the Dockerfile has no {name} in JSON form"
    words: list[str] = json.loads(found[1])
    return words


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment, installed as the Dockerfile does it, from what the image would get to see."""
    folder = tmp_path_factory.mktemp("image")
    source = folder / "src"
    # The caches of tools, which a clone does not have: other tests are writing there now.
    lines = [line for name in (".dockerignore", ".gitignore") for line in (ROOT / name).read_text().split()]
    ignored = [line.removeprefix("**/").removesuffix("/") for line in lines]
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*ignored, "tests"))
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    steps = re.search(r"^RUN python -m venv (\S+) \\\n((?: && .*\n)+)", DOCKERFILE, re.MULTILINE)
    assert steps, "the Dockerfile's install steps are not where this test looks for them"
    for line in steps[2].splitlines():
        command = line.strip().removeprefix("&& ").removesuffix("\\").strip().replace(steps[1], str(folder / "venv"))
        subprocess.run(command, shell=True, cwd=source, check=True, capture_output=True)
    return folder / "venv" / "bin"


@pytest.mark.timeout(300)
def test_the_entry_point_serves_and_the_health_check_says_so(installed: Path, tmp_path: Path) -> None:
    entry = instruction("ENTRYPOINT")
    entry[0] = str(installed / entry[0])
    assert entry[entry.index("--set") + 1] == "listeners=PLAINTEXT://0.0.0.0:9092"
    entry += ["--set", "listeners=HOST://0.0.0.0:0,DOCKER://127.0.0.1:0"]
    entry[entry.index("--data-dir") + 1] = str(tmp_path / "data")
    broker = subprocess.Popen(entry, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert broker.stdout is not None
        port = broker.stdout.readline().split()[1].rpartition(":")[2]
        check = instruction(r"HEALTHCHECK.* CMD")
        check[0] = str(installed / check[0])
        check[check.index("--bootstrap") + 1] = f"127.0.0.1:{port}"

        healthy = subprocess.run(check, check=False, capture_output=True)

        assert healthy.returncode == 0, healthy.stderr
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.communicate()
    assert broker.returncode == 0
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


def test_the_image_holds_the_package_and_nothing_else_of_ours(installed: Path) -> None:
    """Rooms are packages inside `stuntbroker`: `coordinator` alone must not be importable."""
    code = "import importlib.util as u; print([n for n in ('coordinator', 'protocol', 'tests') if u.find_spec(n)])"

    found = subprocess.run([installed / "python", "-c", code], cwd="/", check=True, capture_output=True, text=True)

    assert found.stdout.strip() == "[]"


def test_the_compose_file_starts_what_the_image_has() -> None:
    text = (ROOT / "docker" / "compose.yaml").read_text()

    assert (ROOT / "docker" / "client" / "transaction.py").exists()
    assert "stuntbroker.mapped.port=${PORT:-9092}" in text
    assert "condition: service_healthy" in text
    assert "dockerfile: docker/Dockerfile" in text


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode != 0,
    reason="no `docker compose` command here to read the file with",
)
def test_docker_compose_reads_the_file() -> None:
    command = ["docker", "compose", "-f", str(ROOT / "docker" / "compose.yaml"), "config", "--quiet"]

    said = subprocess.run(command, check=False, capture_output=True, text=True)

    assert said.returncode == 0, said.stderr
