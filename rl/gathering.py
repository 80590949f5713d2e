"""An update's episodes: played on chosen seeds by the workers, anew where groups are dead, or taken from logs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl.config import TrainConfig
from rl.credit import dead, groups_of
from rl.keeping import RunState
from rl.learner import collect
from rl.losses import LOSSES
from rl.pool import LocalPool, Pool
from rl.rollout import FAILED, Episode, Plan
from rl.seeds import choose_starts
from scenarios.contract import Scenario

ROUNDS = 2  # how often a loss that wants it plays dead groups again


@dataclass
class Gathered:
    """Episodes by worker: what each played, and what it is given from logs. `play_s`: the slowest one's seconds."""

    played: list[list[Episode]]
    replayed: list[list[Episode]]
    play_s: float

    @property
    def shares(self) -> list[list[Episode]]:
        """What each worker holds: what it played, then what it was given."""
        return [own + given for own, given in zip(self.played, self.replayed, strict=True)]


class Gathering:
    """Gathers the groups of one update after another. All of it depends on the config, the state and the update."""

    def __init__(self, config: TrainConfig, scenario: Scenario, pool: Pool | LocalPool,
                 recorded: list[list[Episode]]) -> None:  # fmt: skip
        self.config = config
        self.scenario = scenario
        self.options = scenario.resolve_options(config.options)
        self.pool = pool
        self.recorded = recorded
        self.rounds = config.resamples or (ROUNDS if LOSSES[config.loss].resamples else 0)

    def gather(self, state: RunState, number: int) -> Gathered:
        """The groups of update `number`."""
        replay = round(self.config.groups * self.config.replay_ratio) if self.recorded else 0
        found = Gathered([[] for _ in range(self.pool.workers)], self._from_logs(number, replay), 0.0)
        self._play(state, number, self.config.groups - replay, found, 0)
        for again in range(1, self.rounds + 1):
            played = [episode for share in found.played for episode in share]
            lacking = self.config.groups - replay - _live(played)
            if lacking <= 0 or not played:
                break
            self._play(state, number, lacking, found, again)
        return found

    def _play(self, state: RunState, number: int, groups: int, found: Gathered, again: int) -> None:
        """Plays `groups` more groups: each worker takes whole groups."""
        draws = f"{self.config.seed}/train/{number}" + (f"/again{again}" if again else "")
        starts = choose_starts(state.book, self.config.curriculum, self.config.curriculum_share, self.scenario,
                               self.options, groups, draws)  # fmt: skip
        shares: list[list[Plan]] = [[] for _ in range(self.pool.workers)]
        for group, (seed, options) in enumerate(starts):
            name = f"u{number}a{state.attempt}/g{group}" + (f"r{again}" if again else "")
            dice = f"{self.config.seed}/{number}/{group}" + (f"/again{again}" if again else "")
            shares[group % len(shares)] += [
                Plan(seed, options, name, f"{dice}/{member}") for member in range(self.config.group_size)
            ]
        jobs: list[dict[str, Any]] = [{"adapter": state.adapter, "plans": plans, "more": bool(again)}
                                      for plans in shares]  # fmt: skip
        answers = self.pool.map(collect, jobs)
        for own, (episodes, _) in zip(found.played, answers, strict=True):
            own += episodes
        found.play_s += max(seconds for _, seconds in answers)

    def _from_logs(self, number: int, groups: int) -> list[list[Episode]]:
        """`groups` recorded groups: all of them once, in an order drawn anew each time round, before any again."""
        shares: list[list[Episode]] = [[] for _ in range(self.pool.workers)]
        first = (number - 1) * groups
        for place in range(first, first + groups):
            turn_round, at = divmod(place, len(self.recorded))
            order = list(range(len(self.recorded)))
            random.Random(f"{self.config.seed}/replay/{turn_round}").shuffle(order)
            shares[place % len(shares)] += self.recorded[order[at]]
        return shares


def _live(episodes: list[Episode]) -> int:
    """How many groups can teach."""
    return sum(
        not any(episodes[i].ended == FAILED for i in members)
        and not dead(np.array([episodes[i].reward for i in members]))
        for members in groups_of(episodes).values()
    )
