"""The training loop: play groups, credit them, step, validate; the best validated checkpoint becomes the head."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import scenarios
from npc.adapters import weights_hash
from npc.models import Brain
from rl.config import TrainConfig
from rl.credit import Credit, credit_episodes
from rl.files import write_run
from rl.gathering import Gathered, Gathering
from rl.health import SMALLER, collapse
from rl.keeping import Keeper, RunState, Say, Show, adapter_arrays, start_brain
from rl.learner import Gradient, Settings, Worker, give, gradient, probe, spread_now
from rl.logbook import Logbook
from rl.losses import LOSSES, Limits
from rl.measuring import Measuring
from rl.objective import Goal
from rl.offline import OfflineError, Recorded, read_groups
from rl.optim import Optimizer
from rl.policies import ModelPolicy
from rl.proof import prove
from rl.ranks import Ranks
from rl.rollout import Episode
from rl.schedule import rate_at
from rl.seeds import ladder_of
from rl.starting import start_runtime
from rl.tree import START
from rl.update_line import describe, finite, lag_of, learned, mis_scaled, update_line
from rl.weights import Spread

MEASURED = ("baseline", "baseline_greedy", "random", "teacher", "oracle")  # of a run that plays the test seeds


class Trainer:
    """One run in one folder. `run()` trains to the end; a run that was stopped goes on from its last checkpoint.

    Each of several `ranks` that learn as one does all of this, in a folder of its own.
    """

    def __init__(self, out: Path, config: TrainConfig, say: Say, resume: bool, show: Show = lambda *_: None,
                 ranks: Ranks | None = None) -> None:  # fmt: skip
        self.config = config
        self.ranks = ranks or Ranks()
        self.say = say
        self.show = show
        self.watchers: list[Callable[[dict[str, Any]], None]] = []  # each is given every update's line
        self.scenario = scenarios.get(config.scenario)
        self.options = self.scenario.resolve_options(config.options)
        brain = start_brain(config)
        self.start_hash = weights_hash(brain)
        self.keeper = Keeper(out, config, self.scenario, brain)
        self.state = RunState(adapter_arrays(brain), Optimizer(max_norm=config.max_norm))
        goal = Goal(config.loss, Limits(config.epsilon, config.epsilon_high, config.delta or math.inf,
                                        self.scenario.turn_cap),
                    config.kl_weight, config.entropy_weight, config.imitation)  # fmt: skip
        settings = Settings(config.scenario, config.model, config.rank, config.scale, config.tau, goal,
                            config.credit == "branch", config.rows)  # fmt: skip
        self.recorded = self._read_logs(brain, settings, check=not resume)
        with ExitStack() as opened:
            self.runtime = start_runtime(config, settings, brain, self.scenario, say, self.ranks)
            opened.callback(self.runtime.close)
            self.pool = self.runtime.pool
            if not resume:
                write_run(out, msgspec.to_builtins(config))
            # opening the log takes its lock: a run that is still running is left alone
            self.log = Logbook(out / "episodes.b22", self.scenario, "python -m rl.train", config.run_id, append=resume)
            opened.callback(self.log.close)
            if resume and self.keeper.take_up(self.state):
                say(f"resuming {out} after update {self.state.update} of {config.updates}")
            else:
                self.keeper.save(self.state, START, None, {})
            opened.pop_all()
        self.prefix_hash = self.log.add_prefix(brain.tokenizer.encode(self.scenario.prefix), brain.tokenizer_hash)
        self.measuring = Measuring(config, self.scenario, brain, self.runtime, self.log, self.prefix_hash, say, show)
        groups = self.recorded.groups if self.recorded else []
        self.gathering = Gathering(config, self.scenario, self.runtime, groups)

    def close(self) -> None:
        self.runtime.close()
        self.log.close()

    def run(self) -> dict[str, Any]:
        """Baselines, updates, the answer. Returns what summary.json holds."""
        began = time.perf_counter()
        before = self.baselines()
        while self.state.update < self.config.updates and not self.state.stopped:
            self.one_update()
        after = self.answer(before)
        spent = sum(line["wall_s"] for line in self.state.metrics) + before["wall_s"] + after.pop("wall_s")
        head = self.keeper.tree.head()
        summary = {
            "scenario": self.config.scenario, "options": self.options, "model": self.config.model,
            "seed": self.config.seed, "adapter": str(self.keeper.tree.folder(head)), "head": head,
            "started_from": self.config.adapter,
            **{name: before[name] for name in MEASURED if name in before},
            **after, "episodes": self.state.episodes, "updates": self.state.update,
            "kl_final": next((m["kl"] for m in reversed(self.state.metrics) if m["kl"] is not None), 0.0),
            "wall_s": spent, "wall_s_this_time": time.perf_counter() - began, "tau": self.config.tau,
            "run": self.config.run_id, "rollbacks": self.state.rollbacks, "stopped": self.state.stopped,
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
        found = self.gathering.gather(state, number, author)
        shares = found.shares
        episodes = [episode for share in shares for episode in share]
        played = [episode for share in found.played for episode in share]
        credit = credit_episodes(episodes, self.scenario.credit_key, state.values, config.credit, config.trace,
                                 LOSSES[config.loss].scaled, "turn_cap" if config.mask_truncated else "")  # fmt: skip
        state.book.learn(played, ladder_of(self.scenario))
        rate = state.rate_scale * rate_at(number, config.updates, config.rate, config.warmup)
        gained = self._learn(number, credit, found, rate)
        self.ranks.agree(f"adapter after update {number}", state.adapter)
        if number == 1 and gained is None:
            self.say(mis_scaled(episodes, self.scenario))
        state.update = number
        state.episodes += len(played)
        for version, by_it in found.by_version:
            self.log.add(by_it, version.author, "train", "train", self.prefix_hash, number, state.attempt)
        line = update_line(number, state.attempt, state.episodes, episodes, credit, played, found.play_s, rate)
        line |= (gained or {}) | lag_of(found.lags) | self.runtime.losses()
        broken = collapse(line, config, state.best[0])
        last = number == config.updates or bool(state.stopped)
        if broken is None and (number % config.validate_every == 0 or last):
            line["validation"] = self.measuring.validate(state)
            broken = collapse(line, config, state.best[0])
        self._finish(line, broken, began)
        for episode in episodes:
            if episode.error:
                why = episode.error.splitlines()[-1]
                self.say(f"a failed episode (seed {episode.plan.seed}) dropped its group: {why}")

    def _finish(self, line: dict[str, Any], broken: str | None, began: float) -> None:
        """Saves the update's checkpoint and its line; goes back to the best validated one where this is a collapse."""
        state, config = self.state, self.config
        name, back_to = self.keeper.tree.name_for(state.update), None
        if broken is not None:
            back_to = state.best[1]
            line["rolled_back_to"] = back_to
            state.rate_scale *= SMALLER
            state.rollbacks += 1
            if state.rollbacks > config.rollbacks:
                state.stopped = f"{state.rollbacks} roll-backs, more than --rollbacks {config.rollbacks}"
        line["wall_s"] = time.perf_counter() - began
        line = finite(line)
        state.metrics.append(line)
        self.keeper.save(state, name, state.node, line, back_to)
        if broken is None and line["validation"] is not None and line["validation"] > state.best[0]:
            state.best = (line["validation"], name)
            self.keeper.tree.set_head(name)
        self.keeper.add_line(line)
        for watch in self.watchers:
            watch(line)
        self.say(describe(line, config.updates))
        if back_to is not None:
            self.keeper.go_to(state, back_to)
            self.say(f"roll-back: {broken}; back to {back_to}, the best on validation seeds, and on with "
                     f"{state.rate_scale:g} of the learning rate")  # fmt: skip
        if state.stopped:
            self.say(f"training ends here: {state.stopped}; {self.keeper.tree.head()} plays")

    def _read_logs(self, brain: Brain, settings: Settings, check: bool) -> Recorded | None:
        """What is learned from offline. With `check`, raises OfflineError where the start is too far from the policy
        that was recorded for its log to say anything."""
        if not self.config.offline:
            return None
        found = read_groups(self.config.offline, self.scenario, brain, self.config.tau)
        episodes = [episode for group in found.groups for episode in group]
        policy = ModelPolicy(brain, self.scenario.prefix, self.config.tau, self.scenario.free_text)
        spread = spread_now(Worker(settings, policy, self.scenario, {}), episodes) if check else Spread()
        if check and spread.by_turn is None and not self.config.imitation:
            raise OfflineError(
                f"{self.config.offline[0]}: no turn in it was sampled from a model with its probabilities; learn from "
                "such turns by advantage-weighted imitation: --imitation 1"
            )
        if spread.by_turn is not None and spread.by_episode is not None:
            shown = (f"effective sample size at the start: {100 * spread.by_turn:.1f} % of the actions, "
                     f"{100 * spread.by_episode:.1f} % of the episodes")  # fmt: skip
            if spread.by_turn < self.config.ess_floor:
                raise OfflineError(
                    f"{self.config.offline[0]}: {shown}; below --ess-floor {self.config.ess_floor:g}: the adapter that "
                    "this starts from is too far from what was recorded; start from the recorded one, or record anew"
                )
            self.say(f"offline: {len(found.groups)} groups, {len(episodes)} episodes ({found.left_out} left out); "
                     f"{shown}")  # fmt: skip
        return found

    def _learn(self, number: int, credit: Sequence[Credit], found: Gathered, rate: float) -> dict[str, Any] | None:
        """Takes the optimizer's steps; what was learned from, or None where all groups are dead and no step is taken.
        Proves the trainer before its first step."""
        state, config = self.state, self.config
        if not any(c.given is not None for c in credit):
            return None
        if any(found.replayed):
            self.pool.map(give, found.replayed)
        jobs = [{"adapter": state.adapter, "credit": [c.given for c in part], "others_play": self._others_play()}
                for part in _parts(credit, found.shares)]  # fmt: skip
        if number == 1:
            proved = self.pool.map(prove, jobs)
            self.say("self-proof: " + ", ".join(f"{k} {v:.1e}" if isinstance(v, float) else str(v)
                                                for k, v in proved[0].items()))  # fmt: skip
        norm = 0.0
        for again in range(config.passes):
            total = self.pool.total(gradient, [{"adapter": state.adapter}] * len(jobs) if again else jobs,
                                    state.adapter)  # fmt: skip
            if not total.counts.rows or not total.arrays:
                return None
            denominator = LOSSES[config.loss].denominator(total.counts)
            if self._spent(total, again):
                break
            mean = {name: total.arrays[name] / np.float32(denominator) for name in state.adapter}
            moved, norm = state.optimizer.step(state.adapter, mean, rate)
            if not math.isfinite(norm):
                break
            state.adapter = moved
        probed = self.pool.map(probe, [state.adapter] * len(jobs))
        kl_after = sum(value for value, _ in probed) / max(1, sum(count for _, count in probed))
        return learned(total, denominator, norm, kl_after)

    def _others_play(self) -> bool:
        """Whether other weights than those that the run started from recorded what is learned from."""
        return self.recorded is not None and self.recorded.weights != {self.start_hash}

    def _spent(self, total: Gradient, again: int) -> bool:
        """Whether the weights of recorded turns are too uneven to step on. At the first pass that ends the training."""
        share = total.spread.by_turn
        if self.recorded is None or share is None or share >= self.config.ess_floor:
            return False
        if again == 0:
            self.state.stopped = (
                f"the effective sample size is {100 * share:.1f} % of the actions, below --ess-floor "
                f"{self.config.ess_floor:g}: the policy has moved too far from what was recorded"
            )
        return True


def _parts(credit: Sequence[Credit], shares: Sequence[Sequence[Episode]]) -> list[list[Credit]]:
    """`credit` cut into the pieces that belong to each worker's share."""
    parts, start = [], 0
    for share in shares:
        parts.append(list(credit[start : start + len(share)]))
        start += len(share)
    return parts
