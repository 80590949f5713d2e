"""What lies behind a success rate, counted by hand on made-up episodes of no scenario at all."""

from __future__ import annotations

from recorder.records import Turn
from rl.breakdown import Way, action_counts, mean_terms, outcome_counts, ways_of_failing
from rl.rollout import Episode, Plan


def episode(ended: str, *turns: tuple[str, str, dict[str, float]], error: str = "") -> Episode:
    made = [Turn(episode=0, turn=i, observation="", proposed=said, executed=said, outcome_kind=kind, terms=terms)
            for i, (said, kind, terms) in enumerate(turns)]  # fmt: skip
    return Episode(Plan(7, {}, "g", "d"), {}, made, ended, error)


UP, DOWN = ("push up", "moved", {"score": 1.0}), ("push down", "stuck", {"score": 0.0, "time": -0.5})
LOOK = ("look", "seen", {})


def test_counts_go_by_the_first_word_and_the_most_frequent_comes_first() -> None:
    episodes = [episode("success", LOOK, UP, DOWN), episode("lost", LOOK, LOOK, UP)]
    assert list(action_counts(episodes).items()) == [("look", 3), ("push", 3)]
    assert list(outcome_counts(episodes).items()) == [("seen", 3), ("moved", 2), ("stuck", 1)]


def test_terms_are_means_over_episodes_and_name_what_nobody_earned() -> None:
    episodes = [episode("success", UP, UP, DOWN), episode("lost", UP)]
    assert mean_terms(episodes, ["score", "time", "bonus"]) == {"score": 1.5, "time": -0.25, "bonus": 0.0}


def test_ways_of_failing_are_told_apart_by_ending_earnings_and_habit() -> None:
    episodes = [
        episode("success", UP),
        episode("lost", DOWN, LOOK, LOOK),  # 1: nothing earned, mostly look
        episode("cap", UP, LOOK),  # 2: earned, no action in more than half of the turns
        episode("lost", LOOK),  # 3: as 1
        episode("lost", LOOK, LOOK, DOWN),  # 4: as 1
        episode("cap", LOOK, UP),  # 5: as 2
        episode("failed", UP, error="Traceback\n  somewhere\nKeyError: 'rune'"),
    ]
    assert ways_of_failing(episodes) == [
        Way("lost, earned nothing, mostly 'look'", 3, 1),
        Way("cap, earned score", 2, 2),
        Way("the scenario raised an error: KeyError: 'rune'", 1, 6),
    ]


def test_a_term_that_was_taken_back_was_not_earned() -> None:
    back = ("push down", "moved", {"score": -1.0})
    assert ways_of_failing([episode("lost", UP, back)])[0].words == "lost, earned nothing, mostly 'push'"


def test_an_episode_without_a_turn_has_a_way_too() -> None:
    assert ways_of_failing([episode("lost")]) == [Way("lost, earned nothing", 1, 0)]
    assert ways_of_failing([]) == []
