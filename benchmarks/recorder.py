"""This project's log beside its peers: the same real turns through each of them, in one run.

    python -m benchmarks.recorder [--json]

Turns are played by the embedded model on train seeds, with token ids and log-probabilities. A column's best is marked.
Peers come with `pip install 'errand[bench]'`; one that isn't installed is left out with a line that says so.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import scenarios
from benchmarks.log_peers import PEERS, Peer, missing
from recorder import Episode, Reader
from recorder.commands.common import BAD_USE, Parser, say
from recorder.errors import RecorderError
from rl.logbook import Author, Logbook
from rl.policies import make_policy, parse_policy
from rl.rollout import Plan, play

COLUMNS = {
    "bytes_per_turn": ("bytes/turn", "{:.1f}"),
    "caller_us_p50": ("us p50", "{:.1f}"),
    "caller_us_p99": ("us p99", "{:.1f}"),
    "caller_us_mean": ("us mean", "{:.1f}"),
    "turns_lost_at_kill": ("lost at kill", "{:.0f}"),
    "read_episode_ms": ("read ms", "{:.2f}"),
    "read_next_ms": ("next ms", "{:.2f}"),
}
ROOT = Path(__file__).parents[1]
READS = 15
ROUNDS = 3


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m benchmarks.recorder", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--episodes", type=int, default=400, metavar="N", help="played for it (default: %(default)s)")
    parser.add_argument("--many", type=int, default=10_000, metavar="N", help="episodes in the file to read one of")
    parser.add_argument("--kills", type=int, default=5, metavar="N", help="of each writer (default: %(default)s)")
    parser.add_argument("--log", metavar="FILE.b22", help="take the turns from this log instead of playing")
    parser.add_argument("--only", metavar="NAME,NAME", help="these recorders alone")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        return _write_for_ever(*args.child)
    if min(args.episodes, args.many, args.kills) < 1:
        parser.error("--episodes, --many and --kills are at least 1")
    peers = [peer for peer in PEERS if not args.only or peer.name in args.only.split(",")]
    if not peers:
        parser.error(f"--only {args.only}: there are {', '.join(peer.name for peer in PEERS)}")
    with tempfile.TemporaryDirectory(prefix="log-bench-") as folder:
        log = Path(args.log).absolute() if args.log else Path(folder) / "turns.b22"
        if not args.log:
            play_into(log, args.episodes)
        try:
            with Reader(log) as reader:
                episodes = [one for one in reader.episodes() if one.whole and one.turns][: args.episodes]
        except RecorderError as error:
            say(str(error))
            return BAD_USE
        if not episodes:
            parser.error(f"--log {log}: holds no whole episode")
        results = []
        for peer in peers:
            lack = missing(peer)
            if lack:
                say(f"{peer.name}: left out, {lack} isn't installed: pip install 'errand[bench]'")
                continue
            say(f"{peer.name} ...")
            results.append(measure(peer, episodes, log, Path(folder), args.many, args.kills))
            say(table(results[-1:])[-1].replace("*", " ").rstrip())
    turns = sum(len(one.turns) for one in episodes)
    print(f"{turns:,} turns of {len(episodes):,} episodes; one of {args.many:,} read; worst of {args.kills} kills")
    print("\n".join(table(results)))
    if args.json:
        print(json.dumps({"turns": turns, "episodes": len(episodes), "recorders": results}))
    return 0


def play_into(log: Path, episodes: int) -> None:
    """Plays train seeds with the embedded model and records them."""
    scenario = scenarios.get("fetch_item")
    policy = make_policy(parse_policy("nano:fetch_item"), scenario)
    seeds = scenario.splits["train"][:episodes]
    plans = [Plan(seed, {}, f"bench/{at // 8}", f"bench/{at}") for at, seed in enumerate(seeds)]
    with Logbook(log, scenario, "python -m benchmarks.recorder", "bench") as book:
        book.add(play(policy, scenario, plans), Author("nano:fetch_item"), "benchmark", "train")


def measure(
    peer: type[Peer], episodes: list[Episode], log: Path, folder: Path, many: int, kills: int
) -> dict[str, Any]:
    """One row of the table."""
    rounds = [folder / f"{peer.name}-{at}" for at in range(ROUNDS)]
    often = folder / f"{peer.name}-often"
    for place in (*rounds, often):
        place.mkdir()
    # the least of several rounds, turn by turn: what the recorder takes, not what else the machine was doing
    took = sorted(map(min, zip(*(write(peer, place, episodes) for place in rounds), strict=True)))
    write(peer, often, repeated(episodes, many))
    first, following = reads(peer, often, many)
    lost = [killed(peer, log, folder / f"{peer.name}-kill{at}", at) for at in range(kills)]
    return {
        "name": peer.name,
        "bytes_per_turn": size_of(rounds[0]) / len(took),
        "caller_us_p50": took[len(took) // 2] / 1e3,
        "caller_us_p99": took[len(took) * 99 // 100] / 1e3,
        "caller_us_mean": statistics.fmean(took) / 1e3,
        "turns_lost_at_kill": max(lost),
        "read_episode_ms": first,
        "read_next_ms": following,
    }


def repeated(episodes: list[Episode], many: int) -> Iterator[Episode]:
    """`many` episodes with ids from 0 on, the same ones over and over."""
    for number in range(many):
        one = episodes[number % len(episodes)]
        yield Episode(
            begin=replace(one.begin, episode=number, prefix_hash=""),
            turns=[replace(turn, episode=number) for turn in one.turns],
            end=replace(one.end, episode=number) if one.end else None,
            amends=[],
        )


def write(peer: type[Peer], folder: Path, episodes: Sequence[Episode] | Iterator[Episode]) -> list[int]:
    """Writes and closes; nanoseconds of the caller's thread for each turn, begin and end added to their turns."""
    took, clock = [], time.perf_counter_ns
    recorder = peer(folder)
    for number, episode in enumerate(episodes):
        begin, end = replace(episode.begin, episode=number, prefix_hash=""), episode.end
        turns = [replace(turn, episode=number) for turn in episode.turns]
        last = replace(end, episode=number) if end is not None else None
        mark = clock()
        recorder.begin(begin)
        for turn in turns:
            recorder.turn(turn)
            now = clock()
            took.append(now - mark)
            mark = clock()
        if last is not None:
            recorder.end(last)
        took[-1] += clock() - mark
    recorder.close()
    return took


