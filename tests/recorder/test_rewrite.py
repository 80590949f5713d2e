"""`merge`, `migrate` and `recover`: new logs out of old ones, and nothing lost on the way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from recorder import Amend, Gap, Header, Op, Reader, Writer
from recorder.appender import Appender
from recorder.framing import MINOR
from recorder.rewrite import MergeError, merge, migrate
from tests.recorder.calling import call
from tests.recorder.making import a_begin, a_log, a_turn, extra_record, frames_of, write_episodes

GOLDEN = Path(__file__).parent / "golden" / "format-1.b22"


def content(path: Path) -> list[object]:
    """What a reader gets of it, without what only helps reading."""
    with Reader(path) as reader:
        found = [record for _, record in reader.records() if not isinstance(record, Header)]
        assert not reader.damage.damaged
    ops = ("Schema", "Dictionary", "Prefix", "Index", "Footer")
    return [record for record in found if type(record).__name__ not in ops]


def test_migrate_keeps_every_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of format 1: two sessions, an AMEND, another dictionary."""
    out = tmp_path / "new.b22"
    code, printed, said = call(capsys, "migrate", GOLDEN, "--out", out)
    assert (code, said) == (0, "") and content(out) == content(GOLDEN)
    assert "2 sessions, 3 episodes, 8 turns, 1 amends, all read back alike" in printed
    with Reader(GOLDEN) as old, Reader(out) as new:
        before, after = ([r for _, r in one.records({Op.HEADER})] for one in (old, new))
        for was, now in zip(before, after, strict=True):
            assert isinstance(was, Header) and isinstance(now, Header)
            assert now == replace(was, minor=MINOR, dictionaries=now.dictionaries) and now.dictionaries
        assert old.prefix(old.episode(0).begin.prefix_hash) == new.prefix(new.episode(0).begin.prefix_hash)
        assert new.clean
    found = json.loads(call(capsys, "migrate", GOLDEN, "--out", tmp_path / "b.b22", "--json")[1])
    assert found["format"] == 1 and found["sources"][0]["turns"] == 8
    with Writer(out, append=True, sync="none") as log:  # and goes on
        write_episodes(log, range(9, 10))


def test_migrate_finds_what_did_not_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Appender.put

    def forgetful(log: Appender, record: object) -> None:
        if not (isinstance(record, Amend)):
            put(log, record)  # type: ignore[arg-type]

    monkeypatch.setattr(Appender, "put", forgetful)
    with pytest.raises(MergeError, match="Amend of episode 0 does not read back"):
        migrate(GOLDEN, tmp_path / "new.b22")
    assert not os.listdir(tmp_path)


def test_merge_renumbers_and_keeps_groups_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, out = tmp_path / "a.b22", tmp_path / "b.b22", tmp_path / "all.b22"
    a_log(a, episodes=3)  # groups g0, g0, g1
    with Writer(b, header=Header(program="other", engine_version="9"), dictionary=None, sync="none") as log:
        prefix = log.add_prefix("Another prefix.", [7])
        write_episodes(log, range(2), 2, prefix_hash=prefix)  # group g0
        log.amend(Amend(episode=1, turn=0, terms={"found": 5.0}, labels={"by": "hand"}, author="me"))
        log.begin_episode(a_begin(7, group="mine"))
        log.turn(a_turn(7, 0))
    code, printed, said = call(capsys, "merge", a, b, "--out", out)
    assert (code, said) == (0, "")
    assert "b.b22: 3 episodes, 5 turns, 1 amends; episode ids + 3; 1 groups renamed" in printed
    with Reader(out) as merged, Reader(a) as first, Reader(b) as second:
        assert merged.episode_ids() == [0, 1, 2, 3, 4, 10]
        assert merged.episode(1) == first.episode(1)
        late = merged.episode(4)
        assert late.begin.group == "g0~2" and late.begin.seed == second.episode(1).begin.seed
        assert late.terms(0)["found"] == 5.0 and late.labels == {} and late.amends[0].author == "me"
        assert late.turns[0].observation == second.episode(1).turns[0].observation
        assert merged.prefix(late.begin.prefix_hash).text == "Another prefix."
        assert merged.episode(10).end is None and merged.episode(10).begin.group == "mine"
        headers = [record for _, record in merged.records({Op.HEADER})]
        assert [one.program for one in headers if isinstance(one, Header)] == [first.header.program, "other"]  # type: ignore[union-attr]
    code, _, _ = call(capsys, "verify", out)
    assert code == 0


