"""`tail FILE`: the last turns."""

from __future__ import annotations

import argparse
from collections import deque

from recorder.commands.cat import add_fields, columns_of, print_turn
from recorder.commands.common import Commands, UsageError, command, damage_code
from recorder.fields import FieldError
from recorder.reader import Reader


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "tail", run, "its last turns")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-n", "--turns", type=int, default=10, metavar="N", help="how many (default: %(default)s)")
    add_fields(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the last turns."""
    if options.turns < 0:
        raise UsageError(f"tail: -n {options.turns}: a number of turns is 0 or more")
    columns = columns_of(options)
    if any(column.source == "end" for column in columns):
        raise FieldError("--fields: an episode's end isn't known while its turns are printed; use cat for end fields")
    with Reader(options.file) as reader:
        for begin, turn in deque(reader.steps("all"), maxlen=options.turns):
            print_turn(options.json, columns, begin, turn, None)
        return damage_code(reader)
