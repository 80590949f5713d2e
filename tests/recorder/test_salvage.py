"""recover: every intact record in a new log that is whole in itself and says what it lacks."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from recorder import (
    DamagedLogError,
    LogExistsError,
    NotALogError,
    OpenError,
    Reader,
    Writer,
    appender,
    dictionary,
    recover,
)
from recorder.framing import HEAD_SIZE, Flag, Op, pack
from recorder.summary import summarize
from tests.recorder.calling import call
from tests.recorder.making import a_begin, a_log, a_turn, extra_record, frames_of, turns_of, write_episodes


def flip(path: Path, op: int, which: int = 0) -> None:
    """Damages one record of a kind."""
    frame = [frame for frame in frames_of(path) if frame.op == op][which]
    data = bytearray(path.read_bytes())
    data[frame.offset + HEAD_SIZE] ^= 1
    path.write_bytes(data)


def test_a_good_log_comes_out_the_same(tmp_path: Path) -> None:
    path, out = tmp_path / "a.b22", tmp_path / "b.b22"
    made = a_log(path, 6, index_every=5)
    with Writer(path, append=True, dictionary=None) as log:
        made += write_episodes(log, range(6, 8))
    found = recover(path, out)
    assert found.lossless and (found.turns, found.episodes, found.whole, found.incomplete) == (24, 8, 8, 0)
    read, damage = turns_of(out)
    assert read == made and not damage.damaged
    stored = [[f.payload for f in frames_of(one) if f.op in (Op.TURN, Op.EPISODE_END)] for one in (path, out)]
    assert stored[0] == stored[1], "payloads are kept bit for bit"
    with Reader(out) as reader, Reader(path) as before:
        assert reader.clean and reader.header == before.header
        assert list(reader.episodes()) == list(before.episodes())
        assert reader.prefix(reader.episode(0).begin.prefix_hash).token_ids == [1, 2, 3]
        assert (summarize(reader).sessions, summarize(reader).good) == (2, True)
    assert found.bytes_out == out.stat().st_size


@pytest.mark.parametrize("damaged", [False, True])
def test_the_new_log_has_as_many_records_as_verify_will_count(
    damaged: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "a.b22", tmp_path / "b.b22"
    a_log(path, 6, index_every=5)
    if damaged:
        flip(path, Op.TURN, 4)
    code, said, _ = call(capsys, "recover", path, "--out", out)
    told = said.partition("\n")[2]  # the first line is of the old log
    counts = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) (?:records|kept|marks|written)", told)]
    assert code == (3 if damaged else 0) and counts[0] == sum(counts[1:]) and counts[2] == damaged
    assert f"  {counts[0]} records, " in call(capsys, "verify", out)[1]


def test_what_is_lost_is_marked_and_the_new_log_is_good(tmp_path: Path) -> None:
    """A turn in the middle, the last turn, and a begin; appending goes on in the recovered log."""
    path, out = tmp_path / "a.b22", tmp_path / "b.b22"
    made = a_log(path, 4)
    for which in (1, 4):  # turn 1 of both; after the first flip the records are fewer, hence 5 - 1
        data, frame = bytearray(path.read_bytes()), [f for f in frames_of_damaged(path) if f.op == Op.TURN][which]
        data[frame.offset + HEAD_SIZE] ^= 1
        path.write_bytes(data)
    data = bytearray(path.read_bytes())
    begin = [frame for frame in frames_of_damaged(path) if frame.op == Op.EPISODE_BEGIN][2]
    data[begin.offset + HEAD_SIZE] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match=r"python -m recorder recover .*a\.b22"):
        Writer(path, append=True, dictionary=None)
    found = recover(path, out)
    assert not found.lossless and found.damage.bad_regions == 3 and found.marks == 3
    assert (found.turns, found.episodes, found.whole, found.incomplete, found.orphan_turns) == (10, 3, 1, 3, 3)
    gone = {(0, 1), (1, 2)}
    expected = [turn for turn in made if (turn.episode, turn.turn) not in gone]
    read, damage = turns_of(out)
    assert read == expected and not damage.damaged
    with Reader(out) as reader:
        summary = summarize(reader)
        assert summary.good and summary.gaps == 3 and summary.incomplete == 0
        episodes = {one.begin.episode: one for one in reader.episodes()}
        assert sorted(episodes) == [0, 1, 3] and [one.whole for one in episodes.values()] == [False, False, True]
        assert [(gap.turn, gap.lost) for gap in episodes[0].gaps] == [(1, 1)]
        assert [(gap.turn, gap.lost) for gap in episodes[1].gaps] == [(2, 1)]
        assert reader.episode(0) == episodes[0] and reader.episode(1) == episodes[1]
    with Writer(out, append=True, dictionary=None) as log:
        assert log.next_episode == 4, "the id of the episode whose begin is lost is not used again"
        write_episodes(log, range(4, 5))
    again = recover(out, tmp_path / "c.b22")
    assert again.lossless and again.incomplete == 3 and turns_of(tmp_path / "c.b22")[0] == turns_of(out)[0]


def frames_of_damaged(path: Path) -> list:  # type: ignore[type-arg]
    from recorder.scan import Damage, Source

    source = Source(path)
    found = list(source.frames(Damage()))
    source.close()
    return found


def test_flipped_at_every_tenth_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever byte is hit: recover keeps every other record, and its result is good."""
    monkeypatch.setattr(appender, "schema_json", lambda: "{}")
    path = tmp_path / "a.b22"
    a_log(path, index_every=6)
    data, frames = path.read_bytes(), frames_of(path)
    turns, _ = turns_of(path)
    offsets = [frame.offset for frame in frames if frame.op == Op.TURN]
    for at in range(0, len(data), 10):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        hit = next(frame for frame in frames if frame.end > at)
        out = tmp_path / f"{at}.b22"
        found = recover(path, out)
        read, damage = turns_of(out)
        assert read == [turn for turn, offset in zip(turns, offsets, strict=True) if offset != hit.offset], at
        assert not damage.damaged and found.damage.records == len(frames) - 1
        assert found.lossless == (hit is frames[-1] and not found.damage.bad_regions)
        with Reader(out) as reader:
            assert summarize(reader).good and reader.clean, at
        out.unlink()


