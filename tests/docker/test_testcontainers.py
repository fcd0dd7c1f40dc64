"""Testcontainers' own Kafka modules run the image, unmodified, in four languages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

LANGUAGES = {"python": "python3", "java-1": "mvn", "java-2": "mvn", "go": "go", "node": "npm"}
"""Language of a matrix -> the tool that it needs."""
MODULES = {
    "python": ["KafkaContainer", "KafkaContainer.with_kraft", "RedpandaContainer", "generic"],
    "java-1": [
        "kafka.KafkaContainer(apache/kafka)",
        "containers.KafkaContainer(zookeeper)",
        "redpanda.RedpandaContainer",
    ],
    "java-2": [
        "kafka.KafkaContainer(apache/kafka-native)",
        "kafka.ConfluentKafkaContainer",
        "redpanda.RedpandaContainer",
    ],
    "go": ["modules/kafka", "modules/redpanda", "generic"],
    "node": ["KafkaContainer(zookeeper)", "KafkaContainer(8.x, KRaft)", "RedpandaContainer", "generic"],
}
"""Modules that must be among those that pass; the list is not complete."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_module_of_a_language_runs_the_image_and_its_client_commits_a_transaction(
    image: str, language: str
) -> None:
    if shutil.which(LANGUAGES[language]) is None:
        pytest.skip(f"there is no {LANGUAGES[language]} here")
    script = Path(__file__).with_name("testcontainers") / "matrix.sh"

    done = subprocess.run(
        [script, language], capture_output=True, text=True, check=False, env=os.environ | {"IMAGE": image}
    )

    lines = [line for line in done.stdout.splitlines() if "PASS " in line or "FAIL " in line]
    assert done.returncode == 0, "\n".join(lines) + done.stderr[-2000:]
    assert not [line for line in lines if "FAIL " in line]
    passed = [line.partition("PASS ")[2] for line in lines]
    for module in MODULES[language]:
        assert any(line.startswith(f"{language} {module} ") for line in passed), (module, passed)


@pytest.mark.timeout(600)
def test_spring_boot_takes_the_image_as_a_service_connection(image: str, tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("there is no mvn here")
    project = tmp_path / "spring"
    shutil.copytree(Path(__file__).parent.parent / "frameworks" / "spring", project)
    test = project / "src/test/java/payments/ContainerTest.java"
    test.write_text(test.read_text().replace('parse("stuntbroker")', f'parse("{image}")'))
    settings = {"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_CHECKS_DISABLE": "true"}
    host = {"TESTCONTAINERS_HOST_OVERRIDE": os.environ.get("TESTCONTAINERS_HOST_OVERRIDE", "localhost")}

    done = subprocess.run(
        ["mvn", "-B", "test", "-Dtest=ContainerTest"],
        cwd=project,
        env=os.environ | settings | host | {"STUNTBROKER_IMAGE": image},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in done.stdout
