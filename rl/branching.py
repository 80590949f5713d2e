"""Groups with a fork: some siblings are played from the start, the others from the turn of theirs that was least sure.

The first half of a group's plans are roots. Of all their turns the one with the highest entropy is the fork; the other
plans go on from a clone of the world at that turn, with dice of their own. What a branch shares with its root is in its
record, so that it can be replayed, and is marked, so that it is learned from once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rl.policies import Policy
from rl.rollout import FAILED, Episode, Plan, play


def play_branched(policy: Policy, scenario: Any, plans: Sequence[Plan]) -> list[Episode]:
    """Plays groups of two plans or more; the episodes come back in the order of the plans."""
    groups: dict[str, list[int]] = {}
    for i, plan in enumerate(plans):
        groups.setdefault(plan.group, []).append(i)
    roots = [i for members in groups.values() for i in members[: roots_of(len(members))]]
    played = dict(zip(roots, play(policy, scenario, [plans[i] for i in roots]), strict=True))
    branches: dict[int, Plan] = {}
    for name, members in groups.items():
        count = roots_of(len(members))
        forked = fork([played[i] for i in members[:count]])
        for i in members[count:]:
            if forked is None:  # no root has a turn: a branch is a root like them
                branches[i] = plans[i]
                continue
            root, turn = forked
            root.fork = (name, turn)
            branches[i] = replace(plans[i], opening=tuple(root.turns[:turn]), fork=name)
    played |= dict(zip(branches, play(policy, scenario, list(branches.values())), strict=True))
    return [played[i] for i in range(len(plans))]


def roots_of(size: int) -> int:
    """How many of a group's plans are roots."""
    return max(1, size // 2)


def fork(roots: Sequence[Episode]) -> tuple[Episode, int] | None:
    """The root and the turn at which it was least sure (the first of equals); None where no root can be forked."""
    best: tuple[float, Episode, int] | None = None
    for root in roots:
        if root.ended == FAILED:
            continue
        for number, turn in enumerate(root.turns):
            unsure = uncertainty(turn.prob_values)
            if best is None or unsure > best[0]:
                best = (unsure, root, number)
    return None if best is None else best[1:]


def uncertainty(probs: np.ndarray) -> float:
    """Entropy of a turn's recorded distribution, in nats."""
    present = probs[probs > 0].astype(np.float64)
    return float(-(present * np.log(present)).sum())
