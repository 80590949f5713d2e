"""`python -m game`: the village in a window, or played without one."""

from __future__ import annotations

import signal

if __name__ == "__main__":  # until there is something to end cleanly, Ctrl-C ends all at once and without a word
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from game.view import compare_front, replay_front
from game.view.front import BAD_USE, GOOD, INTERRUPTED, USER_ERRORS, Settings, play
from game.view.saving import size_of
from rl.command import sigterm_ends


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USE, f"game: {message}; see python -m game --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m game",
        allow_abbrev=False,
        description="A village in which one character, the errand-runner, is played by a small language model.",
        epilog="Besides: python -m game replay FILE.b22 and python -m game compare, each with its own --help. "
        "Exit code: 0 good, 1 the log or the picture could not be written or the brain was lost, 2 bad use.",
    )
    parser.add_argument(
        "--brain", metavar="POLICY", default=Settings.brain,
        help="who plays: human (keyboard and mouse), random, teacher, oracle, MODEL, MODEL:ADAPTER or a run folder "
        "(default: %(default)s)",
    )
    parser.add_argument("--scenario", metavar="NAME", default=Settings.scenario, help="default: %(default)s")
    parser.add_argument(
        "--option", metavar="KEY=VALUE", action="append", default=[], type=_option,
        help="an option of the scenario, as in difficulty=2; may be given several times",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=Settings.seed, help="of the first episode (default: %(default)s)"
    )
    parser.add_argument("--record", metavar="FILE.b22", type=Path, help="write a log; one that is there is appended to")
    parser.add_argument("--greedy", action="store_true", help="always the most probable action; otherwise drawn")
    parser.add_argument(
        "--deadline", metavar="SECONDS", type=_seconds, default=5.0,
        help="after so long without an answer a fallback acts, and is logged as one (default: %(default)g)",
    )
    parser.add_argument(
        "--size", metavar="WIDTHxHEIGHT", type=size_of, default=Settings.size,
        help="of the window at first, and of the picture (default: 1320x686)",
    )
    parser.add_argument("--sound", action="store_true", help="small sounds; without it no sound is opened")
    parser.add_argument("--headless", action="store_true", help="no window; needs --turns")
    parser.add_argument("--turns", metavar="N", type=_count, help="stop after N turns of the errand-runner")
    parser.add_argument("--screenshot", metavar="FILE.png", type=Path, help="write the last picture")
    parser.add_argument("--json", action="store_true", help="one JSON object an episode instead of a sentence")
    return parser


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return name, value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Does as the command line says and returns the exit code."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with sigterm_ends() as ending:
        code = _run(words)
    return ending.code if code == INTERRUPTED else code


def _run(words: list[str]) -> int:
    if words[:1] == ["replay"]:
        return replay_front.main(words[1:])
    if words[:1] == ["compare"]:
        return compare_front.main(words[1:])
    given = _parser().parse_args(words)
    settings = Settings(
        brain=given.brain, scenario=given.scenario, options=dict(given.option), seed=given.seed,
        record=given.record, greedy=given.greedy, deadline_s=given.deadline, headless=given.headless,
        turns=given.turns, screenshot=given.screenshot, json=given.json, size=given.size, sound=given.sound,
    )  # fmt: skip
    try:
        return play(settings)
    except USER_ERRORS as error:
        print(f"game: {error}", file=sys.stderr)
        return BAD_USE
    except KeyboardInterrupt:  # before or after the play, which ends itself cleanly
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the lines has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD


if __name__ == "__main__":
    sys.exit(main())
