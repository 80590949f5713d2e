"""`cat FILE...`: every turn, one a line."""

from __future__ import annotations

import argparse
from typing import Any

from recorder import fields
from recorder.commands.common import (
    Commands,
    action_text,
    as_json,
    command,
    damage_code,
    each_file,
    one_line,
    outcome_text,
    print_json,
    reward,
    say,
)
from recorder.framing import Op
from recorder.reader import Reader
from recorder.records import EpisodeBegin, EpisodeEnd, Turn, as_plain


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "cat", run, "its turns, one a line")
    parser.add_argument("files", nargs="+", metavar="FILE")
    add_fields(parser)
    parser.add_argument(
        "--attempts", choices=("latest", "all"), default="latest",
        help="latest leaves out what a resumed run recorded again (default: %(default)s)",
    )  # fmt: skip


def add_fields(parser: argparse.ArgumentParser) -> None:
    """The option `--fields`."""
    parser.add_argument(
        "--fields", metavar="A,B", help="these fields of turn, begin and end, as in executed,terms.found,seed"
    )


def columns_of(options: argparse.Namespace) -> list[fields.Field]:
    """The columns asked for; none where a line is for people. Raises FieldError."""
    if options.fields is not None:
        return [fields.resolve(name.strip()) for name in str(options.fields).split(",")]
    return [fields.resolve(name) for name in fields.DEFAULT] if options.json else []


def run(options: argparse.Namespace) -> int:
    """Prints the turns of each file."""
    columns = columns_of(options)

    def work(reader: Reader) -> int:
        ends = _ends(reader) if any(column.source == "end" for column in columns) else {}
        hidden = 0
        for begin, turn in reader.steps("all"):
            if options.attempts == "latest" and begin is not None and reader.superseded(begin):
                hidden += 1
            else:
                print_turn(options.json, columns, begin, turn, ends.get(turn.episode))
        if hidden:
            say(f"{reader.path}: {hidden:,} turns of abandoned attempts left out; --attempts all prints them")
        return damage_code(reader)

    return each_file(options, work)


def print_turn(
    json: bool, columns: list[fields.Field], begin: EpisodeBegin | None, turn: Turn, end: EpisodeEnd | None
) -> None:
    """One turn on one line: its columns as JSON or between tabs, or, without columns, as people read it."""
    if not columns:
        print(turn_text(begin, turn))
        return
    values = _values(columns, begin, turn, end)
    if json:
        print_json(values)
    else:
        texts = (one if isinstance(one, str) else as_json(one) for one in values.values())
        print("\t".join(one_line(text) for text in texts))


def turn_text(begin: EpisodeBegin | None, turn: Turn) -> str:
    """One turn as a line for people."""
    where = f"{begin.scenario} seed {begin.seed}" if begin is not None else "episode lost"
    action, outcome = action_text(turn), outcome_text(turn)
    return one_line(f"{turn.episode} {turn.turn}  {where}  {action}  [{outcome}]  {reward(turn.reward)}")


def _ends(reader: Reader) -> dict[int, EpisodeEnd]:
    found = (record for _, record in reader.records({Op.EPISODE_END}))
    return {end.episode: end for end in found if isinstance(end, EpisodeEnd)}


def _values(
    columns: list[fields.Field], begin: EpisodeBegin | None, turn: Turn, end: EpisodeEnd | None
) -> dict[str, Any]:
    plain = {"turn": fields.plain_turn(turn)}
    if begin is not None:
        plain["begin"] = as_plain(begin)
    if end is not None:
        plain["end"] = as_plain(end)
    return {column.name: column.value(plain) for column in columns}
