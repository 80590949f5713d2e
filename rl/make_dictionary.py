"""Makes the zstd dictionary that ships with the project: `python -m rl.make_dictionary`.

It is trained on turns of the embedded model's play on train seeds, so that short turns compress as well as long logs.
Logs embed the dictionary that they were written with: making a new one orphans nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

import scenarios
from recorder import dictionary
from rl.policies import make_policy, parse_policy
from rl.rollout import Plan, play


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rl.make_dictionary", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", default="assets/b22/turns.zdict", help="(default: %(default)s)")
    parser.add_argument("--scenario", default="fetch_item", help="(default: %(default)s)")
    parser.add_argument("--policy", default="nano:fetch_item", help="who plays (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=300, help="(default: %(default)s)")
    args = parser.parse_args(argv)
    scenario = scenarios.get(args.scenario)
    seeds = scenario.splits["train"]
    plans = [Plan(seed, {}, f"dictionary/{seed}", f"dictionary/{seed}") for seed in seeds[-args.episodes :]]
    episodes = play(make_policy(parse_policy(args.policy), scenario), scenario, plans)
    samples = [
        dictionary.sample(replace(turn, episode=number))
        for number, episode in enumerate(episodes)
        for turn in episode.turns
    ]
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(dictionary.train(samples))
    print(f"{out}: {out.stat().st_size} bytes from {len(samples)} turns of {len(episodes)} episodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
