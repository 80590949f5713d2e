"""Teaches a model its first steps from a teacher's play: `python -m rl.distill --teacher teacher --student nano …`.

The teacher's play goes to a log first and the student learns from the log: cross-entropy between the teacher's
distribution over the legal actions and the student's, on the prompt ids that the student's tokenizer gives. Training
stops at the best loss on the teacher's play of validation seeds. `--curve 25,50,100` does it for several numbers of
demonstrations and prints success against each.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import scenarios
from npc.adapters import attach, get_adapter, save_adapter, set_adapter
from npc.errors import NpcError
from npc.forward import prefix_kv
from npc.mlx import flat, mx, nn
from npc.models import Brain, load
from npc.policy import action_logps
from npc.weights import weights_of
from recorder import Reader, RecorderError, Turn
from rl.command import Parser, fail, options_from
from rl.evaluation import plans_for, score
from rl.logbook import Author, Logbook
from rl.optim import Optimizer
from rl.policies import ModelPolicy, PolicyNameError, make_policy, parse_policy
from rl.rollout import Plan, play
from scenarios.contract import Scenario, ScenarioError

ROWS = 64  # turns a step


class Demonstrations(msgspec.Struct, frozen=True):
    """Turns to imitate: prompt ids, legal phrases and the teacher's probabilities over them."""

    prompts: list[list[int]]
    legal: list[tuple[str, ...]]
    targets: list[np.ndarray]


def demonstrations(turns: Sequence[Turn], policy: ModelPolicy) -> Demonstrations:
    """Recorded turns as the student reads them."""
    return Demonstrations(
        [policy.closed.encode(turn.observation) for turn in turns],
        [tuple(turn.legal) for turn in turns],
        [np.array(turn.prob_values) for turn in turns],
    )


def imitation_loss(model: Any, policy: ModelPolicy, shown: Demonstrations, rows: Sequence[int]) -> mx.array:
    """Mean over turns of −Σ_a p_teacher(a) log π(a), over the legal actions."""
    packed = policy.closed.pack([shown.prompts[i] for i in rows], [shown.legal[i] for i in rows])
    read = weights_of(model)
    logps_N_A = action_logps(read, packed, prefix_kv(read, policy.closed.prefix_ids))
    targets_N_A = np.zeros(logps_N_A.shape, dtype=np.float32)
    for row, i in enumerate(rows):
        targets_N_A[row, : len(shown.targets[i])] = shown.targets[i]
    finite = mx.where(mx.array(packed.legal_B_A), logps_N_A, 0.0)
    return -(mx.array(targets_N_A) * finite).sum() / len(rows)


def imitate(policy: ModelPolicy, shown: Demonstrations, held_out: Demonstrations, rate: float, seed: int,
            patience: int, max_epochs: int) -> dict[str, Any]:  # fmt: skip
    """Trains the adapter to its best loss on `held_out` and leaves it there. Returns losses and epochs."""
    brain = policy.brain
    optimizer = Optimizer(betas=(0.9, 0.98), decay=0.0)
    dice = random.Random(f"distil/{seed}")
    weights = _arrays(brain)
    best, best_weights, best_epoch, losses = float("inf"), weights, 0, []
    epoch = 0
    per_epoch = max(1, len(shown.prompts) // ROWS)
    while epoch < max_epochs and epoch - best_epoch < patience:
        epoch += 1
        order = list(range(len(shown.prompts)))
        dice.shuffle(order)
        for step in range(per_epoch):
            rows = order[step * ROWS : (step + 1) * ROWS]
            _, grads = nn.value_and_grad(
                brain.model, lambda model, rows=rows: imitation_loss(model, policy, shown, rows)
            )(brain.model)
            gradient = {name: np.array(value) for name, value in flat(grads).items()}
            warm = min(1.0, ((epoch - 1) * per_epoch + step + 1) / 10)
            weights, _ = optimizer.step(weights, gradient, rate * warm)
            set_adapter(brain, weights)
        loss = validation_loss(policy, held_out)
        losses.append(loss)
        if loss < best:
            best, best_weights, best_epoch = loss, weights, epoch
    set_adapter(brain, best_weights)
    mx.clear_cache()
    return {"loss": best, "epochs": best_epoch, "losses": losses}


def validation_loss(policy: ModelPolicy, shown: Demonstrations) -> float:
    total = 0.0
    for start in range(0, len(shown.prompts), 256):
        rows = range(start, min(start + 256, len(shown.prompts)))
        total += float(np.array(imitation_loss(policy.brain.model, policy, shown, rows))) * len(rows)
    return total / len(shown.prompts)


def _arrays(brain: Brain) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in get_adapter(brain).items()}


def record_teacher(teacher: str, scenario: Scenario, options: dict[str, str], episodes: int, split: str, path: Path,
                   seed: int) -> None:  # fmt: skip
    """The teacher plays; its log lies at `path`."""
    spec = parse_policy(teacher)
    seeds = scenario.splits[split]
    if split == "train":
        chosen = random.Random(f"demonstrations/{seed}").sample(range(len(seeds)), episodes)
        plans = [Plan(seeds[i], options, f"demo/{i}", f"{seed}/demo/{i}") for i in chosen]
    else:
        plans = plans_for(scenario, split, episodes, options)
    played = play(make_policy(spec, scenario), scenario, plans)
    with Logbook(path, scenario, "python -m rl.distill", f"distil-{scenario.name}-{seed}") as log:
        log.add(played, Author(teacher), "demonstration", split)


