"""Policies by name, the same everywhere: one string flows through training, evaluation and the game.

`random`, `teacher`, `oracle`, `MODEL`, `MODEL:ADAPTER`, a run folder (`runs/demo`: its head; `runs/demo@NODE`), or
`http:URL`, a model behind an OpenAI-compatible server (see rl.remote).
ADAPTER is a folder, or the name of one that ships with the project (`nano:fetch_item`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from npc import catalog
from npc.decision import Decision
from rl.config import from_run
from rl.deciding import Policy, PolicyNameError, TurnView
from rl.files import is_run, read_run
from rl.remote import RemotePolicy, parse_url
from rl.tree import Tree
from scenarios.contract import FreeText, Scenario, nearest

PLAYERS = ("random", "teacher", "oracle")
RANDOM_WORDS = 20  # what `random` says where a turn is a free text
HTTP = ("http:", "https:")


@dataclass(frozen=True)
class PolicySpec:
    """What a policy string names. `kind` is "random", "teacher", "oracle", "http" or "model"; for a model, `model` is
    what `npc.models.load` takes and `adapter` a folder or None for the bare base."""

    text: str
    kind: str
    model: str = ""
    adapter: str | None = None


def parse_policy(text: str) -> PolicySpec:
    """Reads a policy string. Raises PolicyNameError where a model, run, node or adapter isn't there."""
    if text in PLAYERS:
        return PolicySpec(text, text)
    if text.startswith(HTTP):
        parse_url(text)
        return PolicySpec(text, "http")
    folder, _, node = text.partition("@")
    if is_run(Path(folder)):
        run = from_run(read_run(Path(folder)), f"{folder}/run.toml")
        tree = Tree(Path(folder) / "checkpoints")
        chosen = node or tree.head()
        if not tree.has(chosen):
            raise PolicyNameError(f"{folder}: no checkpoint {chosen!r}; there is {', '.join(tree.names())}")
        return PolicySpec(text, "model", run.model, str(tree.weights(chosen)))
    if node:
        raise PolicyNameError(f"{folder}: not a run folder (no run.toml in it), so {text!r} names no checkpoint")
    model, colon, adapter = text.partition(":")
    check_model(model)
    if not colon:
        return PolicySpec(text, "model", model)
    return PolicySpec(text, "model", model, find_adapter(model, adapter))


def check_model(model: str) -> None:
    """Raises PolicyNameError, with the nearest name, for what can be no model: no known word and no folder.

    A path whose own folder isn't there either may be a name on a hub; `npc.models.load` answers for those.
    """
    if model in catalog.NAMES or (model and Path(model).is_dir()):
        return
    parent = Path(model).parent
    if "/" in model and not parent.is_dir():
        return
    holds = ("config.json", "run.toml")  # a model's folder, a run's
    near = parent.iterdir() if "/" in model else ()
    folders = sorted(str(path) for path in near if any((path / name).is_file() for name in holds))
    close = nearest(model, [*PLAYERS, *catalog.NAMES, *folders])
    raise PolicyNameError(f"policy {model!r}: no player, model, run or model folder of that name; {close}")


def find_adapter(model: str, adapter: str) -> str:
    """The folder of an adapter: a path as it is, or the name of one that ships for `model`."""
    if adapter and Path(adapter).is_dir():
        return adapter
    name, _ = catalog.resolve(model)
    shipped = Path(str(resources.files("assets") / "adapters" / name / adapter))
    if adapter and shipped.is_dir():
        return str(shipped)
    home = Path(str(resources.files("assets") / "adapters" / name))
    known = sorted(path.name for path in home.iterdir()) if home.is_dir() else []
    raise PolicyNameError(
        f"adapter {adapter!r}: no such folder, and none of that name ships for {name} "
        f"(there is {', '.join(known) or 'none'})"
    )


def make_policy(spec: PolicySpec, scenario: Scenario, tau: float = 1.0) -> Policy:
    """The player that a spec names; loads the model where there is one."""
    if spec.kind == "http":
        return RemotePolicy(spec.text, scenario, tau)
    if spec.kind != "model":
        return ScriptedPolicy(spec.kind, scenario)
    from npc.adapters import load_adapter
    from npc.models import load

    brain = load(spec.model)
    brain.check_speaks(scenario.vocabulary)
    if spec.adapter is not None:
        load_adapter(brain, spec.adapter)
    return ModelPolicy(brain, scenario.prefix, tau, scenario.free_text)


class ScriptedPolicy:
    """`random`, `teacher` and `oracle`: no model, all probability on one phrase but for `random`."""

    def __init__(self, kind: str, scenario: Scenario) -> None:
        self.kind = kind
        self.scenario = scenario

    def decide(self, turns: Sequence[TurnView], uniforms: Sequence[float] | None) -> list[Decision]:
        return [self._one(turn, 0.0 if uniforms is None else uniforms[i]) for i, turn in enumerate(turns)]

    def _one(self, turn: TurnView, uniform: float) -> Decision:
        if self.scenario.free_text is not None:
            return Decision(self._text(turn, uniform), -1, [], 0.0, [], [], [], 1.0, self.kind != "random")
        count = len(turn.legal)
        if self.kind == "random":
            index = min(int(uniform * count), count - 1)
            logprob = -math.log(count)
            return Decision(turn.legal[index], index, [1 / count] * count, logprob, [], [], [], 1.0, False)
        if self.kind == "teacher":
            phrase, turn.memory = self.scenario.teacher(turn.memory, turn.observation)
        else:
            phrase = self.scenario.oracle(turn.state)
        index = turn.legal.index(phrase)
        probs = [float(i == index) for i in range(count)]
        return Decision(phrase, index, probs, 0.0, [], [], [], 1.0, True)


    def _text(self, turn: TurnView, uniform: float) -> str:
        if self.kind == "oracle":
            return self.scenario.oracle(turn.state)
        if self.kind == "teacher":
            text, turn.memory = self.scenario.teacher(turn.memory, turn.observation)
            return text
        dice = random.Random(uniform)
        return " ".join(dice.choice(self.scenario.vocabulary) for _ in range(RANDOM_WORDS))


class ModelPolicy:
    """A language model that speaks legal phrases only, or, where a turn is a free text, writes one."""

    def __init__(self, brain: Any, prefix: str, tau: float = 1.0, free_text: FreeText | None = None) -> None:
        from npc.policy import ClosedPolicy
        from npc.text_policy import TextPolicy

        self.brain = brain
        self.tau = tau
        self.closed = ClosedPolicy(brain, prefix)
        self.free_text = free_text
        self.text = TextPolicy(self.closed)

    def decide(self, turns: Sequence[TurnView], uniforms: Sequence[float] | None) -> list[Decision]:
        if self.free_text is not None:
            return self.text.decide([t.observation for t in turns], self.free_text.max_tokens, self.tau, uniforms)
        return self.closed.decide([t.observation for t in turns], [t.legal for t in turns], self.tau, uniforms)
