"""A log read while it is being written: turns as they come, unfinished ends waited for."""

from __future__ import annotations

import threading
from pathlib import Path

from recorder import Reader, Turn, Writer, dictionary
from recorder.framing import Op
from tests.recorder.making import a_begin, a_log, a_turn, an_end, frames_of, write_episodes


def test_turns_as_they_come_until_the_log_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync="none", index_every=5)
    made = write_episodes(log, range(1))
    turn_came = threading.Semaphore(0)

    def rest() -> None:
        for one in range(1, 5):
            log.begin_episode(a_begin(one))
            for at in range(3):
                made.append(a_turn(one, at))
                log.turn(made[-1])
                assert turn_came.acquire(timeout=30), "the reader has each turn before the next one is written"
            log.end_episode(an_end(one, 3))
        log.close()

    writer = threading.Thread(target=rest)
    read: list[Turn] = []
    with Reader(path) as reader:
        for turn in reader.turns(follow=True, poll=0.005):
            read.append(turn)
            if len(read) == 3:
                writer.start()
            elif len(read) > 3:
                turn_came.release()
        assert not reader.damage.damaged
    writer.join()
    assert read == made and len(read) == 15


def test_an_unfinished_record_is_waited_for(tmp_path: Path) -> None:
    """Byte by byte: nothing is given before its record is whole, nothing twice, and nothing counts as damage."""
    path, whole = tmp_path / "a.b22", tmp_path / "whole.b22"
    made = a_log(whole)
    data = whole.read_bytes()
    frames = frames_of(whole)
    second = [frame for frame in frames if frame.op == Op.TURN][1]
    start, end = second.offset, second.end
    unwritten = data[: end - 9] + b"\xff" * 9  # as long as it will be, with its last block still to come
    steps = [data[:at] for at in (start, start + 1, start + 17, end - 1, end, end + 2)]
    steps = [*steps[:4], unwritten, *steps[4:], data]
    path.write_bytes(steps[0])
    seen = []

    def idle() -> bool:
        """Called when nothing is new: the file grows by a step."""
        seen.append(len(read))
        steps.pop(0)
        if steps:
            path.write_bytes(steps[0])
        return not steps

    read: list[Turn] = []
    with Reader(path) as reader:
        for turn in reader.turns(follow=True, poll=0, stop=idle):
            read.append(turn)
        assert not reader.damage.damaged and reader.damage.records == len(frames)
        assert reader.damage.torn_bytes == 0, "an end that may become a record is nothing"
    assert read == made and seen == [1, 1, 1, 1, 1, 2, 2, 6]


def test_a_torn_end_that_is_repaired_and_written_over(tmp_path: Path) -> None:
    """A kill leaves half a record; the next session cuts it off, brings a dictionary of its own, and goes on."""
    path = tmp_path / "a.b22"
    trained = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)], 1024)
    made = a_log(path)
    last = [frame for frame in frames_of(path) if frame.op == Op.TURN][-1]
    path.write_bytes(path.read_bytes()[: last.end - 5])
    made.pop()
    once = []

    def idle() -> bool:
        if once:
            return True
        once.append(len(read))
        with Writer(path, append=True, dictionary=trained) as log:
            made.extend(write_episodes(log, range(5, 7)))
        return False

    read: list[Turn] = []
    with Reader(path) as reader:
        for turn in reader.turns(follow=True, poll=0, stop=idle):
            read.append(turn)
        assert not reader.damage.damaged
    assert once == [5] and read == made


def test_damage_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    made = a_log(path)
    data = bytearray(path.read_bytes())
    data[[frame for frame in frames_of(path) if frame.op == Op.TURN][2].offset + 30] ^= 1
    path.write_bytes(data)
    with Reader(path) as reader:
        assert list(reader.turns(follow=True, poll=0)) == made[:2] + made[3:]
        assert (reader.damage.bad_regions, reader.damage.missing) == (1, 1)


def test_an_attempt_that_is_seen_hides_what_comes_after(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        write_episodes(log, range(2), 1, run="r", update=3)
        write_episodes(log, range(2, 3), 1, run="r", update=3, attempt=1)
    with Reader(path) as reader:
        assert [turn.episode for turn in reader.turns(follow=True)] == [2]
        assert [turn.episode for turn in reader.turns("all", follow=True)] == [0, 1, 2]
