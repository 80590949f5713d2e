"""Teaches a model its first steps from a teacher: `python -m rl.distill --teacher teacher --student nano …`.

TEACHER is a policy (`teacher`, `oracle`, `MODEL:ADAPTER`, a run folder), `http:URL` (any OpenAI-compatible server, see
rl.remote), or `log:FILE[,FILE…]` (play that was recorded: a person's, or anybody's). A teacher's play goes to
OUT/demonstrations.b22 first and the student learns from that log: cross-entropy between the teacher's distribution over
the legal actions and the student's. Training stops at the best loss on held-out play. Started again with the same OUT,
it plays nothing twice. `--on-policy N` then lets the student play N episodes itself while the teacher says what it
would have done. `--curve 25,50,100` does it for several numbers of demonstrations and prints success against each.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

import scenarios
from npc.adapters import attach, round_to_half, save_adapter, weights_hash
from npc.errors import NpcError
from npc.models import load
from recorder import RecorderError
from rl.command import CommandError, Ending, Parser, ended, fail, options_from, sigterm_ends
from rl.demonstrations import (
    DemonstrationError,
    Example,
    demonstration_plans,
    only_from,
    read_examples,
    read_labels,
    record,
    record_labelled,
)
from rl.evaluation import plans_for, score
from rl.files import folder_for, is_run
from rl.imitation import Learned, agreement, demonstrations, imitate
from rl.logbook import Author
from rl.policies import PLAYERS, ModelPolicy, Policy, PolicyNameError, check_model, make_policy, parse_policy
from rl.progress import Progress
from rl.remote import RemoteError, RemotePolicy
from rl.rollout import Plan, play, uniform
from scenarios.contract import Scenario, ScenarioError

SHOWN, HELD_OUT, LABELLED = "demonstrations.b22", "held_out.b22", "on_policy.b22"
LOG = "log:"
ONE_IN = 5  # recorded episodes that are held out, where there is no teacher to play validation seeds


class Lessons:
    """Where the examples come from: `shown` episode by episode, `held_out` the turns that say when to stop."""

    def __init__(self, args: argparse.Namespace, scenario: Scenario, options: dict[str, str], out: Path,
                 wanted: int, told: Progress) -> None:  # fmt: skip
        self.teacher: Policy | None = None
        told.now(f"the episodes of {args.teacher}")
        solved = args.keep == "solved"
        if args.teacher.startswith(LOG):
            paths = [Path(name) for name in args.teacher.removeprefix(LOG).split(",")]
            if missing := [str(path) for path in paths if not path.is_file()]:
                raise DemonstrationError(f"--teacher {args.teacher}: no file {missing[0]}")
            only = only_from(options_from(args.only))
            found = read_examples(paths, scenario, args.targets == "soft", solved=solved, only=only)
            self.held_out = [example for episode in found[ONE_IN - 1 :: ONE_IN] for example in episode]
            self.shown = [episode for i, episode in enumerate(found) if i % ONE_IN != ONE_IN - 1]
            if not self.held_out:  # too few to spare one: the training turns themselves say when to stop
                self.held_out = [example for episode in self.shown for example in episode]
        else:
            spec = parse_policy(args.teacher)
            self.teacher = make_policy(spec, scenario)
            author = Author(args.teacher, spec.model, spec.adapter or "")
            soft = args.targets != "hard"
            few = 8 if isinstance(self.teacher, RemotePolicy) else 64
            run = f"distil-{scenario.name}-{args.seed}"

            def tell(solved: int, played: int) -> None:
                told.now(f"{args.teacher} plays: {solved} solved of {played}")

            plans = demonstration_plans(scenario, options, wanted, args.seed)
            record(self.teacher, author, scenario, plans, "train", out / SHOWN, run, wanted, tell, few)
            plans = plans_for(scenario, "validation", args.held_out, options)
            record(self.teacher, author, scenario, plans, "validation", out / HELD_OUT, run, None, tell, few)
            self.shown = read_examples([out / SHOWN], scenario, soft, "train", wanted)
            held = read_examples([out / HELD_OUT], scenario, soft, "validation")
            self.held_out = [example for episode in held for example in episode]
        if not self.shown or not self.held_out:
            raise DemonstrationError(f"{args.teacher}: no episode to learn from" + (" was solved" if solved else ""))


def distil(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs the command; returns a line for each number of demonstrations. Raises a typed error for bad input."""
    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    counts = _counts(args)
    out = Path(args.out)
    if is_run(out):
        raise CommandError(f"--out {out}: there is a training run in it; give another folder")
    if out.exists() and not out.is_dir():
        raise CommandError(f"--out {out}: there is a file of that name; give a folder")
    if args.on_policy and scenario.free_text is not None:
        raise CommandError(f"--on-policy: a turn of {scenario.name} is a free text, which has no labels")
    if args.on_policy and args.teacher.startswith(LOG):
        raise CommandError("--on-policy: a log can't be asked; give a teacher that plays")
    check_model(args.student)  # before anything is played
    lines: list[dict[str, Any]] = []
    with ExitStack() as opened:
        opened.enter_context(folder_for(out))
        told = opened.enter_context(Progress(Console(stderr=True)))
        lessons = Lessons(args, scenario, options, out, max(counts), told)
        for count in counts:
            folder = out / str(count) if len(counts) > 1 else out
            lines.append(_teach(args, scenario, options, lessons, min(count, len(lessons.shown)), folder, told))
            print(json.dumps(lines[-1]) if args.json else describe(lines[-1]), flush=True)
            if lines[-1]["interrupted"]:
                break
        if isinstance(lessons.teacher, RemotePolicy):
            lessons.teacher.close()
    return lines


