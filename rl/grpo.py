"""The GRPO loss: a clipped ratio per turn, an exact KL to the reference, a mean over turns and then over episodes.

Shapes: N turns, A legal actions at most. Everything is at the sampling temperature τ.
"""

from __future__ import annotations

from dataclasses import dataclass

from npc.mlx import mx
from npc.policy import entropy, kl


@dataclass(frozen=True)
class TurnBatch:
    """What the loss needs of N turns besides the policy's own log-probabilities."""

    chosen_N: mx.array  # int32: which legal action was executed
    behaviour_logp_N: mx.array  # float32: its log-probability when it was sampled
    advantage_N: mx.array  # float32
    weight_N: mx.array  # float32: 1 / (turns of its episode), so that long episodes weigh no more than short ones
    reference_logp_N_A: mx.array | None  # float32: the reference policy's, -inf where there is no action


@dataclass(frozen=True)
class LossParts:
    """Weighted sums over the turns; divide by the number of live episodes for means."""

    loss: mx.array
    kl: mx.array
    entropy: mx.array
    clipped: mx.array


def grpo_loss(logp_N_A: mx.array, batch: TurnBatch, clip: float, kl_weight: float) -> LossParts:
    """Σ_n w_n · [−min(ρ A, clip(ρ, 1−ε, 1+ε) A) + β KL(π_θ ‖ π_ref)], ρ = π_θ(a) / π_behaviour(a).

    The surrogate is PPO's (Schulman et al. 2017, eq. 7) with one action, a whole turn, as the unit of the ratio. The
    gradient flows through ρ and KL; the behaviour log-probability is the recorded one and never recomputed.
    """
    logp_N = mx.take_along_axis(logp_N_A, batch.chosen_N[:, None], axis=1).squeeze(1)
    ratio_N = mx.exp(logp_N - batch.behaviour_logp_N)
    clipped_N = mx.clip(ratio_N, 1 - clip, 1 + clip)
    surrogate_N = mx.minimum(ratio_N * batch.advantage_N, clipped_N * batch.advantage_N)
    kl_N = kl(logp_N_A, batch.reference_logp_N_A) if batch.reference_logp_N_A is not None else mx.zeros_like(logp_N)
    loss = mx.sum(batch.weight_N * (kl_weight * kl_N - surrogate_N))
    # the clip acts where the clipped branch is the smaller one: there the gradient of the surrogate is zero
    acts_N = ratio_N * batch.advantage_N > clipped_N * batch.advantage_N
    return LossParts(
        loss=loss,
        kl=mx.sum(batch.weight_N * kl_N),
        entropy=mx.sum(batch.weight_N * entropy(logp_N_A)),
        clipped=mx.sum(batch.weight_N * acts_N),
    )