def test_merge_of_three_never_joins_groups(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.b22" for name in "abc"]
    for path, group in zip(paths, ("g", "g~2", "g"), strict=True):
        with Writer(path, dictionary=None, sync="none") as log:
            write_episodes(log, range(2), 1, group=group)
    merge(paths, tmp_path / "all.b22")
    with Reader(tmp_path / "all.b22") as reader:
        groups = [episode.begin.group for episode in reader.episodes()]
    assert len(set(groups)) == 3 and [groups.count(one) for one in groups] == [2] * 6


def test_merge_keeps_gaps_and_interleaving(tmp_path: Path) -> None:
    a, b = tmp_path / "a.b22", tmp_path / "b.b22"
    a_log(a)
    with Writer(b, dictionary=None, sync="none") as log:
        log.begin_episode(a_begin(0))
        log.begin_episode(a_begin(1))
        for at in range(2):
            log.turn(a_turn(1, at))
            log.turn(a_turn(0, at))
        log._log.put(Gap(episode=0, turn=2, lost=3, reason="disk was full"))
    merge([a, b], tmp_path / "all.b22")
    with Reader(tmp_path / "all.b22") as reader:
        assert [turn.episode for turn in reader.turns()][-4:] == [3, 2, 3, 2]
        assert reader.episode(2).gaps[0].lost == 3 and not reader.episode(3).gaps


def test_merge_refuses_what_it_would_spoil(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, link, out = tmp_path / "a.b22", tmp_path / "link.b22", tmp_path / "all.b22"
    a_log(a)
    link.symlink_to(a)
    code, _, said = call(capsys, "merge", a, link, "--out", out)
    assert code == 2 and "is the same log as" in said and said.count("\n") == 1
    later = tmp_path / "later.b22"
    shutil.copy(a, later)
    extra_record(later, 200, b"of a later version")
    code, _, said = call(capsys, "merge", a, later, "--out", out)
    assert code == 2 and "1 records of a later version" in said
    last = tmp_path / "last.b22"
    with Writer(last, dictionary=None, sync="none") as log:
        write_episodes(log, range(2**63 - 1, 2**63), 1, seed=1)
    code, _, said = call(capsys, "merge", a, last, "--out", out)
    assert code == 2 and "above the largest id; name this log first" in said
    assert not out.exists()
    assert call(capsys, "merge", last, "--out", out)[0] == 0  # alone, its ids stay


# ---------------------------------------------------------------- recover


def test_recover(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "a.b22", tmp_path / "new.b22"
    a_log(path, episodes=3)
    whole = tmp_path / "whole.b22"
    code, printed, said = call(capsys, "recover", path, "--out", whole)
    assert (code, said) == (0, "") and "nothing lost" in printed and content(whole) == content(path)
    data = bytearray(path.read_bytes())
    turn = [frame for frame in frames_of(path) if frame.op == Op.TURN][4]
    data[turn.offset + 30] ^= 1
    path.write_bytes(data)
    before = path.read_bytes()
    code, printed, said = call(capsys, "recover", path, "--out", out)
    assert (code, said) == (3, "") and path.read_bytes() == before
    assert "damaged: " in printed and "3 (2 whole, 1 known to miss turns and marked)" in printed
    assert call(capsys, "verify", out)[0] == 0  # whole in itself, and says what it lacks
    code, printed, _ = call(capsys, "recover", path, "--out", tmp_path / "again.b22", "--json")
    assert code == 3 and not json.loads(printed)["lossless"] and json.loads(printed)["turns"] == 8


def test_recover_a_torn_tail_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "a.b22", tmp_path / "new.b22"
    a_log(path)
    last = frames_of(path)[-1]
    path.write_bytes(path.read_bytes()[: last.offset + 7])
    code, printed, _ = call(capsys, "recover", path, "--out", out)
    assert code == 0 and "7 bytes of an unfinished record left out" in printed
