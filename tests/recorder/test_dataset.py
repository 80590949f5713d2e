"""Logs as a training set: what is chosen, how it is grouped, and what is in the arrays."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from recorder import Dataset, OpenError, PrefixNotFoundError, RecordError, RewardVersionError, Writer, rescore
from recorder.dataset import DatasetError
from recorder.shuffling import shuffled
from tests.recorder.making import a_begin, a_log, a_turn, an_end, write_episodes


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Six episodes of 1 to 6 turns; even ones fail; three policies; two options."""
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        prefix = log.add_prefix("You run errands.", [1, 2])
        for one in range(6):
            log.begin_episode(
                a_begin(one, policy="abc"[one % 3], options={"difficulty": str(one % 2), "map": "m"},
                        group=f"g{one // 2}", group_size=2, prefix_hash=prefix)
            )  # fmt: skip
            for at in range(one + 1):
                log.turn(a_turn(one, at, terms={"found": float(at), "cost": -0.5}))
            log.end_episode(an_end(one, one + 1, success=bool(one % 2), ended="success" if one % 2 else "turn_cap"))
    return path


def ids(data: Dataset) -> list[int]:
    return [episode.begin.episode for episode in data]


def test_where(mixed: Path) -> None:
    data = Dataset(mixed)
    assert ids(data) == [0, 1, 2, 3, 4, 5] == ids(data), "each pass reads anew"
    assert ids(data.where(success=True)) == [1, 3, 5]
    assert ids(data.where(policy=["a", "b"])) == [0, 1, 3, 4]
    assert ids(data.where(options={"difficulty": "0"})) == [0, 2, 4]
    assert ids(data.where(success=True).where(policy="b")) == [1]
    assert ids(data.where(lambda one: len(one.turns) > 4, success=True)) == [5]
    assert ids(data.where(turns=(2, 3))) == [1, 2]
    # returns: found 0+1+…+n, and -0.5 a turn
    assert ids(data.where(min_return=1.6)) == [3, 4, 5] and ids(data.where(max_return=0.0)) == [0, 1]
    assert ids(data.where(ended="won")) == []
    with pytest.raises(DatasetError, match=r"no field 'reward'; there are .*policy.*min_return"):
        data.where(reward=1)


def test_an_episode_that_never_ended_has_no_end_to_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0))
        write_episodes(log, range(1, 2))
    assert ids(Dataset(path)) == [1, 0]
    assert ids(Dataset(path).where(success=False)) == [] and ids(Dataset(path).where(whole=False)) == [0]


def test_batches_hold_every_turn_once_with_its_shapes(mixed: Path) -> None:
    batches = list(Dataset(mixed).batches(8))
    assert [len(one) for one in batches] == [8, 8, 5]
    assert [len(one) for one in Dataset(mixed).batches(8, drop_last=True)] == [8, 8]
    first = batches[0]
    assert first.prompt_ids.shape == (8, 40) and first.prompt_ids.dtype == np.int32
    assert first.sampled_ids.shape == (8, 3) and first.logps.shape == (8, 3) and first.probs.shape == (8, 9)
    assert first.logps.dtype == first.probs.dtype == first.reward.dtype == np.float32
    for row, turn in enumerate(first.turns):
        assert first.prompt_ids[row, : first.prompt_len[row]].tolist() == turn.prompt_ids
        assert first.logps[row, : first.logps_len[row]].tobytes() == turn.logps, "bit for bit"
        assert first.probs[row, : first.legal_len[row]].tobytes() == turn.probs
        assert turn.legal[first.action[row]] == turn.executed
        assert first.logprob[row] == np.float32(turn.logprob) and first.tau[row] == np.float32(0.8)
    assert [(int(one.episode[i]), int(one.turn[i])) for one in batches for i in range(len(one))] == [
        (episode, turn) for episode in range(6) for turn in range(episode + 1)
    ]
    # episodes 0 to 2, by hand: found is 0, 1, 2 … and cost is -0.5
    assert first.reward[:6].tolist() == [-0.5, -0.5, 0.5, -0.5, 0.5, 1.5]
    assert first.return_to_go[:6].tolist() == [-0.5, 0.0, 0.5, 1.5, 2.0, 1.5]
    assert first.episode_return[:6].tolist() == [-0.5, 0.0, 0.0, 1.5, 1.5, 1.5]
    assert first.terms["found"][:6].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0, 2.0]
    assert first.last[:6].tolist() == [True, False, True, False, False, True]
    assert first.success[:6].tolist() == [False, True, True, False, False, False]
    assert first.group[:8].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert [begin.policy for begin in first.begins[:3]] == ["a", "b", "b"]


