"""Whether a policy has collapsed: what the trainer looks at after each update, to go back before more is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rl.config import TrainConfig
from rl.rollout import Episode
from rl.statistics import wilson

SMALLER = 0.2  # what a roll-back leaves of the learning rate


def collapse(line: dict[str, Any], config: TrainConfig, best: float) -> str | None:
    """Why the update that left `line` is a collapse, or None. `best` is the best success on validation seeds so far.

    KL above its limit and numbers that are none are a collapse by themselves; little entropy, and one action repeated,
    are where the update's own success is below the best one's 95 % interval as well: a policy that is sure and right
    has not collapsed. What came from logs was played by others and tells nothing of that.
    """
    for name in ("loss", "kl", "kl_after", "gradient_norm"):
        value = line[name]
        if value is not None and not math.isfinite(value):
            return f"{name} is {value}"
    divergence = max(line["kl"] or 0.0, line["kl_after"] or 0.0)
    if divergence > config.kl_limit:
        return f"KL to the start is {divergence:.2f}, above --kl-limit {config.kl_limit:g}"
    if not math.isfinite(best):  # nothing was validated yet
        return None
    low, _ = wilson(round(best * config.validation_episodes), config.validation_episodes)
    if line["validation"] is not None:
        # intervals that overlap are noise: next to 0, one success more or less is no collapse
        _, high = wilson(round(line["validation"] * config.validation_episodes), config.validation_episodes)
        if high < low:
            return (
                f"validation success is {100 * line['validation']:.1f} %, its interval ends at {100 * high:.1f} %, "
                f"below the best one's, which begins at {100 * low:.1f} %"
            )
    if line["success"] < low and not line["replayed"]:
        if line["entropy"] is not None and line["entropy"] < config.entropy_floor:
            return f"entropy is {line['entropy']:.4f}, below --entropy-floor {config.entropy_floor:g}"
        if line["repeat_share"] > config.repeat_limit:
            return (
                f"{100 * line['repeat_share']:.0f} % of the turns repeat the turn before them, more than "
                f"--repeat-limit {config.repeat_limit:g}"
            )
    return None


def repeat_share(episodes: Sequence[Episode]) -> float:
    """The share of turns, but for first ones, whose action is the one before once more."""
    follow = [(a.executed, b.executed) for e in episodes for a, b in zip(e.turns, e.turns[1:], strict=False)]
    return sum(a == b for a, b in follow) / len(follow) if follow else 0.0
