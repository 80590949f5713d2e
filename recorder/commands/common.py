"""What the commands share: exit codes, the one line that bad input gets, JSON and text that stay on a line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from recorder.errors import DamagedLogError, RecorderError
from recorder.reader import Reader
from recorder.records import Turn
from recorder.scan import Damage

GOOD, BAD_LOG, BAD_USE, LOSSY = 0, 1, 2, 3
"""Exit codes: all well; the file says no (damage, divergence); bad use; done, but with loss."""

INTERRUPTED = 130


class Commands(Protocol):
    """What `ArgumentParser.add_subparsers` gives."""

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser: ...


class UsageError(RecorderError, ValueError):
    """A command that can't be carried out as given; one line with the remedy."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USE, f"{self.prog}: {one_line(message)}; see {self.prog} --help\n")


def command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], help: str, **kwargs: Any
) -> argparse.ArgumentParser:
    """A parser for the command `name` that has `--json`; its options carry `run` as `carry_out`."""
    text = f"{help[0].upper()}{help[1:]}."
    parser = commands.add_parser(name, help=help, description=text, **kwargs)
    parser.add_argument("--json", action="store_true", help="JSON: one object a line")
    parser.set_defaults(carry_out=run)
    return parser


def each_file(options: argparse.Namespace, work: Callable[[Reader], int]) -> int:
    """Calls `work` for each of `options.files`; a file that can't be read gets its line and stops no other.

    Returns the worst exit code.
    """
    worst = GOOD
    for file in options.files:
        try:
            with Reader(file) as reader:
                worst = max(worst, work(reader))
        except RecorderError as error:
            worst = max(worst, failed(error))
    return worst


def failed(error: RecorderError) -> int:
    """Says what went wrong; returns the exit code for it."""
    say(str(error))
    return BAD_LOG if isinstance(error, DamagedLogError) else BAD_USE


def say(text: str) -> None:
    """One line on stderr."""
    print(one_line(text), file=sys.stderr)


def print_json(value: Any) -> None:
    """One line on stdout. NaN and infinity, which JSON can't hold, don't get past the reader."""
    print(as_json(value))


def as_json(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, allow_nan=False)


def one_line(text: str) -> str:
    """Text that stays on one line, whatever it holds."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def reward(value: float) -> str:
    """A reward as people read it: always with its sign."""
    return f"{value:+.3f}"


def terms_text(terms: Mapping[str, float]) -> str:
    """Reward terms in the order given, as in "found +0.100, time -0.005"."""
    return ", ".join(f"{name} {reward(value)}" for name, value in terms.items())


def action_text(turn: Turn) -> str:
    """What was done, what had been proposed where that is something else, and how it was chosen."""
    action = turn.executed if turn.proposed == turn.executed else f"{turn.proposed} -> {turn.executed}"
    return action + "".join(f" ({name})" for name in ("fallback", "greedy") if getattr(turn, name))


def outcome_text(turn: Turn) -> str:
    """How it went, as in "arrived: reached the mill"."""
    return ": ".join(part for part in (turn.outcome_kind, turn.outcome_text) if part)


def damage_text(damage: Damage, incomplete: int = 0) -> str:
    """What a log has lost, as one clause."""
    parts = []
    if damage.bad_regions:
        parts.append(
            f"{damage.bad_bytes:,} bytes in {damage.bad_regions} places, "
            f"first at offset {damage.first_bad_offset}"
        )
    for count, what in (
        (damage.missing, "records missing"),
        (damage.out_of_sequence, "records out of sequence"),
        (damage.undecodable, f"records undecodable (first: {damage.first_error})"),
        (damage.orphan_turns, "turns without their episode"),
        (incomplete, "episodes with lost turns"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    return "damaged: " + ", ".join(parts)


def damage_code(reader: Reader) -> int:
    """After a pass: says on stderr what of the log was lost, if anything; returns the exit code."""
    if not reader.damage.damaged:
        return GOOD
    say(f"{reader.path}: {damage_text(reader.damage)}; what can be read was printed")
    return BAD_LOG
