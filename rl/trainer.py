"""The training loop: play groups, credit them, step, validate; the best validated checkpoint becomes the head."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import scenarios
from npc.adapters import set_adapter
from rl.config import TrainConfig
from rl.credit import Credit, credit_episodes
from rl.files import write_run
from rl.keeping import Keeper, RunState, Say, Show, adapter_arrays, start_brain
from rl.learner import Gradient, Settings, collect, gradient, set_up
from rl.logbook import Logbook
from rl.measuring import Measuring
from rl.pool import LocalPool, Pool
from rl.proof import prove
from rl.rollout import Episode, Plan, uniform
from rl.schedule import rate_at
from rl.tree import START
from rl.update_line import describe, learned, mis_scaled, update_line


class Trainer:
    """One run in one folder. `run()` trains to the end; a run that was stopped goes on from its last checkpoint."""

    def __init__(self, out: Path, config: TrainConfig, say: Say, resume: bool, show: Show = lambda *_: None) -> None:
        self.config = config
        self.say = say
        self.show = show
        self.scenario = scenarios.get(config.scenario)
        self.options = self.scenario.resolve_options(config.options)
        brain = start_brain(config)
        self.keeper = Keeper(out, config, self.scenario, brain)
        self.state = RunState(adapter_arrays(brain))
        if not resume:
            write_run(out, msgspec.to_builtins(config))
        # opening the log takes its lock: a run that is still running is left alone
        self.log = Logbook(out / "episodes.b22", self.scenario, "python -m rl.train", config.run_id, append=resume)
        try:
            if resume and self.keeper.take_up(self.state):
                say(f"resuming {out} after update {self.state.update} of {config.updates}")
            else:
                self.keeper.save(self.state, START, None, {})
        except BaseException:
            self.log.close()
            raise
        settings = Settings(config.scenario, config.model, config.rank, config.scale, config.tau, config.clip,
                            config.kl_weight)  # fmt: skip
        args = (settings, config.adapter)
        self.pool = Pool(config.workers, set_up, args) if config.workers > 1 else LocalPool(set_up, args)
        self.prefix_hash = self.log.add_prefix(brain.tokenizer.encode(self.scenario.prefix), brain.tokenizer_hash)
        self.measuring = Measuring(config, self.scenario, brain, self.pool, self.log, self.prefix_hash, say, show)

    def close(self) -> None:
        self.pool.close()
        self.log.close()

    def run(self) -> dict[str, Any]:
        """Baselines, updates, the answer. Returns what summary.json holds."""
        began = time.perf_counter()
        before = self.baselines()
        while self.state.update < self.config.updates:
            self.one_update()
        after = self.answer(before)
        spent = sum(line["wall_s"] for line in self.state.metrics) + before["wall_s"] + after.pop("wall_s")
        head = self.keeper.tree.head()
        summary = {
            "scenario": self.config.scenario, "options": self.options, "model": self.config.model,
            "seed": self.config.seed, "adapter": str(self.keeper.tree.folder(head)), "head": head,
            "started_from": self.config.adapter,
            **{name: before[name] for name in ("baseline", "baseline_greedy", "random", "teacher", "oracle")},
            **after, "episodes": self.state.episodes, "updates": self.state.update,
            "kl_final": next((m["kl"] for m in reversed(self.state.metrics) if m["kl"] is not None), 0.0),
            "wall_s": spent, "wall_s_this_time": time.perf_counter() - began, "tau": self.config.tau,
            "run": self.config.run_id,
        }  # fmt: skip
        self.keeper.write_summary(summary)
        return summary

    def baselines(self) -> dict[str, Any]:
        """Everything that is measured before the first update, once a run."""
        found = self.keeper.read_baseline()
        if found is None:
            found = self.measuring.before(self.state)
            self.state.best = (found["validation"], START)
            self.keeper.write_baseline(found)
        return found

    def answer(self, before: dict[str, Any]) -> dict[str, Any]:
        """The head on the test seeds."""
        head = self.keeper.tree.head()
        self.state.adapter = self.keeper.read_adapter(head)
        return self.measuring.after(self.state, before, head)

    def one_update(self) -> None:
        """Plays, learns, saves a checkpoint, and says how it went."""
        began = time.perf_counter()
        state, config = self.state, self.config
        number = state.update + 1
        self.show(f"update {number}", state.update, config.updates)
        author = self.measuring.author(state, f"u{number - 1}")
        shares, play_s = self._collect(number)
        episodes = [episode for share in shares for episode in share]
        credit = credit_episodes(episodes, self.scenario.credit_key, state.values, config.credit, config.trace)
        rate = rate_at(number, config.updates, config.rate, config.warmup)
        gained = self._learn(number, credit, shares, rate)
        if number == 1 and gained is None:
            self.say(mis_scaled(episodes, self.scenario))
        state.update = number
        state.episodes += len(episodes)
        set_adapter(self.keeper.brain, state.adapter)
        self.log.add(episodes, author, "train", "train", self.prefix_hash, number, state.attempt)
        line = update_line(number, state.attempt, state.episodes, episodes, credit, config.group_size, play_s, rate)
        line |= gained or {}
        if number % config.validate_every == 0 or number == config.updates:
            line["validation"] = self.measuring.validate(state)
        line["wall_s"] = time.perf_counter() - began
        state.metrics.append(line)
        name = self.keeper.tree.name_for(number)
        self.keeper.save(state, name, state.node, line)
        if line["validation"] is not None and line["validation"] > state.best[0]:
            state.best = (line["validation"], name)
            self.keeper.tree.set_head(name)
        self.keeper.add_line(line)
        self.say(describe(line, config.updates))
        for episode in episodes:
            if episode.error:
                why = episode.error.splitlines()[-1]
                self.say(f"a failed episode (seed {episode.plan.seed}) dropped its group: {why}")

    def _collect(self, number: int) -> tuple[list[list[Episode]], float]:
        """Plays this update's groups: each worker takes whole groups. The episodes by worker, and the seconds."""
        seeds = self.scenario.splits["train"]
        shares: list[list[Plan]] = [[] for _ in range(min(self.pool.workers, self.config.groups))]
        for group in range(self.config.groups):
            seed = seeds[int(uniform(f"{self.config.seed}/train/{number}", group) * len(seeds))]
            name = f"u{number}a{self.state.attempt}/g{group}"
            shares[group % len(shares)] += [
                Plan(seed, self.options, name, f"{self.config.seed}/{number}/{group}/{member}")
                for member in range(self.config.group_size)
            ]
        played = self.pool.map(collect, [{"adapter": self.state.adapter, "plans": plans} for plans in shares])
        return [episodes for episodes, _ in played], max(seconds for _, seconds in played)

    def _learn(self, number: int, credit: Sequence[Credit], shares: Sequence[Sequence[Episode]],
               rate: float) -> dict[str, Any] | None:  # fmt: skip
        """Takes the optimizer's steps; what was learned from, or None where all groups are dead and no step is taken.
        Proves the trainer before its first step."""
        state = self.state
        live = sum(c.advantage is not None for c in credit)
        if not live:
            return None
        jobs = [{"adapter": state.adapter, "credit": [c.advantage for c in part]} for part in _parts(credit, shares)]
        if number == 1:
            found = self.pool.map(prove, jobs)
            self.say("self-proof: " + ", ".join(f"{k} {v:.1e}" if isinstance(v, float) else str(v)
                                                for k, v in found[0].items()))  # fmt: skip
        for again in range(self.config.passes):
            parts = self.pool.map(gradient, [{"adapter": state.adapter}] * len(jobs) if again else jobs)
            mean = {name: sum(p.arrays[name] for p in parts if name in p.arrays) / np.float32(live)
                    for name in state.adapter}  # fmt: skip
            state.adapter, norm = state.optimizer.step(state.adapter, mean, rate)
        return learned(_add(parts), live, norm)


def _add(parts: list[Gradient]) -> Gradient:
    """Sums of all shares; the slowest one's time, since they ran side by side."""
    return Gradient(
        {}, sum(p.loss for p in parts), sum(p.kl for p in parts), sum(p.entropy for p in parts),
        sum(p.clipped for p in parts), max(p.worst_ratio for p in parts), sum(p.turns for p in parts),
        sum(p.tokens for p in parts), max(p.train_s for p in parts),
    )  # fmt: skip


def _parts(credit: Sequence[Credit], shares: Sequence[Sequence[Episode]]) -> list[list[Credit]]:
    """`credit` cut into the pieces that belong to each worker's share."""
    parts, start = [], 0
    for share in shares:
        parts.append(list(credit[start : start + len(share)]))
        start += len(share)
    return parts
