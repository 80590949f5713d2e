"""kill -9 at random moments, against a count of acknowledged turns that the recorder has no part in.

    python -m tests.recorder.kills rollout|game [--kills 200] [--seed N] [--json]

`rollout`: the real turns of 64 episodes are written turn by turn, as a batched rollout does, at full speed, again and
again. `game`: `python -m game --headless --record`. The child that writes puts a number into memory that it shares with
its parent, after each call that recorded a turn came back: how many turns of that episode were acknowledged. The parent
kills the child without warning and compares with what the log holds. Every few kills go into the same file, so that the
next child has to repair and go on in what the last one left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

import scenarios
from game.__main__ import main as game_main
from recorder import EpisodeBegin, EpisodeEnd, Reader, Turn, Writer
from recorder.summary import summarize
from rl.policies import make_policy, parse_policy
from rl.rollout import Plan, play

EPISODES = 64
SLOTS = 1 << 18
"""Episodes that the shared memory counts."""

IN_ONE_FILE = 5
"""Kills that go into the same log."""


class Kills(msgspec.Struct):
    """What all kills together came to. A turn is lost if it was acknowledged and is not in the log."""

    what: str
    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    beyond: int = 0
    """Turns in the log that were not acknowledged: each was in flight when the kill came."""
    most_beyond: int = 0
    """Of one kill."""
    torn: int = 0
    """Kills that left an unfinished record."""
    damaged: int = 0
    """Kills after which the log was damaged. There may be none."""


class Counter:
    """Acknowledged turns by episode, in memory that outlives the process that counts."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 4 * SLOTS)

    def acknowledge(self, episode: int, turns: int) -> None:
        struct.pack_into("<I", self.memory, 4 * episode, turns)

    def read(self) -> dict[int, int]:
        counts = struct.unpack(f"<{SLOTS}I", self.memory[:])
        return {episode: turns for episode, turns in enumerate(counts) if turns}

    @property
    def begun(self) -> bool:
        return any(self.memory[: 4 * SLOTS : 4]) or any(self.memory[1 : 4 * SLOTS : 4])


def rollout(path: Path, counter: Counter, batches: Sequence[Sequence[Turn]]) -> None:
    """Writes episodes at full speed until it is killed: 64 at a time, a turn of each, then the next turn of each."""
    with Writer(path, append=True) as log:
        while True:
            first = log.next_episode
            for number in range(EPISODES):
                log.begin_episode(
                    EpisodeBegin(episode=first + number, scenario="fetch_item", scenario_version=1, seed=number)
                )
            for at in range(max(map(len, batches))):
                for number, turns in enumerate(batches):
                    if at < len(turns):
                        log.turn(replace(turns[at], episode=first + number))
                        counter.acknowledge(first + number, at + 1)
            for number, turns in enumerate(batches):
                log.end_episode(
                    EpisodeEnd(
                        episode=first + number, ended="killed", success=False, turns=len(turns), total_reward=0.0
                    )
                )


def game(path: Path, counter: Counter, seed: int) -> None:
    """The game without a window, until it is killed."""
    record = Writer.turn

    def counted(log: Writer, turn: Turn) -> None:
        record(log, turn)
        counter.acknowledge(turn.episode, turn.turn + 1)

    Writer.turn = counted  # type: ignore[method-assign]
    words = ["--headless", "--brain", "random", "--turns", "1000000", "--record", str(path), "--seed", str(seed)]
    game_main(words)


def real_turns() -> list[list[Turn]]:
    """The turns of 64 episodes that were played."""
    scenario = scenarios.get("fetch_item")
    plans = [Plan(seed, {}, f"kills/{seed}", f"kills/{seed}") for seed in scenario.splits["train"][:EPISODES]]
    return [episode.turns for episode in play(make_policy(parse_policy("random"), scenario), scenario, plans)]


def run(what: str, kills: int, seed: int, folder: Path, moments_s: float) -> Kills:
    """Kills the writer `kills` times, each within `moments_s` after its first acknowledged turn."""
    dice = random.Random(seed)
    found = Kills(what)
    batches = real_turns() if what == "rollout" else []
    for number in range(kills):
        path = folder / f"{number // IN_ONE_FILE}.b22"
        before = _turns_in(path)
        counter = Counter()
        if what == "rollout":
            _one(lambda: rollout(path, counter, batches), counter, dice.uniform(0, moments_s))  # noqa: B023
        else:
            _one(lambda: game(path, counter, number), counter, dice.uniform(0, moments_s))  # noqa: B023
        _compare(found, path, before, counter.read())
        if number % IN_ONE_FILE == IN_ONE_FILE - 1:
            path.unlink()
    return found


def _one(write: Callable[[], None], counter: Counter, moment_s: float) -> None:
    """Starts a child that writes, and kills it."""
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            write()
        finally:
            os._exit(1)  # only reached where writing failed; the parent finds no acknowledged turn and says so
    try:
        deadline = time.monotonic() + 120
        while not counter.begun:
            if time.monotonic() > deadline or os.waitpid(child, os.WNOHANG)[0]:
                raise AssertionError("the writer acknowledged no turn")
            time.sleep(0.001)
        time.sleep(moment_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def _turns_in(path: Path) -> dict[int, int]:
    """Turns of each episode that the log holds, which have to be its first ones."""
    found: dict[int, int] = {}
    if path.exists():
        with Reader(path) as reader:
            for turn in reader.turns("all"):
                assert turn.turn == found.get(turn.episode, 0), f"episode {turn.episode}: turn {turn.turn}"
                found[turn.episode] = turn.turn + 1
    return found


def _compare(found: Kills, path: Path, before: dict[int, int], acknowledged: dict[int, int]) -> None:
    have = _turns_in(path)
    with Reader(path) as reader:
        summary = summarize(reader)
    lost = sum(max(0, turns - have.get(episode, 0)) for episode, turns in (*before.items(), *acknowledged.items()))
    beyond = sum(have.values()) - sum(before.values()) - sum(acknowledged.values()) + lost
    found.kills += 1
    found.acknowledged += sum(acknowledged.values())
    found.lost += lost
    found.beyond += beyond
    found.most_beyond = max(found.most_beyond, beyond)
    found.torn += summary.damage.torn_bytes > 0
    found.damaged += not summary.good


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recorder.kills", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("rollout", "game"))
    parser.add_argument("--kills", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    parser.add_argument("--within", type=float, default=0.2, help="seconds after the first turn (default: %(default)s)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = run(options.what, options.kills, options.seed, Path(folder), options.within)
    plain: dict[str, Any] = msgspec.to_builtins(found)
    print(json.dumps(plain) if options.json else "\n".join(f"{name:<14} {value}" for name, value in plain.items()))
    return 0 if not found.lost and not found.damaged else 1


if __name__ == "__main__":
    sys.exit(main())