def _counts(args: argparse.Namespace) -> list[int]:
    try:
        counts = [int(n) for n in args.curve.split(",")] if args.curve else [args.episodes]
    except ValueError as error:
        raise CommandError(f"--curve {args.curve!r}: numbers with commas between them") from error
    for name, value, low in (("--episodes", min(counts), 1), ("--held-out", args.held_out, 1), ("--rank", args.rank, 1),
                             ("--on-policy", args.on_policy, 0), ("--rounds", args.rounds, 1),
                             ("--patience", args.patience, 1), ("--max-epochs", args.max_epochs, 1),
                             ("--rows", args.rows, 1)):  # fmt: skip
        if value < low:
            raise CommandError(f"{name} {value}: {low} or more")
    return counts


def _teach(args: argparse.Namespace, scenario: Scenario, options: dict[str, str], lessons: Lessons, count: int,
           folder: Path, told: Progress) -> dict[str, Any]:  # fmt: skip
    brain = load(args.student)
    attach(brain, args.rank, args.scale, args.seed)
    policy = ModelPolicy(brain, scenario.prefix, free_text=scenario.free_text)
    plans = plans_for(scenario, "validation", args.validation, options)
    told.now(f"{args.student} as it comes: {len(plans)} validation episodes")
    before = score(play(policy, scenario, plans))
    examples = [example for episode in lessons.shown[:count] for example in episode]
    held = demonstrations(lessons.held_out, policy)

    def learn(examples: Sequence[Example], what: str) -> Learned:
        shown = demonstrations(examples, policy)
        told.now(f"{what}: {len(examples)} turns to learn")
        return imitate(policy, shown, held, args.rate, args.seed, args.patience, args.max_epochs,
                       lambda epoch, loss, best: told.now(f"{what}: epoch {epoch}, held-out loss {loss:.3f} "
                                                          f"(best: epoch {best})"), args.rows)  # fmt: skip

    learned = learn(examples, f"{count} demonstrations")
    for number in range(args.rounds if args.on_policy and not learned.interrupted else 0):
        told.now(f"round {number + 1} of {args.rounds}: the student plays, {args.teacher} says what it would do")
        examples += _round(args, scenario, options, lessons, policy, number, folder)
        learned = learn(examples, f"round {number + 1} of {args.rounds}")
        if learned.interrupted:
            break
    line = {
        "demonstrations": count, "turns": len(examples), "before": before["success"], "validation_loss": learned.loss,
        "epochs": learned.epochs, "interrupted": learned.interrupted,
    }  # fmt: skip
    if args.half:
        round_to_half(brain)
    if not learned.interrupted:
        told.now(f"{len(plans)} validation episodes, sampled and greedy")
        after, greedy = score(play(policy, scenario, plans)), score(play(policy, scenario, plans, greedy=True))
        line |= {
            "success": after["success"], "ci_low": after["ci_low"], "ci_high": after["ci_high"], "n": after["n"],
            "greedy": greedy["success"], "agreement": agreement(policy, held),
        }  # fmt: skip
    teacher = lessons.teacher
    costs = teacher.costs() if isinstance(teacher, RemotePolicy) else {}
    if costs:
        line["teacher_costs"] = costs
    save_adapter(brain, folder, {
        "scenario": scenario.name, "scenario_version": scenario.version, "source_hash": scenario.source_hash,
        "teacher": args.teacher, "options": options, "split": "train", "figures": line,
        "command": _command(args, count),
    }, args.half)  # fmt: skip
    return line


