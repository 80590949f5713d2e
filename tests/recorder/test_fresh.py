"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recorder import LogExistsError, OpenError, WriteFailedError
from recorder.fresh import fresh


def test_it_appears_when_it_is_whole(tmp_path: Path) -> None:
    file, folder = tmp_path / "a", tmp_path / "b"
    with fresh(file) as part:
        part.write_text("whole")
        assert not file.exists()
    with fresh(folder) as part:
        part.mkdir()
        (part / "x").write_text("whole")
    assert file.read_text() == (folder / "x").read_text() == "whole" and sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_nothing_is_left_of_what_failed(kind: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), fresh(tmp_path / "a") as part:
        if kind == "file":
            part.write_text("half")
        elif kind == "folder":
            part.mkdir()
            (part / "x").write_text("half")
        raise KeyboardInterrupt
    assert not os.listdir(tmp_path)


def test_what_is_there_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name in ("a", "link"):
        with pytest.raises(LogExistsError, match="already there; give another name"), fresh(tmp_path / name):
            pytest.fail("the block was entered")
    with pytest.raises(LogExistsError), fresh(tmp_path / "late") as part:
        part.write_text("new")
        (tmp_path / "late").write_text("came meanwhile")
    assert (tmp_path / "a").read_text() == "mine" and (tmp_path / "late").read_text() == "came meanwhile"
    assert sorted(os.listdir(tmp_path)) == ["a", "late", "link"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="none is not a folder"), fresh(tmp_path / "none" / "a"):
        pytest.fail("the block was entered")


def test_what_goes_wrong_is_told_of_the_place_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError) as told, fresh(tmp_path / "a") as part:
        (part / "x").write_text("half")
    assert told.value.filename == str(tmp_path / "a")
    with pytest.raises(OSError) as told, fresh(tmp_path / "a"):
        (tmp_path / "other").read_text()
    assert told.value.filename == str(tmp_path / "other"), "what is wrong with another file stays that"
    with pytest.raises(WriteFailedError) as failed, fresh(tmp_path / "a") as part:
        raise WriteFailedError(f"{part}: can't be written")
    assert str(failed.value) == f"{tmp_path / 'a'}: can't be written"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder that takes no file, whoever asks")
def test_a_folder_that_takes_no_file() -> None:
    with pytest.raises(OpenError, match=r"^/proc/a: can't be written: .*; give another place"), fresh(Path("/proc/a")):
        pytest.fail("the block was entered")
