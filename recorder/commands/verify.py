"""`verify [--resim] FILE...`: whether every record is there, and whether a replay agrees."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import msgspec

from recorder.commands.common import BAD_LOG, GOOD, Commands, command, each_file, one_line, print_json
from recorder.commands.info import state_text
from recorder.reader import Reader
from recorder.resim import Replay, Stage, resim
from recorder.summary import Summary, summarize

SHOWN = 20
"""Differences that are printed without --json."""

Stages = Callable[[str], Stage]
"""Gives the scenario of a name, for a replay."""


def add(commands: Commands, stages: Callable[[], Stages]) -> None:
    """Adds the command. `stages` is called when a replay is asked for."""

    def run(options: argparse.Namespace) -> int:
        return verify(options, stages() if options.resim else None)

    parser = command(commands, "verify", run, "whether every record is there, and whether a replay agrees")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--resim", action="store_true", help="run the executed actions again and compare after every turn"
    )


def verify(options: argparse.Namespace, get: Stages | None) -> int:
    """Checks each file, and with `get` replays it too."""

    def work(reader: Reader) -> int:
        summary = summarize(reader)
        replay = resim(reader, get) if get is not None else None
        good = summary.good and (replay is None or replay.agrees)
        if options.json:
            replayed = {} if replay is None else {"resim": msgspec.to_builtins(replay)}
            print_json({**summary.plain(), "good": good, **replayed})
        else:
            print(verify_text(summary, replay))
        return GOOD if good else BAD_LOG

    return each_file(options, work)


def verify_text(summary: Summary, replay: Replay | None) -> str:
    """What was found, for people."""
    lines = [
        f"{one_line(summary.file)}: {state_text(summary)}",
        f"  {summary.damage.records:,} records, {summary.episodes:,} episodes, {summary.turns:,} turns",
    ]
    if replay is not None:
        lines += [f"  note: {one_line(note)}" for note in replay.notes]
        lines += [f"  {one_line(str(difference))}" for difference in replay.differences[:SHOWN]]
        if len(replay.differences) > SHOWN:
            lines.append(f"  and {len(replay.differences) - SHOWN:,} more; --json gives them all")
        lines.append(
            f"  replay: {replay.episodes:,} episodes, {replay.compared:,} turns compared, "
            f"{len(replay.differences):,} episodes differ, {replay.unrecorded:,} turns without a digest, "
            f"{replay.unreachable:,} not reached"
        )
    return "\n".join(lines)
