"""`ls FILE...`: the episodes, one a line, and those that a question is about."""

from __future__ import annotations

import argparse

import msgspec

from recorder.commands.common import Commands, command, damage_code, each_file, one_line, print_json, reward
from recorder.listing import Row, Wanted, parse_range, rows
from recorder.reader import Attempts, Reader

HEAD = "episode  turns   return  success  ended       seed      policy  scenario  group"


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "ls", run, "its episodes, one a line")
    parser.add_argument("files", nargs="+", metavar="FILE")
    add_filters(parser)
    parser.add_argument(
        "--attempts", choices=("latest", "all"), default="latest",
        help="latest leaves out what a resumed run recorded again (default: %(default)s)",
    )  # fmt: skip


def add_filters(parser: argparse.ArgumentParser) -> None:
    """The options that say which episodes are wanted."""
    group = parser.add_argument_group("which episodes", "All given have to hold; texts may hold * and ?.")
    for name in ("scenario", "policy", "group", "run", "split", "purpose"):
        group.add_argument(f"--{name}", metavar=name.upper())
    for name in ("seed", "attempt", "update"):
        group.add_argument(f"--{name}", type=int, metavar="N")
    group.add_argument(
        "--return", dest="bounds", metavar="LOW..TOP", help="return from LOW to TOP; either may be left out"
    )
    outcome = group.add_mutually_exclusive_group()
    outcome.add_argument("--success", action="store_true", default=None, help="those that ended with success")
    outcome.add_argument(
        "--failure", dest="success", action="store_false", help="those that ended without"
    )


def wanted_of(options: argparse.Namespace) -> Wanted:
    """Which episodes the options ask for. Raises RangeError."""
    low, top = parse_range(options.bounds) if options.bounds is not None else parse_range("-inf..inf")
    names = ("scenario", "policy", "group", "run", "split", "purpose", "seed", "attempt", "update", "success")
    return Wanted(**{name: getattr(options, name) for name in names}, low=low, top=top)


def run(options: argparse.Namespace) -> int:
    """Prints the rows of each file."""
    wanted = wanted_of(options)
    attempts: Attempts = "all" if options.attempt is not None else options.attempts

    def work(reader: Reader) -> int:
        first = True
        for row in rows(reader, wanted, attempts):
            if options.json:
                print_json(msgspec.to_builtins(row))
                continue
            if first:
                print(HEAD)
                first = False
            print(row_text(row))
        if first and not options.json:
            print(f"{one_line(str(reader.path))}: no such episode")
        return damage_code(reader)

    return each_file(options, work)


def row_text(row: Row) -> str:
    """One episode as a line for people."""
    success = {True: "yes", False: "no", None: "-"}[row.success]
    options = "".join(f" {name}={value}" for name, value in row.options.items())
    return one_line(
        f"{row.episode:>7}  {row.turns:>5}  {reward(row.reward):>7}  {success:<7}  {row.ended or 'open':<10}  "
        f"{row.seed:<8}  {row.policy or '-'}  {row.scenario} {row.scenario_version}{options}  {row.group or '-'}"
    )