def test_padding_is_zero_and_the_odd_ones_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0, prompt_ids=[7], sampled_ids=[], logps=b"", executed="dance", fallback=True))
        log.turn(a_turn(0, 1, legal=[], probs=b"", greedy=True, terms={}))
    (batch,) = Dataset(path).batches(10)
    assert batch.prompt_ids[0].tolist() == [7] + [0] * 39 and batch.prompt_len.tolist() == [1, 40]
    assert batch.sampled_len.tolist() == [0, 3] == batch.logps_len.tolist() and not batch.logps[0].any()
    assert batch.action.tolist() == [-1, -1] and batch.legal_len.tolist() == [9, 0]
    assert batch.fallback.tolist() == [True, False] and batch.greedy.tolist() == [False, True]
    assert batch.terms["found"].tolist() == pytest.approx([0.1, 0.0])
    with Writer(path, dictionary=None, append=True) as log:
        log.begin_episode(a_begin(1))
        log.turn(a_turn(1, 0, prompt_ids=[2**31]))
    with pytest.raises(RecordError, match="a token id is no int32"):
        list(Dataset(path).batches(10))


def test_a_shuffle_is_its_seeds_and_loses_nothing(mixed: Path) -> None:
    def order(seed: int | None, buffer: int = 8192) -> list[tuple[int, int]]:
        batches = Dataset(mixed).batches(4, shuffle=seed, buffer=buffer)
        return [(int(e), int(t)) for one in batches for e, t in zip(one.episode, one.turn, strict=True)]

    plain = order(None)
    for buffer in (8192, 5, 1):
        assert order(3, buffer) == order(3, buffer) and sorted(order(3, buffer)) == plain
    assert order(3) != plain != order(4) and order(3) != order(4) and order(3, 5) != plain
    assert order(3, 1) == plain
    assert Counter(shuffled(range(1000), 0, 10)) == Counter(range(1000))
    with pytest.raises(DatasetError):
        list(Dataset(mixed).batches(0))


def test_groups_come_when_their_last_episode_has(tmp_path: Path) -> None:
    """Groups interleave; g9 never gets its third episode."""
    path = tmp_path / "a.b22"
    members = ["g0", "g9", "g1", "g0", "g1", "g9", "g0", "", "g1"]
    with Writer(path, dictionary=None) as log:
        for number, name in enumerate(members):
            log.begin_episode(a_begin(number, group=name, group_size=3))
            log.end_episode(an_end(number, 0))
    found = [(group.id, [one.begin.episode for one in group.episodes], group.whole) for group in Dataset(path).groups()]
    assert found == [("g0", [0, 3, 6], True), ("", [7], True), ("g1", [2, 4, 8], True), ("g9", [1, 5], False)]
    early = [(group.id, len(group.episodes)) for group in Dataset(path).groups(window=5)]
    assert early == [("g0", 2), ("g9", 2), ("", 1), ("g1", 3), ("g0", 1)]


def test_several_logs_and_the_latest_attempt_in_any_of_them(tmp_path: Path) -> None:
    """The resume wrote a log of its own: what it went back behind is left out of the first."""
    one, two = tmp_path / "1.b22", tmp_path / "2.b22"
    with Writer(one, dictionary=None) as log:
        for update in range(4):
            write_episodes(log, range(update, update + 1), 2, run="r", update=update)
        write_episodes(log, range(9, 10), 1, run="other", update=9)
    with Writer(two, dictionary=None) as log:
        write_episodes(log, range(1), 3, run="r", update=2, attempt=1)
    data = Dataset([one, two])
    assert [(len(e.turns), e.begin.update) for e in data] == [(2, 0), (2, 1), (1, 9), (3, 2)]
    assert len(list(Dataset([one, two], attempts="all"))) == 6 and len(list(Dataset(one))) == 5
    (batch,) = data.batches(100)
    assert batch.source.tolist() == [0] * 5 + [1] * 3
    with pytest.raises(OpenError, match="none"):
        Dataset([one, tmp_path / "none.b22"])
    with pytest.raises(DatasetError, match="'latest' or 'all'"):
        Dataset(one, attempts="newest")  # type: ignore[arg-type]


def test_rewards_of_a_chosen_version(mixed: Path) -> None:
    rescore(mixed, lambda one: [{"flat": 2.0}] * len(one.turns) if one.success else None, "2")
    assert sum(batch.reward.sum() for batch in Dataset(mixed, rewards="recorded").batches(9)) == pytest.approx(24.5)
    data = Dataset(mixed, rewards="2").where(success=True)
    assert sum(batch.reward.sum() for batch in data.batches(9)) == 24.0 and ids(data.where(min_return=5)) == [3, 5]
    with pytest.raises(RewardVersionError, match="episode 0 was not scored under reward version '2'"):
        list(Dataset(mixed, rewards="2").batches(4))


def test_prefixes(mixed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.b22"
    a_log(other)
    data = Dataset([other, mixed])
    digests = {episode.begin.prefix_hash for episode in data}
    assert sorted(data.prefix(one).token_ids for one in digests) == [[1, 2], [1, 2, 3]]
    with pytest.raises(PrefixNotFoundError):
        data.prefix("00")


def test_a_pass_takes_constant_memory(tmp_path: Path) -> None:
    peaks = []
    for episodes in (100, 500):
        path = tmp_path / f"{episodes}.b22"
        a_log(path, episodes)
        rescore(path, lambda one: [{"flat": 2.0}] * len(one.turns), "2")
        tracemalloc.start()
        assert sum(len(one) for one in Dataset(path).batches(32, shuffle=0, buffer=64)) == 3 * episodes
        assert sum(len(one.episodes) for one in Dataset(path).groups()) == episodes
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300_000, peaks
