"""The training loop: play groups, credit them, step, validate; the best validated checkpoint becomes the head."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import scenarios
from npc.adapters import attach, get_adapter, load_adapter, save_adapter, set_adapter, weights_hash
from npc.models import Brain, load
from rl.checkpoints import CheckpointError, Tree, read_run, write_atomically, write_run
from rl.config import TrainConfig, from_run
from rl.credit import STATES, Credit, credit_episodes
from rl.evaluation import plans_for, play_all, score
from rl.learner import Gradient, Settings, collect, gradient, set_up
from rl.logbook import Author, Logbook
from rl.optim import Optimizer
from rl.pool import LocalPool, Pool
from rl.proof import prove
from rl.rollout import Episode, Plan, uniform
from rl.statistics import paired_difference
from rl.values import Values

BASELINE = "baseline.json"
START = "start"  # the node that holds the adapter the run began with
Say = Callable[[str], None]  # takes a line for people
Show = Callable[[str, int, int], None]  # takes what is being done, how much of it is done, and how much there is


class Trainer:
    """One run in one folder. `run()` trains to the end; a run that was stopped goes on from its last checkpoint."""

    def __init__(self, out: Path, config: TrainConfig, say: Say, resume: bool, show: Show = lambda *_: None) -> None:
        self.out = out
        self.config = config
        self.say = say
        self.show = show
        self.scenario = scenarios.get(config.scenario)
        self.options = self.scenario.resolve_options(config.options)
        self.tree = Tree(out / "checkpoints")
        self.optimizer = Optimizer()
        self.values = Values()
        self.brain = _start_brain(config)
        self.adapter = {name: np.array(value) for name, value in get_adapter(self.brain).items()}
        self.update = 0
        self.attempt = 0
        self.episodes = 0
        self.best: tuple[float, str] = (-math.inf, START)
        self.metrics: list[dict[str, Any]] = []
        if not resume:
            write_run(out, msgspec.to_builtins(config))
        # opening the log takes its lock: a run that is still running is left alone
        self.log = Logbook(out / "episodes.b22", self.scenario, "python -m rl.train", config.run_id, append=resume)
        try:
            self._begin(resume)
        except BaseException:
            self.log.close()
            raise
        settings = Settings(config.scenario, config.model, config.rank, config.scale, config.tau, config.clip,
                            config.kl_weight)  # fmt: skip
        args = (settings, config.adapter)
        self.pool = Pool(config.workers, set_up, args) if config.workers > 1 else LocalPool(set_up, args)
        self.prefix_hash = self.log.add_prefix(
            self.brain.tokenizer.encode(self.scenario.prefix), self.brain.tokenizer_hash
        )

    def close(self) -> None:
        self.pool.close()
        self.log.close()

    # -- the run ----------------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Baselines, updates, the answer. Returns what summary.json holds."""
        began = time.perf_counter()
        before = self._baselines()
        while self.update < self.config.updates:
            self._one_update()
        after = self._answer(before)
        spent = sum(line["wall_s"] for line in self.metrics) + before["wall_s"] + after.pop("wall_s")
        head = self.tree.head()
        summary = {
            "scenario": self.config.scenario, "options": self.options, "model": self.config.model,
            "seed": self.config.seed, "adapter": str(self.tree.folder(head)), "head": head,
            "started_from": self.config.adapter,
            **{name: before[name] for name in ("baseline", "baseline_greedy", "random", "teacher", "oracle")},
            **after, "episodes": self.episodes, "updates": self.update,
            "kl_final": next((m["kl"] for m in reversed(self.metrics) if m["kl"] is not None), 0.0),
            "wall_s": spent, "wall_s_this_time": time.perf_counter() - began, "tau": self.config.tau,
            "run": self.config.run_id,
        }  # fmt: skip
        write_atomically(self.out / "summary.json", json.dumps(summary, indent=2) + "\n")
        return summary

    def _baselines(self) -> dict[str, Any]:
        """Everything that is measured before the first update, once a run."""
        kept = self._read_baseline()
        if kept is not None:
            return kept
        began = time.perf_counter()
        found: dict[str, Any] = {}
        for name in ("random", "teacher", "oracle"):
            self.show(f"test seeds: {name}", self.update, self.config.updates)
            episodes = play_all(self.pool, self._plans("test"), {"policy": name, "greedy": False})
            self.log.add(episodes, Author(name), "test", "test", update=0, attempt=self.attempt)
            found[name] = score(episodes)
            self.say(f"{name}: success {_percent(found[name])} on the test seeds")
        sampled, greedy = self._test("before")
        found |= {"baseline": score(sampled), "baseline_greedy": score(greedy)}
        found["baseline_wins"] = [episode.success for episode in sampled]
        self._say_score("before", found["baseline"], found["baseline_greedy"])
        start = self._validate()
        self.best = (start, START)
        found |= {"validation": start, "wall_s": time.perf_counter() - began}
        write_atomically(self.out / BASELINE, json.dumps(found, indent=2) + "\n")
        return found

    def _read_baseline(self) -> dict[str, Any] | None:
        path = self.out / BASELINE
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointError(f"{path}: not JSON ({error}); remove it, and it is measured again") from error

    def _answer(self, before: dict[str, Any]) -> dict[str, Any]:
        """The head on the test seeds: the second and last time that they are touched."""
        began = time.perf_counter()
        head = self.tree.head()
        self.adapter = self._read_adapter(head)
        sampled, greedy = self._test("after")
        rise, low, high = paired_difference(before["baseline_wins"], [episode.success for episode in sampled])
        trained = score(sampled)
        self._say_score(f"after ({head})", trained, score(greedy))
        self.say(f"paired on the same seeds: {100 * rise:+.1f} points (95 %: {100 * low:+.1f} to {100 * high:+.1f})")
        return {
            "trained": trained, "trained_greedy": score(greedy),
            "rise": {"difference": rise, "ci_low": low, "ci_high": high},
            "wall_s": time.perf_counter() - began,
        }  # fmt: skip

    # -- one update -------------------------------------------------------------------------------------------

    def _one_update(self) -> None:
        began = time.perf_counter()
        number = self.update + 1
        self.show(f"update {number}", self.update, self.config.updates)
        shares, play_s = self._collect(number)
        episodes = [episode for share in shares for episode in share]
        credit = credit_episodes(episodes, self.scenario.credit_key, self.values, self.config.credit, self.config.trace)
        live = sum(c.advantage is not None for c in credit)
        jobs = [{"adapter": self.adapter, "credit": [c.advantage for c in part]} for part in _parts(credit, shares)]
        if number == 1 and live:
            found = self.pool.map(prove, jobs)
            self.say("self-proof: " + ", ".join(f"{k} {v:.1e}" if isinstance(v, float) else str(v)
                                                for k, v in found[0].items()))  # fmt: skip
        if number == 1 and not live:
            self.say(self._flat(episodes))
        rate = self._rate(number)
        sums: Gradient | None = None
        norm = 0.0
        if live:
            for again in range(self.config.passes):
                parts = self.pool.map(gradient, [{"adapter": self.adapter}] * len(jobs) if again else jobs)
                mean = {name: sum(p.arrays[name] for p in parts if name in p.arrays) / np.float32(live)
                        for name in self.adapter}  # fmt: skip
                self.adapter, norm = self.optimizer.step(self.adapter, mean, rate)
                sums = _add(parts)
        self.update = number
        self.episodes += len(episodes)
        set_adapter(self.brain, self.adapter)
        self.log.add(episodes, self._author(f"u{number - 1}"), "train", "train", self.prefix_hash, number, self.attempt)
        line = self._line(number, episodes, credit, play_s, sums, live, rate, norm)
        if number % self.config.validate_every == 0 or number == self.config.updates:
            line["validation"] = self._validate()
        line["wall_s"] = time.perf_counter() - began
        self.metrics.append(line)
        name = f"u{number:04d}"
        parent = f"u{number - 1:04d}" if number > 1 else START
        self._save(name, parent, line)
        if line["validation"] is not None and line["validation"] > self.best[0]:
            self.best = (line["validation"], name)
            self.tree.set_head(name)
        with (self.out / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.say(describe(line, self.config.updates))
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
            name = f"u{number}a{self.attempt}/g{group}"
            shares[group % len(shares)] += [
                Plan(seed, self.options, name, f"{self.config.seed}/{number}/{group}/{member}")
                for member in range(self.config.group_size)
            ]
        played = self.pool.map(collect, [{"adapter": self.adapter, "plans": plans} for plans in shares])
        return [episodes for episodes, _ in played], max(seconds for _, seconds in played)

    def _flat(self, episodes: list[Episode]) -> str:
        """What to say where no group of the first update can teach anything."""
        mean = sum(episode.reward for episode in episodes) / len(episodes)
        names = ", ".join(f"--option {option.name}={'|'.join(option.choices)}" for option in self.scenario.options)
        wins = sum(episode.success for episode in episodes)
        remedy = "easier" if wins * 2 < len(episodes) else "harder"
        return (
            f"mis-scaled: every group of the first update earned the same (reward {mean:.3f}, {wins} of "
            f"{len(episodes)} episodes solved), so there is nothing to learn from; make the scenario {remedy} ({names})"
        )

    def _rate(self, number: int) -> float:
        """Linear warm-up, then a cosine that ends at a tenth."""
        if number <= self.config.warmup:
            return self.config.rate * number / (self.config.warmup + 1)
        share = (number - self.config.warmup - 1) / max(1, self.config.updates - self.config.warmup)
        return self.config.rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * share)))

    def _line(self, number: int, episodes: list[Episode], credit: list[Credit], play_s: float, sums: Gradient | None,
              live: int, rate: float, norm: float) -> dict[str, Any]:  # fmt: skip
        good = [episode for episode in episodes if not episode.error]
        rewards = np.array([episode.reward for episode in good])
        turns = sum(len(episode.turns) for episode in episodes)
        tokens = sum(len(turn.prompt_ids) + len(turn.sampled_ids) for e in episodes for turn in e.turns)
        in_groups = {state: sum(c.state == state for c in credit) // self.config.group_size for state in STATES}
        mean = (lambda value: value / live) if live else (lambda value: None)
        line: dict[str, Any] = {
            "update": number, "attempt": self.attempt, "episodes": self.episodes,
            "success": sum(e.success for e in good) / max(1, len(good)),
            "reward": float(rewards.mean()) if good else None,
            "reward_std": float(rewards.std()) if good else None,
            "dead_groups": in_groups["dead"], "failed_groups": in_groups["failed"],
            "turns_per_episode": turns / len(episodes), "learning_rate": rate, "gradient_norm": norm,
            "turns_per_s_rollout": turns / play_s, "tokens_per_s_rollout": tokens / play_s, "validation": None,
        }  # fmt: skip
        if sums is None:
            return line | dict.fromkeys(("kl", "entropy", "clip_fraction", "loss", "worst_log_ratio",
                                         "turns_per_s_train", "tokens_per_s_train"))  # fmt: skip
        return line | {
            "kl": mean(sums.kl), "entropy": mean(sums.entropy), "clip_fraction": mean(sums.clipped),
            "loss": mean(sums.loss), "worst_log_ratio": sums.worst_ratio,
            "turns_per_s_train": sums.turns / sums.train_s, "tokens_per_s_train": sums.tokens / sums.train_s,
        }  # fmt: skip

    def _plans(self, split: str) -> list[Plan]:
        """One episode on each held-out seed; every policy of this run meets them with the same dice."""
        count = self.config.test_episodes if split == "test" else self.config.validation_episodes
        return plans_for(self.scenario, split, count, self.options, f"{self.config.seed}/")

    # -- measuring --------------------------------------------------------------------------------------------

    def _test(self, when: str) -> tuple[list[Episode], list[Episode]]:
        """The present adapter on the test seeds, sampled and greedy."""
        plans = self._plans("test")
        both = []
        for greedy in (False, True):
            how = "greedy" if greedy else "sampled"
            self.show(f"test seeds {when}, {how}", self.update, self.config.updates)
            episodes = play_all(self.pool, plans, {"adapter": self.adapter, "greedy": greedy})
            # what follows the last update is a step of its own, so that playing it again abandons no training
            step = self.update + 1 if when == "after" else 0
            self.log.add(episodes, self._author(when), f"test {when}", "test", self.prefix_hash, step, self.attempt)
            both.append(episodes)
        return both[0], both[1]

    def _validate(self) -> float:
        """Sampled success on the validation seeds."""
        self.show("validation seeds", self.update, self.config.updates)
        episodes = play_all(self.pool, self._plans("validation"), {"adapter": self.adapter, "greedy": False})
        self.log.add(episodes, self._author(f"u{self.update}"), "validation", "validation", self.prefix_hash,
                     self.update, self.attempt)  # fmt: skip
        return score(episodes)["success"]

    def _author(self, node: str) -> Author:
        set_adapter(self.brain, self.adapter)
        return Author(f"{self.config.model}:{node}", self.config.model, self.config.adapter, weights_hash(self.brain),
                      self.brain.base_hash, self.brain.tokenizer_hash)  # fmt: skip

    def _say_score(self, when: str, sampled: dict[str, Any], greedy: dict[str, Any]) -> None:
        self.say(f"{when}: success {_percent(sampled)} sampled, {100 * greedy['success']:.1f} % greedy")

    # -- keeping ----------------------------------------------------------------------------------------------

    def _save(self, name: str, parent: str | None, metrics: dict[str, Any]) -> None:
        set_adapter(self.brain, self.adapter)
        facts = {
            "update": self.update, "parent": parent, "episodes": self.episodes, "attempt": self.attempt,
            "metrics": metrics, "best": list(self.best) if math.isfinite(self.best[0]) else None,
            "random_state": {"seed": self.config.seed, "next_update": self.update + 1}, "values": self.values.sums,
        }  # fmt: skip

        def write(folder: Path) -> None:
            save_adapter(self.brain, folder, {
                "scenario": self.config.scenario, "scenario_version": self.scenario.version,
                "source_hash": self.scenario.source_hash, "run": self.config.run_id, "update": self.update,
                "started_from": self.config.adapter, "seed": self.config.seed,
            })  # fmt: skip
            if self.update:
                self.optimizer.save(folder / "optimizer.safetensors")

        self.tree.add(name, facts, write)
        if parent is None:
            self.tree.set_head(name)

    def _begin(self, resume: bool) -> None:
        """The first checkpoint, or the last one of a run that goes on (the first, where it never came to one)."""
        if resume and self.tree.names():
            self._go_on()
        else:
            self._save(START, None, {})

    def _go_on(self) -> None:
        """Takes up the run at its last checkpoint; what was done after it is abandoned, and stays in the log."""
        last = self.tree.names()[-1]
        facts = self.tree.read(last)
        for name in ("update", "episodes", "values"):
            if name not in facts:
                raise CheckpointError(f"{self.tree.folder(last) / 'node.json'}: field {name} is missing")
        self.update, self.episodes = facts["update"], facts["episodes"]
        tried = self.out / "attempt"
        self.attempt = int(tried.read_text(encoding="utf-8")) + 1 if tried.is_file() else 1
        write_atomically(tried, f"{self.attempt}\n")
        self.adapter = self._read_adapter(last)
        made_under = load_adapter(self.brain, self.tree.folder(last))
        for name, ours in (("scenario_version", self.scenario.version), ("source_hash", self.scenario.source_hash)):
            if made_under.get(name) != ours:
                path = self.tree.folder(last) / "provenance.json"
                raise CheckpointError(
                    f"{path}: {name} is {made_under.get(name)!r}, this program has {ours!r}: the rules or the reward "
                    "have changed since, so the run can't go on; start a new one"
                )
        self.values.sums = facts["values"]
        if self.update:
            self.optimizer.load(self.tree.folder(last) / "optimizer.safetensors")
        before = self._read_baseline()
        if before is not None:
            self.best = (before["validation"], START)
        for name in self.tree.names():
            metrics = self.tree.read(name)["metrics"]
            if not metrics:
                continue
            self.metrics.append(metrics)
            if metrics["validation"] is not None and metrics["validation"] > self.best[0]:
                self.best = (metrics["validation"], name)
        self.tree.set_head(self.best[1])
        lines = "".join(json.dumps(line) + "\n" for line in self.metrics)
        write_atomically(self.out / "metrics.jsonl", lines)
        self.say(f"resuming {self.out} after update {self.update} of {self.config.updates}")

    def _read_adapter(self, node: str) -> dict[str, np.ndarray]:
        load_adapter(self.brain, self.tree.folder(node))
        return {name: np.array(value) for name, value in get_adapter(self.brain).items()}


def resume_config(out: Path) -> TrainConfig:
    """The config of a run that is to go on."""
    return from_run(read_run(out), str(out / "run.toml"))


def describe(line: dict[str, Any], updates: int) -> str:
    """One line an update, for people."""

    def show(name: str, form: str) -> str:
        return "-" if line[name] is None else format(line[name], form)

    validation = "" if line["validation"] is None else f"  validation {100 * line['validation']:.1f} %"
    return (
        f"update {line['update']}/{updates}  episodes {line['episodes']}  success {100 * line['success']:.1f} %  "
        f"reward {show('reward', '.3f')} ± {show('reward_std', '.3f')}  dead {line['dead_groups']} "
        f"failed {line['failed_groups']}  kl {show('kl', '.4f')}  entropy {show('entropy', '.3f')}  "
        f"clip {show('clip_fraction', '.3f')}  loss {show('loss', '.4f')}  "
        f"turns/s {show('turns_per_s_rollout', '.0f')} play {show('turns_per_s_train', '.0f')} train  "
        f"tokens/s {show('tokens_per_s_rollout', '.0f')} play {show('tokens_per_s_train', '.0f')} train{validation}"
    )


def _percent(found: dict[str, Any]) -> str:
    low, high = 100 * found["ci_low"], 100 * found["ci_high"]
    return f"{100 * found['success']:.1f} % (95 %: {low:.1f} to {high:.1f}, n={found['n']})"


def _start_brain(config: TrainConfig) -> Brain:
    brain = load(config.model)
    if config.adapter:
        load_adapter(brain, config.adapter)
    else:
        attach(brain, config.rank, config.scale)
    return brain


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
