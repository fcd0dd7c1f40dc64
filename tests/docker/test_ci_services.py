"""The files for GitHub Actions and GitLab of the documentation, run by act and gitlab-ci-local with the image as service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.processes.engine import docker

ROOT = Path(__file__).parent.parent.parent
PROJECT = Path(__file__).with_name("ci_services")
RUNNER = "stuntbroker-ci-runner"
ACT = "github.com/nektos/act@v0.2.89"
GITLAB_CI_LOCAL = "gitlab-ci-local@4.61.0"
"""Newer versions need a newer Node.js than 20."""


def ci_files() -> list[str]:
    """Return the file for GitHub Actions and that for GitLab."""
    page = (ROOT / "docs" / "how-to" / "containers.md").read_text()
    _, _, section = page.partition("\n## GitHub Actions and GitLab\n")
    return re.findall(r"^```yaml\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of an image in which the steps run."""
    context = tmp_path_factory.mktemp("runner")
    shutil.copy(PROJECT / "Dockerfile", context)
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    (context / "stuntbroker").mkdir()
    subprocess.run(["tar", "-x", "-C", context / "stuntbroker"], input=files, check=True)
    docker("build", "--quiet", "--network=host", "--tag", RUNNER, str(context))
    yield RUNNER
    docker("rmi", "--force", RUNNER, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a repository with one test."""
    for name in ("requirements.txt", "test_orders.py"):
        shutil.copy(PROJECT / name, tmp_path)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", tmp_path], check=True)
    return tmp_path


def run_committed(project: Path, path: str, content: str, *command: str | Path) -> str:
    """Commit a CI file, and run a command in the repository; return what the command printed. It must succeed."""
    file = project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    author = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for git in (["add", "."], [*author, "commit", "--quiet", "--message=Test an order"]):
        subprocess.run(["git", *git], cwd=project, check=True)
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(600)
def test_the_file_for_github_actions_runs(
    image: str, runner: str, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no go here, which builds act")
    bin_folder = tmp_path_factory.mktemp("act")
    subprocess.run(["go", "install", ACT], env=os.environ | {"GOBIN": str(bin_folder)}, check=True, capture_output=True)
    workflow = ci_files()[0].replace("registry.example/stuntbroker", image)

    act = [bin_folder / "act", "push", "--platform", f"ubuntu-latest={runner}", "--pull=false"]
    printed = run_committed(project, ".github/workflows/test.yaml", workflow, *act)

    assert "1 passed" in printed and "Job succeeded" in printed


@pytest.mark.timeout(600)
def test_the_file_for_gitlab_runs(image: str, runner: str, project: Path) -> None:
    for tool in ("npx", "rsync"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here, which gitlab-ci-local needs")
    pipeline = ci_files()[1].replace("registry.example/stuntbroker", image).replace("python:3.13", runner)

    local = ["npx", "--yes", GITLAB_CI_LOCAL, "--pull-policy", "if-not-present", "--helper-image", runner]
    printed = run_committed(project, ".gitlab-ci.yml", pipeline, *local)

    assert "1 passed" in printed and "PASS" in printed
