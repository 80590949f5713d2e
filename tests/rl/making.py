"""A small run folder, played by rules instead of a model, and a tiny untrained model with its adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import scenarios
from npc.decision import Decision
from rl.config import TrainConfig
from rl.evaluation import plans_for, score
from rl.files import write_run
from rl.logbook import Author, Logbook
from rl.policies import ScriptedPolicy, TurnView
from rl.rollout import Episode, play, uniform
from rl.statistics import paired_difference
from rl.tree import Tree

FETCH = scenarios.get("fetch_item")


class Clumsy:
    """The teacher, but for a share of its turns in which it does anything at all."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.teacher = ScriptedPolicy("teacher", FETCH)

    def decide(self, turns: Sequence[TurnView], uniforms: Sequence[float] | None) -> list[Decision]:
        meant = self.teacher.decide(turns, uniforms)
        return [self._one(turn, decision, None if uniforms is None else uniforms[i])
                for i, (turn, decision) in enumerate(zip(turns, meant, strict=True))]  # fmt: skip

    def _one(self, turn: TurnView, meant: Decision, drawn: float | None) -> Decision:
        count = len(turn.legal)
        probs = [self.share / count + (1 - self.share) * (i == meant.index) for i in range(count)]
        index = meant.index if drawn is None else min(int(np.searchsorted(np.cumsum(probs), drawn, "right")), count - 1)
        return Decision(turn.legal[index], index, probs, float(np.log(probs[index])), [], [], [], 1.0, drawn is None)


def fake_run(folder: Path, episodes: int = 24, updates: int = 4, seed: int = 0, finished: bool = True) -> Path:
    """A run folder as the trainer leaves it, in which a clumsy teacher grew less clumsy."""
    folder.mkdir(parents=True)
    config = TrainConfig(
        scenario=FETCH.name, model="nano", adapter="somewhere", options=FETCH.resolve_options({}), seed=seed,
        updates=updates, groups=2, group_size=4, validation_episodes=12, test_episodes=episodes, run_id=f"fake{seed}",
    )  # fmt: skip
    write_run(folder, msgspec.to_builtins(config))
    shares = np.linspace(0.6, 0.1, updates + 1).tolist()
    with Logbook(folder / "episodes.b22", FETCH, "python -m rl.train", config.run_id) as log:
        found: dict[str, Any] = {}
        plans = plans_for(FETCH, "test", episodes, config.options, f"{seed}/")
        for name in ("random", "teacher", "oracle"):
            played = play(ScriptedPolicy(name, FETCH), FETCH, plans)
            log.add(played, Author(name), "test", "test")
            found[name] = score(played)

        def test(when: str, share: float) -> list[Episode]:
            both = [play(Clumsy(share), FETCH, plans, greedy) for greedy in (False, True)]
            for played in both:
                log.add(played, Author(f"nano:{when}", "nano"), f"test {when}", "test")
            name = {"before": "baseline", "after": "trained"}[when]
            found[name], found[f"{name}_greedy"] = score(both[0]), score(both[1])
            return both[0]

        before = test("before", shares[0])
        looked = plans_for(FETCH, "validation", 12, config.options, f"{seed}/")
        found["baseline_wins"] = [episode.success for episode in before]
        found["validation"] = score(play(Clumsy(shares[0]), FETCH, looked))["success"]
        _write(folder / "baseline.json", {**found, "wall_s": 1.5})
        tree = Tree(folder / "checkpoints")
        tree.add("start", {"update": 0, "parent": None, "metrics": {}}, lambda place: None)
        tree.set_head("start")
        count = 0
        lines = []
        for update in range(1, updates + 1):
            played = play(Clumsy(shares[update - 1]), FETCH, _groups(config, update))
            log.add(played, Author(f"nano:u{update - 1}", "nano"), "train", "train", update=update)
            count += len(played)
            validation = score(play(Clumsy(shares[update]), FETCH, looked))["success"] if update % 2 == 0 else None
            lines.append(_line(update, count, played, validation))
            name, parent = f"u{update:04d}", f"u{update - 1:04d}" if update > 1 else "start"
            tree.add(name, {"update": update, "parent": parent, "metrics": lines[-1]}, lambda place: None)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if not finished:
            return folder
        head = f"u{updates:04d}"
        tree.set_head(head)
        after = test("after", shares[-1])
        rise, low, high = paired_difference(found["baseline_wins"], [episode.success for episode in after])
        _write(folder / "summary.json", {
            **found, "scenario": FETCH.name, "options": config.options, "model": "nano", "seed": seed, "head": head,
            "rise": {"difference": rise, "ci_low": low, "ci_high": high}, "episodes": count, "updates": updates,
            "kl_final": 0.1, "wall_s": 61.0, "tau": 1.0, "run": config.run_id,
        })  # fmt: skip
    return folder


def _groups(config: TrainConfig, update: int) -> list[Any]:
    from rl.rollout import Plan

    seeds = [int(uniform(f"{config.seed}/train/{update}", group) * 1_000_000) for group in range(config.groups)]
    return [Plan(seed, config.options, f"u{update}a0/g{group}", f"{config.seed}/{update}/{group}/{member}")
            for group, seed in enumerate(seeds) for member in range(config.group_size)]  # fmt: skip


def _line(update: int, count: int, played: list[Episode], validation: float | None) -> dict[str, Any]:
    rewards = np.array([episode.reward for episode in played])
    return {
        "update": update, "attempt": 0, "episodes": count, "success": sum(e.success for e in played) / len(played),
        "reward": float(rewards.mean()), "reward_std": float(rewards.std()), "dead_groups": update % 2,
        "failed_groups": 0, "validation": validation, "kl": 0.01 * update, "entropy": 1.5 - 0.1 * update,
        "clip_fraction": 0.05, "loss": 0.1,
        "turns_per_s_rollout": 400.0, "turns_per_s_train": 200.0, "wall_s": 2.0,
    }  # fmt: skip


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def tiny_model(folder: Path) -> tuple[Path, Path]:
    """(model folder, adapter folder): the embedded model's tokenizer over a tiny body, untrained."""
    from npc.adapters import attach, get_adapter, save_adapter, set_adapter
    from npc.llama import LlamaConfig
    from npc.models import create, save_model
    from rl.teach_base import nano_tokenizer

    tokenizer = nano_tokenizer()
    shape = LlamaConfig(tokenizer.vocab_size, hidden_size=32, num_hidden_layers=1, intermediate_size=64,
                        num_attention_heads=2, num_key_value_heads=2, head_dim=16)  # fmt: skip
    brain = create(shape, tokenizer, seed=1, name="tiny")
    save_model(brain, folder / "model")
    attach(brain, rank=2)
    dice = np.random.default_rng(2)  # B away from zero, so that the adapter does something
    set_adapter(brain, {name: np.array(value) + 0.1 * dice.standard_normal(value.shape, dtype=np.float32)
                        for name, value in get_adapter(brain).items()})  # fmt: skip
    save_adapter(brain, folder / "adapter", {"scenario": FETCH.name})
    return folder / "model", folder / "adapter"
