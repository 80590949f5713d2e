"""A disk that is full for a while: what the caller hears, what the file says, and what goes on."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from recorder import (
    EpisodeStateError,
    Reader,
    SyncFailedError,
    WriteFailedError,
    Writer,
    losses,
    prefix_hash,
    recover,
    sync,
    tape,
)
from recorder.summary import summarize
from tests.recorder.making import a_begin, a_turn, an_end, frames_of, turns_of, write_episodes


class Disk:
    """os.write on a disk that has room or not. A full one takes a few bytes first, as a real one does."""

    def __init__(self) -> None:
        self.full = False
        self._left = 7
        self._write = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if not self.full:
            return self._write(fd, data)
        if not self._left:
            self._left = 7
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(fd, data[: self._left])
        self._left = 0
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(tape.os, "write", disk)
    return disk


def test_tried_again_nothing_is_lost(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0))
        size = path.stat().st_size
        disk.full = True
        for _ in range(3):
            with pytest.raises(WriteFailedError, match="No space left on device"):
                log.turn(a_turn(0, 1))
            assert path.stat().st_size == size, "cut back to the last good record"
        assert log.status.lost_turns == 1 and str(log.status).startswith("not recording: ")
        assert "No space left on device" in log.status.error
        disk.full = False
        log.turn(a_turn(0, 1))
        assert log.status.lost_turns == 0 and log.status.error == ""
        log.turn(a_turn(0, 2))
        log.end_episode(an_end(0, 3))
    with Reader(path) as reader:
        assert reader.episode(0).whole and reader.episode(0).gaps == [] and summarize(reader).good


def test_gone_on_without_them_the_file_says_what_is_missing(tmp_path: Path, disk: Disk) -> None:
    """Two episodes; the disk is full for turns 2 and 3 of one, the other lost nothing and is whole."""
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        for one in (0, 1):
            log.begin_episode(a_begin(one))
        for at in range(6):
            disk.full = at in (2, 3)
            if disk.full:
                with pytest.raises(WriteFailedError):
                    log.turn(a_turn(0, at))
            else:
                log.turn(a_turn(0, at))
                log.turn(a_turn(1, at if at < 2 else at - 2))
        assert log.status.lost_turns == 2 and log.status.error == ""
        assert str(log.status) == f"recording to {path}, 8 turns; 2 turns lost"
        with pytest.raises(EpisodeStateError, match="turn 9 where turn 6 is next"):
            log.turn(a_turn(0, 9))  # only what failed may be missing
        with pytest.raises(EpisodeStateError, match="turns=9, but 6"):
            log.end_episode(an_end(0, 9))
        log.end_episode(an_end(0, 6))
        log.end_episode(an_end(1, 4))
    with Reader(path) as reader:
        first, second = reader.episode(0), reader.episode(1)
        assert [turn.turn for turn in first.turns] == [0, 1, 4, 5] and not first.whole and second.whole
        (gap,) = first.gaps
        assert (gap.turn, gap.lost, gap.reason) == (2, 2, "not written: No space left on device")
        summary = summarize(reader)
        assert summary.good and (summary.gaps, summary.incomplete) == (1, 0)
        assert list(reader.episodes()) == [first, second]
    assert frames_of(path), "no bad byte anywhere"


def test_the_last_turns_and_the_end(tmp_path: Path, disk: Disk) -> None:
    """The turns before an end are lost, then the end itself at first; then everything at close."""
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync="none")
    for one in (0, 1):
        log.begin_episode(a_begin(one))
        log.turn(a_turn(one, 0))
    disk.full = True
    for one in (0, 1):
        for at in (1, 2):
            with pytest.raises(WriteFailedError):
                log.turn(a_turn(one, at))
    with pytest.raises(WriteFailedError):
        log.end_episode(an_end(0, 3))
    disk.full = False
    log.end_episode(an_end(0, 3))
    log.close()
    with Reader(path) as reader:
        assert [(gap.turn, gap.lost) for gap in reader.episode(0).gaps] == [(1, 2)]
        assert reader.episode(0).end is not None and not reader.episode(0).whole
        assert [(gap.turn, gap.lost) for gap in reader.episode(1).gaps] == [(1, 2)], "marked when the log was closed"
        assert reader.episode(1).end is None and summarize(reader).good and reader.clean


def test_a_begin_that_fails_comes_later(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        disk.full = True
        for call in (lambda: log.begin_episode(a_begin(0)), lambda: log.turn(a_turn(0, 0))):
            with pytest.raises(WriteFailedError):
                call()
        disk.full = False
        log.turn(a_turn(0, 1))
        log.begin_episode(a_begin(1))
        disk.full = True
        with pytest.raises(WriteFailedError):
            log.begin_episode(a_begin(2))
        disk.full = False
        log.begin_episode(a_begin(2))  # tried again
        with pytest.raises(EpisodeStateError, match="already in the log"):
            log.begin_episode(a_begin(2))
        for one, turns in ((0, 2), (1, 0), (2, 0)):
            log.end_episode(an_end(one, turns))
    with Reader(path) as reader:
        assert reader.episode_ids() == [0, 1, 2] and [turn.turn for turn in reader.episode(0).turns] == [1]
        assert [(gap.turn, gap.lost) for gap in reader.episode(0).gaps] == [(0, 1)] and summarize(reader).good


def test_a_game_that_asks_not_to_be_stopped(tmp_path: Path, disk: Disk) -> None:
    """on_error="status": no call raises for the disk; the status says it, and the file has what could be written."""
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync="none", on_error="status")
    disk.full = True
    digest = log.add_prefix("You run errands.", [1])
    assert digest == prefix_hash("You run errands.", [1])
    log.begin_episode(a_begin(0, prefix_hash=digest))
    log.turn(a_turn(0, 0))
    assert "No space left" in str(log.status) and log.status.lost_turns == 1
    disk.full = False
    log.turn(a_turn(0, 1))
    assert log.status.error == ""
    disk.full = True
    log.turn(a_turn(0, 2))
    log.end_episode(an_end(0, 3))
    log.sync()
    log.close()
    disk.full = False
    with Reader(path) as reader:
        assert reader.prefix(digest).token_ids == [1]
        assert [turn.turn for turn in reader.episode(0).turns] == [1] and not reader.clean
        assert not reader.check().damaged
    with (
        Writer(tmp_path / "b.b22", dictionary=None, on_error="status") as log,
        pytest.raises(EpisodeStateError),  # a fault of the program is never hidden
    ):
        log.turn(a_turn(0, 0))
    with pytest.raises(ValueError, match="on_error is 'ignore'"):
        Writer(tmp_path / "c.b22", on_error="ignore")  # type: ignore[arg-type]


def test_a_failed_sync_in_such_a_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"

    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sync, "flush", failing)
    log = Writer(path, dictionary=None, on_error="status")
    write_episodes(log, range(1))
    log.sync()
    log.close()
    assert len(turns_of(path)[0]) == 3
    log = Writer(tmp_path / "b.b22", dictionary=None)
    with pytest.raises(SyncFailedError):
        log.sync()
    with pytest.raises(SyncFailedError):
        log.close()


def test_the_status_of_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sync, "flush", failing)
    log = Writer(tmp_path / "a.b22", dictionary=None, on_error="status", sync="turn")
    log.begin_episode(a_begin(0))
    log.turn(a_turn(0, 0))
    deadline = time.monotonic() + 20
    while not log.status.error and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "could not be made durable: Input/output error" in log.status.error
    log.turn(a_turn(0, 1))
    assert log.status.turns == 2 and "durable" in str(log.status)
    log.close()


def test_few_begins_are_remembered(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that stays full takes no memory without end."""
    monkeypatch.setattr(losses, "BEGINS", 4)
    log = Writer(tmp_path / "a.b22", dictionary=None, sync="none", on_error="status")
    disk.full = True
    for one in range(10):
        log.begin_episode(a_begin(one))
        log.turn(a_turn(one, 0)) if one > 5 else None
    disk.full = False
    log.turn(a_turn(9, 1))
    with pytest.raises(EpisodeStateError, match="episode 3 is not open"):
        log.turn(a_turn(3, 0))
    log.close()


def test_a_log_with_a_gap_is_recovered_without_loss(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none", on_error="status") as log:
        log.begin_episode(a_begin(0))
        for at in range(4):
            disk.full = at == 1
            log.turn(a_turn(0, at))
        log.end_episode(an_end(0, 4))
    found = recover(path, tmp_path / "b.b22")
    assert found.lossless and (found.incomplete, found.marks) == (1, 0)
