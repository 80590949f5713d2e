"""CISPO (MiniMax-M1, Chen et al. 2025, eq. 4): the clipped ratio is a weight without gradient, times log π.

No row loses its gradient: the clip only bounds how much it weighs. The ratio has an upper bound alone.
"""

from __future__ import annotations

from npc.mlx import mx
from rl.losses.rows import Limits, Loss, Rows, by_row, ratio_of


def value(rows: Rows, limits: Limits) -> tuple[mx.array, mx.array]:
    """−sg(min(ρ, 1 + ε_high)) A log π_θ; where the bound acts the second is 1, though the gradient goes on."""
    ratio_N = ratio_of(rows.log_ratio_N)
    weight_N = mx.stop_gradient(mx.minimum(ratio_N, 1 + limits.epsilon_high))
    return -weight_N * rows.advantage_N * rows.logp_N, (ratio_N > 1 + limits.epsilon_high).astype(mx.float32)


CISPO = Loss("cispo", value, by_row, lambda counts: counts.rows, epsilon=1.0, epsilon_high=4.0)
