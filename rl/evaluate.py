"""How good a policy is on held-out seeds: `python -m rl.evaluate --scenario fetch_item --policy runs/demo`.

With `--against` another policy plays the same seeds, and the difference comes with its paired interval. A model plays
twice: sampled (actions drawn at τ, the same dice for every policy) and greedy (the most probable whole action).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import scenarios
from npc.errors import NpcError
from recorder import RecorderError
from rl.command import INTERRUPTED, CommandError, Parser, fail, options_from
from rl.config import ConfigError
from rl.evaluation import plans_for, play_all, score
from rl.files import CheckpointError, is_run, read_run
from rl.logbook import Author, Logbook
from rl.policies import ModelPolicy, Policy, PolicyNameError, make_policy, parse_policy
from rl.pool import LocalPool, Pool, WorkerError
from rl.rollout import Episode, play
from rl.statistics import paired_difference
from scenarios.contract import Scenario, ScenarioError, check_seed

SPLITS = ("test", "validation")
SAMPLED, GREEDY, SCRIPTED = "sampled", "greedy", ""
"""How a policy played; `SCRIPTED` for random, teacher and oracle, which have one way alone."""


@dataclass
class Players:
    """What a worker keeps: the policies that it has loaded."""

    scenario: Scenario
    policies: dict[str, Policy] = field(default_factory=dict)


@dataclass(frozen=True)
class Introduction:
    """Who a policy is, or, in `refusal`, why it can't play."""

    author: Author
    prefix_ids: list[int] = field(default_factory=list)
    tokenizer_hash: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Played:
    """One policy's episodes on all seeds, in one mode."""

    policy: str
    mode: str
    episodes: list[Episode]

    @property
    def label(self) -> str:
        return f"{self.policy} {self.mode}".strip()


def set_up(scenario: str) -> Players:
    return Players(scenarios.get(scenario))


def introduce(players: Players, job: dict[str, Any]) -> Introduction:
    """Loads the policy `job["policy"]` and says who it is. What is wrong with a name or a file comes back as words."""
    name = job["policy"]
    try:
        spec = parse_policy(name)
        policy = players.policies[name] = make_policy(spec, players.scenario, job["tau"])
    except (NpcError, PolicyNameError, CheckpointError, OSError) as error:
        return Introduction(Author(name), refusal=str(error))
    if not isinstance(policy, ModelPolicy):
        return Introduction(Author(name))
    from npc.adapters import weights_hash

    brain = policy.brain
    author = Author(name, spec.model, spec.adapter or "", weights_hash(brain), brain.base_hash, brain.tokenizer_hash)
    return Introduction(author, brain.tokenizer.encode(players.scenario.prefix), brain.tokenizer_hash)


def play_share(players: Players, job: dict[str, Any]) -> list[Episode]:
    """Plays `job["plans"]` with a policy that was introduced."""
    return play(players.policies[job["policy"]], players.scenario, job["plans"], job["greedy"])


def evaluate(args: argparse.Namespace, status: Console) -> dict[str, Any]:
    """Runs the command; returns what `--json` prints. Raises a typed error for bad input."""
    began = time.perf_counter()
    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    check_seed(args.seed)
    if args.workers < 1:
        raise CommandError(f"--workers {args.workers}: 1 or more")
    plans = plans_for(scenario, args.split, args.episodes, options, f"{args.seed}/")
    names = list(dict.fromkeys([args.policy, *([args.against] if args.against else [])]))
    taus = {name: tau_of(name, args.tau) for name in names}
    models = {name for name in names if parse_policy(name).kind == "model"}
    results = []
    with ExitStack() as opened:
        pool: Pool | LocalPool = (
            Pool(args.workers, set_up, [scenario.name])
            if models and args.workers > 1
            else LocalPool(set_up, [scenario.name])
        )
        opened.enter_context(pool)
        known = {name: _introduction(pool, name, taus[name]) for name in names}
        log = None
        if args.record:
            run = f"evaluate-{scenario.name}-{args.seed}"
            log = opened.enter_context(Logbook(Path(args.record), scenario, "python -m rl.evaluate", run))
        for name in names:
            for mode in _modes(name in models, args.greedy):
                with status.status(f"{name} {mode}: {len(plans)} {args.split} episodes"):
                    job = {"policy": name, "greedy": mode == GREEDY}
                    results.append(Played(name, mode, play_all(pool, plans, job, play_share)))
                if log is not None:
                    _record(log, results[-1], known[name], args.split)
    return {
        "scenario": scenario.name, "scenario_version": scenario.version, "options": options, "split": args.split,
        "episodes": len(plans), "first_seed": plans[0].seed, "last_seed": plans[-1].seed, "seed": args.seed,
        "policies": [
            {"policy": p.policy, "mode": p.mode, "tau": taus[p.policy], **score(p.episodes),
             "errors": sum(bool(episode.error) for episode in p.episodes)}
            for p in results
        ],
        "differences": differences(results), "wall_s": time.perf_counter() - began,
    }  # fmt: skip


