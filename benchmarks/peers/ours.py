"""This project's side: groups are played, logged and learned from, by the very code that trains."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import scenarios
from benchmarks import speed
from benchmarks.peers.talk import Clock
from npc.adapters import get_adapter, load_adapter
from npc.models import load
from rl.credit import credit_episodes
from rl.learner import NO_GRADIENT, Settings, collect, gradient, set_up
from rl.logbook import Author, Logbook
from rl.losses import LOSSES
from rl.objective import Goal
from rl.optim import Optimizer
from rl.policies import find_adapter
from rl.pool import Pool
from rl.rollout import Episode, Plan
from rl.values import Values

SCENARIO = "fetch_item"
KL_WEIGHT = 0.02


class Ours:
    """Workers that hold a model with its taught adapter. Every round plays the same groups with the same dice and takes
    the same step, which is then thrown away: so rounds, and what the peers are given, are alike."""

    def __init__(self, model: str, groups: int, size: int, workers: int, folder: Path) -> None:
        self.scenario = scenarios.get(SCENARIO)
        self.adapter_folder = find_adapter(model, SCENARIO)
        self.settings = Settings(SCENARIO, model, 0, 0.0, 1.0, Goal("grpo", speed.LIMITS, KL_WEIGHT))
        self.brain = load(model)
        load_adapter(self.brain, self.adapter_folder)
        self.adapter = {name: np.array(value) for name, value in get_adapter(self.brain).items()}
        options = self.scenario.resolve_options({})
        seeds = self.scenario.splits["train"]
        self.shares: list[list[Plan]] = [[] for _ in range(min(workers, groups))]
        for group in range(groups):
            self.shares[group % len(self.shares)] += [
                Plan(seeds[group], options, f"g{group}", f"peers/{group}/{member}") for member in range(size)
            ]
        self.log = Logbook(folder / "peers.b22", self.scenario, "python -m benchmarks.peers", "peers")
        self.prefix = self.log.add_prefix(self.brain.tokenizer.encode(self.scenario.prefix))
        self.pool = Pool(len(self.shares), set_up, (self.settings, self.adapter_folder))
        self.episodes: list[Episode] = []  # of the last round

    def round(self) -> dict[str, float]:
        """Plays the groups, logs them, and takes one optimizer step on them: turns, and the seconds of each part, of
        which writing the log is neither rollout nor update."""
        whole = Clock(self._helpers)
        played = [found for found, _ in self.pool.map(collect, [self._job(plans=plans) for plans in self.shares])]
        rollout = whole.read("rollout")
        self.episodes = [episode for share in played for episode in share]
        writing = Clock()
        self.log.add(self.episodes, Author(f"{self.settings.model}:{SCENARIO}"), "benchmark", "train", self.prefix)
        log = writing.read("log")
        learning = Clock(self._helpers)
        credit = credit_episodes(self.episodes, self.scenario.credit_key, Values(), "episode", 1.0)
        given = iter([one.given for one in credit])
        jobs = [self._job(credit=[next(given) for _ in share]) for share in played]
        total = sum(self.pool.map(gradient, jobs), NO_GRADIENT)
        if total.counts.rows:
            share = np.float32(LOSSES["grpo"].denominator(total.counts))
            Optimizer().step(self.adapter, {name: value / share for name, value in total.arrays.items()}, 1e-4)
        turns = {"turns": sum(len(episode.turns) for episode in self.episodes), "live": total.counts.rows}
        return {**turns, **rollout, **log, **learning.read("update"), **whole.read("loop")}

    def shares_of_matmul(self) -> dict[str, float]:
        """How near to the machine's own matmul rate both parts come (benchmarks.speed)."""
        return speed.combined(self.pool.map(speed.measure, [{"plans": plans} for plans in self.shares]))

    def close(self) -> None:
        self.pool.close()
        self.log.close()

    def _helpers(self) -> float:
        """Processor seconds of all workers so far."""
        return sum(self.pool.map(processor_time, [None] * self.pool.workers))

    def _job(self, **more: Any) -> dict[str, Any]:
        return {"adapter": self.adapter, **more}


def processor_time(_worker: Any, _job: None) -> float:
    """Of this worker, so far."""
    return time.process_time()


class Watched:
    """A scenario whose calls are all timed: processor seconds by the call's name, in `spent`."""

    def __init__(self, scenario: Any) -> None:
        self._scenario = scenario
        self.spent: dict[str, float] = defaultdict(float)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._scenario, name)
        if not callable(found):
            return found

        def timed(*args: Any, **more: Any) -> Any:
            began = time.thread_time()
            try:
                return found(*args, **more)
            finally:
                self.spent[name] += time.thread_time() - began

        return timed


def environment_time(worker: Any, plans: Sequence[Plan]) -> dict[str, float]:
    """Plays `plans`: processor seconds in each of the scenario's calls, and of it all as "rollout"."""
    plain, began = worker.scenario, time.process_time()
    worker.scenario = watched = Watched(plain)
    try:
        collect(worker, {"adapter": worker.reference, "plans": plans})
        return {**watched.spent, "rollout": time.process_time() - began}
    finally:
        worker.scenario = plain


def environment_share(groups: int, size: int, workers: int, rounds: int) -> list[dict[str, float]]:
    """Shares of rollout time that the environment takes with the embedded model, round by round, the first left out:
    each of the scenario's calls, and all of them but the digests, which are the log's, as "environment"."""
    settings = Settings(SCENARIO, "nano", 0, 0.0, 1.0, Goal("grpo", speed.LIMITS, KL_WEIGHT))
    scenario = scenarios.get(SCENARIO)
    options, seeds = scenario.resolve_options({}), scenario.splits["train"]
    jobs = [
        [Plan(seeds[group], options, f"g{group}", f"peers/{group}/{member}")
         for group in range(first, groups, workers) for member in range(size)]
        for first in range(min(workers, groups))
    ]  # fmt: skip
    with Pool(len(jobs), set_up, (settings, find_adapter("nano", SCENARIO))) as pool:
        found = [pool.map(environment_time, jobs) for _ in range(rounds + 1)]
    shares = []
    for each in found[1:]:
        spent = {name: sum(one[name] for one in each) for name in each[0]}
        whole = spent.pop("rollout")
        shares.append({name: seconds / whole for name, seconds in spent.items()})
        shares[-1]["environment"] = (sum(spent.values()) - spent["digest"]) / whole
    return shares
