"""What a stage of a scenario is worth: mean returns-to-go of the turns that were seen in it.

A scenario names the stage that an observation shows (`credit_key`), from coarse to fine. The worth of a fine stage is
its mean, drawn towards the worth of the coarser one while it was seen seldom. Old updates fade, since the policy that
made them has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Key = tuple[str, ...]
PRIOR = 4.0  # how many turns the coarser stage's worth counts for
FADE = 0.5  # what is left of an update's weight after the next one


class Values:
    """Worths by stage. The sums are plain numbers, so that they can be saved and read back exactly."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}  # stage -> [number of turns, sum of returns-to-go]

    def learn(self, keys: Sequence[Sequence[Key]], rewards: Sequence[np.ndarray]) -> None:
        """Takes in the episodes of one update: the stage and the reward of every turn."""
        for entry in self.sums.values():
            entry[0] *= FADE
            entry[1] *= FADE
        for episode_keys, episode_rewards in zip(keys, rewards, strict=True):
            togo = np.cumsum(episode_rewards[::-1])[::-1]
            for key, value in zip(episode_keys, togo.tolist(), strict=True):
                for depth in range(len(key) + 1):
                    entry = self.sums.setdefault(_name(key[:depth]), [0.0, 0.0])
                    entry[0] += 1.0
                    entry[1] += value

    def worth(self, key: Key) -> float:
        """The expected return-to-go in a stage; 0 while nothing was seen."""
        value = 0.0
        for depth in range(len(key) + 1):
            count, total = self.sums.get(_name(key[:depth]), (0.0, 0.0))
            prior = PRIOR if depth else 0.0
            if count + prior > 0:
                value = (total + prior * value) / (count + prior)
        return value

    def advantages(self, keys: Sequence[Key], rewards: np.ndarray, trace: float) -> np.ndarray:
        """Generalised advantages of one episode (Schulman et al. 2016, eq. 16, γ = 1, λ = `trace`):
        A_t = Σ_k λ^k δ_{t+k} with δ_t = r_t + V(s_{t+1}) − V(s_t), and V = 0 after the last turn."""
        worths = np.array([self.worth(key) for key in keys] + [0.0])
        delta = rewards + worths[1:] - worths[:-1]
        found = np.zeros(len(rewards))
        ahead = 0.0
        for turn in range(len(rewards) - 1, -1, -1):
            ahead = delta[turn] + trace * ahead
            found[turn] = ahead
        return found


def _name(key: Key) -> str:
    return "/".join(key)
