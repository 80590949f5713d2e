"""Intervals for what is counted. All at 95 %."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z = 1.959963984540054


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927); (0, 1) where nothing was counted."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre = p + Z * Z / (2 * n)
    spread = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return 0.0 if successes == 0 else low, 1.0 if successes == n else high


def paired_difference(before: Sequence[bool], after: Sequence[bool]) -> tuple[float, float, float]:
    """Mean of after − before over the same seeds, with its normal interval, cut to what is possible.

    Returns (difference, low, high), each from -1 to 1.
    """
    if len(before) != len(after):
        raise ValueError(f"paired on the same seeds: {len(before)} before, {len(after)} after")
    n = len(before)
    differences = [int(b) - int(a) for a, b in zip(before, after, strict=True)]
    mean = sum(differences) / n
    variance = sum((d - mean) ** 2 for d in differences) / max(1, n - 1)
    spread = Z * math.sqrt(variance / n)
    return mean, max(-1.0, mean - spread), min(1.0, mean + spread)
