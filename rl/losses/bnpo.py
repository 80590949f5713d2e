"""BNPO: GRPO's value for each row, mean over all rows that count, so that every row weighs the same."""

from __future__ import annotations

from rl.losses.grpo import value
from rl.losses.rows import Loss, by_row

BNPO = Loss("bnpo", value, by_row, lambda counts: counts.rows, epsilon=0.2, epsilon_high=0.2)
