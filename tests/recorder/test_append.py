"""Going on in a file that is already there: after a footer, after a kill, and when it must not be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recorder import DamagedLogError, DictionaryError, NotALogError, Op, Reader, Writer, appender, dictionary, reopen
from recorder.directory import IdRanges
from recorder.framing import HEAD_SIZE, pack
from tests.recorder.making import a_begin, a_log, a_turn, frames_of, turns_of, write_episodes

ROOT = Path(__file__).parents[2]


def go_on(path: Path, episodes: range, turns: int = 2) -> Writer:
    with Writer(path, append=True, dictionary=None, sync="none", index_every=5) as log:
        write_episodes(log, episodes, turns)
    return log


def test_append_after_a_footer(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    made = a_log(path, index_every=4)
    closed = path.read_bytes()
    log = go_on(path, range(2, 4))
    assert log.repaired == 0 and path.read_bytes().startswith(closed), "nothing is rewritten"
    frames = frames_of(path)
    assert [frame.sequence for frame in frames] == list(range(len(frames)))
    assert [frame.op for frame in frames].count(Op.HEADER) == 2
    with Reader(path) as reader:
        assert reader.clean and reader.footer is not None
        footer = reader.footer
        assert (footer.episodes, footer.turns, footer.records) == (4, 10, len(frames) - 1)
        read = list(reader.turns())
        assert read[:6] == made and len(read) == 10
        assert [reader.episode(one).whole for one in (0, 1, 2, 3)] == [True] * 4
        assert not reader.damage.damaged


def test_append_knows_the_ids_that_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path, episodes=3)
    with Writer(path, append=True, dictionary=None) as log:
        assert log.next_episode == 3
        with pytest.raises(ValueError, match="already in the log"):
            log.begin_episode(a_begin(1))


def test_append_to_nothing_makes_a_log(tmp_path: Path) -> None:
    for path in (tmp_path / "new.b22", tmp_path / "empty.b22"):
        if path.name == "empty.b22":
            path.touch()
        go_on(path, range(2))
        assert len(turns_of(path)[0]) == 4


def test_torn_tails_are_cut_and_appended_to(tmp_path: Path) -> None:
    """Cut anywhere in the last records, as by a kill; then write on: all that was whole is there, and more."""
    path = tmp_path / "a.b22"
    made = a_log(path, index_every=4)
    data, frames = path.read_bytes(), frames_of(path)
    second_last = [frame for frame in frames if frame.op == Op.TURN][-1]
    for length in (*range(second_last.offset, len(data), 13), 1, 3, 17, 30):
        path.write_bytes(data[:length])
        whole = max((frame.end for frame in frames if frame.end <= length), default=0)
        log = go_on(path, range(10, 12))
        assert log.repaired == length - whole
        read, damage = turns_of(path)
        expected = [turn for turn, frame in zip(made, _turn_frames(frames), strict=True) if frame.end <= length]
        assert read[:-4] == expected and len(read) == len(expected) + 4
        assert not damage.damaged and damage.torn_bytes == 0 and damage.records == len(frames_of(path))
        with Reader(path) as reader:
            assert reader.episode(11).whole and reader.clean


@pytest.mark.slow
def test_every_cut_is_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log cut at every byte offset: the next writer repairs it, and what it appends reads back behind the rest."""
    monkeypatch.setattr(appender, "schema_json", lambda: "{}")
    path = tmp_path / "a.b22"
    made = a_log(path, index_every=4)
    data, frames = path.read_bytes(), frames_of(path)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with Writer(path, append=True, dictionary=None, sync="none") as log:
            more = write_episodes(log, range(10, 11), 1)
        read, damage = turns_of(path)
        whole = [turn for turn, frame in zip(made, _turn_frames(frames), strict=True) if frame.end <= length]
        assert read == whole + more and not damage.damaged and damage.torn_bytes == 0, length


def _turn_frames(frames: list) -> list:  # type: ignore[type-arg]
    return [frame for frame in frames if frame.op == Op.TURN]


def test_zeros_and_a_half_written_last_record_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    data, last = path.read_bytes(), frames_of(path)[-1]
    path.write_bytes(data + bytes(4096))
    assert go_on(path, range(10, 11)).repaired == 4096
    path.write_bytes(data[: last.offset + 25] + bytes(len(data) - last.offset - 25))
    assert go_on(path, range(10, 11)).repaired == len(data) - last.offset
    assert not turns_of(path)[1].damaged


