"""What an actor is: a process, on this machine or another, that plays plans and sends the episodes back as a parcel.

Nothing here imports MLX before a player is made, since the number of its threads is read while it loads.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import scenarios
from npc.blas import thread_environment
from rl.logbook import Author
from rl.parcels import pack_episodes


@dataclass(frozen=True)
class Start:
    """What a player is made from. `model` is loaded where the player is; the adapter's tensors come with each job."""

    scenario: str
    model: str
    rank: int
    scale: float
    tau: float
    branched: bool = False


@dataclass(frozen=True)
class Facts:
    """A player's introduction: where it runs, and what it would play with."""

    pid: int
    node: str
    scenario_version: int
    source_hash: str
    base_hash: str
    tokenizer_hash: str


@dataclass(frozen=True)
class Work:
    """Plans to be played: by the adapter that is sent beside it, or by the scripted policy that `policy` names.
    `training` plays groups as the credit wants them (with forks)."""

    plans: tuple[Any, ...]
    greedy: bool = False
    policy: str = ""
    training: bool = False


class Player:
    """Plays with a model of its own. Owned by one thread, as MLX wants it."""

    def __init__(self, start: Start) -> None:
        with thread_environment(1):
            from npc.adapters import attach
            from npc.models import load
            from rl.policies import ModelPolicy
        self.start = start
        self.scenario = scenarios.get(start.scenario)
        brain = load(start.model)
        attach(brain, start.rank, start.scale)
        self.policy = ModelPolicy(brain, self.scenario.prefix, start.tau, self.scenario.free_text)
        self.others: dict[str, Any] = {}

    def introduction(self) -> Facts:
        brain = self.policy.brain
        return Facts(os.getpid(), platform.node(), self.scenario.version, self.scenario.source_hash, brain.base_hash,
                     brain.tokenizer_hash)  # fmt: skip

    def play(self, adapter: Mapping[str, Any] | None, work: Work) -> tuple[bytes, float]:
        """The parcel of the played episodes, and the seconds that they took."""
        from npc.adapters import set_adapter, weights_hash
        from rl.branching import play_branched
        from rl.policies import make_policy, parse_policy
        from rl.rollout import play

        began = time.perf_counter()
        if adapter is None:
            if work.policy not in self.others:
                self.others[work.policy] = make_policy(parse_policy(work.policy), self.scenario, self.start.tau)
            episodes = play(self.others[work.policy], self.scenario, work.plans, work.greedy)
            author = Author(work.policy)
        else:
            brain = self.policy.brain
            set_adapter(brain, adapter)
            if work.training and self.start.branched:
                episodes = play_branched(self.policy, self.scenario, work.plans)
            else:
                episodes = play(self.policy, self.scenario, work.plans, work.greedy)
            author = Author("", self.start.model, "", weights_hash(brain), brain.base_hash, brain.tokenizer_hash)
        return pack_episodes(episodes, author, self.scenario), time.perf_counter() - began
