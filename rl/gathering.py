"""An update's episodes: played on chosen seeds by the workers, anew where groups are dead, or taken from logs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from rl.config import TrainConfig
from rl.credit import dead, groups_of
from rl.keeping import RunState
from rl.logbook import Author
from rl.losses import LOSSES
from rl.rollout import FAILED, Episode, Plan
from rl.runtime import Runtime, Version
from rl.seeds import choose_starts
from scenarios.contract import Scenario

ROUNDS = 2  # how often a loss that wants it plays dead groups again


@dataclass
class Gathered:
    """Episodes by learning worker: what was played for it, and what it is given from logs. `by_version`: the played
    ones by what played them. `play_s`: the seconds that it took. `lags`: of each played group, how many updates its
    version lies behind."""

    played: list[list[Episode]]
    replayed: list[list[Episode]]
    play_s: float = 0.0
    by_version: list[tuple[Version, list[Episode]]] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)

    @property
    def shares(self) -> list[list[Episode]]:
        """What each worker holds: what was played, then what it was given."""
        return [own + given for own, given in zip(self.played, self.replayed, strict=True)]


class Gathering:
    """Gathers the groups of one update after another. All of it depends on the config, the state and the update, but
    for which versions played it where they may lag."""

    def __init__(self, config: TrainConfig, scenario: Scenario, runtime: Runtime,
                 recorded: list[list[Episode]]) -> None:  # fmt: skip
        self.config = config
        self.scenario = scenario
        self.options = scenario.resolve_options(config.options)
        self.runtime = runtime
        self.workers = runtime.pool.workers
        self.recorded = recorded
        self.rounds = config.resamples or (ROUNDS if LOSSES[config.loss].resamples else 0)
        self._ahead = 0  # the last update that groups were handed in for
        self._rollbacks = 0
        self._oldest = 0  # versions before it are not learned from

    def gather(self, state: RunState, number: int, author: Author) -> Gathered:
        """The groups of update `number`, to be learned from by the present adapter, which `author` names."""
        now = Version(number - 1, state.adapter, author)
        if state.rollbacks != self._rollbacks:  # whatever is being played is of what collapsed
            self._rollbacks, self._oldest = state.rollbacks, now.number
        replay = round(self.config.groups * self.config.replay_ratio) if self.recorded else 0
        groups = self.config.groups - replay
        for update in range(max(number, self._ahead + 1), min(number + self.config.max_lag, self.config.updates) + 1):
            self._submit(state, now, update, groups, 0)
            self._ahead = update
        found = Gathered([[] for _ in range(self.workers)], self._from_logs(number, replay))
        self._take(found, now, groups)
        for again in range(1, self.rounds + 1):
            played = [episode for share in found.played for episode in share]
            lacking = groups - _live(played)
            if lacking <= 0 or not played:
                break
            self._submit(state, now, number, lacking, again)
            self._take(found, now, lacking)
        return found

    def _submit(self, state: RunState, now: Version, number: int, groups: int, again: int) -> None:
        """Hands in `groups` groups that are meant for update `number`."""
        draws = f"{self.config.seed}/train/{number}" + (f"/again{again}" if again else "")
        starts = choose_starts(state.book, self.config.curriculum, self.config.curriculum_share, self.scenario,
                               self.options, groups, draws)  # fmt: skip
        plans = []
        for group, (seed, options) in enumerate(starts):
            name = f"u{number}a{state.attempt}/g{group}" + (f"r{again}" if again else "")
            dice = f"{self.config.seed}/{number}/{group}" + (f"/again{again}" if again else "")
            plans.append([Plan(seed, options, name, f"{dice}/{n}") for n in range(self.config.group_size)])
        self.runtime.submit(plans, now)

    def _take(self, found: Gathered, now: Version, groups: int) -> None:
        """Adds `groups` groups that were played."""
        oldest = max(self._oldest, now.number - self.config.max_lag)
        taken = self.runtime.take(groups, now, oldest, more=any(found.played))
        for own, episodes in zip(found.played, taken.shares, strict=True):
            own += episodes
        found.play_s += taken.seconds
        found.by_version += taken.by_version
        found.lags += [now.number - version.number for version, episodes in taken.by_version
                       for _ in groups_of(episodes)]  # fmt: skip

    def _from_logs(self, number: int, groups: int) -> list[list[Episode]]:
        """`groups` recorded groups: all of them once, in an order drawn anew each time round, before any again."""
        shares: list[list[Episode]] = [[] for _ in range(self.workers)]
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
