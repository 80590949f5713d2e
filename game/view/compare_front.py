"""`python -m game compare --seed N --left POLICY --right POLICY`: two villages, in a window or as a film."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

import scenarios
from game.view import saving
from game.view.compare import Comparison
from game.view.errors import USER_ERRORS, BadUse
from rl.command import INTERRUPTED, CommandError, Parser, fail, options_from
from scenarios.contract import check_seed

if TYPE_CHECKING:
    import pygame

    from game.view.compare_show import CompareShow

PROGRAM = "game compare"
DEADLINE_S, PATIENT_S = 5.0, 120.0
PATIENCE_S = 0.05  # without a window: how often a deadline is looked at


def _parser() -> Parser:
    parser = Parser(
        prog=f"python -m {PROGRAM}",
        allow_abbrev=False,
        description="Two villages side by side: the same seed and the same dice, another mind on each side. A run "
        "folder gets a slider over its checkpoints.",
        epilog="Exit code: 0 good, 1 the picture could not be written or a brain was lost, 2 bad use.",
    )
    parser.add_argument("--seed", metavar="N", type=int, required=True)
    for side in ("left", "right"):
        parser.add_argument(
            f"--{side}", metavar="POLICY", required=True,
            help="random, teacher, oracle, MODEL, MODEL:ADAPTER, a run folder (its head) or RUN@NODE",
        )  # fmt: skip
    parser.add_argument("--scenario", metavar="NAME", default="fetch_item", help="default: %(default)s")
    parser.add_argument("--option", metavar="KEY=VALUE", action="append", default=[], help="of the scenario")
    parser.add_argument("--greedy", action="store_true", help="always the most probable action; otherwise drawn")
    parser.add_argument(
        "--deadline", metavar="SECONDS", type=float,
        help=f"for a decision, then a fallback acts (default: {DEADLINE_S:g}; {PATIENT_S:g} without a window)",
    )  # fmt: skip
    parser.add_argument("--headless", action="store_true", help="no window: play the seed and say how it went")
    parser.add_argument("--json", action="store_true", help="one JSON object a side instead of a sentence")
    saving.add_options(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        saving.check_options(given)
        deadline_s = given.deadline
        if deadline_s is None:
            deadline_s = PATIENT_S if given.headless or given.save or given.screenshot else DEADLINE_S
        if not 0 < deadline_s < math.inf:
            raise BadUse(f"--deadline {deadline_s:g}: give a number of seconds above 0")
        scenario = scenarios.get(given.scenario)
        options = scenario.resolve_options(options_from(given.option))
        comparison = Comparison(
            scenario, options, check_seed(given.seed), (given.left, given.right),
            greedy=given.greedy, deadline_s=deadline_s,
        )  # fmt: skip
        try:
            return _show(given, comparison)
        finally:
            comparison.close()
    except (CommandError, *USER_ERRORS) as error:
        return fail(PROGRAM, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _show(given: argparse.Namespace, comparison: Comparison) -> int:
    pictured = given.screenshot is not None or given.save is not None
    if given.headless and not pictured:
        while not comparison.over:
            _think(comparison)
            comparison.advance(1.0, onward=False)
        return _report(comparison, given.json)
    saving.prepare_pygame(dummy=pictured)
    from game.view.compare_show import CompareShow

    show = CompareShow(comparison, still=given.save is not None)
    if given.size is not None:
        show.resize(given.size)
    if not pictured:
        comparison.speed = given.speed or comparison.speed
        return saving.show_window(show, given.size)
    comparison.speed = given.speed or saving.SPEED
    code = saving.GOOD
    if given.save is not None:
        code = saving.save_film(given.save, _frames(show))
    if given.screenshot is not None:
        for _ in _frames(show) if given.save is None else ():
            pass
        code = max(code, saving.save_picture(given.screenshot, show.draw))
    return max(code, _report(comparison, given.json))


def _frames(show: CompareShow) -> Iterator[pygame.Surface]:
    """The episode on both sides, until the end of both was shown. Thinking takes no longer than it is shown to take."""
    comparison = show.comparison
    while not comparison.shown:
        _think(comparison)
        comparison.advance(1 / saving.FRAMES_PER_S, onward=False)
        yield show.draw()


def _think(comparison: Comparison) -> None:
    for side in comparison.sides:
        side.answer(PATIENCE_S)


def _report(comparison: Comparison, as_json: bool) -> int:
    code = saving.GOOD
    for name, side in zip(("left", "right"), comparison.sides, strict=True):
        result = side.session.results[-1]
        if as_json:
            plain: dict[str, Any] = {"side": name, "policy": side.policy, **msgspec.to_builtins(result)}
            print(msgspec.json.encode(plain).decode())
        else:
            print(f"{name}, {side.policy}: {result.ended} after {result.turns} turns, reward {result.reward:.3f}")
        if side.session.player.trouble:
            print(f"{name}: {side.session.player.trouble}; the fallback played on", file=sys.stderr)
            code = saving.FAILED
    return code
