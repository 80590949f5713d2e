"""What an update descends: the loss of the rows, a price on KL to the reference, a bonus for entropy, and imitation
of rows that nobody sampled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npc.mlx import mx
from npc.policy import entropy, kl
from rl.losses import LOSSES, Limits, Rows

HEAVIEST = 20.0  # bounds the weight of an imitated row


@dataclass(frozen=True)
class Goal:
    """Which loss, within which limits, with which prices. `imitation` is the temperature of advantage-weighted
    imitation, 0 where rows that were not sampled are left out."""

    loss: str
    limits: Limits
    kl_weight: float
    entropy_weight: float = 0.0
    imitation: float = 0.0


@dataclass(frozen=True)
class TurnBatch:
    """Turns of the closed policy as the objective takes them: N turns, A legal actions at most, all at τ."""

    chosen_N: mx.array  # int32: which legal action was executed
    behaviour_logp_N: mx.array  # float32: its log-probability when it was sampled; 0 where it was not
    advantage_N: mx.array  # float32
    mask_N: mx.array  # float32: 1, or 0 for a turn that teaches nothing
    episode_N: mx.array  # int32: 0 … E-1
    length_N: mx.array  # float32: turns of its episode that count
    imitated_N: mx.array  # float32: 1 for a turn that was not sampled and is imitated
    reference_logp_N_A: mx.array | None  # float32: the reference policy's, -inf where there is no action


@dataclass(frozen=True)
class LossParts:
    """Weighted sums over the turns. `loss` is to be divided by the loss's denominator; the others weigh a turn by
    1 / (turns of its episode), so that dividing by the episodes gives means."""

    loss: mx.array
    kl: mx.array
    entropy: mx.array
    clipped: mx.array


def chosen_logps(logp_N_A: mx.array, chosen_N: mx.array) -> mx.array:
    """log π (N,) of the actions that were executed."""
    return mx.take_along_axis(logp_N_A, chosen_N[:, None], axis=1).squeeze(1)


def closed_objective(logp_N_A: mx.array, batch: TurnBatch, goal: Goal) -> LossParts:
    """The objective of turns of the closed policy; KL and entropy are exact over the legal set."""
    logp_N = chosen_logps(logp_N_A, batch.chosen_N)
    # the ratio of an imitated turn is never used; with itself it is 1
    behaviour_N = mx.where(batch.imitated_N > 0, mx.stop_gradient(logp_N), batch.behaviour_logp_N)
    rows = Rows(logp_N, behaviour_N, batch.advantage_N, batch.mask_N, batch.episode_N, batch.length_N)
    kl_N = kl(logp_N_A, batch.reference_logp_N_A) if batch.reference_logp_N_A is not None else mx.zeros_like(logp_N)
    return objective(rows, kl_N, entropy(logp_N_A), batch.imitated_N, goal)


def objective(rows: Rows, kl_N: mx.array, entropy_N: mx.array, imitated_N: mx.array, goal: Goal) -> LossParts:
    """Σ_n w_n [value_n + β KL_n − c H_n], the value of an imitated row being −min(exp(A / temperature), 20) log π
    (advantage-weighted regression, Peng et al. 2019, eq. 10).

    `kl_N` and `entropy_N` carry gradients; for free text `kl_N` is `rl.kl.k2`. A row with mask 0 adds nothing,
    whatever it holds.
    """
    algorithm = LOSSES[goal.loss]
    # an imitated row has no ratio, so it is no part of an episode's either
    value_N, acts_N = algorithm.value(replace(rows, mask_N=rows.mask_N * (1 - imitated_N)), goal.limits)
    if goal.imitation > 0:
        weight_N = mx.minimum(mx.exp(mx.minimum(rows.advantage_N / goal.imitation, 20.0)), HEAVIEST)
        value_N = mx.where(imitated_N > 0, -weight_N * rows.logp_N, value_N)
    on_N = rows.mask_N > 0
    whole_N = value_N + goal.kl_weight * kl_N - goal.entropy_weight * entropy_N
    each_N = rows.mask_N / mx.maximum(rows.length_N, 1)
    return LossParts(
        loss=mx.sum(mx.where(on_N, algorithm.weight(rows, goal.limits) * whole_N, 0.0)),
        kl=mx.sum(mx.where(on_N, each_N * kl_N, 0.0)),
        entropy=mx.sum(mx.where(on_N, each_N * entropy_N, 0.0)),
        clipped=mx.sum(mx.where(on_N, each_N * acts_N * (1 - imitated_N), 0.0)),
    )
