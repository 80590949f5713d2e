"""Makes one character better at one behaviour: `python -m rl.train --scenario fetch_item`.

Starts from the scenario's distilled adapter, plays groups of episodes, learns from them by GRPO, and answers with the
success on held-out test seeds before and after. Everything lies in the run folder; `--resume` goes on from its last
checkpoint.
"""

from __future__ import annotations

import argparse
import hashlib
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

import scenarios
from npc import catalog
from npc.errors import NpcError
from recorder import RecorderError
from rl.command import CommandError, Ending, Parser, ended, fail, in_words, options_from, sigterm_ends
from rl.config import CREDITS, CURRICULA, LOSS_NAMES, MODEL_SETTINGS, RUNTIMES, ConfigError, TrainConfig, from_run
from rl.crew import PlayersError
from rl.evaluation import plans_for
from rl.files import CheckpointError, is_run, read_toml, why_not_writable
from rl.live import View
from rl.losses import LOSSES
from rl.offline import OfflineError
from rl.policies import PolicyNameError, check_model, find_adapter
from rl.pool import WorkerError
from rl.proof import ProofError
from rl.ranks import RankError, Ranks, join, launched_rank
from rl.ray_backend import check_installed as check_ray
from rl.replica import Task, files_of, put
from rl.report import write_report
from rl.trackers import TRACKERS, TrackerError, Trackers, check_installed
from scenarios.contract import Scenario, ScenarioError, check_seed, nearest

SMOKE = {
    "updates": 2, "groups": 4, "group_size": 4, "validate_every": 2, "validation_episodes": 16, "test_episodes": 24,
}  # fmt: skip


OPTIONS = {
    "how much": {
        "updates": "optimizer rounds, each on groups of its own",
        "groups": "groups an update",
        "group_size": "episodes a group",
        "resamples": "how often dead groups are played again on other seeds (dapo: 2)",
    },
    "learning": {
        "loss": "what is descended",
        "credit": "how turns share the return",
        "passes": "optimizer steps on one batch",
        "rate": "learning rate, after the warm-up; falls by a cosine",
        "warmup": "updates",
        "max_norm": "to which the gradient's norm is clipped",
        "epsilon": "how far the ratio may fall",
        "epsilon_high": "how far the ratio may rise",
        "delta": "bound of the ratio where the advantage is negative; 0: none",
        "kl_weight": "of the KL to the start",
        "entropy_weight": "of the entropy bonus",
        "mask_truncated": "learn nothing from episodes that ran into the turn cap",
        "trace": "λ of the stage credit",
        "tau": "sampling temperature",
        "rows": "turns in one forward and backward; the gradient is accumulated over all of them",
    },
    "seeds that teach": {
        "curriculum": "seeds: also ones seen before that are neither always won nor lost; ladder: also the difficulty",
        "curriculum_share": "of the groups that the curriculum chooses",
    },
    "from logs": {
        "offline": "learn from the recorded groups of these logs",
        "replay_ratio": "share of an update's groups that comes from the logs; the others are played",
        "ess_floor": "effective sample size, as a share of the actions, below which logs are refused",
        "imitation": "temperature of advantage-weighted imitation of turns that were not sampled; 0: leave them out",
    },
    "going back": {
        "kl_limit": "KL to the start above which an update is taken back",
        "entropy_floor": "entropy below which an update is taken back where success has fallen too",
        "repeat_limit": "share of repeated actions above which an update is taken back where success has fallen too",
        "rollbacks": "how often, before training stops",
    },
    "measuring and machine": {
        "validate_every": "updates",
        "validation_episodes": "episodes on validation seeds, which choose the checkpoint",
        "test_episodes": "episodes on test seeds, before and after",
        "no_eval": "leaves the test seeds alone: validation seeds choose the checkpoint, and no answer is given",
        "workers": "processes that play and learn",
    },
    "off one machine": {
        "runtime": "who plays: this process, --workers processes, or actors of Ray while --workers processes learn",
        "actors": "actors of Ray that play",
        "ray_address": "of a Ray cluster, HOST:PORT or auto",
        "max_lag": "updates that what is learned from may lie behind; above 0, actors play while the trainer learns",
        "actor_timeout": "seconds after which an actor without an answer is replaced",
    },
}  # fmt: skip
"""The options that are fields of TrainConfig, under their headings in --help."""

