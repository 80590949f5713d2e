"""How long frames take: the work of each, without the wait for the next. No pygame."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

KEPT = 2000
EVERY = 30  # frames between two looks: sorting costs more than a frame should


class FrameTimes:
    """The last `KEPT` frames; percentiles by nearest rank, brought up to date every `EVERY` frames."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=KEPT)
        self._count = 0
        self.p50_ms = 0.0
        self.p99_ms = 0.0

    def add(self, seconds: float) -> None:
        """One frame's work, in seconds."""
        self._seconds.append(seconds)
        self._count += 1
        if self._count % EVERY == 0:
            self.p50_ms, self.p99_ms = self.percentile_ms(50), self.percentile_ms(99)

    def percentile_ms(self, percent: float) -> float:
        """By nearest rank over the frames kept; 0 before the first."""
        return percentile_ms(self._seconds, percent)


def percentile_ms(seconds: Iterable[float], percent: float) -> float:
    """A percentile by nearest rank, in milliseconds; 0 of nothing."""
    ordered = sorted(seconds)
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return 1000 * ordered[max(int(rank), 1) - 1]
