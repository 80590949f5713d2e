"""GSPO (Zheng et al. 2025, eq. 5): one ratio for the whole episode, exp of the mean log-ratio over its rows.

Its ε is narrow, since a mean moves less than a single row does: 0.05 for episodes of some ten turns. (The paper's
3e-4 is for thousands of tokens.)
"""

from __future__ import annotations

import numpy as np

from npc.mlx import mx
from rl.losses.rows import Limits, Loss, Rows, by_episode, clipped_surrogate, ratio_of


def value(rows: Rows, limits: Limits) -> tuple[mx.array, mx.array]:
    """−min(s A, clip(s) A) with s = exp(mean over the episode's rows of the log-ratio). All its rows must be here."""
    episodes = int(np.array(rows.episode_N).max()) + 1
    own_E_N = (mx.arange(episodes)[:, None] == rows.episode_N[None]).astype(mx.float32) * rows.mask_N
    # a masked row may hold anything, and 0 · inf is not 0
    held_N = mx.where(rows.mask_N > 0, rows.log_ratio_N, 0.0)
    mean_E = (own_E_N @ held_N[:, None]).squeeze(1) / mx.maximum(own_E_N.sum(axis=1), 1)
    return clipped_surrogate(ratio_of(mean_E)[rows.episode_N], rows.advantage_N, limits)


GSPO = Loss(
    "gspo", value, by_episode, lambda counts: counts.episodes, epsilon=0.05, epsilon_high=0.05, whole_episodes=True
)  # fmt: skip
