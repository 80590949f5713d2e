"""`diff A [B]`: the same starts played twice, by two policies or in two logs: the first turn where they part."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

import msgspec

from recorder import fields
from recorder.commands.common import (
    BAD_LOG,
    GOOD,
    Commands,
    UsageError,
    action_text,
    command,
    damage_code,
    one_line,
    outcome_text,
    print_json,
    reward,
)
from recorder.listing import Row, Wanted
from recorder.parting import Pair, Pairing, pairs
from recorder.reader import Reader
from recorder.records import Turn

SHOWN = 10

_WHY = {
    "action": "they did otherwise",
    "observation": "they saw otherwise after the same actions",
    "digest": "the state was another one after the same actions",
    "end": "one of them had ended",
    "lost": "it is lost from one of the logs",
    "start": "they began in different states",
}


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(
        commands, "diff", run, "the same seed played twice: the first turn where the two part",
        epilog="Exit code: 0 no two part, 1 some do. Policies and groups may be given with * and ?.",
    )  # fmt: skip
    parser.add_argument("left", metavar="A", help="a log")
    parser.add_argument("right", metavar="B", nargs="?", help="another; without it, two policies of A are compared")
    parser.add_argument("--left", dest="left_policy", metavar="POLICY", help="of A, the episodes of this policy")
    parser.add_argument("--right", dest="right_policy", metavar="POLICY", help="of B, the episodes of this policy")
    parser.add_argument("--scenario", metavar="NAME", help="this scenario alone")
    parser.add_argument("--seed", type=int, metavar="N", help="this seed alone")
    parser.add_argument("--all", action="store_true", help=f"print every pair that parts, not the first {SHOWN}")


def run(options: argparse.Namespace) -> int:
    """Prints the pairs that part, and a line that counts."""
    if options.right is None and not (options.left_policy and options.right_policy):
        raise UsageError("diff: one log alone is compared by policy: give --left POLICY and --right POLICY")
    left_wanted, right_wanted = (
        Wanted(scenario=options.scenario, seed=options.seed, policy=policy)
        for policy in (options.left_policy, options.right_policy)
    )
    found, parted = Pairing(), 0
    with ExitStack() as stack:
        left = stack.enter_context(Reader(options.left))
        right = stack.enter_context(Reader(options.left if options.right is None else options.right))
        for pair in pairs(left, right, left_wanted, right_wanted, found):
            parted += pair.turn is not None
            if options.json:
                print_json(_plain(pair))
            elif pair.turn is not None and (options.all or parted <= SHOWN):
                print("\n".join(_text(pair)))
        code = max(damage_code(left), damage_code(right))
        if not found.pairs:
            raise UsageError(
                f"{options.left}: nothing to compare: no start (scenario, seed and options) is on both sides; "
                f"{found.only_left:,} episodes on the left, {found.only_right:,} on the right"
            )
    if not options.json:
        if parted > SHOWN and not options.all:
            print(f"... and {parted - SHOWN:,} more pairs that part; --all prints them")
        print(
            f"{found.pairs:,} pairs of one start: {found.alike:,} alike, {parted:,} part; "
            f"without a partner: {found.only_left:,} left, {found.only_right:,} right"
        )
    return max(code, BAD_LOG if parted else GOOD)


def _plain(pair: Pair) -> dict[str, Any]:
    return {
        "turn": pair.turn,
        "why": pair.why,
        "left": msgspec.to_builtins(pair.left),
        "right": msgspec.to_builtins(pair.right),
        "left_turn": None if pair.left_turn is None else fields.plain_turn(pair.left_turn),
        "right_turn": None if pair.right_turn is None else fields.plain_turn(pair.right_turn),
    }


def _text(pair: Pair) -> list[str]:
    options = "".join(f", {name} {value}" for name, value in pair.left.options.items())
    lines = [f"{pair.left.scenario}, seed {pair.left.seed}{options}: turn {pair.turn}, {_WHY[pair.why]}"]
    a, b = pair.left_turn, pair.right_turn
    if a is not None and b is not None and a.observation == b.observation:
        lines.append(f"  both saw   {a.observation}")
        lines += [f"  {name:<10} {_did(turn)}" for name, turn in (("left did", a), ("right did", b))]
    else:
        for name, turn in (("left", a), ("right", b)):
            if turn is not None:
                lines += [f"  {name + ' saw':<10} {turn.observation}", f"  {name + ' did':<10} {_did(turn)}"]
            else:
                lines.append(f"  {name:<10} {'lost, or ended before' if pair.why == 'lost' else 'had ended'}")
    lines += [f"  {name:<10} {_row(row)}" for name, row in (("left", pair.left), ("right", pair.right))]
    if pair.why == "digest" and a is not None and b is not None:
        parts = [p for p in {**a.digest_after, **b.digest_after} if a.digest_after.get(p) != b.digest_after.get(p)]
        lines.append(f"  {'parts':<10} {', '.join(parts)}")
    return [one_line(line) for line in lines] + [""]


def _did(turn: Turn) -> str:
    share = dict(zip(turn.legal, turn.prob_values.tolist(), strict=True)).get(turn.executed) if turn.probs else None
    chance = "" if share is None else f" ({100 * share:.1f} %)"
    outcome = outcome_text(turn)
    return f"{action_text(turn)}{chance}" + (f" -> {outcome}" if outcome else "")


def _row(row: Row) -> str:
    how = {True: "with success", False: "without success", None: "never"}[row.success]
    ended = f" ({row.ended})" if row.ended and row.ended != "success" else ""
    return (
        f"episode {row.episode}, {row.policy or 'unknown'}: ended {how}{ended} after {row.turns} turns, "
        f"return {reward(row.reward)}"
    )
