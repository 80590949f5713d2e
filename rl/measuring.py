"""What a run measures: the held-out seeds before and after, and the validation seeds in between."""

from __future__ import annotations

import time
from typing import Any

from npc.adapters import set_adapter, weights_hash
from npc.models import Brain
from rl.config import TrainConfig
from rl.evaluation import plans_for, score
from rl.keeping import RunState, Say, Show
from rl.logbook import Author, Logbook
from rl.rollout import Episode, Plan
from rl.runtime import Runtime
from rl.statistics import paired_difference
from scenarios.contract import Scenario


class Measuring:
    """Plays a run's held-out seeds, and logs what it played."""

    def __init__(self, config: TrainConfig, scenario: Scenario, brain: Brain, runtime: Runtime, log: Logbook,
                 prefix_hash: str, say: Say, show: Show) -> None:  # fmt: skip
        self.config = config
        self.scenario = scenario
        self.options = scenario.resolve_options(config.options)
        self.brain = brain
        self.runtime = runtime
        self.log = log
        self.prefix_hash = prefix_hash
        self.say = say
        self.show = show

    def before(self, state: RunState) -> dict[str, Any]:
        """Everything that is measured before the first update."""
        began = time.perf_counter()
        found: dict[str, Any] = {}
        if self.config.no_eval:
            return {"validation": self.validate(state), "wall_s": time.perf_counter() - began}
        for name in ("random", "teacher", "oracle"):
            self.show(f"test seeds: {name}", state.update, self.config.updates)
            episodes = self.runtime.play(self._plans("test"), {"policy": name, "greedy": False})
            self.log.add(episodes, Author(name), "test", "test", update=0, attempt=state.attempt)
            found[name] = score(episodes)
            self.say(f"{name}: success {_percent(found[name])} on the test seeds")
        sampled, greedy = self._test(state, "before")
        found |= {"baseline": score(sampled), "baseline_greedy": score(greedy)}
        found["baseline_wins"] = [episode.success for episode in sampled]
        self._say_score("before", found["baseline"], found["baseline_greedy"])
        start = self.validate(state)
        return found | {"validation": start, "wall_s": time.perf_counter() - began}

    def after(self, state: RunState, before: dict[str, Any], head: str) -> dict[str, Any]:
        """The present adapter, the head's, on the test seeds: the second and last time that they are touched."""
        began = time.perf_counter()
        if self.config.no_eval:
            return {"wall_s": 0.0}
        sampled, greedy = self._test(state, "after")
        rise, low, high = paired_difference(before["baseline_wins"], [episode.success for episode in sampled])
        trained = score(sampled)
        self._say_score(f"after ({head})", trained, score(greedy))
        self.say(f"paired on the same seeds: {100 * rise:+.1f} points (95 %: {100 * low:+.1f} to {100 * high:+.1f})")
        return {
            "trained": trained, "trained_greedy": score(greedy),
            "rise": {"difference": rise, "ci_low": low, "ci_high": high},
            "wall_s": time.perf_counter() - began,
        }  # fmt: skip

    def validate(self, state: RunState) -> float:
        """Sampled success on the validation seeds."""
        self.show("validation seeds", state.update, self.config.updates)
        episodes = self.runtime.play(self._plans("validation"), {"adapter": state.adapter, "greedy": False})
        self.log.add(episodes, self.author(state, f"u{state.update}"), "validation", "validation", self.prefix_hash,
                     state.update, state.attempt)  # fmt: skip
        return score(episodes)["success"]

    def author(self, state: RunState, node: str) -> Author:
        """The present adapter as the log names who plays."""
        set_adapter(self.brain, state.adapter)
        return Author(f"{self.config.model}:{node}", self.config.model, self.config.adapter, weights_hash(self.brain),
                      self.brain.base_hash, self.brain.tokenizer_hash)  # fmt: skip

    def _test(self, state: RunState, when: str) -> tuple[list[Episode], list[Episode]]:
        """The present adapter on the test seeds, sampled and greedy."""
        plans = self._plans("test")
        both = []
        for greedy in (False, True):
            how = "greedy" if greedy else "sampled"
            self.show(f"test seeds {when}, {how}", state.update, self.config.updates)
            episodes = self.runtime.play(plans, {"adapter": state.adapter, "greedy": greedy})
            # what follows the last update is a step of its own, so that playing it again abandons no training
            step = state.update + 1 if when == "after" else 0
            author = self.author(state, when)
            self.log.add(episodes, author, f"test {when}", "test", self.prefix_hash, step, state.attempt)
            both.append(episodes)
        return both[0], both[1]

    def _plans(self, split: str) -> list[Plan]:
        """One episode on each held-out seed; every policy of this run meets them with the same dice."""
        count = self.config.test_episodes if split == "test" else self.config.validation_episodes
        return plans_for(self.scenario, split, count, self.options, f"{self.config.seed}/")

    def _say_score(self, when: str, sampled: dict[str, Any], greedy: dict[str, Any]) -> None:
        reward = f"{sampled['mean_reward']:.3f} ({sampled['reward_low']:.3f} to {sampled['reward_high']:.3f})"
        self.say(f"{when}: success {_percent(sampled)} sampled, {100 * greedy['success']:.1f} % greedy; "
                 f"mean reward {reward}")  # fmt: skip


def _percent(found: dict[str, Any]) -> str:
    low, high = 100 * found["ci_low"], 100 * found["ci_high"]
    return f"{100 * found['success']:.1f} % (95 %: {low:.1f} to {high:.1f}, n={found['n']})"