def read_turns(path: Path, episodes: int | None = None) -> list[Turn]:
    """The turns of the first `episodes` solved episodes of a log, all where None: failures are no example."""
    turns: list[Turn] = []
    taken = 0
    with Reader(path) as log:
        for episode in log.episodes():
            if episode.end is None or not episode.end.success:
                continue
            turns += episode.turns
            taken += 1
            if taken == episodes:
                break
    return turns


def distil(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs the command; returns a line for each number of demonstrations."""
    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    counts = [int(n) for n in args.curve.split(",")] if args.curve else [args.episodes]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        shown_path, held_path = Path(folder) / "demonstrations.b22", Path(folder) / "held_out.b22"
        # a few more than asked for, since only what the teacher solved is shown
        record_teacher(args.teacher, scenario, options, int(max(counts) * 1.2) + 10, "train", shown_path, args.seed)
        record_teacher(args.teacher, scenario, options, args.held_out, "validation", held_path, args.seed)
        shutil.copy(shown_path, out / "demonstrations.b22")
        for count in counts:
            lines.append(_one(args, scenario, options, count, shown_path, held_path, out, len(counts) > 1))
            print(json.dumps(lines[-1]) if args.json else _describe(lines[-1]), flush=True)
    return lines


def _one(args: argparse.Namespace, scenario: Scenario, options: dict[str, str], count: int, shown_path: Path,
         held_path: Path, out: Path, curve: bool) -> dict[str, Any]:  # fmt: skip
    brain = load(args.student)
    attach(brain, args.rank, args.scale, args.seed)
    policy = ModelPolicy(brain, scenario.prefix)
    plans = plans_for(scenario, "validation", args.validation, options)
    before = score(play(policy, scenario, plans))
    turns = read_turns(shown_path, count)
    shown, held = demonstrations(turns, policy), demonstrations(read_turns(held_path), policy)
    learned = imitate(policy, shown, held, args.rate, args.seed, args.patience, args.max_epochs)
    after, greedy = score(play(policy, scenario, plans)), score(play(policy, scenario, plans, greedy=True))
    decisions = policy.closed.decide_ids(held.prompts, held.legal)
    agreement = np.mean([d.index == int(np.argmax(t)) for d, t in zip(decisions, held.targets, strict=True)])
    line = {
        "demonstrations": count, "turns": len(turns), "before": before["success"], "success": after["success"],
        "ci_low": after["ci_low"], "ci_high": after["ci_high"], "n": after["n"], "greedy": greedy["success"],
        "agreement": float(agreement), "validation_loss": learned["loss"], "epochs": learned["epochs"],
    }  # fmt: skip
    folder = out / str(count) if curve else out
    save_adapter(brain, folder, {
        "scenario": scenario.name, "scenario_version": scenario.version, "source_hash": scenario.source_hash,
        "teacher": args.teacher, "options": options, "split": "train", "figures": line,
        "command": f"python -m rl.distill --teacher {args.teacher} --student {args.student} --scenario "
                   f"{scenario.name} --episodes {count} --rank {args.rank} --scale {args.scale} --rate {args.rate} "
                   f"--seed {args.seed}",
    })  # fmt: skip
    return line


def _describe(line: dict[str, Any]) -> str:
    return (
        f"{line['demonstrations']} demonstrations ({line['turns']} turns): success {100 * line['before']:.1f} % -> "
        f"{100 * line['success']:.1f} % (95 %: {100 * line['ci_low']:.1f} to {100 * line['ci_high']:.1f}, "
        f"n={line['n']}) sampled, {100 * line['greedy']:.1f} % greedy; agrees with the teacher on "
        f"{100 * line['agreement']:.1f} % of its turns; loss {line['validation_loss']:.3f}, {line['epochs']} epochs"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m rl.distill", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--teacher", default="teacher", help="a policy: teacher, oracle, MODEL:ADAPTER, a run")
    parser.add_argument("--student", default="nano", help="a model (default: %(default)s)")
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--episodes", type=int, default=50, help="demonstrations, solved ones (default: %(default)s)")
    parser.add_argument("--curve", default="", metavar="N,N,…", help="several numbers of demonstrations")
    parser.add_argument("--out", required=True, help="folder for the adapter (with --curve, one folder a number in it)")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--scale", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--patience", type=int, default=8, help="epochs without a better validation loss")
    parser.add_argument("--max-epochs", type=int, default=200)
    parser.add_argument("--held-out", type=int, default=60, help="teacher episodes on validation seeds that stop it")
    parser.add_argument("--validation", type=int, default=256, help="validation seeds on which success is measured")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args(argv)
    try:
        distil(args)
    except (ScenarioError, PolicyNameError, NpcError, RecorderError, OSError, ValueError) as error:
        return fail("rl.distill", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
