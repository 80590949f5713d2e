"""From rewards to advantages: pure functions over groups of sibling episodes that started from one state.

`rewards` holds one array of per-turn rewards for each sibling. The answer has the same shape: an advantage for every
turn. A dead group (all returns equal) gives None: it teaches nothing, KL included, and leaves every denominator.

`episode` and `turn` compare a sibling with its group. `state` compares turns at which siblings stood at the same stage,
beside the episodes. `branch` compares what followed one fork. `stage` asks, with the worth of stages over all groups
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
class Credited:
    """An episode's advantages by turn, and which of its turns count (None: all)."""

    advantage: np.ndarray
    counts: np.ndarray | None = None


@dataclass(frozen=True)
class Credit:
    """What an episode is credited with: None where its group is dead or failed."""

    state: str
    given: Credited | None = None

    @property
    def advantage(self) -> np.ndarray | None:
        return None if self.given is None else self.given.advantage


def credit_episodes(episodes: Sequence[Episode], key: Callable[[str], Key], values: Values, credit: str,
                    trace: float, scaled: bool = True, drop: str = "") -> list[Credit]:  # fmt: skip
    """The credit of an update's episodes, in their order. `key` names the stage that an observation shows; `values`
    takes in the episodes first where the credit is by stage. A failed episode drops its group, and no other. Without
    `scaled`, advantages aren't divided by their spread. An episode that ended as `drop` names (a truncated one) is
    compared with, and teaches nothing itself."""
    rewards = [np.array([turn.reward for turn in episode.turns]) for episode in episodes]
    found: list[Credit] = [Credit("failed")] * len(episodes)
    keys = [[key(turn.observation) for turn in episode.turns] for episode in episodes]
    for members in groups_of(episodes).values():
        if any(episodes[i].ended == FAILED for i in members):
            continue
        if credit == "branch":
            given = branch_credit([episodes[i] for i in members], [rewards[i] for i in members], scaled)
        else:
            of_group = advantages([rewards[i] for i in members], "turn" if credit == "stage" else credit,
                                  [keys[i] for i in members], scaled)  # fmt: skip
            given = [None if of_group is None else Credited(of_group[n]) for n in range(len(members))]
        for i, one in zip(members, given, strict=True):
            found[i] = Credit("dead" if one is None else "live", one)
    live = [i for i, c in enumerate(found) if c.state == "live"]
    if credit == "stage" and live:
        good = [i for i, c in enumerate(found) if c.state != "failed"]
        values.learn([keys[i] for i in good], [rewards[i] for i in good])
        staged = stage_advantages([rewards[i] for i in live], [keys[i] for i in live], values, trace, scaled)
        for i, advantage in zip(live, staged, strict=True):
            found[i] = Credit("live", Credited(advantage))
    if drop:
        found = [Credit(c.state) if e.ended == drop else c for e, c in zip(episodes, found, strict=True)]
    return found


def groups_of(episodes: Sequence[Episode]) -> dict[str, list[int]]:
    """Which episodes are siblings, by their group's name, in the order in which the groups begin."""
    groups: dict[str, list[int]] = {}
    for i, episode in enumerate(episodes):
        groups.setdefault(episode.plan.group, []).append(i)
    return groups


def advantages(rewards: Sequence[np.ndarray], credit: str, keys: Sequence[Sequence[Key]] | None = None,
               scaled: bool = True) -> list[np.ndarray] | None:  # fmt: skip
    """Advantages of one group under `credit` ("episode", "turn" or "state", which needs `keys`); None for a dead
    group."""
    returns = np.array([float(np.sum(r)) for r in rewards])
    if dead(returns):
        return None
    if credit == "episode":
        return [np.full(len(r), a) for r, a in zip(rewards, episode_advantages(returns, scaled), strict=True)]
    if credit == "turn":
        return turn_advantages(rewards, scaled)
    if credit == "state" and keys is not None:
        return state_advantages(rewards, keys, scaled)
    raise ValueError(f"credit {credit!r}: choose one of {', '.join(CREDITS)}")


def dead(returns: np.ndarray) -> bool:
    """Whether a group's returns are all the same (up to rounding), so that it can't tell good from bad."""
    return bool(np.max(returns) - np.min(returns) <= 1e-9)