def differences(results: Sequence[Played]) -> list[dict[str, Any]]:
    """The first policy minus the second on the same seeds, mode by mode; a scripted policy stands in every mode."""
    first = results[0].policy
    left = [played for played in results if played.policy == first]
    right = [played for played in results if played.policy != first]
    found = []
    for a in left:
        for b in right:
            if a.mode == b.mode or SCRIPTED in (a.mode, b.mode):
                difference, low, high = paired_difference(
                    [episode.success for episode in b.episodes], [episode.success for episode in a.episodes]
                )
                names = {"of": a.label, "against": b.label}
                found.append({**names, "difference": difference, "ci_low": low, "ci_high": high})
    return found


def tau_of(policy: str, given: float | None) -> float:
    """The temperature to sample at: the one given, else a run's own, else 1. Raises CommandError."""
    if given is not None:
        if not 0 < given < float("inf"):
            raise CommandError(f"--tau {given}: above 0 (for the most probable action there is --greedy)")
        return given
    folder = Path(policy.partition("@")[0])
    return float(read_run(folder).get("tau", 1.0)) if is_run(folder) else 1.0


def _introduction(pool: Pool | LocalPool, name: str, tau: float) -> Introduction:
    """Every worker loads the policy; the first one's introduction. Raises CommandError where it can't play."""
    found = pool.map(introduce, [{"policy": name, "tau": tau}] * pool.workers)[0]
    if found.refusal:
        raise CommandError(found.refusal)
    return found


def _modes(model: bool, greedy_only: bool) -> tuple[str, ...]:
    if not model:
        return (SCRIPTED,)
    return (GREEDY,) if greedy_only else (SAMPLED, GREEDY)


def _record(log: Logbook, played: Played, known: Introduction, split: str) -> None:
    prefix = log.add_prefix(known.prefix_ids, known.tokenizer_hash) if known.prefix_ids else ""
    log.add(played.episodes, known.author, f"evaluate {played.mode}".strip(), split, prefix)


def show(found: dict[str, Any], console: Console) -> None:
    """The result as a table, and a line for each difference and for what the scenario broke."""
    options = " ".join(f"{key}={value}" for key, value in found["options"].items())
    table = Table(title=f"{found['scenario']} {options}: {found['episodes']} {found['split']} seeds, "
                        f"{found['first_seed']} to {found['last_seed']}", title_justify="left")  # fmt: skip
    for name in ("policy", "success", "95 % interval", "mean reward", "mean turns", "turns when solved"):
        table.add_column(name, justify="left" if name == "policy" else "right", overflow="fold")
    for one in found["policies"]:
        solved = one["mean_turns_solved"]
        table.add_row(
            f"{one['policy']} {one['mode']}".strip(), f"{100 * one['success']:.1f} %",
            f"{100 * one['ci_low']:.1f} to {100 * one['ci_high']:.1f}", f"{one['mean_reward']:.3f}",
            f"{one['mean_turns']:.1f}", "–" if solved is None else f"{solved:.1f}",
        )  # fmt: skip
    console.print(table)
    for one in found["policies"]:
        if one["errors"]:
            console.print(
                f"{one['policy']}: the scenario raised an error in {one['errors']} episodes; they count as failed"
            )
    for one in found["differences"]:
        console.print(
            f"{one['of']} against {one['against']}, paired on the same seeds: {100 * one['difference']:+.1f} points "
            f"(95 %: {100 * one['ci_low']:+.1f} to {100 * one['ci_high']:+.1f})", markup=False, soft_wrap=True,
        )  # fmt: skip


def arguments() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m rl.evaluate", description=(__doc__ or "").split(":")[0] + ".")
    policies = "random, teacher, oracle, MODEL, MODEL:ADAPTER, a run folder, or RUN@NODE"
    parser.add_argument("--scenario", required=True, help="there is " + ", ".join(scenarios.names()))
    parser.add_argument("--policy", required=True, help=policies)
    parser.add_argument("--against", metavar="POLICY", help="another one that plays the same seeds")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the scenario")
    parser.add_argument("--episodes", type=int, default=256, help="the first so many seeds (default: %(default)s)")
    parser.add_argument("--split", choices=SPLITS, default="test", help="which seeds (default: %(default)s)")
    parser.add_argument("--greedy", action="store_true", help="the most probable action only, no sampled play")
    parser.add_argument("--tau", type=float, help="sampling temperature (default: the run's own, else 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the dice that draw actions (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes that play (default: %(default)s)")
    parser.add_argument("--record", metavar="FILE.b22", help="keep every episode in a new log")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    try:
        found = evaluate(args, Console(stderr=True))
    except (ScenarioError, NpcError, RecorderError, CheckpointError, ConfigError, CommandError, PolicyNameError,
            OSError) as error:  # fmt: skip
        return fail("rl.evaluate", error)
    except WorkerError as error:
        print(f"python -m rl.evaluate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if args.json:
        print(json.dumps(found))
    else:
        show(found, Console(highlight=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
