"""From seconds and turns to the figures that are printed: ratios within each round, median and range, the goals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

PARTS = ("rollout", "update", "loop")
Round = Mapping[str, float]  # turns, and the seconds of each part as rollout_s, update_s, loop_s

# figure -> (what it is, what it should be at least, or at most where the second is False)
GOALS: dict[str, tuple[str, float, bool]] = {
    "loop_vs_trl": ("whole loop, turns a second against TRL's", 10.0, True),
    "train_vs_trl": ("update alone, turns a second against TRL's", 3.0, True),
    "env_vs_minigrid": ("text steps a second against MiniGrid's", 10.0, True),
    "env_share_nano": ("share of rollout time in the environment, nano", 0.05, False),
    "matmul_share_rollout": ("share of the matmul rate in rollouts", 0.5, True),
    "matmul_share_update": ("share of the matmul rate in updates", 0.5, True),
}


def rate(one: Round, part: str) -> float:
    """Turns a second of one part of a round."""
    return one["turns"] / one[f"{part}_s"]


def ratios(ours: Sequence[Round], theirs: Sequence[Round], part: str) -> list[float]:
    """Our turns a second over theirs, round by round: what disturbs the machine for minutes disturbs both. Of
    `PART_cpu`, turns a second of processor time: what else the machine does disturbs that least."""
    return [rate(own, part) / rate(other, part) for own, other in zip(ours, theirs, strict=True)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def in_words(found: Mapping[str, float], form: str = ".2f") -> str:
    """`2.10 (1.90 to 2.30)`."""
    return f"{found['median']:{form}} ({found['low']:{form}} to {found['high']:{form}})"


def rates(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """Turns a second of every part, and turns a second of processor time, over rounds."""
    return {
        f"{part}_turns_per{kind}_s": spread([rate(one, part + kind) for one in rounds])
        for part in PARTS for kind in ("", "_cpu")
    }  # fmt: skip


def reached(figure: str, value: float) -> bool:
    """Whether a figure is what its goal asks for."""
    _, goal, least = GOALS[figure]
    return value >= goal if least else value <= goal


def tokens_a_turn(rows: Sequence[Mapping[str, Any]]) -> float:
    """What a trainer that shares nothing between rows puts through its layers for a turn: the longest prompt and the
    longest completion, since shorter ones are filled up."""
    return float(max(len(row["prompt_ids"]) for row in rows) + max(len(row["completion_ids"]) for row in rows))
