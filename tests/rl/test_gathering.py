"""An update's groups: played, played again where they are dead, on seeds and dice that depend on the run alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scenarios
from recorder import Turn
from rl.config import TrainConfig
from rl.gathering import ROUNDS, Gathering
from rl.keeping import RunState
from rl.logbook import Author
from rl.rollout import FAILED, Episode, Plan
from rl.runtime import Workers

FETCH = scenarios.get("fetch_item")


class Played:
    """A pool whose workers win every second episode of a group, but for groups that `dead` names by their round."""

    workers = 2

    def __init__(self, dead: int) -> None:
        self.dead = dead  # rounds in which every group is dead
        self.rounds: list[list[dict[str, Any]]] = []

    def map(self, job, payloads):
        dead = len(self.rounds) < self.dead
        self.rounds.append(payloads)
        return [([self._episode(plan, i, dead) for i, plan in enumerate(one["plans"])], 1.0) for one in payloads]

    def _episode(self, plan: Plan, place: int, dead: bool) -> Episode:
        reward = 0.0 if dead else float(place % 2)
        turn = Turn(episode=0, turn=0, observation="", proposed="", executed="", terms={"r": reward})
        return Episode(plan, {}, [turn], "success")


def gathered(pool: Played, **how):
    config = TrainConfig(scenario="fetch_item", model="m", adapter="a", groups=5, group_size=2, **how)
    gathering = Gathering(config, FETCH, Workers(pool), [])  # type: ignore[arg-type]
    return gathering.gather(RunState({"x": np.zeros(1)}), 3, Author("m:u2"))


def plans_of(pool: Played) -> list[list[Plan]]:
    return [[plan for one in payloads for plan in one["plans"]] for payloads in pool.rounds]


def test_whole_groups_go_to_workers_and_siblings_differ_in_their_dice_alone():
    pool = Played(0)
    found = gathered(pool)
    (plans,) = plans_of(pool)
    assert [len(share) for share in found.played] == [6, 4]
    for share in found.played:
        groups = {e.plan.group for e in share}
        assert len(share) == 2 * len(groups)
    assert len({plan.draws for plan in plans}) == 10
    for group in {plan.group for plan in plans}:
        assert len({(plan.seed, str(plan.options)) for plan in plans if plan.group == group}) == 1


def test_dead_groups_are_played_again_on_other_seeds_until_they_live():
    pool = Played(1)
    found = gathered(pool, loss="dapo")
    first, again = plans_of(pool)
    assert len(first) == len(again) == 10
    assert not {plan.seed for plan in first} & {plan.seed for plan in again}
    assert not {plan.group for plan in first} & {plan.group for plan in again}
    # both rounds count as episodes, and workers keep the first beside the second
    assert sum(len(share) for share in found.played) == 20
    assert [one["more"] for one in pool.rounds[0]] == [False, False]
    assert [one["more"] for one in pool.rounds[1]] == [True, True]
    assert found.play_s == 2.0


@pytest.mark.parametrize(("how", "rounds"), [({}, 1), ({"loss": "dapo"}, 1 + ROUNDS), ({"resamples": 1}, 2)])
def test_only_where_asked_for_and_not_for_ever(how, rounds):
    pool = Played(99)
    gathered(pool, **how)
    assert len(pool.rounds) == rounds


def test_the_same_run_gathers_the_same():
    one, other, seeded = Played(1), Played(1), Played(1)
    gathered(one, loss="dapo")
    gathered(other, loss="dapo")
    gathered(seeded, loss="dapo", seed=1)
    assert plans_of(one) == plans_of(other) != plans_of(seeded)


def test_a_failed_group_is_not_a_live_one():
    pool = Played(0)
    honest = pool._episode
    pool._episode = lambda plan, place, dead: failing(honest(plan, place, dead))  # type: ignore[method-assign]
    gathered(pool, resamples=1)
    assert len(plans_of(pool)[1]) == 10


def failing(episode: Episode) -> Episode:
    episode.ended = FAILED
    return episode
