"""Makes the zstd dictionary that ships with the project: `python -m rl.make_dictionary`.

It is trained on what a training writes (begins, turns and ends of episodes) when the embedded model plays train seeds,
so that short records compress as well as long logs. Logs embed the dictionary that they were written with: making a new
one orphans nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import scenarios
from npc.adapters import weights_hash
from recorder import Reader, dictionary
from rl.logbook import Author, Logbook
from rl.policies import ModelPolicy, make_policy, parse_policy
from rl.rollout import Plan, play

GROUP = 4


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rl.make_dictionary", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", default="assets/b22/turns.zdict", help="(default: %(default)s)")
    parser.add_argument("--scenario", default="fetch_item", help="(default: %(default)s)")
    parser.add_argument("--policy", default="nano:fetch_item", help="who plays (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=480, help="(default: %(default)s)")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.b22"
        record(log, args.scenario, args.policy, args.episodes)
        samples = samples_of(log)
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(dictionary.train(samples))
    print(f"{out}: {out.stat().st_size} bytes from {len(samples)} records of {args.episodes} episodes")
    return 0


def record(log: Path, name: str, policy: str, count: int) -> None:
    """Plays train seeds in groups, sampled, and writes the log that a training would."""
    scenario = scenarios.get(name)
    spec = parse_policy(policy)
    player = make_policy(spec, scenario)
    author = Author(policy)
    with Logbook(log, scenario, "python -m rl.make_dictionary", "train") as book:
        prefix = ""
        if isinstance(player, ModelPolicy):
            brain = player.brain
            author = Author(
                policy, spec.model, spec.adapter or "", weights_hash(brain), brain.base_hash, brain.tokenizer_hash
            )
            prefix = book.add_prefix(brain.tokenizer.encode(scenario.prefix), brain.tokenizer_hash)
        seeds = [seed for seed in scenario.splits["train"][-(count // GROUP) :] for _ in range(GROUP)]
        plans = [
            Plan(seed, {}, f"u{at // 64}a0/g{at // GROUP}", f"{seed}/{at % GROUP}") for at, seed in enumerate(seeds)
        ]
        book.add(play(player, scenario, plans), author, "train", "train", prefix)


def samples_of(log: Path) -> list[bytes]:
    """Every begin, turn and end of a log as a dictionary is trained on it."""
    with Reader(log) as reader:
        return [
            dictionary.sample(record)
            for episode in reader.episodes()
            for record in (episode.begin, *episode.turns, episode.end)
            if record is not None
        ]


if __name__ == "__main__":
    sys.exit(main())
