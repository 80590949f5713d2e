"""The checks of a scenario that need the environment or a model: Gymnasium's checker, baselines, and whether a
policy's rewards spread enough for a group-relative method to learn from."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from rl.credit import dead
from rl.env import ENV_ID
from rl.evaluation import plans_for, score
from rl.policies import ScriptedPolicy, make_policy, parse_policy
from rl.rollout import FAILED, Episode, Plan, play
from scenarios.conformance import JUNK, Finding
from scenarios.contract import Scenario

NAMES = ("gymnasium environment", "baselines", "spread")  # of the checks here; only the last needs a model
FLAT = 0.05  # a mean reward so near to an end of its range is called flat


def environment(scenario: Scenario, options: dict[str, str]) -> Finding:
    """Gymnasium's `check_env`, warnings as errors, and one episode of legal actions."""
    name = NAMES[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            settings: dict[str, Any] = {"scenario": scenario.name, **options}
            env: Any = gymnasium.make(ENV_ID, **settings).unwrapped
            check_env(env)
            _, info = env.reset(seed=scenario.splits["validation"][0])
            dice, over, turns = random.Random(0), False, 0
            while not over:
                said = info["legal_actions"] or JUNK
                text, _, terminated, truncated, info = env.step(dice.choice(said))
                if text not in env.observation_space:
                    return Finding(name, False, f"{text[:60]!r} does not fit the observation space")
                over, turns = terminated or truncated, turns + 1
    except Exception as error:  # a scenario is anybody's code, and the checker raises whatever it likes
        return Finding(name, False, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Finding(name, True, f"check_env passes; {turns} legal turns")


def baselines(scenario: Scenario, options: dict[str, str], seeds: int) -> list[Finding]:
    """What random, teacher and oracle get on validation seeds."""
    found = []
    for kind in ("random", "teacher", "oracle"):
        plans = plans_for(scenario, "validation", seeds, options)
        result = score(play(ScriptedPolicy(kind, scenario), scenario, plans))
        success, reward, turns = 100 * result["success"], result["mean_reward"], result["mean_turns"]
        found.append(Finding(kind, None, f"success {success:.0f} %, reward {reward:.3f}, {turns:.1f} turns"))
    return found


def spread(scenario: Scenario, options: dict[str, str], policy: str, groups: int, group_size: int) -> Finding:
    """Plays groups as training does, and says whether they can teach anything."""
    player = make_policy(parse_policy(policy), scenario)
    seeds = scenario.splits["train"]
    plans = [
        Plan(seeds[group], options, f"check/{group}", f"check/{group}/{member}")
        for group in range(groups)
        for member in range(group_size)
    ]
    return verdict(scenario, policy, play(player, scenario, plans), group_size)


def verdict(scenario: Scenario, policy: str, episodes: Sequence[Episode], group_size: int) -> Finding:
    """Whether played groups, which stand one after the other, differ within themselves; advice where they don't."""
    name = f"{NAMES[-1]} for {policy}"
    broken = next((episode for episode in episodes if episode.ended == FAILED), None)
    if broken is not None:
        return Finding(name, False, f"seed {broken.plan.seed}: the scenario raised {broken.error.splitlines()[-1]}")
    rewards = np.array([episode.reward for episode in episodes])
    groups = rewards.reshape(-1, group_size)
    live = sum(not dead(group) for group in groups)
    wins = sum(episode.success for episode in episodes)
    facts = (f"reward {rewards.mean():.3f} ± {rewards.std():.3f}, {wins} of {len(rewards)} solved, "
             f"{live} of {len(groups)} groups differ")  # fmt: skip
    low, top = (float(sum(getattr(term, end) for term in scenario.reward_terms)) for end in ("low", "top"))
    settings = ", ".join(f"--option {o.name}={'|'.join(o.choices)}" for o in scenario.options) or "it has no option"
    near = FLAT * (top - low)
    if live * 4 >= len(groups) and wins < len(rewards):
        return Finding(name, True, f"{facts}: there is something to learn from")
    flat_top = wins * 2 > len(rewards) or rewards.mean() > top - near
    remedy = ("make it harder" if flat_top else "make it easier, grade the reward, or start from a distilled adapter "
              "(python -m rl.distill)")  # fmt: skip
    which = "flat at the top" if flat_top else "flat at the bottom"
    return Finding(name, False, f"mis-scaled, {which}: {facts}. Change the target: {remedy} ({settings})")


def check_all(scenario: Scenario, options: dict[str, str], seeds: int, policy: str | None) -> list[Finding]:
    """Everything of this module; without a policy, nothing that needs a model."""
    found: list[Any] = [environment(scenario, options), *baselines(scenario, options, seeds)]
    if policy is not None:
        found.append(spread(scenario, options, policy, groups=8, group_size=4))
    return found
