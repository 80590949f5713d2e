"""`stats FILE...`: bytes a turn by field, success and returns by policy, what was done how often."""

from __future__ import annotations

import argparse

from recorder.commands.common import Commands, command, damage_code, each_file, one_line, print_json, reward
from recorder.figures import Figures, figures
from recorder.reader import Reader

SHOWN = 12
"""Actions that are printed without --json."""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "stats", run, "bytes a turn by field, success, returns and action counts")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--attempts", choices=("latest", "all"), default="latest",
        help="whose play is counted: latest leaves out what a resumed run recorded again (default: %(default)s)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Prints the figures of each file."""

    def work(reader: Reader) -> int:
        found = figures(reader, options.attempts)
        if options.json:
            print_json(found.plain())
        else:
            print("\n".join(stats_text(found)))
        return damage_code(reader)

    return each_file(options, work)


def stats_text(found: Figures) -> list[str]:
    """The tables for people."""
    rate = f", {found.bytes / found.turns:.1f} a turn" if found.turns else ""
    lines = [f"{one_line(found.file)}: {found.bytes:,} bytes, {found.turns:,} turns{rate}"]
    lines += ["", f"  {'record':<14}  {'number':>9}  {'bytes':>12}  {'share':>6}"]
    for name, kind in sorted(found.kinds.items(), key=lambda pair: -pair[1].bytes):
        share = 100 * kind.bytes / found.bytes
        lines.append(f"  {name:<14}  {kind.records:>9,}  {kind.bytes:>12,}  {share:>4.1f} %")
    if found.fields:
        lines += ["", f"  {'field of a turn':<16}  {'plain':>7}  {'stored':>7}   bytes a turn"]
        for name, size in sorted(found.fields.items(), key=lambda pair: -pair[1].stored):
            lines.append(f"  {name:<16}  {size.plain:>7.1f}  {size.stored:>7.1f}")
    if found.policies:
        head = f"{'episodes':>8}  {'success':>7}  {'return':>7}  {'from':>7}  {'to':>7}  {'turns':>5}"
        lines += ["", f"  {'policy':<20}  {head}"]
        for name, one in found.policies.items():
            success = f"{100 * one.successes / one.ended:.1f} %" if one.ended else "-"
            lines.append(
                f"  {one_line(name) or '-':<20}  {one.episodes:>8,}  {success:>7}  "
                f"{reward(one.reward / one.episodes):>7}  {reward(one.low):>7}  {reward(one.top):>7}  "
                f"{one.turns / one.episodes:>5.1f}"
            )
        lines += ["", "  ended: " + ", ".join(f"{one_line(why)} ({count:,})" for why, count in found.ended.items())]
    if found.actions:
        lines += ["", f"  {'turns':>7}  action"]
        ranked = found.ranked()
        lines += [f"  {count:>7,}  {one_line(action)}" for action, count in ranked[:SHOWN]]
        if len(ranked) > SHOWN:
            rest = sum(count for _, count in ranked[SHOWN:])
            lines.append(f"  {rest:>7,}  in {len(ranked) - SHOWN:,} other actions (--json names them)")
        lines.append(
            f"  {found.fallbacks:,} fallbacks, {found.greedy:,} greedy, "
            f"{found.replaced:,} executed otherwise than proposed"
        )
    return lines
