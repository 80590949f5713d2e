"""`info FILE...`: what a log holds and what state it is in."""

from __future__ import annotations

import argparse
import time

from recorder.commands.common import BAD_LOG, GOOD, Commands, command, damage_text, each_file, one_line, print_json
from recorder.reader import Reader
from recorder.summary import Summary, overview, summarize

READ_WHOLE = 8 << 20
"""Bytes up to which a log is read whole, which takes a moment; of a longer one the INDEX is believed."""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "info", run, "what a log holds and what state it is in")
    parser.add_argument("files", nargs="+", metavar="FILE")


def run(options: argparse.Namespace) -> int:
    """Prints a paragraph (or an object) for each file."""

    def work(reader: Reader) -> int:
        summary = summarize(reader) if reader.size <= READ_WHOLE else overview(reader)
        if options.json:
            print_json(summary.plain())
        else:
            print(info_text(summary))
        return GOOD if summary.good else BAD_LOG

    return each_file(options, work)


def info_text(summary: Summary) -> str:
    """The paragraph for people."""
    header = summary.header
    lines = [f"{one_line(summary.file)}: {state_text(summary)}"]
    if header is not None:
        made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(max(header.created_unix, 0), 2**37)))
        program = " ".join(part for part in (header.program, header.engine_version) if part)
        lines.append(f"  written by  {one_line(program) or 'unknown'}, {made}, {one_line(header.platform)}")
    lines += [
        f"  size        {summary.bytes:,} bytes, {summary.damage.records:,} records, {summary.sessions} sessions",
        f"  episodes    {summary.episodes:,} ({summary.ended:,} ended, {summary.successes:,} successes, "
        f"{summary.abandoned:,} abandoned)",
        f"  turns       {summary.turns:,} ({summary.fallbacks:,} fallbacks)",
    ]
    for title, counts in (
        ("scenarios", summary.scenarios), ("policies", summary.policies), ("runs", summary.runs)
    ):  # fmt: skip
        named = {name: count for name, count in counts.items() if name}
        if named:
            lines.append(f"  {title:<11} " + ", ".join(f"{one_line(n)} ({c:,})" for n, c in named.items()))
    return "\n".join(lines)


def state_text(summary: Summary) -> str:
    """Whether anything is lost, and how the log ends."""
    if summary.empty:
        return "empty: no record was ever written whole"
    unread = "" if summary.checked else "not checked (verify reads every record)"
    state = (unread or "good") if summary.good else damage_text(summary.damage, summary.incomplete)
    if summary.gaps:
        state += f", {summary.gaps:,} marked gaps"
    if summary.clean:
        return f"{state}; closed"
    torn = f", {summary.damage.torn_bytes:,} bytes of an unfinished record" if summary.damage.torn_bytes else ""
    return f"{state}; unclean end{torn} (readable)"
