"""Makes one character better at one behaviour: `python -m rl.train --scenario fetch_item`.

Starts from the scenario's distilled adapter, plays groups of episodes, learns from them by GRPO, and answers with the
success on held-out test seeds before and after. Everything lies in the run folder; `--resume` goes on from its last
checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace
from rich.console import Console

from npc.errors import NpcError
from recorder import RecorderError
from rl.command import CommandError, Ending, ended, fail, in_words, sigterm_ends
from rl.config import ON_RAY, ConfigError, TrainConfig
from rl.crew import PlayersError
from rl.files import CheckpointError, is_run, why_not_writable
from rl.live import View
from rl.offline import OfflineError
from rl.policies import PolicyNameError
from rl.pool import WorkerError
from rl.proof import ProofError
from rl.ranks import RankError, Ranks
from rl.ray_backend import check_installed as check_ray
from rl.replica import Task, files_of, put
from rl.report import write_report
from rl.ring import join, launched_rank, leave
from rl.trackers import TrackerError, Trackers, check_installed
from rl.train_options import arguments, config_from
from scenarios.contract import ScenarioError

ELSEWHERE = ("runtime", "actors", "ray_address", "actor_timeout")  # what may be otherwise from a --resume on


def out_folder(args: argparse.Namespace, scenario: str) -> Path:
    """A folder that can be written to and holds no run yet."""
    out = Path(args.out or f"runs/{scenario}-{time.strftime('%Y%m%d-%H%M%S')}")
    if is_run(out):
        raise CommandError(f"--out {out}: there is a run in it; go on with --resume {out}, or name another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        why = why_not_writable(out)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise CommandError(f"--out {out}: can't write there ({why}); name another folder")
    if any(out.iterdir()):
        raise CommandError(f"--out {out}: not empty and not a run; name another folder, so that nothing is lost")
    return out


def run_to_resume(args: argparse.Namespace) -> Path:
    """The folder of a run that is to go on. Its settings are in it, so no others may be given than who plays it."""
    out = Path(args.resume)
    if not is_run(out):
        raise CommandError(f"--resume {out}: no run.toml in it, so there is no run to go on with")
    parser = arguments()
    given = [name for name, value in vars(args).items() if value != parser.get_default(name)]
    others = [f"--{name.replace('_', '-')}" for name in given if name not in ("resume", "json", "log_to", *ELSEWHERE)]
    if others:
        raise CommandError(f"--resume {out} goes on with the run's own settings; leave out {', '.join(others)}")
    return out


def elsewhere(config: TrainConfig, args: argparse.Namespace) -> TrainConfig:
    """A run's settings with those of who plays it from now on. Raises ConfigError."""
    given = {name: getattr(args, name) for name in ELSEWHERE if getattr(args, name) is not None}
    if given.get("runtime", config.runtime) != "ray":
        given = ON_RAY | given
    config = replace(config, **given)
    config.check()
    return config


