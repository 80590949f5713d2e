"""The writer's promises: nothing dropped, nothing half-written left behind, errors where they are seen."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from recorder import (
    Amend,
    ClosedError,
    DictionaryError,
    EpisodeStateError,
    LockedError,
    LogExistsError,
    OpenError,
    PrefixNotFoundError,
    Reader,
    RecordError,
    SyncFailedError,
    WriteFailedError,
    Writer,
    appender,
    sync,
    tape,
)
from recorder.framing import Op
from tests.recorder.making import a_begin, a_log, a_turn, an_end, frames_of, turns_of, write_episodes

ROOT = Path(__file__).parents[2]


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A Python program in a process of its own, from the project's root."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_calls_out_of_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        with pytest.raises(EpisodeStateError, match="episode 0 is not open: begin_episode comes first"):
            log.turn(a_turn(0, 0))
        log.begin_episode(a_begin(0))
        with pytest.raises(EpisodeStateError, match="already in the log; the next free id is 1"):
            log.begin_episode(a_begin(0))
        with pytest.raises(EpisodeStateError, match="turn 1 where turn 0 is next"):
            log.turn(a_turn(0, 1))
        log.turn(a_turn(0, 0))
        with pytest.raises(EpisodeStateError, match="turn 0 where turn 1 is next"):
            log.turn(a_turn(0, 0))
        with pytest.raises(EpisodeStateError, match="turns=2, but 1 were recorded"):
            log.end_episode(an_end(0, 2))
        log.end_episode(an_end(0, 1))
        with pytest.raises(EpisodeStateError, match="episode 0 is not open"):
            log.turn(a_turn(0, 1))
        with pytest.raises(EpisodeStateError, match="episode 0 is not open: it can't end"):
            log.end_episode(an_end(0, 1))
        with pytest.raises(EpisodeStateError, match="episode 5 is not in the log"):
            log.amend(Amend(episode=5))
        with pytest.raises(PrefixNotFoundError, match="add_prefix"):
            log.begin_episode(a_begin(1, prefix_hash="ab"))
        with pytest.raises(RecordError, match="expected a Turn, got EpisodeEnd"):
            log.turn(an_end(0, 1))  # type: ignore[arg-type]
        assert log.next_episode == 1
    with pytest.raises(ClosedError):
        log.turn(a_turn(0, 1))
    log.close()
    assert len(turns_of(path)[0]) == 1


def test_bad_settings_are_refused_before_a_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    bad: list[dict[str, Any]] = [{"sync": "often"}, {"sync_every": 0}, {"index_every": 0}]
    for options in bad:
        with pytest.raises(ValueError, match=next(iter(options))):
            Writer(path, **options)
    with pytest.raises(DictionaryError, match="not a trained zstd dictionary"):
        Writer(path, dictionary=b"words words words")
    assert not path.exists()
    with pytest.raises(OpenError, match="No such file"):
        Writer(tmp_path / "none" / "a.b22")
    with pytest.raises(OpenError, match="directory"):
        Writer(tmp_path)


def test_an_existing_log_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    before = path.read_bytes()
    with pytest.raises(LogExistsError, match="append to it, or give another name"):
        Writer(path)
    assert path.read_bytes() == before


def test_each_turn_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []

    def counting(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return os_write(fd, data)

    os_write = os.write
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        log.begin_episode(a_begin(0))
        monkeypatch.setattr(tape.os, "write", counting)
        for at in range(5):
            log.turn(a_turn(0, at))
            assert len(writes) == at + 1
            assert len(turns_of(path)[0]) == at + 1  # and it is there when the call returns
        monkeypatch.undo()


def test_two_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    other = "import sys, recorder; recorder.Writer(sys.argv[1], append=True)"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        with pytest.raises(LockedError, match="another writer has it open"):
            Writer(path, append=True)
        with Reader(path):  # a reader of the same process that comes and goes doesn't take the lock away
            pass
        there = run(other, path)
        assert there.returncode == 1 and "LockedError" in there.stderr
        log.turn(a_turn(0, 0))
    assert run(other, path).returncode == 0
    assert not turns_of(path)[1].damaged


def test_a_forked_copy_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync="none")
    log.begin_episode(a_begin(0))
    before = path.read_bytes()
    here = os.getpid()
    monkeypatch.setattr(appender.os, "getpid", lambda: here + 1)
    with pytest.raises(ClosedError, match="belongs to the process that forked this one"):
        log.turn(a_turn(0, 0))
    monkeypatch.undo()
    assert path.read_bytes() == before
    log.turn(a_turn(0, 0))
    log.close()


def test_a_forked_copy_that_closes_leaves_the_log_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    done = run(
        """
        import os, sys
        from recorder import Writer
        from tests.recorder.making import *
        log = Writer(sys.argv[1], dictionary=None, sync="none")
        log.begin_episode(a_begin(0))
        if not os.fork():
            log.close()
            os._exit(0)
        os.wait()
        log.turn(a_turn(0, 0))
        log.close()
        """,
        path,
    )
    assert done.returncode == 0, done.stderr
    assert [frame.op for frame in frames_of(path)].count(Op.FOOTER) == 1


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="needs RLIMIT_FSIZE")
def test_a_full_disk_cuts_back_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """The size limit makes write() short, then fail: what a full disk does."""
    path = tmp_path / "a.b22"
    done = run(
        """
        import os, resource, sys
        from recorder import Writer, WriteFailedError
        from tests.recorder.making import *
        path = sys.argv[1]
        log = Writer(path, dictionary=None, sync="none")
        log.begin_episode(a_begin(0))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + 1500, hard))
        at = 0
        while True:
            size = os.path.getsize(path)
            try:
                log.turn(a_turn(0, at))
            except WriteFailedError as error:
                assert isinstance(error.__cause__, OSError)
                assert os.path.getsize(path) == size, "cut back to the last good record"
                break
            at += 1
        assert at >= 2
        try:
            log.turn(a_turn(0, at))
        except WriteFailedError:
            pass
        else:
            raise SystemExit("the second try should fail too")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        log.turn(a_turn(0, at))
        log.end_episode(an_end(0, at + 1))
        log.close()
        print(at + 1)
        """,
        path,
    )
    assert done.returncode == 0, done.stderr
    read, damage = turns_of(path)
    assert len(read) == int(done.stdout) and not damage.damaged
    with Reader(path) as reader:
        assert reader.clean and reader.episode(0).whole


def test_a_full_disk_at_the_end_leaves_a_readable_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None)
    write_episodes(log, range(2))

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tape.os, "write", full)
    with pytest.raises(WriteFailedError, match="No space left on device"):
        log.close()
    monkeypatch.undo()
    read, damage = turns_of(path)
    assert len(read) == 6 and not damage.damaged and damage.torn_bytes == 0
    with Writer(path, append=True, dictionary=None):  # and its lock is gone
        pass


def test_an_error_in_the_block_is_not_hidden_by_one_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(KeyError, match="mine"), Writer(tmp_path / "a.b22", dictionary=None):
        monkeypatch.setattr(tape.os, "write", full)
        raise KeyError("mine")


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"
    os_write = os.write
    monkeypatch.setattr(tape.os, "write", lambda fd, data: os_write(fd, data[: len(data) // 2 + 1]))
    made = a_log(path)
    monkeypatch.undo()
    assert turns_of(path)[0] == made and frames_of(path)


def test_ctrl_c_within_a_write_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"
    os_write = os.write

    def interrupted(fd: int, data: bytes) -> int:
        os_write(fd, data[:-5])
        raise KeyboardInterrupt

    with Writer(path, dictionary=None, sync="none") as log:
        log.begin_episode(a_begin(0))
        monkeypatch.setattr(tape.os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.turn(a_turn(0, 0))
        monkeypatch.undo()
        log.turn(a_turn(0, 0))
        log.turn(a_turn(0, 1))
    assert [turn.turn for turn in turns_of(path)[0]] == [0, 1] and frames_of(path)


def test_a_record_that_cannot_be_cut_off_breaks_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.b22"
    os_write = os.write

    def half(fd: int, data: bytes) -> int:
        os_write(fd, data[:20])
        raise OSError(errno.EIO, "Input/output error")

    def no_cut(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    log = Writer(path, dictionary=None, sync="none")
    log.begin_episode(a_begin(0))
    monkeypatch.setattr(tape.os, "write", half)
    monkeypatch.setattr(tape.os, "ftruncate", no_cut)
    with pytest.raises(WriteFailedError):
        log.turn(a_turn(0, 0))
    monkeypatch.undo()
    with pytest.raises(WriteFailedError, match="reopen the log to repair it"):
        log.turn(a_turn(0, 0))  # nothing is ever put behind the broken record
    with pytest.raises(WriteFailedError):
        log.close()
    with Writer(path, append=True, dictionary=None) as log:
        assert log.repaired == 20
    assert not turns_of(path)[1].damaged


@pytest.mark.parametrize("policy", ["turn", "episode", "interval"])
def test_a_failed_sync_is_raised_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: sync.SyncPolicy
) -> None:
    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync=policy, sync_every=0.01)
    log.begin_episode(a_begin(0))
    log.sync()
    monkeypatch.setattr(sync, "flush", failing)
    recorded = 0
    with pytest.raises(SyncFailedError, match="could not be made durable: Input/output error"):
        for _ in range(2000):
            log.turn(a_turn(0, recorded))
            recorded += 1
            time.sleep(0.002)
    with pytest.raises(SyncFailedError):
        log.end_episode(an_end(0, recorded))
    with pytest.raises(SyncFailedError):
        log.close()
    assert len(turns_of(path)[0]) == recorded


@pytest.mark.parametrize(
    ("policy", "least"), [("none", 0), ("episode", 2), ("interval", 1), ("turn", 2)]
)
def test_who_syncs_and_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: sync.SyncPolicy, least: int
) -> None:
    """Syncs happen on the thread, never on the caller's, until close."""
    threads: list[str] = []
    monkeypatch.setattr(sync, "flush", lambda fd: threads.append(threading.current_thread().name))
    every = 0.02 if policy == "interval" else 600.0
    log = Writer(tmp_path / "a.b22", dictionary=None, sync=policy, sync_every=every)
    for episode in (0, 1):
        write_episodes(log, range(episode, episode + 1))
        deadline = time.monotonic() + (5 if least else 0.1)
        while len(threads) <= episode and time.monotonic() < deadline and (least > 1 or not threads):
            time.sleep(0.005)
    assert len(threads) >= least and set(threads) <= {"b22-sync"}
    log.close()
    assert (threads[-1:] == ["MainThread"]) == (policy != "none")


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, index_every=50) as log:
        workers = [
            threading.Thread(target=write_episodes, args=(log, range(10 * k, 10 * k + 10))) for k in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    with Reader(path) as reader:
        assert sum(one.whole for one in reader.episodes()) == 40
        assert not reader.damage.damaged


def test_an_unclosed_writer_warns_and_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync="none")
    log.begin_episode(a_begin(0))
    with pytest.warns(ResourceWarning, match="never closed"):
        del log
    with Writer(path, append=True, dictionary=None):
        pass


def test_recording_takes_constant_memory_and_time(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.b22", dictionary=None, sync="none", index_every=100) as log:
        write_episodes(log, range(100))
        tracemalloc.start()
        write_episodes(log, range(100, 150))
        first = tracemalloc.get_traced_memory()[0]
        write_episodes(log, range(150, 900))
        later = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert later < first + 200_000, (first, later)


def test_vital_records_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender, "REPEAT_EVERY", 10_000)
    path = tmp_path / "a.b22"
    a_log(path, episodes=40)
    prefixes = [frame.offset for frame in frames_of(path) if frame.op == Op.PREFIX]
    assert len(prefixes) > 4
    assert all(later - before < 12_000 for before, later in pairwise(prefixes))
