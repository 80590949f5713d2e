"""`migrate FILE --out NEW`: a log in the newest format."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from recorder.commands.common import GOOD, Commands, command, one_line, print_json
from recorder.rewrite import migrate


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(
        commands, "migrate", run, "a log in the newest format, with today's dictionary",
        epilog="Every record is read back and compared before NEW gets its name. FILE is not changed; where it is "
        "damaged it is refused.",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-o", "--out", required=True, metavar="NEW", help="the new log; it must not be there yet")


def run(options: argparse.Namespace) -> int:
    """Migrates, and says from which format to which."""
    done = migrate(Path(options.file), Path(options.out))
    (source,) = done.sources
    if options.json:
        print_json(msgspec.to_builtins(done))
        return GOOD
    before = f"format {source.format}.{source.minor}" if source.format else "no header"
    print(one_line(f"{source.path}: {before}, {source.bytes:,} bytes"))
    print(one_line(
        f"{done.out}: format {done.format}.{done.minor}, {done.bytes:,} bytes; {source.sessions:,} sessions, "
        f"{source.episodes:,} episodes, {source.turns:,} turns, {source.amends:,} amends, all read back alike"
    ))  # fmt: skip
    return GOOD
