"""What a worker does: play its share of an update's groups, then give the gradient of the loss over them.

Everything a worker needs travels with the job (the adapter's tensors, the plans), so that a share's result depends on
the job alone. Its loss is summed with weights, and the trainer divides by the live episodes of all shares.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import scenarios
from npc.adapters import attach, get_adapter, load_adapter, set_adapter
from npc.forward import prefix_kv
from npc.mlx import flat, mx, nn
from npc.models import load
from npc.policy import action_logps
from npc.weights import weights_of
from recorder.records import Turn
from rl.grpo import LossParts, TurnBatch, grpo_loss
from rl.policies import ModelPolicy, Policy, make_policy, parse_policy
from rl.rollout import Episode, play

ROWS = 128  # turns in one forward and backward


@dataclass(frozen=True)
class Settings:
    """What stays the same for a whole run."""

    scenario: str
    model: str
    rank: int
    scale: float
    tau: float
    clip: float
    kl_weight: float


@dataclass
class Worker:
    """A worker's own: model with adapter, the reference's tensors, and the share that it played last."""

    settings: Settings
    policy: ModelPolicy
    scenario: Any
    reference: dict[str, np.ndarray]
    others: dict[str, Policy] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    advantage: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    reference_logp: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class Gradient:
    """Sums over a share's live turns, to be divided by the live episodes of all shares."""

    arrays: dict[str, np.ndarray]
    loss: float
    kl: float
    entropy: float
    clipped: float
    worst_ratio: float  # the largest |log π_θ − log π_behaviour|
    turns: int
    tokens: int
    train_s: float


def set_up(settings: Settings, adapter: str) -> Worker:
    """Loads the model with the adapter that the run starts from, which is also its reference policy."""
    scenario = scenarios.get(settings.scenario)
    brain = load(settings.model)
    if adapter:
        load_adapter(brain, adapter)
    else:
        attach(brain, settings.rank, settings.scale)
    reference = {name: np.array(value) for name, value in get_adapter(brain).items()}
    return Worker(settings, ModelPolicy(brain, scenario.prefix, settings.tau), scenario, reference)


def play_plans(worker: Worker, job: dict[str, Any]) -> list[Episode]:
    """Plays `plans` with the adapter's tensors in `adapter`, or with the policy that `policy` names."""
    if "policy" in job:
        name = job["policy"]
        if name not in worker.others:
            worker.others[name] = make_policy(parse_policy(name), worker.scenario, worker.settings.tau)
        return play(worker.others[name], worker.scenario, job["plans"], job["greedy"])
    set_adapter(worker.policy.brain, job["adapter"])
    return play(worker.policy, worker.scenario, job["plans"], job["greedy"])


def collect(worker: Worker, job: dict[str, Any]) -> tuple[list[Episode], float]:
    """Plays `plans` with the adapter's tensors in `adapter`, keeps the episodes, and returns them with the seconds."""
    began = time.perf_counter()
    set_adapter(worker.policy.brain, job["adapter"])
    worker.episodes = play(worker.policy, worker.scenario, job["plans"])
    return worker.episodes, time.perf_counter() - began


def keep(worker: Worker, credit: Sequence[np.ndarray | None]) -> None:
    """Keeps the turns of the episodes that have credit (None: their group is dead or failed) for `gradient`, with the
    reference's log-probabilities."""
    kept: list[tuple[Turn, float, float]] = []
    for episode, advantage in zip(worker.episodes, credit, strict=True):
        if advantage is not None:
            each = 1 / len(episode.turns)
            kept += [(turn, a, each) for turn, a in zip(episode.turns, advantage.tolist(), strict=True)]
    kept.sort(key=lambda row: len(row[0].prompt_ids))  # rows of one forward are of like length
    worker.turns = [turn for turn, _, _ in kept]
    worker.advantage = [advantage for _, advantage, _ in kept]
    worker.weight = [weight for _, _, weight in kept]
    set_adapter(worker.policy.brain, worker.reference)
    worker.reference_logp = [np.array(_logps(worker, worker.turns[at])) for at in _chunks(len(worker.turns))]


