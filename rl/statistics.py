"""Intervals and tests for what is counted. All intervals at 95 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """mean ± Z standard errors of the mean (ddof 1), for the large samples of an evaluation; the value itself, twice,
    where there is one. Raises ValueError for none."""
    n = len(values)
    if n == 0:
        raise ValueError("the mean of nothing")
    mean = math.fsum(values) / n
    spread = math.fsum((value - mean) ** 2 for value in values) / max(1, n - 1)
    half = Z * math.sqrt(spread / n)
    return mean - half, mean + half


def paired_difference(before: Sequence[bool], after: Sequence[bool]) -> tuple[float, float, float]:
    """Mean of after − before over the same seeds, with Tango's score interval (Statistics in Medicine 17, 1998).

    The usual interval, mean ± Z standard errors, is too narrow where few seeds changed, and a point where none did.
    Returns (difference, low, high), each from -1 to 1.
    """
    gained, lost, n = changes(before, after)
    if n == 0:
        return 0.0, -1.0, 1.0
    low = _where(lambda delta: _score(gained, lost, n, delta) <= Z)
    high = _where(lambda delta: _score(gained, lost, n, delta) < -Z)
    return (gained - lost) / n, -1.0 if lost == n else low, 1.0 if gained == n else high


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> float:
    """McNemar's exact test (McNemar 1947): how often seeds that changed would be split at least so unevenly if both
    directions were equally likely; two-sided, 1 where none changed."""
    gained, lost, _ = changes(before, after)
    total = gained + lost
    tail = sum(math.comb(total, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**total)


def changes(before: Sequence[bool], after: Sequence[bool]) -> tuple[int, int, int]:
    """(failed before and solved after, the other way round, all)."""
    if len(before) != len(after):
        raise ValueError(f"paired on the same seeds: {len(before)} before, {len(after)} after")
    pairs = [(bool(b), bool(a)) for b, a in zip(before, after, strict=True)]
    return pairs.count((False, True)), pairs.count((True, False)), len(pairs)


def _score(gained: int, lost: int, n: int, delta: float) -> float:
    """Tango's statistic: by how many standard errors, estimated under a true difference `delta`, the counts lie off."""
    off = gained - lost - n * delta
    a, b, c = 2 * n, (2 * n - gained + lost) * delta - gained - lost, -lost * delta * (1 - delta)
    worse = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # probability to lose a seed, given delta
    variance = n * (2 * worse + delta * (1 - delta))
    if variance <= 0:
        return math.copysign(math.inf, off) if off else 0.0
    return off / math.sqrt(variance)


def _where(holds: Callable[[float], bool]) -> float:
    """The point of [-1, 1] from which on `holds`, by halving to the last bit."""
    low, high = -1.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
