"""Success on held-out seeds: the same seeds for every policy, sampled and greedy, with Wilson intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rl.learner import play_plans
from rl.pool import Maps
from rl.rollout import Episode, Plan
from rl.statistics import mean_interval, wilson
from scenarios.contract import Scenario, ScenarioError


def plans_for(scenario: Scenario, split: str, count: int, options: dict[str, str], draws: str = "") -> list[Plan]:
    """The first `count` seeds of a split, one episode each. Raises ScenarioError where it has fewer."""
    seeds = scenario.splits[split]
    if not 0 < count <= len(seeds):
        raise ScenarioError(f"{scenario.name}: {count} episodes asked for; the {split} split has {len(seeds)} seeds")
    return [Plan(seed, options, f"{split}/{seed}", f"{draws}{split}/{seed}") for seed in seeds[:count]]


def play_all(pool: Maps, plans: Sequence[Plan], job: dict[str, Any],
             work: Callable[[Any, dict[str, Any]], list[Episode]] = play_plans) -> list[Episode]:  # fmt: skip
    """Plays `plans`, shared out among the workers; the episodes come back in the order of the plans."""
    shares = [list(range(start, len(plans), pool.workers)) for start in range(pool.workers)]
    shares = [share for share in shares if share]
    played = pool.map(work, [job | {"plans": [plans[i] for i in share]} for share in shares])
    episodes: list[Episode | None] = [None] * len(plans)
    for share, members in zip(shares, played, strict=True):
        for i, episode in zip(share, members, strict=True):
            episodes[i] = episode
    return [episode for episode in episodes if episode is not None]


def score(episodes: Sequence[Episode]) -> dict[str, Any]:
    """success and mean reward with their intervals, n, mean turns (of all, and of the solved)."""
    n = len(episodes)
    wins = sum(episode.success for episode in episodes)
    low, high = wilson(wins, n)
    reward_low, reward_high = mean_interval([episode.reward for episode in episodes])
    solved = [len(episode.turns) for episode in episodes if episode.success]
    return {
        "success": wins / n,
        "ci_low": low,
        "ci_high": high,
        "n": n,
        "mean_reward": sum(episode.reward for episode in episodes) / n,
        "reward_low": reward_low,
        "reward_high": reward_high,
        "mean_turns": sum(len(episode.turns) for episode in episodes) / n,
        "mean_turns_solved": sum(solved) / len(solved) if solved else None,
    }