def gradient(worker: Worker, job: dict[str, Any]) -> Gradient:
    """The gradient of the summed loss over the share that was collected last, at the adapter given.

    `credit`, given with the first pass over a share, says what is kept of it (see `keep`).
    """
    began = time.perf_counter()
    if "credit" in job:
        keep(worker, job["credit"])
    brain = worker.policy.brain
    set_adapter(brain, job["adapter"])
    sums: dict[str, mx.array] = {}
    totals = np.zeros(4)
    worst, tokens = 0.0, 0
    for number, at in enumerate(_chunks(len(worker.turns))):
        turns = worker.turns[at]
        batch = turn_batch(turns, worker.advantage[at], worker.weight[at], worker.reference_logp[number])
        grads, parts, logp = turn_gradient(worker.policy, turns, batch, worker.settings)
        for name, value in grads.items():
            sums[name] = sums[name] + value if name in sums else value
        mx.eval(sums)
        totals += [parts.loss.item(), parts.kl.item(), parts.entropy.item(), parts.clipped.item()]
        chosen = np.take_along_axis(np.array(logp), np.array(batch.chosen_N)[:, None], axis=1)[:, 0]
        worst = max(worst, float(np.abs(chosen - np.array(batch.behaviour_logp_N)).max()))
        tokens += sum(len(turn.prompt_ids) for turn in turns)
    mx.clear_cache()  # else the cache of freed buffers grows with every new batch shape
    arrays = {name: np.array(value) for name, value in sums.items()}
    loss, kl, entropy, clipped = totals.tolist()
    spent = time.perf_counter() - began
    return Gradient(arrays, loss, kl, entropy, clipped, worst, len(worker.turns), tokens, spent)


def turn_batch(
    turns: Sequence[Turn], advantage: Sequence[float], weight: Sequence[float], reference_N_A: np.ndarray | None
) -> TurnBatch:
    """Recorded turns as the loss takes them. The behaviour log-probability is the recorded float32 one."""
    return TurnBatch(
        chosen_N=mx.array([turn.legal.index(turn.executed) for turn in turns], dtype=mx.int32),
        behaviour_logp_N=mx.array([turn.logprob for turn in turns], dtype=mx.float32),
        advantage_N=mx.array(list(advantage), dtype=mx.float32),
        weight_N=mx.array(list(weight), dtype=mx.float32),
        reference_logp_N_A=None if reference_N_A is None else mx.array(reference_N_A),
    )


def turn_gradient(policy: ModelPolicy, turns: Sequence[Turn], batch: TurnBatch, settings: Settings) -> tuple:
    """(gradient by tensor name, loss parts, log-probabilities (N, A)) of recorded turns; ids are used as recorded."""
    packed = policy.closed.pack([turn.prompt_ids for turn in turns], [tuple(turn.legal) for turn in turns])

    def loss(model: Any) -> tuple[mx.array, Any]:
        # the prefix is computed inside, once for all rows, so that gradients flow through it too
        read = weights_of(model)
        logps = action_logps(read, packed, prefix_kv(read, policy.closed.prefix_ids), settings.tau)
        parts = grpo_loss(logps, batch, settings.clip, settings.kl_weight)
        return parts.loss, (parts.kl, parts.entropy, parts.clipped, logps)

    model = policy.brain.model
    (total, (kl, entropy, clipped, logps)), grads = nn.value_and_grad(model, loss)(model)
    mx.eval(total, kl, entropy, clipped, logps, grads)
    return flat(grads), LossParts(total, kl, entropy, clipped), logps


def _logps(worker: Worker, turns: Sequence[Turn]) -> mx.array:
    """Log-probabilities (N, A) of recorded turns under the weights that are set now."""
    closed = worker.policy.closed
    packed = closed.pack([turn.prompt_ids for turn in turns], [tuple(turn.legal) for turn in turns])
    return action_logps(worker.policy.brain.model, packed, closed.prefix_kv(), worker.settings.tau)


def _chunks(count: int) -> list[slice]:
    return [slice(start, min(start + ROWS, count)) for start in range(0, count, ROWS)]
