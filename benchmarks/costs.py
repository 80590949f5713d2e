"""What the steps of a training cost, each measured alone in one process with one thread: for `benchmarks.thousand`.

Seconds are processor seconds of the process, all its threads together, which other programs on the machine change
less than the clock on the wall; each is the least of some tries.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.farm import Costs
from rl.credit import credit_episodes
from rl.logbook import Author, Logbook
from rl.losses import Limits
from rl.objective import Goal
from rl.optim import Optimizer
from rl.parcels import pack_episodes, unpack_episodes
from rl.policies import find_adapter
from rl.pool import Pool
from rl.rollout import Episode, Plan
from rl.values import Values
from scenarios.contract import Scenario

PASSES = 2  # as `rl.train` has it
OFTEN = 5  # times as many tries, for what takes milliseconds
CREDIT, TRACE, KL = "stage", 0.5, 0.02


@dataclass(frozen=True)
class Measured:
    """The costs, and what goes with them."""

    costs: Costs
    serialise_s: float  # the adapter, once an update
    restore_s: float
    turns: int
    groups: int
    group_size: int


def least(tries: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """(the least processor seconds of some tries, what the last one gave)."""
    best, found = math.inf, None
    for _ in range(tries):
        began = time.process_time()
        found = work()
        best = min(best, time.process_time() - began)
    return best, found


def measure(worker: Any, job: dict[str, Any]) -> Measured:
    """Plays `job["groups"]` groups of `job["group_size"]`, and does with them all that a training does."""
    from rl.learner import collect, give, gradient

    groups, size, tries = job["groups"], job["group_size"], job["tries"]
    scenario, brain = worker.scenario, worker.policy.brain
    seeds = scenario.splits["train"]
    options = scenario.resolve_options({})
    plans = [Plan(seeds[group], options, f"g{group}", f"costs/{group}/{member}")
             for group in range(groups) for member in range(size)]  # fmt: skip
    adapter = worker.reference
    collect(worker, {"adapter": adapter, "plans": plans[:size]})  # what is made once is made now

    play_s: dict[int, float] = {}
    episodes: list[Episode] = []
    for side_by_side in sorted({1, min(4, groups), groups}):
        task = {"adapter": adapter, "plans": plans[: side_by_side * size]}
        spent, (episodes, _) = least(tries, partial(collect, worker, task))
        play_s[side_by_side] = spent / _turns(episodes)
    turns = _turns(episodes)
    by_group: dict[str, int] = {}
    for episode in episodes:
        by_group[episode.plan.group] = by_group.get(episode.plan.group, 0) + len(episode.turns)

    author = Author("", brain.name, "", "w", brain.base_hash, brain.tokenizer_hash)
    pack_s, parcel = least(OFTEN * tries, lambda: pack_episodes(episodes, author, scenario))
    decode_s, back = least(OFTEN * tries, lambda: unpack_episodes(parcel, plans, author, scenario))
    assert [episode.turns for episode in back] == [episode.turns for episode in episodes]
    log_s, log_bytes = _log(episodes, author, scenario, OFTEN * tries)
    credited = partial(credit_episodes, episodes, scenario.credit_key, credit=CREDIT, trace=TRACE)
    credit_s, credit = least(OFTEN * tries, lambda: credited(values=Values()))

    def learn() -> Any:
        found = gradient(worker, {"adapter": adapter, "credit": [one.given for one in credit]})
        for _ in range(PASSES - 1):
            found = gradient(worker, {"adapter": adapter})
        return found

    worker.episodes = []
    give(worker, episodes)
    learn_s, found = least(tries, learn)
    mean = {name: value / np.float32(max(1, found.counts.episodes)) for name, value in found.arrays.items()}
    optimizer = Optimizer()
    step_s, _ = least(OFTEN * tries, lambda: [optimizer.step(adapter, mean, 1e-3) for _ in range(PASSES)])
    serialise_s, packed = least(OFTEN * tries, lambda: pickle.dumps(adapter, protocol=5))
    restore_s, _ = least(OFTEN * tries, lambda: pickle.loads(packed))
    costs = Costs(
        play_s=play_s, turns=tuple(by_group.values()), pack_s=pack_s / turns, decode_s=decode_s / turns,
        parcel_bytes=len(parcel) / turns, log_s=log_s / turns, log_bytes=log_bytes / turns,
        credit_s=credit_s / turns, learn_s=learn_s / turns, passes=PASSES,
        step_s=step_s + serialise_s, adapter_bytes=len(packed),
    )  # fmt: skip
    return Measured(costs, serialise_s, restore_s, turns, groups, size)


def measured(scenario: Scenario, model: str, groups: int, group_size: int, tries: int) -> Measured:
    """Measures in a process of its own, with one thread. Raises a typed error or WorkerError."""
    from rl.learner import Settings, set_up

    goal = Goal("grpo", Limits(0.2, 0.2, math.inf, scenario.turn_cap), KL)
    settings = Settings(scenario.name, model, 16, 2.0, 1.0, goal)
    with Pool(1, set_up, (settings, find_adapter(model, scenario.name))) as pool:
        return pool.map(measure, [{"groups": groups, "group_size": group_size, "tries": tries}])[0]


def _turns(episodes: list[Episode]) -> int:
    return sum(len(episode.turns) for episode in episodes)


def _log(episodes: list[Episode], author: Author, scenario: Scenario, tries: int) -> tuple[float, int]:
    """(seconds, bytes) of adding the episodes to a log that has begun; what a new log begins with is left out."""
    with TemporaryDirectory(prefix="errand-costs-") as folder:
        path = Path(folder) / "costs.b22"
        with Logbook(path, scenario, "python -m benchmarks.thousand", "costs") as log:
            log.add(episodes[:1], author, "train", "train")
            before = path.stat().st_size
            spent, _ = least(tries, lambda: log.add(episodes, author, "train", "train"))
            return spent, (path.stat().st_size - before) // tries