NOTES = {"epsilon": "the loss's own", "epsilon_high": "the loss's own", "ray_address": "a Ray is started here"}
"""What --help says in place of a default."""


def arguments() -> argparse.ArgumentParser:
    defaults = TrainConfig(scenario="", model="", adapter="")
    parser = Parser(prog="python -m rl.train", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scenario", help="what is to be learned: " + ", ".join(scenarios.names()))
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the scenario")
    parser.add_argument("--model", default="auto", help="auto, nano, smollm2-135m, or a folder (default: %(default)s)")
    parser.add_argument("--adapter", help="where to start: a folder or a shipped name (default: the scenario's own)")
    parser.add_argument("--seed", type=int, default=0, help="of the training (default: %(default)s)")
    parser.add_argument("--out", help="run folder (default: runs/SCENARIO-DATE)")
    parser.add_argument("--resume", metavar="DIR", help="go on with the run in DIR; takes its options from there")
    parser.add_argument("--config", metavar="FILE", help="do a run again by its run.toml; other options change it")
    parser.set_defaults(kept={})  # settings of a --config file that have no option
    parser.add_argument("--log-to", action="append", default=[], choices=TRACKERS, help="a tracker that is installed")
    parser.add_argument("--smoke", action="store_true", help="everything within a minute; proves nothing")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object as the last line")
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        for name, text in options.items():
            default = getattr(defaults, name)
            flag = f"--{name.replace('_', '-')}"
            if isinstance(default, bool):
                group.add_argument(flag, action="store_true", default=None, help=text)
            elif isinstance(default, list):
                group.add_argument(flag, nargs="+", metavar="LOG.b22", help=text)
            else:
                known = {"credit": CREDITS, "loss": LOSS_NAMES, "curriculum": CURRICULA, "runtime": RUNTIMES}.get(name)
                note = NOTES.get(name, default)
                group.add_argument(flag, type=type(default), choices=known, help=f"{text} (default: {note})")
    return parser


def config_from(args: argparse.Namespace) -> TrainConfig:
    """The command line as a checked config. Raises one of the typed errors that `main` turns into a line."""
    if args.config:
        args = with_file(args)
    if not args.scenario:
        raise CommandError("--scenario is missing; there is " + ", ".join(scenarios.names()))
    scenario = scenarios.get(args.scenario)
    check_seed(args.seed)
    options = scenario.resolve_options(options_from(args.option))
    model, _ = catalog.resolve(args.model)
    check_model(model)
    config = TrainConfig(scenario=scenario.name, model=model, adapter=start_adapter(args, model, scenario),
                         options=options, seed=args.seed)  # fmt: skip
    fields = [name for group in OPTIONS.values() for name in group]
    typed = {name: getattr(args, name) for name in fields if getattr(args, name) is not None}
    for name in scenario.training:
        if name not in fields:
            raise ScenarioError(f"{scenario.name}: its training settings have no {name!r}; {nearest(name, fields)}")
    suited = {**scenario.training, **MODEL_SETTINGS.get(model, {})}
    given = {**suited, **(SMOKE if args.smoke else {}), **args.kept, **typed}
    loss = LOSSES.get(str(given.get("loss", config.loss)))
    if loss is not None:  # check() names a loss that there isn't
        given = {"epsilon": loss.epsilon, "epsilon_high": loss.epsilon_high} | given
    if "offline" in given:  # found again from wherever the run goes on
        given["offline"] = [str(Path(path).resolve()) for path in given["offline"]]
    config = replace(config, **given)
    config.check()
    for split, count in (("test", config.test_episodes), ("validation", config.validation_episodes)):
        plans_for(scenario, split, count, options)  # says so where there are not that many seeds
    named = f"{config}{time.time_ns()}{os.getpid()}"
    return replace(config, run_id=hashlib.blake2b(named.encode(), digest_size=6).hexdigest())


def start_adapter(args: argparse.Namespace, model: str, scenario: Scenario) -> str:
    """The adapter to start from: the one asked for, else the scenario's own; empty, for a fresh one, where none of its
    name ships for the model."""
    if args.adapter:
        return find_adapter(model, args.adapter)
    if args.config:
        return ""  # as its run began
    try:
        return find_adapter(model, scenario.name)
    except PolicyNameError:
        return ""


def with_file(args: argparse.Namespace) -> argparse.Namespace:
    """The arguments with the settings of the run.toml that `--config` names, where the command line says nothing."""
    path = Path(args.config)
    config = from_run(read_toml(path), str(path))
    options = config.options | options_from(args.option)
    if not Path(config.adapter).is_dir() and "assets" in Path(config.adapter).parts:
        config = replace(config, adapter=Path(config.adapter).name)  # shipped, where the project lay elsewhere
    parser = arguments()
    given = {name: value for name, value in vars(args).items() if value != parser.get_default(name)}
    if args.smoke:
        raise CommandError("--smoke has settings of its own; leave out --config or --smoke")
    values = msgspec.to_builtins(config)
    merged = vars(args) | {name: value for name, value in values.items() if name in args} | given
    kept = {name: value for name, value in values.items() if name not in args and name not in ("options", "run_id")}
    return argparse.Namespace(**merged | {"option": [f"{key}={value}" for key, value in options.items()], "kept": kept})


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
    """The folder of a run that is to go on. Its settings are in it, so no others may be given."""
    out = Path(args.resume)
    if not is_run(out):
        raise CommandError(f"--resume {out}: no run.toml in it, so there is no run to go on with")
    parser = arguments()
    given = [name for name, value in vars(args).items() if value != parser.get_default(name)]
    others = [f"--{name.replace('_', '-')}" for name in given if name not in ("resume", "json", "log_to")]
    if others:
        raise CommandError(f"--resume {out} goes on with the run's own settings; leave out {', '.join(others)}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    try:
        first = launched_rank() == 0
    except RankError as error:
        return fail("rl.train", error)
    ranks = Ranks()
    with ExitStack() as ends:
        if not first:  # what there is to say, the first rank says
            ends.enter_context(redirect_stderr(ends.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        args = arguments().parse_args(argv)
        console = Console(highlight=False, soft_wrap=True, stderr=args.json, quiet=not first)
        # the launcher ends the others by SIGTERM where a rank has ended
        ending = ends.enter_context(sigterm_ends())
        try:
            ranks = join()
            code = _run(args, console, ending, ranks)
        except RankError as error:
            code = fail("rl.train", error)
        except KeyboardInterrupt:
            console.print("stopped", markup=False)
            code = ending.code
    ranks.leave(code)
    return code


def prepare(args: argparse.Namespace, say: Callable[[str], None], ranks: Ranks) -> Task | None:
    """The run that the command line asks for, in its folder; None where it is finished already. Raises one of the typed
    errors that become a line."""
    if not args.resume:
        config = config_from(args)
        if args.workers is None:
            config = replace(config, workers=ranks.workers(config.workers))
        check_installed(args.log_to)
        if config.runtime == "ray":
            check_ray()
            if ranks.size > 1:
                raise CommandError("--runtime ray: under mlx.launch each rank plays with workers of its own; leave out "
                                   "one of the two")  # fmt: skip
        return Task(config, str(out_folder(args, config.scenario)))
    from rl.keeping import resume_config

    out = run_to_resume(args)
    config = resume_config(out)
    if (out / "summary.json").is_file():
        told = "it was not evaluated" if config.no_eval else f"its report: {write_report(out)}"
        say(f"{out} is already finished; {told}")
        return None
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
