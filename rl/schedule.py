"""The learning rate over a run."""

from __future__ import annotations

import math


def rate_at(update: int, updates: int, rate: float, warmup: int) -> float:
    """The rate of update 1 … `updates`: a linear warm-up, then a cosine that ends at a tenth of `rate`."""
    if update <= warmup:
        return rate * update / (warmup + 1)
    share = (update - warmup - 1) / max(1, updates - warmup)
    return rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * share)))