def check_runtime(config: TrainConfig, ranks: Ranks) -> None:
    """Raises PlayersError or CommandError where the runtime can't be had."""
    if config.runtime == "ray":
        check_ray()
        if ranks.size > 1:
            raise CommandError("--runtime ray: under mlx.launch each rank plays with workers of its own; leave out one "
                               "of the two")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    try:
        first = launched_rank() == 0
    except RankError as error:
        return fail("rl.train", error)
    with ExitStack() as ends:
        if not first:  # what there is to say, the first rank says
            ends.enter_context(redirect_stderr(ends.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        args = arguments().parse_args(argv)
        console = Console(highlight=False, soft_wrap=True, stderr=args.json, quiet=not first)
        # the launcher ends the others by SIGTERM where a rank has ended
        ending = ends.enter_context(sigterm_ends())
        try:
            code = _run(args, console, ending, join())
        except RankError as error:
            code = fail("rl.train", error)
        except KeyboardInterrupt:
            console.print("stopped", markup=False)
            code = ending.code
    leave(code)
    return code


def prepare(args: argparse.Namespace, say: Callable[[str], None], ranks: Ranks) -> Task | None:
    """The run that the command line asks for, in its folder; None where it is finished already. Raises one of the typed
    errors that become a line."""
    if not args.resume:
        config = config_from(args)
        if args.workers is None:
            config = replace(config, workers=ranks.workers(config.workers))
        check_installed(args.log_to)
        check_runtime(config, ranks)
        return Task(config, str(out_folder(args, config.scenario)))
    from rl.keeping import resume_config

    out = run_to_resume(args)
    config = elsewhere(resume_config(out), args)
    if (out / "summary.json").is_file():
        told = "it was not evaluated" if config.no_eval else f"its report: {write_report(out)}"
        say(f"{out} is already finished; {told}")
        return None
    check_runtime(config, ranks)
    return Task(config, str(out), files_of(out) if ranks.size > 1 else {})


def _run(args: argparse.Namespace, console: Console, ending: Ending, ranks: Ranks) -> int:
    def say(line: str) -> None:
        console.print(line, markup=False)

    trainer, out, held = None, None, ExitStack()
    try:
        from rl.trainer import Trainer

        task = ranks.first(lambda: prepare(args, say, ranks), Task | None)
        if task is None:
            return 0
        config, out = task.config, Path(task.out)
        title = f"{config.scenario} with {config.model}: {out}"
        with ExitStack() as ends, View(console, title, config.updates) as view:
            if ranks.rank > 0:
                out = Path(held.enter_context(TemporaryDirectory(prefix=f"errand-rank{ranks.rank}-")))
                put(task.files, out)
            with ranks.together():
                trainer = Trainer(out, config, say, bool(args.resume), view.show, ranks)
                held.callback(trainer.close)
            view.lines += trainer.state.metrics
            if ranks.rank == 0:
                trackers = Trackers(args.log_to, out, config.run_id, msgspec.to_builtins(config), say)
                ends.callback(trackers.close)
                trainer.watchers += [view.watch, trackers.log]
            start = f"the adapter {Path(config.adapter).name}" if config.adapter else "a fresh adapter"
            among = f", {ranks.size} ranks with {trainer.pool.workers} workers" if ranks.size > 1 else ""
            say(f"{config.scenario} with {config.model}, starting from {start}{among}; run folder {out}")
            summary = trainer.run()
        if ranks.rank > 0:
            return 0
        report = "" if config.no_eval else f"; report: {write_report(out)}"
    except (ScenarioError, NpcError, RecorderError, CheckpointError, ConfigError, CommandError, PolicyNameError,
            OfflineError, TrackerError, PlayersError, OSError) as error:  # fmt: skip
        if trainer is None:
            if out is not None and out.is_dir() and not any(out.iterdir()):
                out.rmdir()
            return fail("rl.train", error)
        say(f"stopped by an error after update {trainer.state.update}, what was learned is in {out}: "
            + (in_words(error) if isinstance(error, OSError) else str(error)))
        return 1
    except KeyboardInterrupt:
        if trainer is None:
            raise
        say(f"stopped after update {trainer.state.update}; what was learned is in {out}; go on with: "
            f"python -m rl.train --resume {out}")  # fmt: skip
        return ending.code
    except RankError as error:
        if trainer is None:
            raise
        say(f"stopped after update {trainer.state.update}: {error}; what was learned is in {out}; go on with: "
            f"python -m rl.train --resume {out}")  # fmt: skip
        return 1
    except (ProofError, WorkerError) as error:
        say(f"refusing to go on: {error}")
        return 1
    finally:
        held.close()
    say(f"{summary['episodes']} training episodes in {summary['wall_s'] / 60:.1f} minutes{report}")
    if config.no_eval:
        say(f"how good it is: python -m rl.evaluate --scenario {config.scenario} --policy {out} --against {out}@start")
    say(f"watch it: python -m game --brain {out}")
    if args.json:
        print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(ended("rl.train", main))
