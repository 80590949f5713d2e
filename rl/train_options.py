"""The command line of `rl.train`: its options, and the config that they make."""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

import scenarios
from npc import catalog
from rl.command import CommandError, Parser, options_from
from rl.config import CREDITS, CURRICULA, LOSS_NAMES, RUNTIMES, TrainConfig, from_run, suited_to
from rl.evaluation import plans_for
from rl.files import read_toml
from rl.losses import LOSSES
from rl.policies import PolicyNameError, check_model, find_adapter
from rl.trackers import TRACKERS
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
    parser = Parser(prog="python -m rl.train", description="Makes one character better at one behaviour.")
    parser.add_argument("--scenario", help="what is to be learned: " + ", ".join(scenarios.names()))
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the scenario")
    parser.add_argument("--model", default="auto",
                        help="auto, nano, smollm2-135m, a folder, or an id of the hub (default: %(default)s)")
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
    suited = {**scenario.training, **suited_to(model)}
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
