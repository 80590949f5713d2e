"""What it costs to learn from older policies: `python -m benchmarks.staleness --lags 0 1 2 4 --seeds 0 1 2`.

Trains as `python -m rl.train` does, but every update's groups are played by the adapter of LAG updates before (the
start's, before there are so many), as they would be by workers that are far behind. What was sampled keeps its
log-probabilities, so ratio, clip and KL do what they can. Each training's head, chosen on validation seeds, then plays
the test seeds, sampled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

import scenarios
from npc.errors import NpcError
from rl.command import CommandError, Parser, fail
from rl.config import ConfigError, TrainConfig
from rl.evaluation import plans_for, score
from rl.policies import PolicyNameError, find_adapter
from rl.pool import WorkerError
from rl.runtime import Taken, Version, Workers
from rl.statistics import wilson
from scenarios.contract import ScenarioError


class Behind(Workers):
    """Plays by the version that was there `lag` updates before."""

    def __init__(self, workers: Workers, lag: int) -> None:
        super().__init__(workers.pool)
        self.lag = lag
        self.versions: dict[int, Version] = {}

    def take(self, count: int, now: Version, oldest: int, more: bool) -> Taken:
        self.versions[now.number] = now
        return super().take(count, self.versions[max(0, now.number - self.lag)], oldest, more)


def train(args: argparse.Namespace, lag: int, seed: int, out: Path) -> dict[str, Any]:
    """One training: what its head scores on the test seeds, and the means of its updates' figures."""
    from rl.trainer import Trainer

    scenario = scenarios.get(args.scenario)
    named = hashlib.blake2b(f"{args}{lag}{seed}".encode(), digest_size=6).hexdigest()
    config = TrainConfig(scenario=scenario.name, model=args.model, adapter=find_adapter(args.model, scenario.name),
                         seed=seed, updates=args.updates, groups=args.groups, group_size=args.group_size, no_eval=True,
                         workers=args.workers, run_id=named)  # fmt: skip
    config.check()
    began = time.perf_counter()
    out.mkdir()
    trainer = Trainer(out, config, lambda _: None, resume=False)
    try:
        runtime = trainer.runtime
        assert isinstance(runtime, Workers)
        trainer.runtime = trainer.gathering.runtime = Behind(runtime, lag)
        trainer.run()
        state, head = trainer.state, trainer.keeper.tree.head()
        plans = plans_for(scenario, "test", args.test_episodes, trainer.options, f"{seed}/")
        job = {"adapter": trainer.keeper.read_adapter(head), "greedy": False}
        found = score(runtime.play(plans, job))
    finally:
        trainer.close()
    lines = [line for line in state.metrics if line["kl"] is not None]

    def mean(name: str) -> float:
        return sum(line[name] for line in lines) / max(1, len(lines))

    return {
        "lag": lag, "seed": seed, "episodes": state.episodes, "success": found["success"], "n": found["n"],
        "validation": {f"{line['update']}": line["validation"] for line in state.metrics
                       if line["validation"] is not None},
        "head": head, "ess_turn": mean("ess_turn"), "clip_fraction": mean("clip_fraction"), "kl": lines[-1]["kl"],
        "rollbacks": state.rollbacks, "wall_s": time.perf_counter() - began,
    }  # fmt: skip


def together(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The runs of one lag: success over all their test episodes with its 95 % interval, and the means of the rest."""
    n = sum(run["n"] for run in runs)
    wins = round(sum(run["success"] * run["n"] for run in runs))
    low, high = wilson(wins, n)
    means = {name: sum(run[name] for run in runs) / len(runs) for name in ("ess_turn", "clip_fraction", "kl")}
    return {"lag": runs[0]["lag"], "trainings": len(runs), "success": wins / n, "ci_low": low, "ci_high": high, "n": n,
            "each": [run["success"] for run in runs], "rollbacks": sum(run["rollbacks"] for run in runs),
            **means}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m benchmarks.staleness", description=(__doc__ or "").split(":")[0] + ".")
    parser.add_argument("--scenario", default="fetch_item")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2, 4], metavar="N", help="updates")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N", help="of the trainings")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--group-size", type=int, default=4)
    parser.add_argument("--test-episodes", type=int, default=256, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    args = parser.parse_args(argv)
    console = Console(highlight=False)
    runs: list[dict[str, Any]] = []
    try:
        for name, least in (("lags", 0), ("seeds", 0)):
            if min(getattr(args, name)) < least:
                raise CommandError(f"--{name} {min(getattr(args, name))}: {least} or more")
        with TemporaryDirectory(prefix="errand-stale-") as folder:
            for seed in args.seeds:
                for lag in args.lags:
                    runs.append(train(args, lag, seed, Path(folder) / f"{lag}-{seed}"))
                    print(f"lag {lag}, seed {seed}: {100 * runs[-1]['success']:.1f} % of {runs[-1]['n']} test seeds, "
                          f"{runs[-1]['wall_s']:.0f} s", file=sys.stderr)  # fmt: skip
    except (ScenarioError, NpcError, PolicyNameError, ConfigError, CommandError, OSError) as error:
        return fail("benchmarks.staleness", error)
    except WorkerError as error:
        print(f"python -m benchmarks.staleness: {error}", file=sys.stderr)
        return 1
    found = [together([run for run in runs if run["lag"] == lag]) for lag in args.lags]
    title = f"{args.scenario}, {args.model}: {runs[0]['episodes']} episodes a training"
    table = Table(title=title, title_justify="left")
    for name in ("lag", "success on test seeds", "each training", "effective sample", "clipped", "KL", "roll-backs"):
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(
            f"{one['lag']}", f"{100 * one['success']:.1f} % ({100 * one['ci_low']:.1f} to {100 * one['ci_high']:.1f})",
            ", ".join(f"{100 * value:.1f}" for value in one["each"]), f"{100 * one['ess_turn']:.0f} %",
            f"{100 * one['clip_fraction']:.0f} %", f"{one['kl']:.2f}", f"{one['rollbacks']}",
        )  # fmt: skip
    console.print(table)
    if args.json:
        print(json.dumps({"lags": found, "trainings": runs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