def size_of(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def reads(peer: type[Peer], folder: Path, many: int) -> tuple[float, float]:
    """Median milliseconds to open what was written and read one episode, and to read a further one."""
    dice = random.Random(0)
    first, following = [], []
    for _ in range(READS):
        start = time.perf_counter()
        read = peer.opened(folder)
        turns = read(dice.randrange(many))
        middle = time.perf_counter()
        turns = min(turns, read(dice.randrange(many)))
        end = time.perf_counter()
        if turns < 1:
            raise RuntimeError(f"{peer.name}: an episode that was written can't be read")
        first.append(middle - start)
        following.append(end - middle)
        if sum(first) > 20:  # seconds: a recorder that reads the whole file each time has shown it
            break
    return 1e3 * statistics.median(first), 1e3 * statistics.median(following)


def killed(peer: type[Peer], log: Path, folder: Path, number: int) -> int:
    """Turns that were acknowledged to a writer which is then killed, and that its reader doesn't give."""
    folder.mkdir()
    count = folder / "acknowledged"
    count.write_bytes(bytes(8))
    data = folder / "log"
    data.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.recorder", "--child", peer.name, str(data), str(log), str(count)], cwd=ROOT
    )
    try:
        while not int.from_bytes(count.read_bytes(), "little"):
            if child.poll() is not None:
                raise RuntimeError(f"{peer.name}: the writer that was to be killed ended by itself")
            time.sleep(0.01)
        time.sleep(random.Random(number).uniform(0.3, 1.0))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    return max(0, int.from_bytes(count.read_bytes(), "little") - peer.readable(data))


def _write_for_ever(name: str, folder: str, log: str, count: str) -> int:
    """The writer that is killed. After each turn it says so in memory that outlives it."""
    peer = next(peer for peer in PEERS if peer.name == name)
    with Reader(log) as reader:
        episodes = [one for one in reader.episodes() if one.whole and one.turns]
    fd = os.open(count, os.O_RDWR)
    with mmap.mmap(fd, 8) as shared:
        recorder, done, number = peer(Path(folder)), 0, 0
        while True:
            for episode in episodes:
                recorder.begin(replace(episode.begin, episode=number, prefix_hash=""))
                for turn in episode.turns:
                    recorder.turn(replace(turn, episode=number))
                    done += 1
                    shared[:] = done.to_bytes(8, "little")
                if episode.end is not None:
                    recorder.end(replace(episode.end, episode=number))
                number += 1


def table(results: list[dict[str, Any]]) -> list[str]:
    """The rows for people; the least of each column has a star."""
    lines = [f"{'':<14}" + "".join(f"{title:>14}" for title, _ in COLUMNS.values())]
    best = {name: min(one[name] for one in results) for name in COLUMNS} if results else {}
    for one in results:
        cells = (
            form.format(one[name]) + ("*" if one[name] == best[name] else " ") for name, (_, form) in COLUMNS.items()
        )
        lines.append(f"{one['name']:<14}" + "".join(f"{cell:>14}" for cell in cells))
    return lines


if __name__ == "__main__":
    sys.exit(main())
