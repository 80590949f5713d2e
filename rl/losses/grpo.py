"""GRPO (Shao et al. 2024, eq. 3): clipped ratio per row; mean over an episode's rows, then over episodes."""

from __future__ import annotations

from npc.mlx import mx
from rl.losses.rows import Limits, Loss, Rows, by_episode, clipped_surrogate, ratio_of


def value(rows: Rows, limits: Limits) -> tuple[mx.array, mx.array]:
    """−min(ρ A, clip(ρ) A) with ρ = π_θ / π_behaviour of the row."""
    return clipped_surrogate(ratio_of(rows.log_ratio_N), rows.advantage_N, limits)


GRPO = Loss("grpo", value, by_episode, lambda counts: counts.episodes, epsilon=0.2, epsilon_high=0.2)
