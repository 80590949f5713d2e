"""Worlds that are stepped at random with a text after every step: ours in this process, the peers' in theirs."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import WORLDS, Child, Peer, PeerError, say
from benchmarks.peers.figures import spread
from benchmarks.peers.ours import environment_share
from benchmarks.peers.talk import timed
from rl.env import ErrandEnv


def measure_worlds(args: argparse.Namespace, ready: Mapping[str, tuple[Peer, Path]], folder: Path,
                   versions: dict[str, str], reasons: dict[str, str]) -> dict[str, Any]:  # fmt: skip
    """Steps a second with a text after each, one process after the other, round by round."""
    say("worlds ...")
    children: list[Child] = []
    ours: list[float] = []
    theirs: dict[str, list[float]] = {}
    step = text_stepper()
    timed(step, args.seconds / 3)
    with ExitStack() as stack:
        for peer, python in (ready[name] for name in WORLDS if name in ready):
            try:
                child = Child(peer, python, {"seconds": args.seconds}, folder, 1)
                stack.callback(child.close)
                child.ask()
            except PeerError as error:
                reasons[peer.name] = str(error)
                say(str(error))
                continue
            versions |= child.facts["versions"]
            children.append(child)
        for _ in range(args.rounds):
            ours.append(timed(step, args.seconds))
            for child in children:
                for world, per_s in child.ask()["steps_per_s"].items():
                    theirs.setdefault(f"{child.name} {world}", []).append(per_s)
    found: dict[str, Any] = {"text_steps_per_s": spread(ours)["median"],
                             "worlds": {"errand fetch_item": spread(ours)} | {k: spread(v) for k, v in theirs.items()}}
    fetch = next((each for name, each in theirs.items() if name.startswith("minigrid")), None)
    if fetch is not None:
        against = spread([own_rate / other for own_rate, other in zip(ours, fetch, strict=True)])
        found |= {"env_vs_minigrid": against["median"], "env_vs_minigrid_range": against}
    say("the environment's share of rollouts with nano ...")
    rounds = environment_share(8, 4, args.workers, args.rounds)
    by_call = {name: spread([each[name] for each in rounds]) for name in rounds[0]}
    shares = by_call.pop("environment")
    return found | {"env_share_nano": shares["median"], "env_share_nano_range": shares, "env_share_by_call": by_call}


def text_stepper() -> Callable[[], str]:
    """Random legal play of fetch_item through the environment: one step, with its text, at every call."""
    env, dice, seeds = ErrandEnv("fetch_item"), random.Random(1), iter(range(1 << 40))
    legal = env.reset(seed=next(seeds))[1]["legal_actions"]

    def step() -> str:
        nonlocal legal
        text, _, terminated, truncated, info = env.step(dice.choice(legal))
        if terminated or truncated:
            text, info = env.reset(seed=next(seeds))
        legal = info["legal_actions"]
        return text

    return step
