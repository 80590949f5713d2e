"""What a session's turns and episodes come to: answers, results, and the small rules about them. No pygame."""

from __future__ import annotations

import math

import msgspec

from game.sim.rng import draw
from npc.decision import Decision
from recorder import Turn
from scenarios.contract import Scenario


class Answer(msgspec.Struct, frozen=True):
    """What came of a question: a decision, or the reason why there is none."""

    decision: Decision | None
    took_ms: float
    note: str = ""


class Result(msgspec.Struct, frozen=True):
    """One episode as the front reports it; `ended` is None for one that was broken off."""

    episode: int
    seed: int
    ended: str | None
    success: bool
    turns: int
    reward: float
    fallbacks: int
    digest: dict[str, str]


def uniform(seed: int, turn: int) -> float:
    """The number in [0, 1) that draws a turn's action: 53 bits of a blake2b over seed and turn."""
    return (draw(seed, "action of the errand-runner", turn) >> 11) / 2**53


def fallback(legal: list[str]) -> str:
    """What is done when there is no decision: wait, or the last legal phrase where waiting isn't one."""
    return next((phrase for phrase in legal if phrase.split(" ")[0] == "wait"), legal[-1])


def split_of(scenario: Scenario, seed: int) -> str:
    """The name of the split that a seed belongs to, or ""."""
    return next((name for name, seeds in scenario.splits.items() if seed in seeds), "")


def summed_terms(turns: list[Turn]) -> dict[str, float]:
    """Each reward term, summed over turns, in the order in which they were first earned."""
    names = dict.fromkeys(name for turn in turns for name in turn.terms)
    return {name: math.fsum(turn.terms.get(name, 0.0) for turn in turns) for name in names}