def _round(args: argparse.Namespace, scenario: Scenario, options: dict[str, str], lessons: Lessons,
           student: ModelPolicy, number: int, folder: Path) -> list[Example]:  # fmt: skip
    """The student's play of a round, labelled by the teacher, by way of the log."""
    seeds = scenario.splits["train"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LABELLED
    before = len(read_labels(path, scenario)) if number else 0
    if not number:
        path.unlink(missing_ok=True)
    each = -(-args.on_policy // args.rounds)
    plans = []
    for i in range(min(each, args.on_policy - number * each)):
        seed = seeds[int(uniform(f"on-policy/{args.seed}/{number}", i) * len(seeds))]
        plans.append(Plan(seed, options, f"round{number}/{i}", f"{args.seed}/round{number}/{i}"))
    brain = student.brain
    author = Author(args.student, args.student, "", weights_hash(brain), brain.base_hash, brain.tokenizer_hash)
    assert lessons.teacher is not None
    record_labelled(student, lessons.teacher, author, args.teacher, scenario, plans, path)
    return read_labels(path, scenario)[before:]


def _command(args: argparse.Namespace, count: int) -> str:
    """The command that makes this adapter: every value that is not the default."""
    words = ["python", "-m", "rl.distill", "--student", args.student, "--scenario", args.scenario]
    plain = arguments()
    for name, value in (vars(args) | {"episodes": count}).items():
        if name in ("student", "scenario", "curve", "out", "json") or value == plain.get_default(name):
            continue
        flag = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            words += [flag] if each is True else [flag, str(each)]
    return shlex.join(words)


def describe(line: dict[str, Any]) -> str:
    """A result as a line for people."""
    start = f"{line['demonstrations']} demonstrations ({line['turns']} turns): "
    if line["interrupted"]:
        return start + f"interrupted; kept epoch {line['epochs']} (held-out loss {line['validation_loss']:.3f})"
    costs = line.get("teacher_costs")
    return (
        f"{start}success {100 * line['before']:.1f} % -> "
        f"{100 * line['success']:.1f} % (95 %: {100 * line['ci_low']:.1f} to {100 * line['ci_high']:.1f}, "
        f"n={line['n']}) sampled, {100 * line['greedy']:.1f} % greedy; agrees with the teacher on "
        f"{100 * line['agreement']:.1f} % of its turns; loss {line['validation_loss']:.3f}, {line['epochs']} epochs"
        + (f"; asked: {', '.join(f'{value} {name}' for name, value in costs.items())}" if costs else "")
    )


def arguments() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m rl.distill", description=(__doc__ or "").split("\n")[0],
                    epilog=" ".join((__doc__ or "").split("\n\n", 1)[1].split()))  # fmt: skip
    parser.add_argument("--teacher", default="teacher",
                        help=f"{', '.join(PLAYERS[1:])}, MODEL:ADAPTER, a run, http:URL, log:FILES")  # fmt: skip
    parser.add_argument("--student", default="nano", help="a model (default: %(default)s)")
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--episodes", type=int, default=50, help="demonstrations, solved ones (default: %(default)s)")
    parser.add_argument("--curve", default="", metavar="N,N,…", help="several numbers of demonstrations")
    parser.add_argument("--out", required=True, help="folder for the adapter (with --curve, one folder a number in it)")
    parser.add_argument("--keep", choices=("solved", "all"), default="solved", help="which episodes of log: are shown")
    parser.add_argument("--only", action="append", default=[], metavar="FIELD=VALUE",
                        help="with log: only episodes whose field is this, as in policy=human")  # fmt: skip
    parser.add_argument("--targets", choices=("auto", "soft", "hard"), default="auto",
                        help="the recorded distribution, or what was done; auto: soft, but hard for log:")  # fmt: skip
    parser.add_argument("--on-policy", type=int, default=0, metavar="N",
                        help="afterwards the student plays N episodes and the teacher labels them")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=4, help="of --on-policy, learning in between")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--scale", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--rows", type=int, default=64, help="turns a step (default: %(default)s)")
    parser.add_argument("--patience", type=int, default=8, help="epochs without a better held-out loss")
    parser.add_argument("--max-epochs", type=int, default=200)
    parser.add_argument("--held-out", type=int, default=60, help="teacher episodes on validation seeds that stop it")
    parser.add_argument("--validation", type=int, default=256, help="validation seeds on which success is measured")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--half", action="store_true", help="store the adapter in float16: half the size")
    parser.add_argument("--json", action="store_true", help="one object a line")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    with sigterm_ends() as ending:
        return _run(args, ending)


def _run(args: argparse.Namespace, ending: Ending) -> int:
    try:
        lines = distil(args)
    except (ScenarioError, PolicyNameError, NpcError, RecorderError, CommandError, DemonstrationError, RemoteError,
            OSError) as error:  # fmt: skip
        return fail("rl.distill", error)
    except KeyboardInterrupt:
        kept = f"what was played lies in {args.out}" if Path(args.out).is_dir() else "nothing was recorded yet"
        print(f"python -m rl.distill: interrupted; {kept}", file=sys.stderr)
        return ending.code
    return ending.code if lines[-1]["interrupted"] else 0


if __name__ == "__main__":
    sys.exit(ended("rl.distill", main))
