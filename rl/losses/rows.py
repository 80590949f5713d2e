"""What every loss is a function of: N decisions, their log-probabilities now and when they were made, their credit.

A row is one decision: a whole turn of the closed policy, or one token of a free text. Rows of one episode needn't
stand together, but for a loss that needs whole episodes (`gspo`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npc.mlx import mx


@dataclass(frozen=True)
class Rows:
    """N rows. Only `logp_N` has a gradient."""

    logp_N: mx.array  # float32: log π_θ of what was done, at the sampling temperature
    behaviour_logp_N: mx.array  # float32: its log-probability when it was sampled, as recorded
    advantage_N: mx.array  # float32
    mask_N: mx.array  # float32: 1, or 0 for a row that gives no gradient and leaves the denominators
    episode_N: mx.array  # int32: 0 … E-1, whose row it is
    length_N: mx.array  # float32: how many rows of its episode count, in this batch or another of the same update

    @property
    def log_ratio_N(self) -> mx.array:
        """log(π_θ / π_behaviour): against the policy that sampled, never against the reference."""
        return self.logp_N - self.behaviour_logp_N


@dataclass(frozen=True)
class Limits:
    """The ratio is clipped to [1 − epsilon, 1 + epsilon_high]; `delta` bounds it from above where the advantage is
    negative too (inf: not). `turn_cap` is the longest that an episode can be."""

    epsilon: float
    epsilon_high: float
    delta: float
    turn_cap: int


@dataclass(frozen=True)
class Counts:
    """What an update's batches hold together: episodes with a row that counts, and rows that count."""

    episodes: int
    rows: int


@dataclass(frozen=True)
class Loss:
    """One algorithm. The loss of an update is Σ_n weight_n · value_n over all its batches, divided by `denominator`."""

    name: str
    value: Callable[[Rows, Limits], tuple[mx.array, mx.array]]
    """(value_N, acts_N): the loss of each row, and where the clip took its gradient away (1 or 0)."""
    weight: Callable[[Rows, Limits], mx.array]
    """weight_N, mask included."""
    denominator: Callable[[Counts], float]
    epsilon: float
    epsilon_high: float
    scaled: bool = True  # whether advantages are divided by their spread
    resamples: bool = False  # whether dead groups are played again, on other seeds
    whole_episodes: bool = False  # whether a batch must hold all rows of its episodes


def clipped_surrogate(ratio: mx.array, advantage: mx.array, limits: Limits) -> tuple[mx.array, mx.array]:
    """(−min(min(ρ, δ) A, clip(ρ) A), where the clip acts): PPO's surrogate (Schulman et al. 2017, eq. 7), two-sided
    with δ (INTELLECT-2, Prime Intellect 2025, eq. 2)."""
    bounded = mx.minimum(ratio, limits.delta)
    clipped = mx.clip(ratio, 1 - limits.epsilon, 1 + limits.epsilon_high)
    free, held = bounded * advantage, clipped * advantage
    acts = mx.logical_or(free > held, mx.logical_and(ratio > limits.delta, free <= held))
    return -mx.minimum(free, held), acts.astype(mx.float32)


def ratio_of(log_ratio: mx.array) -> mx.array:
    """exp, bounded so that it and its square stay finite in float32."""
    return mx.exp(mx.clip(log_ratio, -40.0, 40.0))


def by_episode(rows: Rows, limits: Limits) -> mx.array:
    """Weights of a mean over an episode's rows; with a division by the episodes, long ones weigh no more."""
    return rows.mask_N / mx.maximum(rows.length_N, 1)


def by_row(rows: Rows, limits: Limits) -> mx.array:
    """Weights of a plain sum over rows."""
    return rows.mask_N
