"""`merge FILE... --out NEW`: several logs as one."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from recorder.commands.common import GOOD, Commands, command, one_line, print_json
from recorder.rewrite import merge


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(
        commands, "merge", run, "several logs as one, episodes renumbered, groups kept apart, amends along",
        epilog="The first log keeps its episode ids. The logs are not changed; a damaged one is refused.",
    )  # fmt: skip
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("-o", "--out", required=True, metavar="NEW", help="the new log; it must not be there yet")


def run(options: argparse.Namespace) -> int:
    """Merges, and says what became of each log."""
    done = merge([Path(file) for file in options.files], Path(options.out))
    if options.json:
        print_json(msgspec.to_builtins(done))
        return GOOD
    for source in done.sources:
        renamed = f"; {source.renamed_groups:,} groups renamed" if source.renamed_groups else ""
        shift = f"; episode ids + {source.first_episode:,}" if source.first_episode else ""
        print(one_line(
            f"{source.path}: {source.episodes:,} episodes, {source.turns:,} turns, "
            f"{source.amends:,} amends{shift}{renamed}"
        ))  # fmt: skip
    turns, episodes = sum(one.turns for one in done.sources), sum(one.episodes for one in done.sources)
    print(one_line(f"{done.out}: {episodes:,} episodes, {turns:,} turns, {done.bytes:,} bytes"))
    return GOOD
