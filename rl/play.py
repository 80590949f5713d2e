"""Plays a scenario and counts what training would get from it: `python -m rl.play --scenario NAME --episodes 1`.

The cheapest way to see that an environment yields what training needs: rewards that differ within a group, turns in
which something was sampled, prompts that are not too long. Each group's episodes start from one state, as in training.

A turn is trainable when a model sampled it among two or more legal actions, or wrote a free text to its end, and its
group is not dead (`rl.credit`): a dead group's episodes all earned the same, and teach nothing. With `--group-size 1`
there is no group to compare with, and only the sampling counts. Tokens are those of prompts (without the static prefix,
which is computed once) and of what was sampled.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import scenarios
from npc.errors import NpcError
from recorder import RecorderError, Turn
from rl.checkpoints import CheckpointError
from rl.command import INTERRUPTED, CommandError, Parser, ended, fail, options_from
from rl.config import ConfigError
from rl.credit import dead
from rl.evaluate import tau_of
from rl.logbook import Logbook
from rl.policies import ModelPolicy, Policy, PolicyNameError, make_policy, parse_policy
from rl.record import author_of
from rl.remote import RemoteError
from rl.rollout import FAILED, TRUNCATED, Episode, Plan, play
from scenarios.contract import Scenario, ScenarioError, check_seed


def own_policy(scenario: Scenario) -> str:
    """Who plays where nobody is named: the embedded model with the scenario's adapter, or bare where none ships."""
    try:
        parse_policy(f"nano:{scenario.name}")
    except PolicyNameError:
        return "nano"
    return f"nano:{scenario.name}"


