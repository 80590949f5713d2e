"""`python -m game replay FILE.b22`: a log in the window, or without one a picture of a turn or all of it as a film."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from game.view import saving
from game.view.errors import USER_ERRORS, BadUse
from game.view.replay import Replay
from game.view.rerun import LogBook
from rl.command import INTERRUPTED, Parser, fail

if TYPE_CHECKING:
    import pygame

    from game.view.replay_show import ReplayShow

PROGRAM = "game replay"


def _parser() -> Parser:
    parser = Parser(
        prog=f"python -m {PROGRAM}",
        allow_abbrev=False,
        description="Shows what a log holds, on a timeline that can be moved along in both directions. No model is "
        "needed: the world is run again from the actions that were executed, and compared with the record.",
        epilog="Exit code: 0 good, 1 the picture could not be written, 2 bad use, or a log that can't be shown.",
    )
    parser.add_argument("log", metavar="FILE.b22", type=Path)
    parser.add_argument("--episode", metavar="N", type=_natural, help="default: the first of the log")
    parser.add_argument("--turn", metavar="N", type=_natural, help="show this turn first, counted from 0 as in the log")
    saving.add_options(parser)
    return parser


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        saving.check_options(given)
        book = LogBook(given.log)
        try:
            return _show(given, book)
        finally:
            book.close()
    except USER_ERRORS as error:
        return fail(PROGRAM, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _show(given: argparse.Namespace, book: LogBook) -> int:
    replay = Replay(book, given.episode)
    if given.turn is not None:
        if given.turn >= replay.length:
            last = f"its last is {replay.length - 1}"
            raise BadUse(f"{book.path}: episode {replay.number} has no turn {given.turn}; {last}")
        replay.go(given.turn)
    without_window = given.screenshot is not None or given.save is not None
    saving.prepare_pygame(dummy=without_window)
    from game.view.replay_show import ReplayShow

    show = ReplayShow(replay)
    if given.size is not None:
        show.resize(given.size)
    if not without_window:
        replay.speed = given.speed or replay.speed
        return saving.show_window(show, given.size)
    code = saving.GOOD
    if given.screenshot is not None:
        if given.turn is None:
            replay.go(replay.length)
        code = saving.save_picture(given.screenshot, show.draw)
    if given.save is not None:
        replay.speed = given.speed or saving.SPEED
        code = max(code, saving.save_film(given.save, _frames(show)))
    return code


def _frames(show: ReplayShow) -> Iterator[pygame.Surface]:
    """The whole episode from its start."""
    replay = show.replay
    replay.seek(0.0)
    replay.paused = False
    while not replay.paused:
        yield show.draw()
        show.advance(1 / saving.FRAMES_PER_S)
    yield show.draw()
