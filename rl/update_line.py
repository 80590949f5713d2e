"""The one line that an update leaves: what it played, what it learned from, how it went. For files and for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rl.credit import Credit, groups_of
from rl.health import repeat_share
from rl.learner import Gradient
from rl.rollout import Episode
from scenarios.contract import Scenario

LEARNED = ("kl", "kl_after", "entropy", "clip_fraction", "loss", "worst_log_ratio", "ess_turn", "ess_episode",
           "turns_per_s_train", "tokens_per_s_train")  # fmt: skip
"""What is None where nothing was learned from."""


def update_line(number: int, attempt: int, total: int, episodes: Sequence[Episode], credit: Sequence[Credit],
                played: Sequence[Episode], play_s: float, rate: float) -> dict[str, Any]:  # fmt: skip
    """What an update was made of; `total` counts all episodes played in training so far. `played` are those of
    `episodes` that were played for it, in `play_s` seconds; the others came from logs."""
    good = [episode for episode in episodes if not episode.error]
    rewards = np.array([episode.reward for episode in good])
    turns = sum(len(episode.turns) for episode in episodes)
    speed = 1 / play_s if played and play_s else 0.0
    turns_played = sum(len(episode.turns) for episode in played)
    tokens = sum(len(turn.prompt_ids) + len(turn.sampled_ids) for e in played for turn in e.turns)
    states = [{credit[i].state for i in members} for members in groups_of(episodes).values()]
    line: dict[str, Any] = {
        "update": number, "attempt": attempt, "episodes": total, "replayed": len(episodes) - len(played),
        "success": sum(e.success for e in good) / max(1, len(good)),
        "reward": float(rewards.mean()) if good else None,
        "reward_std": float(rewards.std()) if good else None,
        "dead_groups": sum(found == {"dead"} for found in states),
        "failed_groups": sum(found == {"failed"} for found in states),
        "turns_per_episode": turns / len(episodes), "repeat_share": repeat_share(episodes),
        "learning_rate": rate, "gradient_norm": 0.0,
        "turns_per_s_rollout": turns_played * speed, "tokens_per_s_rollout": tokens * speed,
        "validation": None, "rolled_back_to": None,
    }  # fmt: skip
    return line | dict.fromkeys(LEARNED)


def learned(found: Gradient, denominator: float, norm: float, kl_after: float) -> dict[str, Any]:
    """What was learned from, in the last pass over all shares; the slowest one's time, since they ran side by side."""
    episodes = found.counts.episodes
    return {
        "gradient_norm": norm, "kl": found.kl / episodes, "kl_after": kl_after,
        "entropy": found.entropy / episodes, "clip_fraction": found.clipped / episodes,
        "loss": found.loss / denominator, "worst_log_ratio": found.worst_ratio,
        "ess_turn": found.spread.by_turn, "ess_episode": found.spread.by_episode,
        "turns_per_s_train": found.counts.rows / found.train_s, "tokens_per_s_train": found.tokens / found.train_s,
    }  # fmt: skip


def lag_of(lags: Sequence[int]) -> dict[str, Any]:
    """How many updates what was learned from lies behind: 0 where everything was played by the present version."""
    return {"lag_mean": sum(lags) / len(lags) if lags else None, "lag_max": max(lags, default=None)}


def finite(line: dict[str, Any]) -> dict[str, Any]:
    """The line as JSON holds it: a number that is none becomes null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}


def describe(line: dict[str, Any], updates: int) -> str:
    """One line an update, for people."""

    def show(name: str, form: str) -> str:
        return "-" if line[name] is None else format(line[name], form)

    weights = "" if not line["replayed"] else (
        f"  ess {100 * (line['ess_turn'] or 0):.0f} % of actions {100 * (line['ess_episode'] or 0):.0f} % of episodes"
    )
    lag = f"  lag {line['lag_mean']:.2f}" if line.get("lag_max") else ""
    lost = f"  played again {line['resampled_groups']} groups" if line.get("resampled_groups") else ""
    validation = "" if line["validation"] is None else f"  validation {100 * line['validation']:.1f} %"
    return (
        f"update {line['update']}/{updates}  episodes {line['episodes']}  success {100 * line['success']:.1f} %  "
        f"reward {show('reward', '.3f')} ± {show('reward_std', '.3f')}  dead {line['dead_groups']} "
        f"failed {line['failed_groups']}  kl {show('kl', '.4f')}  entropy {show('entropy', '.3f')}  "
        f"clip {show('clip_fraction', '.3f')}  loss {show('loss', '.4f')}  "
        f"turns/s {show('turns_per_s_rollout', '.0f')} play {show('turns_per_s_train', '.0f')} train  "
        f"tokens/s {show('tokens_per_s_rollout', '.0f')} play {show('tokens_per_s_train', '.0f')} train"
        f"{weights}{lag}{lost}{validation}"
    )


def mis_scaled(episodes: Sequence[Episode], scenario: Scenario) -> str:
    """What to say where no group of the first update can teach anything."""
    mean = sum(episode.reward for episode in episodes) / len(episodes)
    names = ", ".join(f"--option {option.name}={'|'.join(option.choices)}" for option in scenario.options)
    wins = sum(episode.success for episode in episodes)
    hard = wins * 2 < len(episodes)
    remedy = f"make the scenario {'easier' if hard else 'harder'}" + (f" ({names})" if names else "")
    if hard:
        remedy += f", or show it some play first: python -m rl.distill --scenario {scenario.name}"
    return (
        f"mis-scaled: every group of the first update earned the same (reward {mean:.3f}, {wins} of "
        f"{len(episodes)} episodes solved), so there is nothing to learn from; {remedy}"
    )
