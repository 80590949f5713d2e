"""Estimates of KL(π_θ ‖ π_ref) from what was sampled, for free text. (The closed policy has it exactly:
`npc.policy.kl`.) See Schulman 2020, "Approximating KL divergence", k1 to k3."""

from __future__ import annotations

from npc.mlx import mx


def k2(logp_N: mx.array, reference_logp_N: mx.array) -> mx.array:
    """½ (log π_θ − log π_ref)²: for the loss, since its gradient is that of the true KL where π_θ sampled."""
    return 0.5 * mx.square(logp_N - reference_logp_N)


def k3(logp_N: mx.array, reference_logp_N: mx.array) -> mx.array:
    """exp(d) − d − 1 with d = log π_ref − log π_θ: never negative, unbiased where π_θ sampled; for the metrics. d is
    bounded to ±20, so that exp stays finite."""
    d = mx.clip(reference_logp_N - logp_N, -20.0, 20.0)
    return mx.exp(d) - d - 1
