"""This project beside its peers, in one run: `python -m benchmarks.peers [--json]`.

The same model with the same taught adapter plays and learns from the same recorded turns in groups of the same shape,
here, by TRL's GRPOTrainer on PyTorch and by mlx-lm-lora's GRPO, round by round in turn; worlds with a text observation
are stepped at random, ours, MiniGrid's, PettingZoo's and TextArena's. Each peer has an environment of its own, made
once in the cache folder. docs/performance.md says how they are set up.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import TRAINERS, WORLDS, Peer, PeerError, chosen, given, python_of, say
from benchmarks.peers.tables import show
from npc.errors import NpcError
from rl.command import INTERRUPTED, Parser, fail
from rl.policies import PolicyNameError
from rl.pool import WorkerError

PROGRAM = "benchmarks.peers"


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    try:
        for name, least in (("rounds", 1), ("groups", 1), ("group_size", 2), ("workers", 1)):
            if getattr(args, name) < least:
                raise PeerError(f"--{name.replace('_', '-')} {getattr(args, name)}: {least} or more")
        if args.turns < args.group_size:
            raise PeerError(f"--turns {args.turns}: --group-size {args.group_size} or more")
        if not args.seconds > 0:
            raise PeerError(f"--seconds {args.seconds}: above 0")
        peers, pythons = chosen(args.peers), given(args.python_of)
        found = run(args, peers, pythons)
    except (PeerError, NpcError, PolicyNameError, OSError) as error:
        return fail(PROGRAM, error)
    except WorkerError as error:
        print(f"python -m {PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; environments that are whole stay in the cache", file=sys.stderr)
        return INTERRUPTED
    show(found)
    if args.json:
        print(json.dumps(found))
    return 0


def arguments() -> argparse.ArgumentParser:
    parser = Parser(prog=f"python -m {PROGRAM}", description=(__doc__ or "").split(":")[0] + ".")
    parser.add_argument("--peers", default="all", metavar="NAME,NAME",
                        help=f"all, none, or some of {', '.join((*TRAINERS, *WORLDS))} (default: %(default)s)")
    parser.add_argument("--python-of", action="append", default=[], metavar="NAME=PATH",
                        help="an interpreter that has the peer already, instead of making an environment for it")
    parser.add_argument("--model", default="smollm2-135m", help="(default: %(default)s)")
    parser.add_argument("--groups", type=int, default=8, help="(default: %(default)s)")
    parser.add_argument("--group-size", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=24, metavar="N",
                        help="the peers are given the first N recorded ones, since all of them would take too long "
                        "(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="cores for each side (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of steps in each world and round")
    parser.add_argument("--plain-mlx", action="store_true", help="measure mlx-lm-lora as it installs as well, without "
                        "the BLAS that is loaded for it here: minutes for a handful of turns")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser  # fmt: skip


def run(args: argparse.Namespace, peers: Sequence[Peer], pythons: Mapping[str, Path]) -> dict[str, Any]:
    """Everything that is measured; a peer that can't be had leaves its figures None, with the reason."""
    from benchmarks.peers.training import measure_training
    from benchmarks.peers.worlds import measure_worlds

    reasons: dict[str, str] = {}
    ready: dict[str, tuple[Peer, Path]] = {}
    for peer in peers:
        try:
            ready[peer.name] = (peer, pythons[peer.name] if peer.name in pythons else python_of(peer))
        except PeerError as error:
            reasons[peer.name] = str(error)
            say(str(error))
    found: dict[str, Any] = {"model": args.model, "rounds": args.rounds, "threads": args.workers, "versions": {}}
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        found |= measure_training(args, ready, Path(folder), found["versions"], reasons)
        found |= measure_worlds(args, ready, Path(folder), found["versions"], reasons)
    asked = {peer.name for peer in peers}
    for name, figures in {"trl": ("loop_vs_trl", "train_vs_trl", "rollout_vs_trl"),
                          "mlx-lm-lora": ("loop_vs_mlx_lm_lora", "train_vs_mlx_lm_lora", "rollout_vs_mlx_lm_lora"),
                          "minigrid": ("env_vs_minigrid",)}.items():  # fmt: skip
        for figure in figures:
            found.setdefault(figure, None)
            if found[figure] is None:
                why = reasons.get(name, "not measured" if name in asked else "left out by --peers")
                found.setdefault("reasons", {})[figure] = why
    return found


if __name__ == "__main__":
    sys.exit(main())
