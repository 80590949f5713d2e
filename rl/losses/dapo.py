"""DAPO (Yu et al. 2025, eq. 8): a higher upper bound than lower one, mean over all rows that count, and dead groups
are played again on other seeds."""

from __future__ import annotations

from rl.losses.grpo import value
from rl.losses.rows import Loss, by_row

DAPO = Loss("dapo", value, by_row, lambda counts: counts.rows, epsilon=0.2, epsilon_high=0.28, resamples=True)
