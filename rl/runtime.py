"""Who plays an update's groups: this process, worker processes, or actors elsewhere. The training asks, and doesn't
know.

Groups are handed in with the version of the adapter that is to play them, and taken as episodes that the learning
workers hold. What is handed in for a later update is played meanwhile; how far its version lies behind the one that
learns from it is its lag, and the ratio of the loss makes up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rl.evaluation import play_all
from rl.learner import collect
from rl.logbook import Author
from rl.ranks import RankPool
from rl.rollout import Episode, Plan

Groups = Sequence[Sequence[Plan]]


@dataclass(frozen=True)
class Version:
    """An adapter that plays. `number` is the update that made it; `author` names it, with the hash of its weights."""

    number: int
    adapter: dict[str, np.ndarray]
    author: Author


@dataclass(frozen=True)
class Taken:
    """Groups that were played. `shares` are their episodes by the learning worker that holds them, `by_version` the
    same by what played them; `seconds` is how long whoever plays took."""

    shares: list[list[Episode]]
    by_version: list[tuple[Version, list[Episode]]]
    seconds: float


class Runtime(Protocol):
    """Who plays. The learning workers are `pool`'s."""

    pool: RankPool

    def play(self, plans: Sequence[Plan], job: dict[str, Any]) -> list[Episode]:
        """Plays `plans` with the adapter's tensors in `job["adapter"]` or the scripted policy in `job["policy"]`,
        greedily or not; the episodes in their order. Raises WorkerError."""
        ...

    def submit(self, groups: Groups, version: Version) -> None:
        """Hands in groups that `version` is to play."""

    def take(self, count: int, now: Version, oldest: int, more: bool) -> Taken:
        """`count` of the groups handed in, as soon as that many are played; the learning workers hold them (beside what
        they hold, with `more`). Groups of versions before `oldest` are played again by `now` instead."""
        ...

    def losses(self) -> dict[str, int]:
        """How often a worker or actor was started again since this was asked last, and how many groups were sampled
        again for that, or since they were too old."""
        ...

    def close(self) -> None: ...


class Workers:
    """The learning workers play themselves, and keep what they played."""

    def __init__(self, pool: RankPool) -> None:
        self.pool = pool
        self._waiting: list[tuple[Sequence[Plan], Version]] = []
        self._told = (0, 0)

    def play(self, plans: Sequence[Plan], job: dict[str, Any]) -> list[Episode]:
        return play_all(self.pool, plans, job)

    def submit(self, groups: Groups, version: Version) -> None:
        self._waiting += [(plans, version) for plans in groups]

    def take(self, count: int, now: Version, oldest: int, more: bool) -> Taken:
        """All that waits is for `now`, since nothing is played ahead here. Each worker takes whole groups."""
        groups, self._waiting = self._waiting, []
        shares = deal([plans for plans, _ in groups], self.pool.workers)
        answers = self.pool.map(collect, [{"adapter": now.adapter, "plans": plans, "more": more} for plans in shares])
        played = [episodes for episodes, _ in answers]
        everything = [episode for share in played for episode in share]
        return Taken(played, [(now, everything)], max(seconds for _, seconds in answers))

    def losses(self) -> dict[str, int]:
        groups = sum(len(groups_in(payload["plans"])) for job, payload in self.pool.lost if job is collect)
        now, before = (self.pool.restarts, groups), self._told
        self._told = now
        return {"restarts": now[0] - before[0], "resampled_groups": now[1] - before[1]}

    def close(self) -> None:
        self.pool.close()


def deal(groups: Sequence[Sequence[Any]], workers: int) -> list[list[Any]]:
    """Whole groups, dealt to the workers in turn."""
    shares: list[list[Any]] = [[] for _ in range(workers)]
    for at, members in enumerate(groups):
        shares[at % workers] += members
    return shares


def groups_in(plans: Sequence[Plan]) -> list[list[Plan]]:
    """Plans by their group."""
    groups: dict[str, list[Plan]] = {}
    for plan in plans:
        groups.setdefault(plan.group, []).append(plan)
    return list(groups.values())
