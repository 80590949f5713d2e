"""What of a batch is learned from: only what was sampled has a ratio, and no episode that is needed whole is cut."""

from __future__ import annotations

import math

import numpy as np
import pytest

from recorder import Turn, pack_floats
from rl.credit import Credited
from rl.losses import Counts
from rl.rollout import Episode, Plan
from rl.share import make_share, sampled
from rl.weights import Spread, spread_of


def turn(number: int = 0, **how) -> Turn:
    given = {
        "episode": 0, "turn": number, "observation": "o", "proposed": "a", "executed": "a",
        "prompt_ids": [1] * (3 + number), "sampled_ids": [1], "logps": pack_floats([-0.5]), "tau": 1.0,
        "legal": ["a", "b"], "probs": pack_floats([0.6, 0.4]),
    }  # fmt: skip
    return Turn(**(given | how))


def episode(*turns: Turn) -> Episode:
    return Episode(Plan(0, {}, "g", ""), {}, list(turns), "success")


NOT_SAMPLED = {
    "greedy": {"greedy": True},
    "fallback": {"fallback": True},
    "a person, who has no probabilities": {"logps": b"", "prompt_ids": []},
    "another policy, before a fork": {"player": "nano:fetch_item"},
    "replaced": {"executed": "b"},
    "not a number": {"logps": np.array([np.nan], dtype="<f4").tobytes()},
}


@pytest.mark.parametrize("how", NOT_SAMPLED)
def test_what_was_not_sampled_never_enters_the_ratio(how):
    odd = turn(1, **NOT_SAMPLED[how])
    assert sampled(turn()) and not sampled(odd)
    credit = [Credited(np.ones(2))]
    without = make_share([episode(turn(), odd)], credit, 64)
    assert without.turns == [turn()] and without.imitated == [False]
    assert without.length == [1]
    imitated = make_share([episode(turn(), odd)], credit, 64, imitate=True)
    flags = dict(zip([t.turn for t in imitated.turns], imitated.imitated, strict=True))
    assert flags == {0: False, 1: True}


def test_an_illegal_proposal_is_left_out_even_of_imitation():
    odd = turn(1, proposed="fly", executed="fly")
    share = make_share([episode(turn(), odd)], [Credited(np.ones(2))], 64, imitate=True)
    assert share.turns == [turn()]


def test_a_turn_that_does_not_count_is_left_out_and_its_episode_is_the_shorter():
    share = make_share([episode(turn(0), turn(1), turn(2))], [Credited(np.arange(3.0), np.array([False, True, True]))],
                       64)  # fmt: skip
    assert share.advantage == [1.0, 2.0]
    assert share.length == [2, 2]
    assert (share.counts.episodes, share.counts.rows) == (1, 2)


def test_batches_cover_every_turn_once_and_cut_no_episode_that_is_needed_whole():
    played = [episode(*(turn(n) for n in range(length))) for length in (3, 5, 1, 4, 2, 9, 1)]
    credit = [Credited(np.ones(len(e.turns))) for e in played]
    for whole in (False, True):
        share = make_share(played, credit, 6, whole)
        covered = [i for at in share.batches for i in range(at.start, at.stop)]
        assert covered == list(range(25))
        cuts = [len({share.episode[at.start - 1], share.episode[at.start]}) == 2 for at in share.batches[1:]]
        if whole:
            assert all(cuts)
            assert [at.stop - at.start for at in share.batches] == [3, 6, 6, 9, 1]
        else:
            assert [at.stop - at.start for at in share.batches] == [5, 5, 5, 5, 5]  # evenly, six at most


def test_a_batch_has_the_recorded_log_probability_and_its_action():
    share = make_share([episode(turn(proposed="b", executed="b", logps=pack_floats([-0.25, -0.5])))],
                       [Credited(np.array([2.0]))], 64)  # fmt: skip
    batch = share.batch(slice(0, 1), None)
    assert batch.chosen_N.item() == 1
    assert batch.behaviour_logp_N.item() == -0.75
    assert batch.advantage_N.item() == 2.0


def test_effective_sample_size_by_hand():
    # weights 2, 1 | 1: by turn (4² / 6) / 3; by episode 2 and 1: (3² / 5) / 2
    found = spread_of(np.log([2.0, 1.0, 1.0]), [0, 0, 1], [False] * 3)
    assert found.by_turn == pytest.approx(16 / 6 / 3)
    assert found.by_episode == pytest.approx(9 / 5 / 2)
    assert spread_of(np.zeros(5), [0, 0, 1, 1, 2], [False] * 5).by_episode == pytest.approx(1.0)


def test_imitated_turns_have_no_weight_and_shares_add_up():
    found = spread_of(np.array([5.0, 0.0]), [0, 1], [True, False])
    assert found.by_turn == 1.0
    assert Spread().by_turn is None
    a, b = spread_of(np.log([2.0]), [0], [False]), spread_of(np.log([1.0]), [0], [False])
    assert (a + b).by_turn == pytest.approx(spread_of(np.log([2.0, 1.0]), [0, 1], [False, False]).by_turn)


def test_a_policy_that_is_far_away_has_a_size_and_no_overflow():
    found = spread_of(np.array([4000.0, -4000.0]), [0, 1], [False, False])
    assert found.by_turn is not None and math.isfinite(found.by_turn)
    assert found.by_turn == pytest.approx(0.5)


def test_what_teaches_nothing_is_counted_and_left_out_before_the_forward():
    credit = [Credited(np.array([0.0, 1.0, 0.0])), Credited(np.zeros(2))]
    played = [episode(turn(0), turn(1), turn(2)), episode(turn(0), turn(1))]
    every, some = (make_share(played, credit, 64, idle=idle) for idle in (True, False))
    assert some.turns == [turn(1)] and len(every.turns) == 5
    assert some.counts == every.counts == Counts(2, 5)
    assert some.length == [3] and (every.shown, some.shown) == (1.0, pytest.approx(1 / 6))
    # imitation learns from an advantage of 0 too; an episode's ratio needs all of its turns
    shown = make_share([episode(turn(0), turn(1, greedy=True))], [Credited(np.zeros(2))], 64, imitate=True, idle=False)
    assert shown.turns == [turn(1, greedy=True)]
    assert len(make_share(played, credit, 64, whole_episodes=True, idle=False).turns) == 5


def test_batches_hold_so_many_tokens_each_question_counted_once():
    played = [episode(*[turn(number % 6) for number in range(30)])]  # six questions of 3 to 8 tokens, five times each
    credit = [Credited(np.ones(30))]
    whole = make_share(played, credit, 64, tokens=33)
    assert [at.stop - at.start for at in whole.batches] == [30]
    halves = make_share(played, credit, 64, tokens=32)
    assert [{len(t.prompt_ids) for t in halves.turns[at]} for at in halves.batches] == [{3, 4, 5, 6}, {7, 8}]
    capped = make_share(played, credit, 8, tokens=1000)
    assert [at.stop - at.start for at in capped.batches] == [8, 8, 8, 6]
    assert make_share([], [], 64, tokens=10).batches == []
    dear = make_share(played, credit, 64, tokens=33, cost=lambda one: 20)
    assert [at.stop - at.start for at in dear.batches] == [10, 5, 10, 5]
