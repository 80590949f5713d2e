"""From rewards to advantages: pure functions over groups of sibling episodes that started from one state.

`rewards` holds one array of per-turn rewards for each sibling. The answer has the same shape: an advantage for every
turn. A dead group (all returns equal) gives None: it teaches nothing, KL included, and leaves every denominator.

`episode` and `turn` compare a sibling with its group. `stage` asks, with the worth of stages over all groups
(`rl.values`), what every single turn changed; the group still decides what is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl.config import CREDITS
from rl.rollout import FAILED, Episode
from rl.values import Key, Values

EPSILON = 1e-4
STATES = ("live", "dead", "failed")  # of a group


@dataclass(frozen=True)
class Credit:
    """An episode's advantages, None where its group is dead or failed."""

    state: str
    advantage: np.ndarray | None


def credit_episodes(episodes: Sequence[Episode], key: Callable[[str], Key], values: Values, credit: str,
                    trace: float) -> list[Credit]:  # fmt: skip
    """The credit of an update's episodes, in their order. `key` names the stage that an observation shows; `values`
    takes in the episodes first where the credit is by stage. A failed episode drops its group, and no other."""
    groups: dict[str, list[int]] = {}
    for i, episode in enumerate(episodes):
        groups.setdefault(episode.plan.group, []).append(i)
    rewards = [np.array([turn.reward for turn in episode.turns]) for episode in episodes]
    found: list[Credit] = [Credit("failed", None)] * len(episodes)
    for members in groups.values():
        if any(episodes[i].ended == FAILED for i in members):
            continue
        given = advantages([rewards[i] for i in members], "turn" if credit == "stage" else credit)
        for n, i in enumerate(members):
            found[i] = Credit("dead", None) if given is None else Credit("live", given[n])
    live = [i for i, c in enumerate(found) if c.state == "live"]
    if credit == "stage" and live:
        good = [i for i, c in enumerate(found) if c.state != "failed"]
        keys = {i: [key(turn.observation) for turn in episodes[i].turns] for i in good}
        values.learn([keys[i] for i in good], [rewards[i] for i in good])
        staged = stage_advantages([rewards[i] for i in live], [keys[i] for i in live], values, trace)
        for i, advantage in zip(live, staged, strict=True):
            found[i] = Credit("live", advantage)
    return found


def advantages(rewards: Sequence[np.ndarray], credit: str) -> list[np.ndarray] | None:
    """Advantages of one group under `credit` ("episode" or "turn"); None for a dead group."""
    returns = np.array([float(np.sum(r)) for r in rewards])
    if dead(returns):
        return None
    if credit == "episode":
        return [np.full(len(r), a) for r, a in zip(rewards, episode_advantages(returns), strict=True)]
    if credit == "turn":
        return turn_advantages(rewards)
    raise ValueError(f"credit {credit!r}: choose one of {', '.join(CREDITS)}")


def dead(returns: np.ndarray) -> bool:
    """Whether a group's returns are all the same (up to rounding), so that it can't tell good from bad."""
    return bool(np.max(returns) - np.min(returns) <= 1e-9)


def episode_advantages(returns: np.ndarray) -> np.ndarray:
    """(r − mean) / (std + 1e-4), std with one degree of freedom taken off (GRPO, Shao et al. 2024, eq. 4)."""
    return (returns - returns.mean()) / (returns.std(ddof=1) + EPSILON)


def turn_advantages(rewards: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return-to-go of each turn against the mean return-to-go of the group at the same turn.

    A sibling that has ended counts there with 0, what it still earns. Divided by the group's std of returns, as in
    `episode_advantages`, so that turn 0 has the episode's advantage.
    """
    longest = max(len(r) for r in rewards)
    togo = np.zeros((len(rewards), longest))
    for row, r in enumerate(rewards):
        togo[row, : len(r)] = np.cumsum(r[::-1])[::-1]
    scale = togo[:, 0].std(ddof=1) + EPSILON
    centred = (togo - togo.mean(axis=0)) / scale
    return [centred[row, : len(r)] for row, r in enumerate(rewards)]


def stage_advantages(
    rewards: Sequence[np.ndarray], keys: Sequence[Sequence[Key]], values: Values, trace: float
) -> list[np.ndarray]:
    """Generalised advantages of live episodes, divided by their std over all turns."""
    found = [values.advantages(k, r, trace) for k, r in zip(keys, rewards, strict=True)]
    scale = np.concatenate(found).std() + EPSILON
    return [a / scale for a in found]
