"""Dr. GRPO (Liu et al. 2025, eq. 3): advantages are not divided by their spread; the sum over an episode's rows is
divided by the longest possible length, the turn cap, so that neither length nor difficulty changes a row's weight."""

from __future__ import annotations

from npc.mlx import mx
from rl.losses.grpo import value
from rl.losses.rows import Limits, Loss, Rows


def weight(rows: Rows, limits: Limits) -> mx.array:
    """1 / turn cap for each row that counts."""
    return rows.mask_N / limits.turn_cap


DR_GRPO = Loss(
    "dr_grpo", value, weight, lambda counts: counts.episodes, epsilon=0.2, epsilon_high=0.2, scaled=False
)  # fmt: skip
