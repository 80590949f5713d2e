"""A log of ten million turns: how long it takes to look into it, with and without its end.

    python -m benchmarks.big_log --turns 10000000 --out FOLDER [--keep] [--json]

Writes synthetic turns through the recorder (64 episodes at a time, interleaved, 10 turns each), then measures, each in
a process of its own:

    info        what `python -m recorder info` prints (recorder.summary.overview); again when the file's end was cut off
    episode     an episode drawn at random, by its id: the first after opening, then median, 99th percentile and worst
    append      opening the log to go on in it
    verify      every record read and decoded: time and peak memory of the process

Beside each wall time stands the processor time (`cpu`), which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recorder import EpisodeBegin, EpisodeEnd, Reader, Turn, Writer, pack_floats
from recorder.summary import overview, summarize

AT_ONCE, TURNS = 64, 10
PLACES = ("dock", "inn", "market", "mill", "well")
ITEMS = ("lantern", "rope", "bread")
LEGAL = [*(f"go to the {place}" for place in PLACES), "wait"]


def write(path: Path, turns: int) -> dict[str, Any]:
    """Writes the log; returns what it took."""
    dice = np.random.default_rng(0)
    floats = [pack_floats(row) for row in -dice.random((512, 3), dtype=np.float32)]
    odds = [pack_floats(row / row.sum()) for row in dice.random((512, len(LEGAL)), dtype=np.float32)]
    ids = [row.tolist() for row in dice.integers(0, 300, (512, 3))]
    terms = {"found": 0.1, "success": 0.0}
    digests = [f"{one:016x}" for one in dice.integers(1 << 60, size=4096).tolist()]
    began = time.perf_counter()
    done = 0
    with Writer(path) as log:
        first = 0
        while done < turns:
            episodes = range(first, first + AT_ONCE)
            for one in episodes:
                log.begin_episode(
                    EpisodeBegin(
                        episode=one, scenario="synthetic", scenario_version=1, seed=one, group=f"big/{first}",
                        group_size=AT_ONCE, run="big", update=first // AT_ONCE, policy="made up",
                    )
                )  # fmt: skip
            for at in range(TURNS):
                for one in episodes:
                    key = one * 7919 + at * 104729
                    action = LEGAL[key % len(LEGAL)]
                    log.turn(
                        Turn(
                            episode=one, turn=at, proposed=action, executed=action, legal=LEGAL, tau=1.0,
                            observation=f"goal {ITEMS[key % 3]}, at {PLACES[key % 5]}, {TURNS - at} turns left",
                            sampled_ids=ids[key % 512], logps=floats[key % 512], probs=odds[key % 511],
                            terms=terms, digest_after={"npc": digests[key % 4093]},
                        )
                    )  # fmt: skip
            for one in episodes:
                log.end_episode(
                    EpisodeEnd(episode=one, ended="turn_cap", success=one % 3 == 0, turns=TURNS, total_reward=1.0)
                )
            done += AT_ONCE * TURNS
            first += AT_ONCE
            if first % (AT_ONCE * 1000) == 0:
                print(f"  {done:,} turns, {done / (time.perf_counter() - began):,.0f} a second", file=sys.stderr)
    size = path.stat().st_size
    return {"turns": done, "bytes": size, "bytes_per_turn": size / done, "write_s": time.perf_counter() - began}


# -------------------------------------------------------------------- measurements, each in a process of its own


class Clock:
    """Wall and processor time since it was made, in seconds."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.began[0], time.process_time() - self.began[1]


def measure_info(path: Path) -> dict[str, Any]:
    clock = Clock()
    with Reader(path) as reader:
        summary = overview(reader)
    wall, cpu = clock.read()
    return {"s": wall, "cpu_s": cpu, "turns": summary.turns, "clean": summary.clean}


def measure_episode(path: Path) -> dict[str, Any]:
    dice = random.Random(0)
    with Reader(path) as reader:
        episodes = overview(reader).episodes
    clock = Clock()
    with Reader(path) as reader:
        assert reader.episode(dice.randrange(episodes)).whole
        first, first_cpu = clock.read()
        each = []
        for _ in range(200):
            clock = Clock()
            assert len(reader.episode(dice.randrange(episodes)).turns) == TURNS
            each.append(clock.read())
    found = {"first_ms": 1000 * first, "first_cpu_ms": 1000 * first_cpu}
    for name, values in zip(("", "cpu_"), zip(*each, strict=True), strict=True):
        ordered = sorted(1000 * value for value in values)
        found |= {f"p50_{name}ms": ordered[100], f"p99_{name}ms": ordered[197], f"worst_{name}ms": ordered[-1]}
    return found


def measure_append(path: Path) -> dict[str, Any]:
    clock = Clock()
    log = Writer(path, append=True)
    wall, cpu = clock.read()
    following = log.next_episode
    log.close()
    return {"open_s": wall, "open_cpu_s": cpu, "next_episode": following}


def measure_verify(path: Path) -> dict[str, Any]:
    clock = Clock()
    with Reader(path) as reader:
        summary = summarize(reader)
    wall, cpu = clock.read()
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return {"s": wall, "cpu_s": cpu, "peak_mib": peak, "good": summary.good, "turns": summary.turns}


MEASURES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "info": measure_info, "episode": measure_episode, "append": measure_append, "verify": measure_verify,
}  # fmt: skip


def apart(name: str, path: Path, title: str) -> dict[str, Any]:
    """One measurement in a new process, its figures under `title`."""
    command = [sys.executable, "-m", "benchmarks.big_log", "--measure", name, "--out", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {f"{title}_{key}": value for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def measure(path: Path) -> dict[str, Any]:
    """Everything about the log at `path`; its end is cut off on the way."""
    found = apart("info", path, "info") | apart("episode", path, "episode")
    os.truncate(path, path.stat().st_size - 40)  # within the FOOTER
    found |= apart("info", path, "unclean_info") | apart("episode", path, "unclean_episode")
    return found | apart("append", path, "append") | apart("verify", path, "verify")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big_log", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=10_000_000, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the file; 2 GB for the default")
    parser.add_argument("--keep", action="store_true", help="leave the file there")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--measure", choices=sorted(MEASURES), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        print(json.dumps(MEASURES[options.measure](options.out)))
        return 0
    if not options.out.is_dir():
        parser.error(f"--out {options.out}: no such folder")
    path = options.out / "big.b22"
    free = shutil.disk_usage(options.out).free
    if free < 300 * options.turns:
        parser.error(f"--out {options.out}: {free:,} bytes are free; {300 * options.turns:,} are wanted")
    if path.exists():
        parser.error(f"{path}: already there; give another folder")
    try:
        found = write(path, options.turns)
        found |= measure(path)
    finally:
        if not options.keep:
            path.unlink(missing_ok=True)
    for name, value in found.items():
        print(f"{name:<28} {value:,.3f}" if isinstance(value, float) else f"{name:<28} {value}")
    if options.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
