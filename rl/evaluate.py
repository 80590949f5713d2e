"""How good a policy is on held-out seeds: `python -m rl.evaluate --scenario fetch_item --policy runs/demo`.

With `--against` another policy plays the same seeds, and the difference comes with its paired interval. A model plays
twice: sampled (actions drawn at τ, the same dice for every policy) and greedy (the most probable whole action).
`--slices` plays every difficulty as well, `--slice-by OPTION` every choice of another option. Each common way of
failing comes with a command that shows an example.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

import scenarios
from npc.errors import NpcError
from recorder import RecorderError
from rl.breakdown import action_counts, mean_terms, outcome_counts, ways_of_failing
from rl.command import INTERRUPTED, CommandError, Parser, ended, fail, options_from
from rl.config import ConfigError
from rl.evaluate_tables import show
from rl.evaluation import plans_for, play_all, score
from rl.files import CheckpointError, is_run, read_run
from rl.logbook import Author, Logbook
from rl.policies import ModelPolicy, Policy, PolicyNameError, make_policy, parse_policy
from rl.pool import LocalPool, Pool, WorkerError
from rl.progress import Progress
from rl.remote import RemoteError
from rl.rollout import Episode, Plan, play
from rl.statistics import changes, mcnemar, paired_difference
from scenarios.contract import Scenario, ScenarioError, check_seed, nearest

SPLITS = ("test", "validation")
SLICED, SLICE_EPISODES = "difficulty", 64  # what --slices goes by, and its seeds for each choice
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
    numbers: list[int] = field(default_factory=list)  # what the episodes are called in the log, where there is one

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


@dataclass
class Match:
    """Who plays what: the policies that were introduced, and the pool that they play in."""

    scenario: Scenario
    pool: Pool | LocalPool
    args: argparse.Namespace
    known: dict[str, Introduction]
    taus: dict[str, float]
    told: Progress
    log: Logbook | None = None

    def play(self, plans: Sequence[Plan], about: str) -> list[Played]:
        """Every policy plays `plans`, a model sampled and greedy."""
        results = []
        for name, who in self.known.items():
            for mode in _modes(bool(who.author.model), self.args.greedy):
                self.told.now(f"{' '.join([name, mode]).strip()}: {len(plans)} {about} episodes")
                job = {"policy": name, "greedy": mode == GREEDY}
                episodes = play_all(self.pool, plans, job, play_share)
                numbers = _record(self.log, episodes, mode, who, self.args.split) if self.log is not None else []
                results.append(Played(name, mode, episodes, numbers))
        return results


def evaluate(args: argparse.Namespace) -> dict[str, Any]:
    """Runs the command; returns what `--json` prints. Raises a typed error for bad input."""
    began = time.perf_counter()
    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    check_seed(args.seed)
    if args.workers < 1:
        raise CommandError(f"--workers {args.workers}: 1 or more")
    plans = plans_for(scenario, args.split, args.episodes, options, f"{args.seed}/")
    option, choices = slices_of(scenario, args)
    names = list(dict.fromkeys([args.policy, *([args.against] if args.against else [])]))
    taus = {name: tau_of(name, args.tau) for name in names}
    models = {name for name in names if parse_policy(name).kind == "model"}
    with ExitStack() as opened:
        workers = args.workers if models else 1
        how = (set_up, [scenario.name])
        pool = Pool(workers, *how, lambda job, _: "more" * (job is introduce)) if workers > 1 else LocalPool(*how)
        opened.enter_context(pool)
        told = opened.enter_context(Progress(Console(stderr=True)))
        told.now(f"loading {' and '.join(names)}")
        known = {name: _introduction(pool, name, taus[name]) for name in names}
        match = Match(scenario, pool, args, known, taus, told)
        if args.record:
            run = f"evaluate-{scenario.name}-{args.seed}"
            match.log = opened.enter_context(Logbook(Path(args.record), scenario, "python -m rl.evaluate", run))
        results = match.play(plans, args.split)
        slices = []
        for choice, few in choices:
            played = match.play(few, f"{option}={choice}")
            slices.append({"choice": choice, "policies": [_scored(p, taus) for p in played],
                           "differences": differences(played)})  # fmt: skip
    terms = [term.name for term in scenario.reward_terms]
    found: dict[str, Any] = {
        "scenario": scenario.name, "scenario_version": scenario.version, "options": options, "split": args.split,
        "episodes": len(plans), "first_seed": plans[0].seed, "last_seed": plans[-1].seed, "seed": args.seed,
        "policies": [
            {**_scored(p, taus), "terms": mean_terms(p.episodes, terms), "actions": action_counts(p.episodes),
             "outcomes": outcome_counts(p.episodes), "failures": failures(p, args, options)}
            for p in results
        ],
        "differences": differences(results),
    }  # fmt: skip
    if choices:
        found["slices"] = {"option": option, "episodes": len(choices[0][1]), "choices": slices}
    return found | {"wall_s": time.perf_counter() - began}


def slices_of(scenario: Scenario, args: argparse.Namespace) -> tuple[str, list[tuple[str, list[Plan]]]]:
    """The option that slices go by, and (choice, plans) for each of its choices; none where no slices are asked for.
    Raises CommandError."""
    name, episodes = args.slice_by or SLICED, args.slice_episodes
    if not args.slices and args.slice_by is None:
        if episodes is not None:
            raise CommandError(f"--slice-episodes {episodes}: does nothing without --slices or --slice-by OPTION")
        return name, []
    option = next((one for one in scenario.options if one.name == name), None)
    if option is None:
        raise CommandError(f"--slice-by {name}: {scenario.name} has no such option; "
                           f"{nearest(name, [one.name for one in scenario.options])}")  # fmt: skip
    given, count = options_from(args.option), SLICE_EPISODES if episodes is None else episodes
    return name, [(choice, plans_for(scenario, args.split, count, scenario.resolve_options(
                      given | {name: choice}), f"{args.seed}/")) for choice in option.choices]  # fmt: skip


def differences(results: Sequence[Played]) -> list[dict[str, Any]]:
    """The first policy minus the second on the same seeds, mode by mode; a scripted policy stands in every mode."""
    first = results[0].policy
    left = [played for played in results if played.policy == first]
    right = [played for played in results if played.policy != first]
    found = []
    for a in left:
        for b in right:
            if a.mode == b.mode or SCRIPTED in (a.mode, b.mode):
                before, after = ([episode.success for episode in played.episodes] for played in (b, a))
                difference, low, high = paired_difference(before, after)
                gained, lost, _ = changes(before, after)
                found.append({
                    "of": a.label, "against": b.label, "difference": difference, "ci_low": low, "ci_high": high,
                    "gained": gained, "lost": lost, "mcnemar_p": mcnemar(before, after),
                })  # fmt: skip
    return found


def failures(played: Played, args: argparse.Namespace, options: dict[str, str]) -> list[dict[str, Any]]:
    """The common ways of failing, each with the command that shows its first episode."""
    return [
        {"way": way.words, "count": way.count, "share": way.count / len(played.episodes),
         "seed": played.episodes[way.example].plan.seed, "command": _command(played, way.example, args, options)}
        for way in ways_of_failing(played.episodes)
    ]  # fmt: skip


def _command(played: Played, place: int, args: argparse.Namespace, options: dict[str, str]) -> str:
    """How to see one episode: this very one out of the log where there is one, else the same seed and policy."""
    if played.numbers:
        return shlex.join(["python", "-m", "game", "replay", args.record, "--episode", str(played.numbers[place])])
    words = ["python", "-m", "game", "--scenario", args.scenario, "--seed", str(played.episodes[place].plan.seed)]
    plain = scenarios.get(args.scenario).resolve_options({})
    for key, value in options.items():
        words += ["--option", f"{key}={value}"] if value != plain[key] else []
    return shlex.join([*words, "--brain", played.policy, *(["--greedy"] if played.mode == GREEDY else [])])


def _scored(played: Played, taus: dict[str, float]) -> dict[str, Any]:
    return {"policy": played.policy, "mode": played.mode, "tau": taus[played.policy], **score(played.episodes),
            "errors": sum(bool(episode.error) for episode in played.episodes)}  # fmt: skip


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


def _record(log: Logbook, episodes: Sequence[Episode], mode: str, known: Introduction, split: str) -> list[int]:
    prefix = log.add_prefix(known.prefix_ids, known.tokenizer_hash) if known.prefix_ids else ""
    return log.add(episodes, known.author, f"evaluate {mode}".strip(), split, prefix)


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
    parser.add_argument("--slices", action="store_true", help="play every choice of the difficulty as well")
    parser.add_argument("--slice-by", metavar="OPTION", help="play every choice of this option of the scenario as well")
    parser.add_argument("--slice-episodes", type=int, help=f"seeds for each of them (default: {SLICE_EPISODES})")
    parser.add_argument("--record", metavar="FILE.b22", help="keep every episode in a new log")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    try:
        found = evaluate(args)
    except (ScenarioError, NpcError, RecorderError, CheckpointError, ConfigError, CommandError, PolicyNameError,
            RemoteError, OSError) as error:  # fmt: skip
        return fail("rl.evaluate", error)
    except WorkerError as error:
        print(f"python -m rl.evaluate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if args.json:
        print(json.dumps(found))
    else:
        show(found, Console(highlight=False), args.record or "")
    return 0


if __name__ == "__main__":
    sys.exit(ended("rl.evaluate", main))
