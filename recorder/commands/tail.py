"""`tail [-f] FILE`: the last turns, and the next ones as they are written."""

from __future__ import annotations

import argparse
import sys
from collections import deque

from recorder.commands.cat import add_fields, columns_of, print_turn
from recorder.commands.common import GOOD, Commands, UsageError, command, damage_code
from recorder.fields import FieldError
from recorder.reader import Reader
from recorder.records import EpisodeBegin, Turn


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "tail", run, "its last turns, and with -f the next ones as they are written")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-n", "--turns", type=int, default=10, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written, until Ctrl-C")
    add_fields(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the last turns; with `--follow` every later one within a moment of its being written."""
    if not 0 <= options.turns <= sys.maxsize:
        raise UsageError(f"tail: -n {options.turns}: a number of turns is from 0 to {sys.maxsize}")
    columns = columns_of(options)
    if any(column.source == "end" for column in columns):
        raise FieldError("--fields: an episode's end isn't known while its turns are printed; use cat for end fields")
    last: deque[tuple[EpisodeBegin | None, Turn]] = deque(maxlen=options.turns)
    caught_up = False

    def at_the_end() -> bool:
        """Prints what was kept back; from here on turns are new."""
        nonlocal caught_up
        while last:
            print_turn(options.json, columns, *last.popleft(), None)
        caught_up = True
        sys.stdout.flush()
        return not options.follow

    with Reader(options.file) as reader:
        try:
            stop = at_the_end if options.follow else None
            for begin, turn in reader.steps("all", follow=options.follow, stop=stop):
                if caught_up:
                    print_turn(options.json, columns, begin, turn, None)
                    sys.stdout.flush()
                else:
                    last.append((begin, turn))
        except KeyboardInterrupt:  # the way out of -f
            if not options.follow:
                raise
            return GOOD
        at_the_end()
        return damage_code(reader)