def test_an_unfinished_end_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    made = a_log(path)
    last_turn = [frame for frame in frames_of(path) if frame.op == Op.TURN][-1]
    os.truncate(path, last_turn.end - 3)
    found = recover(path, tmp_path / "b.b22")
    assert found.lossless and found.damage.torn_bytes and turns_of(tmp_path / "b.b22")[0] == made[:-1]


def test_a_lent_dictionary_is_embedded_again(tmp_path: Path) -> None:
    trained = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)], 1024)
    path, out = tmp_path / "a.b22", tmp_path / "b.b22"
    made = a_log(path, dictionary=trained)
    data = bytearray(path.read_bytes())
    for frame in frames_of(path):
        if frame.op == Op.DICT:
            data[frame.offset + HEAD_SIZE] ^= 1
    path.write_bytes(data)
    without = recover(path, tmp_path / "none.b22")
    assert without.turns == 0 and without.dropped >= len(made) and not without.lossless
    other = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(300)], 1024)
    wrong = recover(path, tmp_path / "wrong.b22", dictionaries=[other[:4] + trained[4:8] + other[8:]])
    assert wrong.turns == 0 and "another one" in str(wrong.damage.first_error)
    recover(path, out, dictionaries=[trained])
    assert turns_of(out)[0] == made, "the new log needs no help"


def test_records_of_a_later_version_are_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "a.b22", tmp_path / "b.b22"
    a_log(path)
    extra_record(path, 200, b"of a later version")
    data = path.read_bytes()
    path.write_bytes(data + pack(Op.TURN, Flag.ZSTD | 0x40, frames_of(path)[-1].sequence + 1, b"in another form"))
    found = recover(path, out)
    assert found.unknown == 2 and found.lossless
    kept = [(f.op, f.flags, f.payload) for f in frames_of(out) if f.op == 200 or f.flags & 0x40]
    assert kept == [(200, 1, b"of a later version"), (Op.TURN, 0x41, b"in another form")]


def test_a_recovery_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "a.b22", tmp_path / "b.b22"
    a_log(path)
    for target in (path, tmp_path):
        with pytest.raises(LogExistsError, match="already there"):
            recover(path, target)
    (tmp_path / "notes").write_bytes(b"notes" * 50)
    with pytest.raises(NotALogError):
        recover(tmp_path / "notes", out)
    (tmp_path / "empty.b22").touch()
    with pytest.raises(NotALogError, match="nothing to recover"):
        recover(tmp_path / "empty.b22", out)
    with pytest.raises(OpenError):
        recover(path, tmp_path / "no" / "folder.b22")

    def full(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(appender.Appender, "close", full)
    with pytest.raises(KeyboardInterrupt):
        recover(path, out)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.b22", "empty.b22", "notes"]


def test_orphans_of_one_session_are_not_taken_for_anothers(tmp_path: Path) -> None:
    """A session that was killed leaves an episode open; nothing of a later session belongs to it."""
    path = tmp_path / "a.b22"
    log = Writer(path, dictionary=None, sync="none")
    log.begin_episode(a_begin(0))
    log.turn(a_turn(0, 0))
    log._log.abandon()
    with Writer(path, append=True, dictionary=None) as log:
        write_episodes(log, range(1, 2))
    found = recover(path, tmp_path / "b.b22")
    assert found.lossless and found.marks == 0 and (found.episodes, found.whole) == (2, 1)
