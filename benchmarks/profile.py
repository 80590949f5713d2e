"""Where the time of rollout and update goes: `python -m benchmarks.profile [--model MODEL]`.

One worker process with one thread plays groups of episodes and takes the gradient of what it played, the reference's
log-probabilities included; then the trainer's own work on that is done: the optimizer's step, the log, the way between
processes. Seconds are processor time, so that what else the machine does changes little. Each part is timed at its
functions, without the parts that these call in turn. What no part claims is "other": Python's own work, and what MLX
computes itself, which is everything but the model's layers on a Linux CPU, and all of the model elsewhere.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
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
LIMITS = Limits(0.2, 0.2, math.inf, 1)
OTHER = "other"
# of a scenario's methods: what each is counted as
WORLD = {"build": "world step", "clone": "world step", "apply": "world step", "digest": "digest",
         "observation": "observation text", "legal": "legal actions"}  # fmt: skip


class Clock:
    """Processor seconds by part. A part's time is its own: what it calls of other parts is theirs."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inner = [0.0]  # of each part that is running: the seconds of the parts in it

    def timed(self, call: Callable[..., Any], part: str) -> Callable[..., Any]:
        def around(*args: Any, **named: Any) -> Any:
            began = time.process_time()
            self._inner.append(0.0)
            try:
                return call(*args, **named)
            finally:
                whole = time.process_time() - began
                self.spent[part] += whole - self._inner.pop()
                self._inner[-1] += whole

        return around

    @contextmanager
    def on(self, places: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Times (owner, attribute, part) within the block."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for owner, name, part in places:
            setattr(owner, name, self.timed(getattr(owner, name), part))
        try:
            yield
        finally:
            for owner, name, call in before:
                setattr(owner, name, call)

    def take(self, call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        """What `call` gives, and its seconds by part, `other` among them."""
        self.spent.clear()
        result = self.timed(call, OTHER)()
        return result, dict(self.spent)


class TimedScenario:
    """A scenario whose methods are timed."""

    def __init__(self, scenario: Any, clock: Clock) -> None:
        self._scenario = scenario
        for name, part in WORLD.items():
            setattr(self, name, clock.timed(getattr(scenario, name), part))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scenario, name)


def places() -> list[tuple[Any, str, str]]:
    """What is timed: owner, attribute, part."""
    from npc import arrays, attention, policy, stack, tree
    from rl import learner, rollout

    linear, run, closed = stack._Linear, stack.Run, policy.ClosedPolicy
    return [
        (linear, "__call__", "matmuls, forward"), (linear, "through", "matmuls, backward"),
        (linear, "back", "gradient of adapters"),
        (stack, "attend", "attention"), (stack, "attend_back", "attention"),
        (attention, "softmax", "attention weights"), (attention, "softmax_back", "attention weights"),
        (stack, "split", "rotation, heads"), (stack, "join", "rotation, heads"),
        (arrays, "rms_norm", "norms"), (arrays, "rms_norm_back", "norms"),
        (arrays, "swiglu", "SwiGLU"), (arrays, "swiglu_back", "SwiGLU"),
        (run, "_layer", "between matmuls, rest"), (run, "_layer_back", "between matmuls, rest"),
        (closed, "present", "weights and prefix, once a version"), (closed, "encode", "tokenising"),
        (tree.PhraseTable, "layout", "phrase tries"), (policy, "pack", "packing"), (policy, "_choose", "drawing"),
        (rollout, "pack_floats", "turn records"), (rollout, "Turn", "turn records"),
        (learner, "set_adapter", "setting the adapter"), (learner, "make_share", "choosing what is learned from"),
    ]  # fmt: skip


def profiled(worker: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds by part of a rollout and of an update, with what the trainer does with both."""
    from npc.adapters import weights_hash
    from npc.mlx import mx
    from rl.learner import collect, gradient
    from rl.logbook import Author, Logbook
    from rl.optim import Optimizer

    clock = Clock()
    brain = worker.policy.brain
    inner, outer = brain.config.hidden_size, brain.config.intermediate_size
    a, b = mx.random.normal((2048, inner)), mx.random.normal((outer, inner))
    mx.eval(a, b)
    best = math.inf
    for _ in range(12):
        began = time.process_time()
        mx.eval(a @ b.T)
        best = min(best, time.process_time() - began)
    collect(worker, {"adapter": worker.reference, "plans": job["plans"][:1]})  # what is made once is made
    brain.bump()

    scenario, worker.scenario = worker.scenario, TimedScenario(worker.scenario, clock)
    with clock.on(places()):
        (episodes, _), rollout = clock.take(
            lambda: collect(worker, {"adapter": worker.reference, "plans": job["plans"]})
        )
        credit = [Credited(np.ones(len(episode.turns))) for episode in episodes]
        brain.bump()
        found, update = clock.take(lambda: gradient(worker, {"adapter": worker.reference, "credit": credit}))
    worker.scenario = scenario

    turns = sum(len(episode.turns) for episode in episodes)
    trainer: dict[str, float] = {}

    def timed(part: str, call: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = call()
        trainer[part] = time.process_time() - began
        return result

    optimizer = Optimizer()
    timed("optimizer step", lambda: optimizer.step(worker.reference, found.arrays, 1e-4))
    for what, value in (("episodes", episodes), ("gradient", found), ("adapter", worker.reference)):
        timed(f"{what} through a pipe", partial(_there_and_back, value))
    author = Author(job["model"], brain.name, "", weights_hash(brain), brain.base_hash, brain.tokenizer_hash)
    with tempfile.TemporaryDirectory() as folder:
        log = Logbook(Path(folder) / "log.b22", scenario, "python -m benchmarks.profile", "profile")
        prefix = log.add_prefix(brain.tokenizer.encode(scenario.prefix), brain.tokenizer_hash)
        timed("log write", lambda: log.add(episodes, author, "train", "train", prefix, 1, 1))
        log.close()
    return {
        "model": brain.name, "matmul_gflops": 2 * 2048 * inner * outer / best / 1e9,
        "turns": turns, "rollout": rollout, "update": update, "trainer": trainer,
    }  # fmt: skip


def _there_and_back(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def run(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of one worker, in a process of its own. Raises a typed error."""
    from npc import catalog
    from rl.learner import Settings, set_up

    scenario = scenarios.get(args.scenario)
    options = scenario.resolve_options(options_from(args.option))
    for name, value in (("--groups", args.groups), ("--group-size", args.group_size)):
        if value < 1:
            raise CommandError(f"{name} {value}: 1 or more")
    model, _ = catalog.resolve(args.model)
    adapter = find_adapter(model, args.adapter or scenario.name)
    settings = Settings(scenario.name, model, args.rank, 2.0, 1.0, Goal("grpo", LIMITS, 0.02))
    seeds = scenario.splits["train"]
    plans = [
        Plan(seeds[group], options, f"g{group}", f"profile/{group}/{member}")
        for group in range(args.groups)
        for member in range(args.group_size)
    ]
    with Pool(1, set_up, (settings, adapter)) as pool:
        return pool.map(profiled, [{"plans": plans, "model": model}])[0]  # type: ignore[no-any-return]


def tables(found: dict[str, Any]) -> Iterator[Table]:
    """One table for rollout, update and trainer."""
    both = sum(sum(found[name].values()) for name in ("rollout", "update"))
    titles = {"rollout": "rollout", "update": "update, the reference's forward included",
              "trainer": "the trainer's own"}  # fmt: skip
    for name, title in titles.items():
        parts = sorted(found[name].items(), key=lambda item: -item[1])
        whole = both if name == "trainer" else sum(found[name].values())
        spent = sum(found[name].values())
        each = 1e3 * spent / found["turns"]
        table = Table(title=f"{title}: {spent:.3f} s, {each:.3g} ms a turn", title_justify="left")
        table.add_column("")
        table.add_column("ms a turn", justify="right")
        table.add_column("share of rollout and update" if name == "trainer" else "share", justify="right")
        for part, seconds in parts:
            table.add_row(part, f"{1e3 * seconds / found['turns']:.3f}", f"{100 * seconds / whole:.1f} %")
        yield table


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m benchmarks.profile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scenario", default=SCENARIO)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--adapter", help="a folder or a shipped name (default: the scenario's own)")
    parser.add_argument("--rank", type=int, default=8, help="of a fresh adapter (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    args = parser.parse_args(argv)
    try:
        found = run(args)
    except (ScenarioError, NpcError, PolicyNameError, CommandError, OSError) as error:
        return fail("benchmarks.profile", error)
    except WorkerError as error:
        print(f"python -m benchmarks.profile: {error}", file=sys.stderr)
        return 1
    console = Console(highlight=False)
    console.print(f"{found['model']}, one worker with one thread, {found['turns']} turns; float32 matmul "
                  f"{found['matmul_gflops']:.0f} GFLOP/s; processor time")  # fmt: skip
    for table in tables(found):
        console.print(table)
    if args.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
