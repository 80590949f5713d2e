"""How much is left of a batch that another policy made: the effective sample size of its importance weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FURTHEST = 300.0  # a log-weight is cut here, so that its square stays finite in float64


@dataclass(frozen=True)
class Spread:
    """Sums of importance weights w, of w², and how many, by action (one turn's ratio) and by episode (the product of
    its turns' ratios)."""

    turns: tuple[float, float, int] = (0.0, 0.0, 0)
    episodes: tuple[float, float, int] = (0.0, 0.0, 0)

    def __add__(self, other: Spread) -> Spread:
        return Spread(_sum(self.turns, other.turns), _sum(self.episodes, other.episodes))

    @property
    def by_turn(self) -> float | None:
        """(Σw)² / Σw² / n (Kish 1965), 1 where nothing has changed; None without a sampled turn."""
        return _share(self.turns)

    @property
    def by_episode(self) -> float | None:
        return _share(self.episodes)


def spread_of(log_ratios: np.ndarray, episode: Sequence[int], imitated: Sequence[bool]) -> Spread:
    """The spread over rows (N,), each of the episode that `episode` numbers; imitated rows have no weight."""
    own = ~np.array(imitated, dtype=bool)
    logs = np.asarray(log_ratios, dtype=np.float64)[own]
    if not len(logs):
        return Spread()
    of = np.array(episode)[own]
    by_episode = np.array([logs[of == number].sum() for number in np.unique(of)])
    return Spread(_moments(logs), _moments(by_episode))


def _moments(logs: np.ndarray) -> tuple[float, float, int]:
    weights = np.exp(np.clip(logs, -FURTHEST, FURTHEST))
    return float(weights.sum()), float(np.square(weights).sum()), len(weights)


def _sum(a: tuple[float, float, int], b: tuple[float, float, int]) -> tuple[float, float, int]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _share(sums: tuple[float, float, int]) -> float | None:
    total, squares, n = sums
    return total * total / squares / n if n and squares > 0 else None