def episode_advantages(returns: np.ndarray, scaled: bool = True) -> np.ndarray:
    """(r − mean) / (std + 1e-4), std with one degree of freedom taken off (GRPO, Shao et al. 2024, eq. 4); r − mean
    alone without `scaled` (Dr. GRPO, Liu et al. 2025)."""
    centred = returns - returns.mean()
    return centred / (returns.std(ddof=1) + EPSILON) if scaled else centred


def turn_advantages(rewards: Sequence[np.ndarray], scaled: bool = True) -> list[np.ndarray]:
    """Return-to-go of each turn against the mean return-to-go of the group at the same turn.

    A sibling that has ended counts there with 0, what it still earns. Divided by the group's std of returns, as in
    `episode_advantages`, so that turn 0 has the episode's advantage.
    """
    longest = max(len(r) for r in rewards)
    togo = np.zeros((len(rewards), longest))
    for row, r in enumerate(rewards):
        togo[row, : len(r)] = returns_to_go(r)
    scale = togo[:, 0].std(ddof=1) + EPSILON if scaled else 1.0
    centred = (togo - togo.mean(axis=0)) / scale
    return [centred[row, : len(r)] for row, r in enumerate(rewards)]


def state_advantages(rewards: Sequence[np.ndarray], keys: Sequence[Sequence[Key]],
                     scaled: bool = True) -> list[np.ndarray]:  # fmt: skip
    """The episode's advantage plus, for each turn, its return-to-go against those of all turns of the group that stood
    at the same stage (GiGPO, Feng et al. 2025, eq. 8). A stage that only one turn stood at adds nothing."""
    whole = episode_advantages(np.array([float(np.sum(r)) for r in rewards]), scaled)
    found = [np.full(len(r), a) for r, a in zip(rewards, whole, strict=True)]
    togo = [returns_to_go(r) for r in rewards]
    stages: dict[Key, list[tuple[int, int]]] = {}
    for row, of_turn in enumerate(keys):
        for turn, key in enumerate(of_turn):
            stages.setdefault(key, []).append((row, turn))
    for places in stages.values():
        at_stage = np.array([togo[row][turn] for row, turn in places])
        if len(places) > 1 and not dead(at_stage):
            for (row, turn), advantage in zip(places, episode_advantages(at_stage, scaled), strict=True):
                found[row][turn] += advantage
    return found


def branch_credit(episodes: Sequence[Episode], rewards: Sequence[np.ndarray],
                  scaled: bool = True) -> list[Credited | None]:  # fmt: skip
    """The credit of one group with a fork (see `rl.branching`), None for an episode that teaches nothing.

    Roots are compared with each other by their returns. Root and branches of the fork are compared by what they earned
    from the fork on, and only turns from the fork on get that; so the shared part counts once, as the root's.
    """
    roots = [i for i, episode in enumerate(episodes) if episode.fork is None or not episode.plan.fork]
    members = [i for i, episode in enumerate(episodes) if episode.fork is not None]
    found: list[Credited | None] = [None] * len(episodes)
    returns = np.array([float(np.sum(rewards[i])) for i in roots])
    if not dead(returns):
        for i, advantage in zip(roots, episode_advantages(returns, scaled), strict=True):
            found[i] = Credited(np.full(len(rewards[i]), advantage))
    at = {i: fork[1] for i in members if (fork := episodes[i].fork) is not None}
    after = np.array([float(np.sum(rewards[i][at[i] :])) for i in members])
    if len(members) > 1 and not dead(after):
        for i, advantage in zip(members, episode_advantages(after, scaled), strict=True):
            before = found[i]
            whole = np.zeros(len(rewards[i])) if before is None else before.advantage.copy()
            counts = np.arange(len(whole)) >= (at[i] if before is None else 0)
            whole[at[i] :] = advantage
            found[i] = Credited(whole, counts)
    return found


def stage_advantages(rewards: Sequence[np.ndarray], keys: Sequence[Sequence[Key]], values: Values, trace: float,
                     scaled: bool = True) -> list[np.ndarray]:  # fmt: skip
    """Generalised advantages of live episodes, divided by their std over all turns."""
    found = [values.advantages(k, r, trace) for k, r in zip(keys, rewards, strict=True)]
    scale = np.concatenate(found).std() + EPSILON if scaled else 1.0
    return [a / scale for a in found]


def returns_to_go(rewards: np.ndarray) -> np.ndarray:
    """What is still earned from each turn on, that turn included."""
    return np.cumsum(rewards[::-1])[::-1]
