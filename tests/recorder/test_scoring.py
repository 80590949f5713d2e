"""Late rewards: new versions stand beside the recorded ones, and not a byte is rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from recorder import Amend, Episode, Reader, RecordError, RewardVersionError, Writer, rescore
from tests.recorder.making import a_begin, a_log, a_turn, an_end, turns_of


def doubled(episode: Episode) -> list[Mapping[str, float]]:
    return [{"found": 2 * turn.terms["found"], "speed": -float(turn.turn)} for turn in episode.turns]


def test_a_new_version_stands_beside_the_recorded_one(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    made = a_log(path, 3)
    before = path.read_bytes()
    done = rescore(path, doubled, "2", author="me")
    assert (done.episodes, done.turns, done.present, done.skipped) == (3, 9, 0, 0)
    assert path.read_bytes().startswith(before), "nothing is rewritten"
    assert turns_of(path)[0] == made
    with Reader(path) as reader:
        for episode in (*reader.episodes(), reader.episode(1)):
            assert episode.reward_version == "2"
            assert episode.terms(2) == {"found": 0.2, "speed": -2.0}, "in place of all terms: success is gone"
            assert episode.terms(2, "recorded") == {"found": 0.1, "success": 0.0}
            assert episode.rewards().tolist() == pytest.approx([0.2, 0.2 - 1, 0.2 - 2])
            assert episode.rewards("2").tolist() == episode.rewards().tolist()
            assert episode.rewards("recorded").tolist() == pytest.approx([0.1] * 3)
            assert episode.total() == pytest.approx(0.6 - 3) and episode.total("recorded") == pytest.approx(0.3)
            assert episode.terms() == pytest.approx({"found": 0.6, "speed": -3.0})
            with pytest.raises(RewardVersionError, match="not scored under reward version '3'; it has '2'"):
                episode.rewards("3")


def test_the_latest_wins_and_a_chosen_one_is_had(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path, 2)
    for version, gain in (("2", 2.0), ("3", 3.0)):
        rescore(path, lambda episode, gain=gain: [{"gain": gain}] * len(episode.turns), version)
    with Reader(path) as reader:
        episode = reader.episode(0)
        assert episode.total() == 9.0 and episode.total("2") == 6.0 and episode.total("3") == 9.0
        assert episode.reward_version == "3"


def test_a_rescoring_can_be_run_again(tmp_path: Path) -> None:
    """Interrupted after one episode; the second run does the others, and a third nothing."""
    path = tmp_path / "a.b22"
    a_log(path, 3)
    seen = []

    def interrupted(episode: Episode) -> list[Mapping[str, float]]:
        if seen:
            raise KeyboardInterrupt
        seen.append(episode)
        return doubled(episode)

    with pytest.raises(KeyboardInterrupt):
        rescore(path, interrupted, "2")
    done = rescore(path, doubled, "2")
    assert (done.episodes, done.present) == (2, 1)
    size = path.stat().st_size
    assert rescore(path, doubled, "2").present == 3
    with Reader(path) as reader:
        assert all(len(one.amends) == 1 for one in reader.episodes()) and not reader.damage.damaged
    assert path.stat().st_size > size, "a session of its own, without an AMEND"


def test_none_leaves_an_episode_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path, 3)
    done = rescore(path, lambda one: doubled(one) if one.begin.episode == 1 else None, "2")
    assert (done.episodes, done.skipped) == (1, 2)
    with Reader(path) as reader:
        assert [one.reward_version for one in reader.episodes()] == ["", "2", ""]


@pytest.mark.parametrize("version", ["", "latest", "recorded"])
def test_names_that_no_version_can_have(tmp_path: Path, version: str) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    before = path.read_bytes()
    with pytest.raises(RewardVersionError, match="can't be named"):
        rescore(path, doubled, version)
    assert path.read_bytes() == before


def test_bad_scores_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    with pytest.raises(RewardVersionError, match="episode 0: 1 scores for 3 turns"):
        rescore(path, lambda _: [{"x": 1.0}], "2")
    with pytest.raises(RecordError, match=r"turn_terms\['x'\] holds NaN"):
        rescore(path, lambda one: [{"x": float("nan")}] * 3, "2")
    with pytest.raises(RecordError, match="columns"):
        _put(path, Amend(episode=0, turn_terms={"a": [1.0], "b": [1.0, 2.0]}))
    with Reader(path) as reader:
        assert not reader.check().damaged and all(not one.amends for one in reader.episodes())


def _put(path: Path, amend: Amend) -> None:
    with Writer(path, append=True, dictionary=None) as log:
        log.amend(amend)


def test_terms_of_turns_and_of_the_episode_worked_out_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        for at in range(3):
            log.turn(a_turn(0, at, terms={"a": 1.0, "b": float(at)}))
        log.end_episode(an_end(0, 3, terms={"a": 3.0, "b": 3.0}, total_reward=6.0))
        log.amend(Amend(episode=0, turn=1, terms={"b": 5.0, "c": 0.5}, labels={"x": "turn"}))
        log.amend(Amend(episode=0, terms={"a": 4.0, "late": 2.0}, labels={"seen": "yes"}))
    with Reader(path) as reader:
        (episode,) = reader.episodes()
    assert episode.terms(1) == {"a": 1.0, "b": 5.0, "c": 0.5}
    assert episode.terms() == {"a": 4.0, "b": 7.0, "c": 0.5, "late": 2.0}
    # turn 1 earned 1 + 5 + 0.5; the episode's 1 more of a and 2 of late count at the last turn
    assert episode.rewards().tolist() == [1.0, 6.5, 3.0 + 3.0]
    assert episode.total() == 13.5 == sum(episode.terms().values())
    assert episode.rewards("recorded").tolist() == [1.0, 2.0, 3.0]
    assert episode.labels == {"seen": "yes"}


def test_lost_turns_keep_their_places(tmp_path: Path) -> None:
    """A column's place is the turn's number, also where a turn is lost from the log."""
    episode = Episode(a_begin(0), [a_turn(0, 0), a_turn(0, 2)], None, [])
    from recorder.scoring import columns

    table = columns(episode, [{"x": 1.0}, {"x": 3.0}])
    assert table == {"x": [1.0, 0.0, 3.0]}
    scored = Episode(episode.begin, episode.turns, None, [Amend(episode=0, turn_terms=table, reward_version="2")])
    assert np.array_equal(scored.rewards(), [1.0, 3.0])
