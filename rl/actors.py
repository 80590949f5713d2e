"""Rollouts by actors, learning by the workers here: `--runtime ray`.

Every adapter is handed to the cluster once and named by its version; actors send .b22 records back. With everything
played by the present version (`--max-lag 0`), an actor plays what a worker would have played, and the run is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npc.mlx import mx
from npc.models import Brain, hash_arrays
from recorder import RecorderError
from rl.crew import Backend, Crew, Done, PlayersError
from rl.evaluation import play_all
from rl.keeping import Say
from rl.learner import hold, play_plans
from rl.logbook import Author
from rl.parcels import ParcelError, unpack_episodes
from rl.players import Facts, Work
from rl.pool import WorkerError
from rl.ranks import RankPool
from rl.rollout import FAILED, Episode, Plan
from rl.runtime import Groups, Taken, Version, deal, groups_in
from scenarios.contract import Scenario


@dataclass(frozen=True)
class Sent:
    """Work that an actor has: its plans, who plays them, and, for training, which groups they are (the first one's
    number in the order in which groups were handed in)."""

    plans: tuple[Plan, ...]
    author: Author
    version: Version | None = None
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class Group:
    """A group that was played. `place` is its number in the order in which groups were handed in."""

    place: int
    version: Version
    plans: list[Plan]
    episodes: list[Episode]
    seconds: float


class Actors:
    """Plays by `size` actors that a backend starts, learns by the workers of `pool`."""

    def __init__(self, pool: RankPool, backend: Backend, scenario: Scenario, brain: Brain, size: int,
                 patience: float, lag: int, say: Say) -> None:  # fmt: skip
        self.pool = pool
        self.workers = size
        self.scenario = scenario
        self.backend = backend
        self._ours = Author("", brain.name, "", "", brain.base_hash, brain.tokenizer_hash)
        self.crew = Crew(backend, size, patience, say, self._welcome, _weight, 1 + lag)
        self._put: tuple[Any, Any, Author] | None = None  # the adapter that was handed out last, as what, and by whom
        self._sent: dict[int, Sent] = {}
        self._arrived: deque[Group] = deque()
        self._places = 0
        self._stale = 0
        self._told = (0, 0)
        self.crew.gather()

    def play(self, plans: Sequence[Plan], job: dict[str, Any]) -> list[Episode]:
        return play_all(self, plans, job)

    def map(self, job: Callable[[Any, Any], Any], payloads: Sequence[Any]) -> list[Any]:
        """`play_plans` for every payload, for `play_all`."""
        if job is not play_plans:
            raise WorkerError(f"actors play, and do no {job.__name__}")
        numbers = []
        for payload in payloads:
            policy = payload.get("policy", "")
            work = Work(tuple(payload["plans"]), payload["greedy"], policy)
            if policy:
                numbers.append(self._send(None, work, Sent(work.plans, Author(policy))))
            else:
                token, author = self._handed_out(payload["adapter"])
                numbers.append(self._send(token, work, Sent(work.plans, author)))
        found: dict[int, list[Episode]] = {}
        while not all(number in found for number in numbers):
            done = self.crew.next()
            if done.number not in numbers:
                self._arrive(done)
            elif done.failed:
                raise WorkerError(f"episodes that are measured by could not be played: {done.failed}")
            else:
                found[done.number] = self._unpacked(done, self._sent.pop(done.number))
        return [found[number] for number in numbers]

    def submit(self, groups: Groups, version: Version) -> None:
        """A share of the groups for each actor, so that one forward decides for many episodes."""
        token, author = self._handed_out(version.adapter)
        places = list(range(self._places, self._places + len(groups)))
        self._places += len(groups)
        for share in deal([[pair] for pair in zip(places, groups, strict=True)], self.workers):
            if share:
                plans = tuple(plan for _, group in share for plan in group)
                sent = Sent(plans, author, version, tuple(place for place, _ in share))
                self._send(token, Work(plans, training=True), sent)

    def take(self, count: int, now: Version, oldest: int, more: bool) -> Taken:
        kept: list[Group] = []
        while len(kept) < count:
            old = [group for group in self._arrived if group.version.number < oldest]
            if old:
                self._arrived = deque(group for group in self._arrived if group.version.number >= oldest)
                self._stale += len(old)
                self.submit([group.plans for group in old], now)
            while self._arrived and len(kept) < count:
                kept.append(self._arrived.popleft())
            if len(kept) < count:
                self._arrive(self.crew.next())
        kept.sort(key=lambda group: group.place)
        dealt = deal([[group] for group in kept], self.pool.workers)
        shares = [[episode for group in part for episode in group.episodes] for part in dealt]
        self.pool.map(hold, [{"episodes": episodes, "more": more} for episodes in shares])
        by_version: dict[int, tuple[Version, list[Episode]]] = {}
        for group in (group for part in dealt for group in part):
            by_version.setdefault(group.version.number, (group.version, []))[1].extend(group.episodes)
        return Taken(shares, list(by_version.values()), sum(group.seconds for group in kept) / self.workers)

    def losses(self) -> dict[str, int]:
        lost = sum(len(groups_in(work.plans)) for _, work in self.crew.lost if work.training)
        now, before = (self.crew.restarts + self.pool.restarts, lost + self._stale), self._told
        self._told = now
        return {"restarts": now[0] - before[0], "resampled_groups": now[1] - before[1]}

    def close(self) -> None:
        try:
            self.crew.close()
        finally:
            self.backend.close()
            self.pool.close()

    def _handed_out(self, adapter: dict[str, Any]) -> tuple[Any, Author]:
        """What stands for the adapter on the cluster, and who plays with it; it is handed out once."""
        if self._put is None or self._put[0] is not adapter:
            hashed = hash_arrays({name: mx.array(value) for name, value in adapter.items()})
            author = replace(self._ours, weights_hash=hashed)
            self._put = (adapter, self.backend.put(adapter), author)
        return self._put[1:]

    def _send(self, token: Any, work: Work, sent: Sent) -> int:
        number = self.crew.submit((token, work))
        self._sent[number] = sent
        return number

    def _arrive(self, done: Done) -> None:
        """Takes in training groups. What is given up counts as failed, with its groups."""
        sent = self._sent.pop(done.number)
        if sent.version is None:
            raise WorkerError("an actor sent what nobody waits for")
        if done.failed:
            episodes, seconds = [self._failed(plan, done.failed) for plan in sent.plans], 0.0
        else:
            episodes, seconds = self._unpacked(done, sent), done.answer[1]
        groups = groups_in(sent.plans)
        first = 0
        for place, plans in zip(sent.places, groups, strict=True):
            of_group = episodes[first : first + len(plans)]
            self._arrived.append(Group(place, sent.version, plans, of_group, seconds / len(groups)))
            first += len(plans)

    def _unpacked(self, done: Done, sent: Sent) -> list[Episode]:
        try:
            return unpack_episodes(done.answer[0], sent.plans, sent.author, self.scenario)
        except (ParcelError, RecorderError) as error:
            raise WorkerError(f"what an actor sent can't be learned from: {error}") from error

    def _failed(self, plan: Plan, why: str) -> Episode:
        start = self.scenario.digest(self.scenario.build(plan.seed, plan.options))
        return Episode(plan, start, ended=FAILED, error=why)

    def _welcome(self, facts: Facts) -> str:
        """Where the actor is. Raises PlayersError for one that would play something else."""
        wanted = {"scenario_version": self.scenario.version, "source_hash": self.scenario.source_hash,
                  "base_hash": self._ours.base_hash, "tokenizer_hash": self._ours.tokenizer_hash}  # fmt: skip
        for name, ours in wanted.items():
            theirs = getattr(facts, name)
            if theirs != ours:
                raise PlayersError(
                    f"the actor on {facts.node} has {name} {theirs!r}, this training {ours!r}: install the same "
                    "version of the project, with the same model, on every node"
                )
        return f" on {facts.node}"


def _weight(work: tuple[Any, Work]) -> float:
    """How long work takes, compared with other work of the model: rules are too quick for that."""
    return 0.0 if work[1].policy else len(work[1].plans)
