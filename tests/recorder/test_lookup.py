"""Episodes found through the tree of INDEX records: the same as a scan finds, in few reads, whatever the order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recorder import Amend, DamagedLogError, Reader, Writer, lookup, recover, reopen, scan, tally
from recorder.framing import HEAD_SIZE, Op, pack
from recorder.scan import Source
from recorder.summary import overview, summarize
from tests.recorder.making import a_begin, a_turn, an_end, frames_of, turns_of, write_episodes


@pytest.fixture(autouse=True)
def small_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three branches a list, so that a small log has a tree of several levels."""
    monkeypatch.setattr(lookup, "FAN", 3)


def tangled(log: Writer, ids: list[int], seed: int) -> None:
    """Episodes of 0 to 5 turns that interleave, end in any order or never, and are amended at any time."""
    dice = random.Random(seed)
    left = {one: dice.randrange(6) for one in ids}
    waiting, following = list(ids), {}
    ended: list[int] = []
    while waiting or following:
        kind = dice.randrange(8)
        if kind == 0 and ended:
            one = dice.choice(ended)
            log.amend(Amend(episode=one, terms={"late": dice.random()}))
        elif waiting and (kind < 3 or not following):
            one = waiting.pop(0)
            log.begin_episode(a_begin(one))
            following[one] = 0
        elif following:
            one = dice.choice(list(following))
            if following[one] < left[one]:
                log.turn(a_turn(one, following[one], prompt_ids=[], legal=[], probs=b""))
                following[one] += 1
            else:
                turns = following.pop(one)
                if dice.random() < 0.9:
                    log.end_episode(an_end(one, turns))
                    ended.append(one)


def agrees_with_a_scan(path: Path, ids: list[int], closed: bool) -> None:
    with Reader(path) as through, Reader(path) as scanning:
        scanning.catalog.distrust()
        assert through.catalog.partial == closed and scanning.catalog.scanned
        expected = {one.begin.episode: one for one in scanning.episodes()}
        assert sorted(expected) == sorted(ids)
        assert {one.begin.episode: one for one in through.episodes()} == expected
        for one in random.Random(1).sample(ids, len(ids)):
            assert through.episode(one) == scanning.episode(one) == expected[one], one
        assert not through.catalog.scanned or not closed, "the tree was enough"
        for absent in (max(ids) + 1, 2**62):
            with pytest.raises(KeyError, match=f"no episode {absent}"):
                through.episode(absent)
        assert through.episode_ids() == scanning.episode_ids()


@pytest.mark.parametrize("every", [1, 3, 20])
def test_the_tree_finds_what_a_scan_finds(tmp_path: Path, every: int) -> None:
    path = tmp_path / "a.b22"
    ids = list(range(30))
    with Writer(path, dictionary=None, sync="none", index_every=every) as log:
        tangled(log, ids, every)
    agrees_with_a_scan(path, ids, True)
    more = [*range(60, 75), *random.Random(0).sample(range(1000, 2**40), 10)]
    with Writer(path, append=True, dictionary=None, sync="none", index_every=every, check="tail") as log:
        tangled(log, more, 7)
    agrees_with_a_scan(path, ids + more, True)
    indexes = [frame for frame in frames_of(path) if frame.op == Op.INDEX]
    with Reader(path) as reader:
        root = reader._store.index_at(indexes[-1].offset)
        assert root is not None and (every > 1 or len(root.levels) >= 3), "a tree of several levels was tried"
        assert all(len(one) <= 3 for one in root.levels)