def plans_from(scenario: Scenario, split: str, first: int, episodes: int, group_size: int,
               options: dict[str, str], seed: int) -> list[Plan]:  # fmt: skip
    """`episodes` episodes in groups of `group_size`, from the `first` seed of the split on. Raises CommandError."""
    for name, value, low in (("--episodes", episodes, 1), ("--group-size", group_size, 1), ("--first", first, 0)):
        if value < low:
            raise CommandError(f"{name} {value}: {low} or more")
    groups = -(-episodes // group_size)
    there = scenario.splits[split]
    seeds = there[first : first + groups]
    if len(seeds) < groups:
        raise CommandError(f"--first {first}, {groups} groups: the {split} split has {len(there)} seeds")
    return [
        Plan(seeds[n // group_size], options, f"{split}/{seeds[n // group_size]}", f"{seed}/play/{n}")
        for n in range(episodes)
    ]


def trainable(group: Sequence[Episode]) -> list[int]:
    """For each episode of a group, how many of its turns could be learned from."""
    if any(e.ended == FAILED for e in group) or (len(group) > 1 and dead(np.array([e.reward for e in group]))):
        return [0] * len(group)
    return [sum(_sampled(turn) for turn in episode.turns) for episode in group]


def _sampled(turn: Turn) -> bool:
    """Whether a model chose here: among several phrases, or, where nothing is listed, a text that was not cut off."""
    if not turn.sampled_ids:
        return False
    return len(turn.legal) > 1 if turn.legal else turn.policy_note != TRUNCATED


def counted(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """What is printed of each episode."""
    lines: list[dict[str, Any]] = []
    for _, members in groupby(episodes, key=lambda episode: episode.plan.group):
        group = list(members)
        for episode, useful in zip(group, trainable(group), strict=True):
            turns = episode.turns
            lines.append({
                "seed": episode.plan.seed, "group": episode.plan.group, "ended": episode.ended,
                "success": episode.success, "reward": episode.reward, "terms": episode.terms, "turns": len(turns),
                "trainable_turns": useful, "choices": sum(len(turn.legal) for turn in turns) / max(1, len(turns)),
                "prompt_tokens": sum(len(turn.prompt_ids) for turn in turns),
                "sampled_tokens": sum(len(turn.sampled_ids) for turn in turns), "error": episode.error,
            })  # fmt: skip
    return lines


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Plays as the command line says; returns what `--json` prints. Raises a typed error for bad input."""
    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    check_seed(args.seed)
    plans = plans_from(scenario, args.split, args.first, args.episodes, args.group_size, options, args.seed)
    name = args.policy or own_policy(scenario)
    tau = tau_of(name, args.tau)
    policy = make_policy(parse_policy(name), scenario, tau)
    if args.record:
        with Logbook(Path(args.record), scenario, "python -m rl.play", f"play-{scenario.name}-{args.seed}") as log:
            episodes = play(policy, scenario, plans, args.greedy)
            _record(log, episodes, policy, name, args.split)
    else:
        episodes = play(policy, scenario, plans, args.greedy)
    lines = counted(episodes)
    rewards = np.array([line["reward"] for line in lines])
    total = {
        key: sum(line[key] for line in lines)
        for key in ("turns", "trainable_turns", "prompt_tokens", "sampled_tokens")
    }
    return {
        "scenario": scenario.name, "options": options, "policy": name, "tau": tau, "greedy": args.greedy,
        "group_size": args.group_size, "success": sum(line["success"] for line in lines) / len(lines),
        "reward": float(rewards.mean()), "reward_std": float(rewards.std()), **total,
        "wall_s": sum(episode.wall_s for episode in episodes), "episodes": lines,
    }  # fmt: skip


def _record(log: Logbook, episodes: Sequence[Episode], policy: Policy, name: str, split: str) -> None:
    spec, prefix = parse_policy(name), ""
    if isinstance(policy, ModelPolicy):
        prefix = log.add_prefix(policy.closed.prefix_ids, policy.brain.tokenizer_hash)
    log.add(episodes, author_of(policy, name, spec.model, spec.adapter or ""), "play", split, prefix)


def show(found: dict[str, Any], console: Console) -> None:
    """A line for each episode, and what they come to."""
    options = " ".join(f"{key}={value}" for key, value in found["options"].items())
    how = "greedy" if found["greedy"] else f"sampled at τ = {found['tau']:g}"
    table = Table(title=f"{found['scenario']} {options}: {found['policy']}, {how}", title_justify="left")
    for name in ("seed", "ended", "reward", "turns", "trainable turns", "legal actions", "tokens"):
        table.add_column(name, justify="left" if name == "ended" else "right")
    for one in found["episodes"]:
        table.add_row(
            str(one["seed"]), one["ended"], f"{one['reward']:+.3f}", str(one["turns"]), str(one["trainable_turns"]),
            f"{one['choices']:.1f}", str(one["prompt_tokens"] + one["sampled_tokens"]),
        )  # fmt: skip
    console.print(table)
    for one in found["episodes"]:
        if one["error"]:
            console.print(f"seed {one['seed']}: the scenario raised an error: {one['error'].splitlines()[-1]}")
    tokens = found["prompt_tokens"] + found["sampled_tokens"]
    console.print(
        f"{len(found['episodes'])} episodes: reward {found['reward']:+.3f} ± {found['reward_std']:.3f}, success "
        f"{100 * found['success']:.1f} %, {found['turns']} turns, {found['trainable_turns']} of them trainable, "
        f"{tokens} tokens, {found['wall_s']:.1f} s", soft_wrap=True,
    )  # fmt: skip
    if not found["sampled_tokens"]:
        remedy = "give --policy nano, MODEL:ADAPTER or a run"
        console.print(f"nothing was sampled by a model, so no turn is trainable: {remedy}", soft_wrap=True)


def arguments() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m rl.play", description=(__doc__ or "").split(":")[0] + ".")
    parser.add_argument("--scenario", required=True, help="there is " + ", ".join(scenarios.names()))
    policies = "random, teacher, oracle, MODEL, MODEL:ADAPTER, a run folder, or RUN@NODE (default: the scenario's own)"
    parser.add_argument("--policy", help=policies)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the scenario")
    parser.add_argument("--episodes", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--group-size", type=int, default=1, help="episodes that share a seed (default: %(default)s)")
    parser.add_argument("--split", choices=("train", "validation"), default="train", help="(default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed, counted in its split")
    parser.add_argument("--greedy", action="store_true", help="the most probable action, nothing is drawn")
    parser.add_argument("--tau", type=float, help="sampling temperature (default: the run's own, else 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the dice that draw actions (default: %(default)s)")
    parser.add_argument("--record", metavar="FILE.b22", help="keep the episodes in a new log")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    try:
        found = run(args)
    except (ScenarioError, NpcError, RecorderError, CheckpointError, ConfigError, CommandError, PolicyNameError,
            RemoteError, OSError) as error:  # fmt: skip
        return fail("rl.play", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    if args.json:
        print(json.dumps(found))
    else:
        show(found, Console(highlight=False))
    return 0


if __name__ == "__main__":
    sys.exit(ended("rl.play", main))
