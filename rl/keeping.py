"""What a run keeps: its state between two updates, and the folder that it is saved to and taken up from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import scenarios
from npc.adapters import attach, get_adapter, load_adapter, save_adapter, set_adapter
from npc.models import Brain, load
from rl.config import TrainConfig, from_run
from rl.files import CheckpointError, read_run, write_atomically
from rl.optim import Arrays, Optimizer
from rl.seeds import SeedBook
from rl.tree import START, Tree, branch_of
from rl.values import Values
from scenarios.contract import Scenario

BASELINE = "baseline.json"


@dataclass
class RunState:
    """All that the next update depends on besides the config. `node` is the checkpoint that it goes on from, `best`
    the success on validation seeds and the node that had it. `rate_scale` is what roll-backs left of the learning rate;
    `stopped` says why training ended early, if it did."""

    adapter: Arrays
    optimizer: Optimizer = field(default_factory=Optimizer)
    values: Values = field(default_factory=Values)
    book: SeedBook = field(default_factory=SeedBook)
    rate_scale: float = 1.0
    rollbacks: int = 0
    stopped: str = ""
    update: int = 0
    attempt: int = 0
    episodes: int = 0
    node: str = START
    best: tuple[float, str] = (-math.inf, START)
    metrics: list[dict[str, Any]] = field(default_factory=list)


class Keeper:
    """Saves a run's state as nodes of its checkpoint tree, and takes it up from there."""

    def __init__(self, out: Path, config: TrainConfig, scenario: Scenario, brain: Brain) -> None:
        self.out = out
        self.config = config
        self.scenario = scenario
        self.brain = brain
        self.tree = Tree(out / "checkpoints")

    def save(self, state: RunState, name: str, parent: str | None, metrics: dict[str, Any],
             back_to: str | None = None) -> None:  # fmt: skip
        """Makes node `name` of the present state; the first one becomes the head. `back_to` is the node that the run
        goes on from instead, where this one collapsed."""
        set_adapter(self.brain, state.adapter)
        facts = {
            "update": state.update, "parent": parent, "episodes": state.episodes, "attempt": state.attempt,
            "metrics": metrics, "best": list(state.best) if math.isfinite(state.best[0]) else None,
            "random_state": {"seed": self.config.seed, "next_update": state.update + 1}, "values": state.values.sums,
            "seeds": state.book.plain(), "rate_scale": state.rate_scale, "rollbacks": state.rollbacks,
            "stopped": state.stopped, "rolled_back_to": back_to,
        }  # fmt: skip

        def write(folder: Path) -> None:
            save_adapter(self.brain, folder, {
                "scenario": self.config.scenario, "scenario_version": self.scenario.version,
                "source_hash": self.scenario.source_hash, "run": self.config.run_id, "update": state.update,
                "started_from": self.config.adapter, "seed": self.config.seed,
            })  # fmt: skip
            if state.update:
                state.optimizer.save(folder / "optimizer.safetensors")

        self.tree.add(name, facts, write)
        state.node = name
        if parent is None:
            self.tree.set_head(name)

    def take_up(self, state: RunState) -> bool:
        """Brings `state` to the checkpoint that the run goes on from: the last one, or where a branch begins. False
        where it never came to one. What was done after it is abandoned, and stays in the log."""
        last = self.tree.tip()
        if last is None:
            return False
        facts = self._facts(last)
        state.update, state.episodes = facts["update"], facts["episodes"]
        state.rate_scale, state.rollbacks, state.stopped = facts["rate_scale"], facts["rollbacks"], facts["stopped"]
        tried = self.out / "attempt"
        state.attempt = int(tried.read_text(encoding="utf-8")) + 1 if tried.is_file() else 1
        write_atomically(tried, f"{state.attempt}\n")
        self._check_rules(last)
        state.book.restore(facts["seeds"])
        self.go_to(state, facts["rolled_back_to"] or last)
        # what led to this node, and what this line went back from
        branch = self.tree.line().branch
        led = set(self.tree.path(last))
        told = [name for name in self.tree.names() if name in led or branch_of(name) == branch]
        state.metrics = [line for name in told if (line := self.tree.read(name)["metrics"])]
        best = self.tree.best()
        if best is not None:
            state.best = (self.tree.scores()[best], best)
        self.tree.set_head(state.best[1])
        lines = "".join(json.dumps(line) + "\n" for line in state.metrics)
        write_atomically(self.out / "metrics.jsonl", lines)
        return True

    def go_to(self, state: RunState, node: str) -> None:
        """Brings adapter, optimizer and worths of stages to those of `node`, from which the run goes on."""
        facts = self._facts(node)
        state.adapter = self.read_adapter(node)
        state.optimizer = Optimizer(max_norm=self.config.max_norm)
        if facts["update"]:
            state.optimizer.load(self.tree.weights(node) / "optimizer.safetensors")
        state.values.sums = facts["values"]
        state.node = node

    def _facts(self, node: str) -> dict[str, Any]:
        """A node's facts. Raises CheckpointError where one is missing."""
        facts = self.tree.read(node)
        for name in ("update", "episodes", "values", "seeds", "rate_scale", "rollbacks", "stopped", "rolled_back_to"):
            if name not in facts:
                raise CheckpointError(f"{self.tree.folder(node) / 'node.json'}: field {name} is missing")
        return facts

    def add_line(self, line: dict[str, Any]) -> None:
        """One more line of metrics.jsonl."""
        with (self.out / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def read_baseline(self) -> dict[str, Any] | None:
        """What was measured before the first update, once it was."""
        path = self.out / BASELINE
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointError(f"{path}: not JSON ({error}); remove it, and it is measured again") from error

    def write_baseline(self, found: dict[str, Any]) -> None:
        write_atomically(self.out / BASELINE, json.dumps(found, indent=2) + "\n")

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_atomically(self.out / "summary.json", json.dumps(summary, indent=2) + "\n")

    def read_adapter(self, node: str) -> Arrays:
        """A node's adapter; the brain holds it afterwards."""
        load_adapter(self.brain, self.tree.weights(node))
        return adapter_arrays(self.brain)

    def _check_rules(self, node: str) -> None:
        made_under = load_adapter(self.brain, self.tree.folder(node))
        for name, ours in (("scenario_version", self.scenario.version), ("source_hash", self.scenario.source_hash)):
            if made_under.get(name) != ours:
                path = self.tree.folder(node) / "provenance.json"
                raise CheckpointError(
                    f"{path}: {name} is {made_under.get(name)!r}, this program has {ours!r}: the rules or the reward "
                    "have changed since, so the run can't go on; start a new one"
                )


def start_brain(config: TrainConfig) -> Brain:
    """The model with the adapter that the run starts from."""
    brain = load(config.model)
    brain.check_speaks(scenarios.get(config.scenario).vocabulary)
    if config.adapter:
        load_adapter(brain, config.adapter)
    else:
        attach(brain, config.rank, config.scale)
    return brain


def adapter_arrays(brain: Brain) -> Arrays:
    """The adapter's tensors in memory, by name."""
    return {name: np.array(value) for name, value in get_adapter(brain).items()}


def resume_config(out: Path) -> TrainConfig:
    """The config of a run that is to go on: its own, with what the branch that it is on changes."""
    return from_run(read_run(out) | Tree(out / "checkpoints").line().settings, str(out / "run.toml"))


Say = Callable[[str], None]  # takes a line for people
Show = Callable[[str, int, int], None]  # takes what is being done, how much of it is done, and how much there is
