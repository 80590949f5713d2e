"""`recover FILE --out NEW`: what is intact of a damaged log, as a new log."""

from __future__ import annotations

import argparse

import msgspec

from recorder.commands.common import GOOD, LOSSY, Commands, command, damage_text, failed, one_line, print_json
from recorder.errors import RecorderError
from recorder.salvage import Recovery, recover


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(
        commands, "recover", run, "what is intact of a damaged log, as a new log",
        epilog="Exit code: 0 nothing was lost, 3 recovered with loss, 2 nothing could be recovered. "
        "FILE is never changed.",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-o", "--out", required=True, metavar="NEW", help="the new log; it must not be there yet")


def run(options: argparse.Namespace) -> int:
    """Recovers, and says what was kept and what was lost."""
    try:
        found = recover(options.file, options.out)
    except RecorderError as error:
        return failed(error)
    if options.json:
        print_json({**msgspec.to_builtins(found), "lossless": found.lossless})
    else:
        print("\n".join(recovery_text(found)))
    return GOOD if found.lossless else LOSSY


def recovery_text(found: Recovery) -> list[str]:
    """What was kept and what was lost, for people."""
    torn = f"; {found.damage.torn_bytes:,} bytes of an unfinished record left out" if found.damage.torn_bytes else ""
    lines = [
        f"{one_line(found.source)}: {'nothing lost' if found.lossless else damage_text(found.damage)}{torn}",
        f"  {one_line(found.out)}: {found.written:,} records, {found.bytes_out:,} of {found.bytes_in:,} bytes",
        f"  records   {found.records:,} kept, {found.marks:,} marks where something is missing, "
        f"{found.written - found.records - found.marks:,} written anew (dictionaries, prefixes, indexes, footer)",
        f"  episodes  {found.episodes:,} ({found.whole:,} whole, {found.incomplete:,} known to miss turns and marked)",
        f"  turns     {found.turns:,} ({found.orphan_turns:,} without their episode)",
    ]
    if found.unknown:
        lines.append(f"  {found.unknown:,} records of a later version kept as they are")
    if found.dropped:
        lines.append(f"  {found.dropped:,} records could not be decoded and were dropped")
    return lines
