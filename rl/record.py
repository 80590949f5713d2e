"""Records groups to learn from offline: `python -m rl.record --scenario fetch_item --out FILE.b22`.

Every group is `--group-size` episodes from one start, on train seeds, sampled. Groups are whole: where the episodes
asked for don't fill the last one, it is played to its end all the same, and the answer says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

import scenarios
from npc.errors import NpcError
from recorder import RecorderError
from rl.command import INTERRUPTED, CommandError, Parser, ended, fail, options_from
from rl.evaluation import score
from rl.logbook import Author, Logbook
from rl.policies import ModelPolicy, PolicyNameError, make_policy, parse_policy
from rl.progress import Progress
from rl.remote import RemoteError
from rl.rollout import Episode, Plan, play, uniform
from scenarios.contract import Scenario, ScenarioError, check_seed

AT_ONCE = 32  # groups that are played side by side


def author_of(policy: object, text: str, model: str = "", adapter: str = "") -> Author:
    """A policy as the log names who plays, the hash of its weights read from memory."""
    if not isinstance(policy, ModelPolicy):
        return Author(text)
    from npc.adapters import weights_hash

    brain = policy.brain
    return Author(text, model, adapter, weights_hash(brain), brain.base_hash, brain.tokenizer_hash)


def group_plans(scenario: Scenario, options: dict[str, str], seed: int, groups: int, size: int) -> list[list[Plan]]:
    """Groups on train seeds that depend on `seed` alone."""
    seeds = scenario.splits["train"]
    return [
        [Plan(seeds[int(uniform(f"record/{seed}", group) * len(seeds))], options, f"r{seed}/g{group}",
              f"record/{seed}/{group}/{member}") for member in range(size)]
        for group in range(groups)
    ]  # fmt: skip


def record(args: argparse.Namespace) -> dict[str, Any]:
    """Runs the command; what it recorded, in figures."""
    scenario = scenarios.get(args.scenario)
    check_seed(args.seed)
    options = scenario.resolve_options(options_from(args.option))
    if args.group_size < 2:
        raise CommandError(f"--group-size {args.group_size}: 2 or more")
    if args.episodes < 1:
        raise CommandError(f"--episodes {args.episodes}: 1 or more")
    if not 0 < args.tau < float("inf"):
        raise CommandError(f"--tau {args.tau}: a number above 0")
    spec = parse_policy(args.policy or f"nano:{scenario.name}")
    policy = make_policy(spec, scenario, args.tau)
    plans = group_plans(scenario, options, args.seed, -(-args.episodes // args.group_size), args.group_size)
    named = hashlib.blake2b(f"{spec}{options}{args.seed}{Path(args.out).resolve()}".encode(), digest_size=6)
    author = author_of(policy, spec.text, spec.model, spec.adapter or "")
    played: list[Episode] = []
    with (Progress(Console(stderr=True)) as told,
          Logbook(Path(args.out), scenario, "python -m rl.record", named.hexdigest()) as log):  # fmt: skip
        prefix = ""
        if isinstance(policy, ModelPolicy):
            prefix = log.add_prefix(policy.closed.prefix_ids, policy.brain.tokenizer_hash)
        for start in range(0, len(plans), AT_ONCE):
            told.now(f"{spec.text}: {len(played)} of {sum(map(len, plans))} episodes")
            episodes = play(policy, scenario, [plan for group in plans[start : start + AT_ONCE] for plan in group])
            log.add(episodes, author, "train", "train", prefix)
            played += episodes
    return {"file": args.out, "policy": spec.text, "groups": len(plans), "asked_for": args.episodes, **score(played)}


def describe(found: Mapping[str, Any]) -> str:
    """What was recorded, as a line for people."""
    more = f" ({found['asked_for']} asked for; groups are whole)" if found["n"] != found["asked_for"] else ""
    return (f"{found['n']} episodes in {found['groups']} groups{more} by {found['policy']}: success "
            f"{100 * found['success']:.1f} %; {found['file']}")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m rl.record", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--policy", help="who plays (default: nano with the scenario's own adapter)")
    parser.add_argument("--episodes", type=int, default=1024, help="(default: %(default)s)")
    parser.add_argument("--group-size", type=int, default=4, help="episodes from one start (default: %(default)s)")
    parser.add_argument("--tau", type=float, default=1.0, help="sampling temperature (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of seeds and dice (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="FILE.b22")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    try:
        found = record(args)
    except (ScenarioError, PolicyNameError, NpcError, RecorderError, CommandError, RemoteError, OSError) as error:
        return fail("rl.record", error)
    except KeyboardInterrupt:
        kept = f"what was played lies in {args.out}" if Path(args.out).exists() else "nothing was recorded yet"
        print(f"python -m rl.record: interrupted; {kept}", file=sys.stderr)
        return INTERRUPTED
    print(json.dumps(found) if args.json else describe(found))
    return 0


if __name__ == "__main__":
    sys.exit(ended("rl.record", main))
