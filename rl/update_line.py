"""The one line that an update leaves: what it played, what it learned from, how it went. For files and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rl.credit import STATES, Credit
from rl.learner import Gradient
from rl.rollout import Episode
from scenarios.contract import Scenario

LEARNED = ("kl", "entropy", "clip_fraction", "loss", "worst_log_ratio", "turns_per_s_train", "tokens_per_s_train")
"""What is None where nothing was learned from."""


def update_line(number: int, attempt: int, total: int, episodes: Sequence[Episode], credit: Sequence[Credit],
                group_size: int, play_s: float, rate: float) -> dict[str, Any]:  # fmt: skip
    """What was played in an update; `total` counts all training episodes so far."""
    good = [episode for episode in episodes if not episode.error]
    rewards = np.array([episode.reward for episode in good])
    turns = sum(len(episode.turns) for episode in episodes)
    tokens = sum(len(turn.prompt_ids) + len(turn.sampled_ids) for e in episodes for turn in e.turns)
    in_groups = {state: sum(c.state == state for c in credit) // group_size for state in STATES}
    line: dict[str, Any] = {
        "update": number, "attempt": attempt, "episodes": total,
        "success": sum(e.success for e in good) / max(1, len(good)),
        "reward": float(rewards.mean()) if good else None,
        "reward_std": float(rewards.std()) if good else None,
        "dead_groups": in_groups["dead"], "failed_groups": in_groups["failed"],
        "turns_per_episode": turns / len(episodes), "learning_rate": rate, "gradient_norm": 0.0,
        "turns_per_s_rollout": turns / play_s, "tokens_per_s_rollout": tokens / play_s, "validation": None,
    }  # fmt: skip
    return line | dict.fromkeys(LEARNED)


def learned(sums: Gradient, live: int, norm: float) -> dict[str, Any]:
    """What was learned from, over `live` episodes."""
    return {
        "gradient_norm": norm, "kl": sums.kl / live, "entropy": sums.entropy / live,
        "clip_fraction": sums.clipped / live, "loss": sums.loss / live, "worst_log_ratio": sums.worst_ratio,
        "turns_per_s_train": sums.turns / sums.train_s, "tokens_per_s_train": sums.tokens / sums.train_s,
    }  # fmt: skip


def describe(line: dict[str, Any], updates: int) -> str:
    """One line an update, for people."""

    def show(name: str, form: str) -> str:
        return "-" if line[name] is None else format(line[name], form)

    validation = "" if line["validation"] is None else f"  validation {100 * line['validation']:.1f} %"
    return (
        f"update {line['update']}/{updates}  episodes {line['episodes']}  success {100 * line['success']:.1f} %  "
        f"reward {show('reward', '.3f')} ± {show('reward_std', '.3f')}  dead {line['dead_groups']} "
        f"failed {line['failed_groups']}  kl {show('kl', '.4f')}  entropy {show('entropy', '.3f')}  "
        f"clip {show('clip_fraction', '.3f')}  loss {show('loss', '.4f')}  "
        f"turns/s {show('turns_per_s_rollout', '.0f')} play {show('turns_per_s_train', '.0f')} train  "
        f"tokens/s {show('tokens_per_s_rollout', '.0f')} play {show('tokens_per_s_train', '.0f')} train{validation}"
    )


def mis_scaled(episodes: Sequence[Episode], scenario: Scenario) -> str:
    """What to say where no group of the first update can teach anything."""
    mean = sum(episode.reward for episode in episodes) / len(episodes)
    names = ", ".join(f"--option {option.name}={'|'.join(option.choices)}" for option in scenario.options)
    wins = sum(episode.success for episode in episodes)
    remedy = "easier" if wins * 2 < len(episodes) else "harder"
    return (
        f"mis-scaled: every group of the first update earned the same (reward {mean:.3f}, {wins} of "
        f"{len(episodes)} episodes solved), so there is nothing to learn from; make the scenario {remedy} ({names})"
    )