def test_an_unclean_end_behind_the_last_index(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    ids = list(range(25))
    with Writer(path, dictionary=None, sync="none", index_every=10) as log:
        tangled(log, ids, 3)
    data, frames = path.read_bytes(), frames_of(path)
    for frame in frames[-60::15]:
        path.write_bytes(data[: frame.end - 2])
        with Reader(path) as reader:
            have = reader.episode_ids()
        agrees_with_a_scan(path, have, True)


def test_few_reads_however_long_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none", index_every=4) as log:
        for one in range(400):
            log.begin_episode(a_begin(one))
            log.end_episode(an_end(one, 0))
    assert [frame.op for frame in frames_of(path)].count(Op.INDEX) > 150
    reads = []
    frame_at = Source.frame_at

    def counting(source: Source, offset: int):  # type: ignore[no-untyped-def]
        reads.append(offset)
        return frame_at(source, offset)

    for episode in (0, 123, 399):
        with Reader(path) as reader:
            _ = reader.catalog
            monkeypatch.setattr(Source, "frame_at", counting)
            reads.clear()
            assert reader.episode(episode).begin.seed == episode + 100
            monkeypatch.undo()
            monkeypatch.setattr(lookup, "FAN", 3)
        assert len(reads) < 12, "begin, end, and an INDEX or two a level"


def test_a_damaged_index_costs_time_alone(tmp_path: Path) -> None:
    """Each INDEX in turn: lookups through it scan, and what is read is the same."""
    path = tmp_path / "a.b22"
    ids = list(range(20))
    with Writer(path, dictionary=None, sync="none", index_every=12) as log:
        tangled(log, ids, 5)
    data = path.read_bytes()
    with Reader(path) as reader:
        expected = {one: reader.episode(one) for one in ids}
    for frame in (frame for frame in frames_of(path) if frame.op == Op.INDEX):
        path.write_bytes(data[: frame.offset + 20] + bytes([data[frame.offset + 20] ^ 1]) + data[frame.offset + 21 :])
        with Reader(path) as reader:
            assert {one: reader.episode(one) for one in ids} == expected
        with Reader(path) as reader:
            assert {one.begin.episode: one for one in reader.episodes()} == expected


def test_an_overview_says_what_a_pass_says(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    ids = list(range(50))
    with Writer(path, dictionary=None, sync="none", index_every=10) as log:
        prefix = log.add_prefix("You run errands.", [1])
        write_episodes(log, range(100, 103), 2, run="r", update=3, prefix_hash=prefix)
        write_episodes(log, range(103, 105), 1, run="r", update=3, attempt=1, policy="nano", scenario="other")
        tangled(log, ids, 2)
    data = path.read_bytes()
    for length in (len(data), len(data) - 10, len(data) - 700):
        path.write_bytes(data[:length])
        with Reader(path) as reader:
            quick, full = overview(reader), summarize(reader)
            assert not quick.checked and full.checked and quick.abandoned == 3
            quick.checked = True
            quick.incomplete = full.incomplete
            assert quick.plain() == full.plain()


def test_an_index_that_hides_an_episode_from_within_another_record(tmp_path: Path) -> None:
    """An earlier log's INDEX and FOOTER as bytes of an unknown record: its tree doesn't know the later episodes."""
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        write_episodes(log, range(3))
    data, frames = path.read_bytes(), frames_of(path)
    with Writer(path, append=True, dictionary=None, sync="none") as log:
        write_episodes(log, range(3, 6))
    count = len(frames_of(path))
    path.write_bytes(path.read_bytes() + pack(99, 0, count, data[frames[-2].offset :]))
    with Reader(path) as reader:
        assert reader.catalog.partial and reader.episode(5).whole and reader.catalog.scanned


def test_names_and_ranges_without_end_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "NAMES", 3)
    monkeypatch.setattr(tally, "RANGES", 5)
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none", index_every=5) as log:
        for one in range(0, 40, 2):  # no two ids in a row
            write_episodes(log, range(one, one + 1), 1, policy=f"p{one}")
    with Reader(path) as reader:
        assert not reader.catalog.partial, "ids were left out, so that the log is read"
        assert reader.catalog.tally.policies == {"p0": 1, "p2": 1, "p4": 1, "(others)": 17}
        assert all(reader.episode(one).whole for one in range(0, 40, 2))
    with Writer(path, append=True, dictionary=None) as log:
        assert log.next_episode == 39
        with pytest.raises(ValueError, match="already in the log"):
            log.begin_episode(a_begin(20))
        write_episodes(log, range(39, 40))
    with Reader(path) as reader:
        assert reader.episode(39).whole and reader.episode(0).whole


def test_a_long_log_is_not_read_to_be_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none", index_every=10) as log:
        write_episodes(log, range(60))
    size = path.stat().st_size
    monkeypatch.setattr(reopen, "WHOLE", size - 1)
    monkeypatch.setattr(scan, "BLOCK", 4000)
    monkeypatch.setattr(scan, "FIRST_BLOCK", 1000)
    read = []
    pread = Source._pread
    monkeypatch.setattr(Source, "_pread", lambda one, offset, count: read.append(count) or pread(one, offset, count))
    with Writer(path, append=True, dictionary=None, sync="none", index_every=10) as log:
        assert sum(read) < size / 3, "far less than the whole file"
        assert log.next_episode == 60 and log.status.turns == 180
        with pytest.raises(ValueError, match="already in the log"):
            log.begin_episode(a_begin(17))
        write_episodes(log, range(60, 80))
    monkeypatch.undo()
    read_back, damage = turns_of(path)
    assert len(read_back) == 240 and not damage.damaged
    agrees_with_a_scan(path, list(range(80)), True)
    with Reader(path) as reader:
        assert reader.footer is not None and (reader.footer.turns, reader.footer.episodes) == (240, 80)


def test_damage_far_back_is_met_by_a_whole_check_and_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none", index_every=10) as log:
        write_episodes(log, range(30))
    data = bytearray(path.read_bytes())
    data[[frame for frame in frames_of(path) if frame.op == Op.TURN][5].offset + HEAD_SIZE + 2] ^= 1
    path.write_bytes(data)
    for check in ("auto", "whole"):
        with pytest.raises(DamagedLogError, match=r"damaged in the middle.*recorder recover"):
            Writer(path, append=True, dictionary=None, check=check)  # type: ignore[arg-type]
    monkeypatch.setattr(reopen, "WHOLE", 100)
    log = Writer(path, append=True, dictionary=None)  # the end is whole: nothing there is buried
    write_episodes(log, range(30, 31))
    log._log.abandon()
    read, damage = turns_of(path)
    assert len(read) == 92 and (damage.bad_regions, damage.missing) == (1, 1), "the damage is neither hidden nor larger"
    assert recover(path, tmp_path / "b.b22").turns == 92
    data = bytearray(path.read_bytes())
    data[[f for f in _frames(path) if f.op == Op.TURN][-1].offset + HEAD_SIZE + 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedLogError):
        Writer(path, append=True, dictionary=None, check="tail").close()


def _frames(path: Path) -> list:  # type: ignore[type-arg]
    from recorder.scan import Damage

    source = Source(path)
    found = list(source.frames(Damage()))
    source.close()
    return found
