"""The tests' temporary files are in memory where there is room for them and programs may be run."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from house_sources import ROOT

sys.path.append(str(ROOT / "tools"))
import temporary_folder

BLOCK_BYTES = 4096
ENOUGH = temporary_folder.ROOM_BYTES_MIN // BLOCK_BYTES


def file_system(free_blocks: int, flags: int = 0) -> os.statvfs_result:
    # Sizes of blocks, blocks in all, free, free without privileges; the same of files; flags, the longest name.
    return os.statvfs_result((BLOCK_BYTES, BLOCK_BYTES, ENOUGH * 2, ENOUGH * 2, free_blocks, 0, 0, 0, flags, 255))


@pytest.mark.parametrize(
    ("status", "is_fit"),
    [
        pytest.param(file_system(ENOUGH), True, id="just enough room"),
        pytest.param(file_system(ENOUGH - 1), False, id="too little room, as in containers"),
        pytest.param(file_system(ENOUGH, temporary_folder.NO_PROGRAMS), False, id="no programs, as in containers"),
        pytest.param(file_system(ENOUGH, os.ST_NOSUID), True, id="another flag"),
    ],
)
def test_a_file_system_needs_room_and_programs_that_may_be_run(status: os.statvfs_result, is_fit: bool) -> None:
    assert temporary_folder.fits(status) is is_fit


@pytest.mark.parametrize("is_fit", [True, False])
def test_memory_is_chosen_only_if_it_fits(is_fit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_folder, "fits", lambda status: is_fit)

    assert temporary_folder.choose(str(tmp_path)) == (str(tmp_path) if is_fit else tempfile.gettempdir())


def test_the_usual_folder_is_chosen_where_files_in_memory_do_not_exist(tmp_path: Path) -> None:
    assert temporary_folder.choose(str(tmp_path / "missing")) == tempfile.gettempdir()
