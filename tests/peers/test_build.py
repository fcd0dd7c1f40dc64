"""Programs of other languages are built once, however many test processes ask for them."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kit.programs.scenarios import build

# Notes that it began, does its work in two steps, and takes its time between them.
COMPILER = """
import pathlib, sys, time
with open(sys.argv[2], "a") as log:
    log.write("built\\n")
out = pathlib.Path(sys.argv[1])
out.write_text("half")
time.sleep(0.3)
out.write_text("whole")
"""


def test_concurrent_builds_give_one_complete_program(tmp_path: Path) -> None:
    log, program = tmp_path / "log", tmp_path / "cache" / "program"
    each = (
        "import sys; from pathlib import Path; from tests.kit.programs.scenarios import build;"
        f"print(build(Path({str(program)!r}), [sys.executable, '-c', {COMPILER!r}, '{{out}}', {str(log)!r}], Path('/'))"
        ".read_text())"
    )

    def ask(_: int) -> str:
        done = subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    with ThreadPoolExecutor() as workers:
        assert list(workers.map(ask, range(4))) == ["whole"] * 4
    assert log.read_text() == "built\n"


def test_a_failed_build_leaves_no_file_and_reports_its_error(tmp_path: Path) -> None:
    program = tmp_path / "cache" / "program"
    with pytest.raises(AssertionError, match="no such package"):
        build(program, [sys.executable, "-c", "raise SystemExit('no such package')", "{out}"], tmp_path)
    assert [path.name for path in program.parent.iterdir() if not path.name.endswith(".lock")] == []