def test_damage_in_the_middle_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    data, frames = bytearray(path.read_bytes()), frames_of(path)
    turn = _turn_frames(frames)[1]
    whole = bytes(data)
    data[turn.offset + HEAD_SIZE + 3] ^= 1
    for damaged in (bytes(data), whole[: turn.offset] + whole[turn.end :], whole + b"garbage after the end"):
        path.write_bytes(damaged)
        with pytest.raises(DamagedLogError, match=r"a\.b22: damaged in the middle .* begin a new log"):
            Writer(path, append=True, dictionary=None)
        assert path.read_bytes() == damaged, "refused, and not touched"
    with Reader(path) as reader:  # the lock was let go, and reading works
        assert len(list(reader.turns())) == 6


@pytest.mark.parametrize("whole", [True, False])
def test_an_index_inside_of_another_record_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """A search backwards finds it first; what is appended has to read back all the same."""
    monkeypatch.setattr(reopen, "WHOLE", 1 << 20 if whole else 0)
    path = tmp_path / "a.b22"
    made = a_log(path, 4, index_every=5)
    data, frames = path.read_bytes(), frames_of(path)
    within = data[frames[-2].offset :]  # the last INDEX and the FOOTER, as bytes in a record that isn't known here
    path.write_bytes(data + pack(99, 0, len(frames), b"." * 500 + within))
    with Reader(path) as reader:
        assert reader.episode(3).whole
    go_on(path, range(10, 12))
    read, damage = turns_of(path)
    assert read[:12] == made and len(read) == 16 and not damage.damaged


def test_other_files_are_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(NotALogError):
        Writer(path, append=True)
    assert path.read_text() == "my notes\n"


def test_dictionaries_over_sessions(tmp_path: Path) -> None:
    """Each session brings its own dictionary; another one with the same id is refused."""
    samples = [dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)]
    one, two = dictionary.train(samples, 1024), dictionary.train(samples[:400], 1024)
    assert dictionary.dictionary_id(one) != dictionary.dictionary_id(two)
    path = tmp_path / "a.b22"
    made = []
    for at, trained in enumerate((one, two, None, one)):
        with Writer(path, append=True, dictionary=trained) as log:
            made += write_episodes(log, range(2 * at, 2 * at + 2))
    read, damage = turns_of(path)
    assert read == made and not damage.damaged
    forged = two[:4] + one[4:8] + two[8:]
    with pytest.raises(DictionaryError, match="another dictionary with the id"):
        Writer(path, append=True, dictionary=forged)


KILLED = """
import os, sys
from recorder import Writer
from tests.recorder.making import *
episode = int(sys.argv[2])
with Writer(sys.argv[1], append=True, dictionary=None, index_every=40) as log:
    for first in range(episode, episode + 10**9, 3):
        for one in range(first, first + 3):
            log.begin_episode(a_begin(one))
        for at in range(5):
            for one in range(first, first + 3):
                log.turn(a_turn(one, at))
                os.write(1, b"%d %d\\n" % (one, at))
        for one in range(first, first + 3):
            log.end_episode(an_end(one, 5))
"""


def test_kill_9_loses_no_acknowledged_turn(tmp_path: Path) -> None:
    """The child says each turn through a pipe after the call returned; then it is killed, again and again."""
    path = tmp_path / "a.b22"
    acknowledged: list[tuple[int, int]] = []
    dice = random.Random(0)
    for attempt in range(4):
        command = [sys.executable, "-c", KILLED, str(path), str(1_000_000 * attempt)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert child.stdout is not None
        said = child.stdout.readline()
        time.sleep(dice.uniform(0, 0.15))
        os.kill(child.pid, signal.SIGKILL)
        said += child.stdout.read()
        child.wait()
        child.stdout.close()
        acknowledged += [tuple(map(int, line.split())) for line in said.splitlines() if b" " in line]  # type: ignore[misc]
        read, damage = turns_of(path)
        assert not damage.damaged
        have = [(turn.episode, turn.turn) for turn in read]
        assert have[: len(acknowledged)] == acknowledged
        extra = len(have) - len(acknowledged)
        assert extra <= 1, "at most the turn in flight is there without having been said"
        acknowledged = have
        with Reader(path) as reader:
            assert not reader.clean
            assert [turn for one in reader.episode_ids() for turn in reader.episode(one).turns] == sorted(
                read, key=lambda turn: (turn.episode, turn.turn)
            )
    assert len(acknowledged) > 20
    go_on(path, range(9_000_000, 9_000_001))
    assert not turns_of(path)[1].damaged


def test_id_ranges() -> None:
    dice, ids, plain = random.Random(1), IdRanges(), set()
    for _ in range(500):
        number = dice.randrange(200)
        assert (number in ids) == (number in plain)
        ids.add(number)
        plain.add(number)
        assert len(ids) == len(plain) and ids.above == max(plain) + 1
    assert {one for start, end in ids for one in range(start, end)} == plain
    dense = IdRanges()
    for number in range(1000):
        dense.add(number)
    assert list(dense) == [(0, 1000)]
