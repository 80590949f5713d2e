"""How near to the machine's limit a model plays and learns: `python -m benchmarks.speed --model MODEL [--workers N]`.

Worker processes, one BLAS thread each, do the same at the same time, as in training: they multiply float32 matrices of
the model's own shapes; they play groups of episodes; they take the gradient of what they played, the reference's
log-probabilities included. A share is the arithmetic of the linear layers over the tokens that had to be computed
(2 operations a weight and token in a forward, 4 more in a backward and the reference's forward), divided by the time
and by the measured rate. Padding, attention, adapters and everything else count as nothing done.

Where other work takes turns on the processors, wall time counts its turns too; the shares of processor time, of both
the work and the matmul, leave them out.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import scenarios
from npc.errors import NpcError
from rl.command import CommandError, Parser, fail, options_from
from rl.credit import Credited
from rl.losses import Limits
from rl.objective import Goal
from rl.policies import PolicyNameError, find_adapter
from rl.pool import Pool, WorkerError
from rl.rollout import Plan
from scenarios.contract import ScenarioError

SCENARIO = "fetch_item"
TRIES = 12
UNIT = 1 << (30 if sys.platform == "darwin" else 20)  # of ru_maxrss in a GiB: bytes there, KiB elsewhere
LIMITS = Limits(0.2, 0.2, math.inf, 1)


def measure(worker: Any, job: dict[str, Any]) -> dict[str, float]:
    """One worker's figures: operations a second of plain matmul, and turns, seconds and operations of both parts."""
    from npc.adapters.layers import places, shape_of
    from npc.mlx import mx
    from rl.learner import collect, gradient

    brain = worker.policy.brain
    shapes = [shape_of(place.linear) for place in places(brain.model)]
    outer, inner = max(shapes, key=lambda shape: (shape[0] * shape[1], shape[0]))
    a, b = mx.random.normal((2048, inner)), mx.random.normal((outer, inner))
    mx.eval(a, b)
    best, best_cpu = float("inf"), float("inf")
    for _ in range(TRIES):
        began, began_cpu = time.perf_counter(), time.process_time()
        mx.eval(a @ b.T)
        best, best_cpu = min(best, time.perf_counter() - began), min(best_cpu, time.process_time() - began_cpu)
    linear = sum(outputs * inputs for outputs, inputs in shapes)

    began = time.process_time()
    episodes, play_s = collect(worker, {"adapter": worker.reference, "plans": job["plans"]})
    play_cpu = time.process_time() - began
    turns = [(number, turn) for episode in episodes for number, turn in enumerate(episode.turns)]
    table = worker.policy.closed.table
    computed = {  # siblings that ask the same at the same time cost one row
        (number, tuple(turn.prompt_ids)): len(turn.prompt_ids) + len(table.layout(tuple(turn.legal)).token_ids_N)
        for number, turn in turns
    }
    once = {tuple(turn.prompt_ids): computed[number, tuple(turn.prompt_ids)] for number, turn in turns}
    credit = [Credited(np.ones(len(episode.turns))) for episode in episodes]
    began = time.process_time()
    found = gradient(worker, {"adapter": worker.reference, "credit": credit})
    return {
        "matmul": 2 * 2048 * inner * outer / best, "matmul_cpu": 2 * 2048 * inner * outer / best_cpu,
        "turns": len(turns), "play_s": play_s, "train_s": found.train_s,
        "play_cpu": play_cpu, "train_cpu": time.process_time() - began,
        "play_tokens": sum(computed.values()), "train_tokens": sum(once.values()),
        "play_operations": 2 * linear * sum(computed.values()), "train_operations": 6 * linear * sum(once.values()),
        "memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT,
    }  # fmt: skip


def run(args: argparse.Namespace) -> dict[str, Any]:
    """All workers at once. Raises a typed error."""
    from npc import catalog
    from rl.learner import Settings, set_up

    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    for name, value in (("--workers", args.workers), ("--groups", args.groups), ("--group-size", args.group_size)):
        if value < 1:
            raise CommandError(f"{name} {value}: 1 or more")
    model, _ = catalog.resolve(args.model)
    adapter = find_adapter(model, args.adapter or scenario.name)
    settings = Settings(scenario.name, model, 0, 0.0, 1.0, Goal("grpo", LIMITS, 0.02))
    seeds = scenario.splits["train"]
    shares: list[dict[str, list[Plan]]] = [{"plans": []} for _ in range(min(args.workers, args.groups))]
    for group in range(args.groups):
        shares[group % len(shares)]["plans"] += [
            Plan(seeds[group], options, f"g{group}", f"speed/{group}/{member}") for member in range(args.group_size)
        ]
    pool = Pool(len(shares), set_up, (settings, adapter))
    with pool:
        found = pool.map(measure, shares)
    return {"model": model, "workers": len(shares), **combined(found)}


def combined(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """What workers measured at the same time, as one: rates are sums over them, seconds those of the slowest."""
    total = {name: sum(one[name] for one in found) for name in found[0]}
    rate = total["matmul_cpu"] / len(found)
    play_s, train_s = (max(one[name] for one in found) for name in ("play_s", "train_s"))
    return {
        "turns": total["turns"], "matmul_gflops": total["matmul"] / 1e9, "matmul_gflops_cpu": rate / 1e9,
        "weights": total["train_operations"] / 6 / total["train_tokens"],
        "tokens_per_turn_rollout": total["play_tokens"] / total["turns"],
        "tokens_per_turn_update": total["train_tokens"] / total["turns"],
        "turns_per_s_rollout": total["turns"] / play_s, "turns_per_s_update": total["turns"] / train_s,
        "matmul_share_rollout": total["play_operations"] / play_s / total["matmul"],
        "matmul_share_update": total["train_operations"] / train_s / total["matmul"], "memory_gib": total["memory_gib"],
        # seconds added up over the workers, so the rate is the mean of theirs
        **{f"matmul_share_{name}_cpu": total[f"{part}_operations"] / total[f"{part}_cpu"] / rate
           for name, part in (("rollout", "play"), ("update", "train"))},
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m benchmarks.speed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scenario", default=SCENARIO)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--adapter", help="a folder or a shipped name (default: the scenario's own)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=16, help="of all workers together (default: %(default)s)")
    parser.add_argument("--group-size", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    args = parser.parse_args(argv)
    try:
        found = run(args)
    except (ScenarioError, NpcError, PolicyNameError, CommandError, OSError) as error:
        return fail("benchmarks.speed", error)
    except WorkerError as error:
        print(f"python -m benchmarks.speed: {error}", file=sys.stderr)
        return 1
    table = Table(title=f"{found['model']}, {found['workers']} workers, {found['turns']} turns; float32 matmul "
                        f"{found['matmul_gflops']:.0f} GFLOP/s", title_justify="left")  # fmt: skip
    for name in ("", "turns a second", "share of the matmul rate", "in processor time"):
        table.add_column(name, justify="right" if name else "left")
    for name in ("rollout", "update"):
        table.add_row(name, f"{found[f'turns_per_s_{name}']:.1f}", f"{found[f'matmul_share_{name}']:.2f}",
                      f"{found[f'matmul_share_{name}_cpu']:.2f}")  # fmt: skip
    console = Console(highlight=False)
    console.print(table)
    console.print(f"memory of the workers: {found['memory_gib']:.1f} GiB at most")
    if args.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
