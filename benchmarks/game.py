"""Frame time and decision latency of the game: `python -m benchmarks.game [--brain POLICY ...] [--json]`.

The window runs as in play, under SDL's dummy driver, at 60 frames a second and speed x16, with the brain in its own
process. Whenever the game has no question for it, the brain is asked one more of the same kind, so that it thinks all
the time, on the same cores as the picture. A frame's time is its work (events, turn loop, drawing), without the wait
for the next one; "cpu p99" is the processor time in it, which other programs don't lengthen. A decision's latency runs
from the question until the frame loop has the answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import scenarios
from game.view.errors import USER_ERRORS, BadUse
from game.view.frames import percentile_ms
from game.view.players import ModelPlayer, make_player
from game.view.roster import Roster
from game.view.saving import prepare_pygame
from game.view.session import Session
from game.view.stage import Stage
from rl.command import Parser, fail
from rl.policies import PolicySpec, TurnView, parse_policy
from scenarios.contract import Scenario

if TYPE_CHECKING:
    from game.view.window import Window

SCENARIO = "fetch_item"
FRAMES = 2000
FRAMES_PER_S = 60
GOAL_MS = 1000 / FRAMES_PER_S
SPEED = 16
PATIENCE_S = 300.0
COLUMNS = ("brain", "frames", "p50 ms", "p99 ms", "longest", "over goal", "cpu p99", "decisions", "p50 ms", "p95 ms")
WIDTHS = (26, 7, 8, 8, 8, 10, 8, 10, 9, 9)


class BusyPlayer(ModelPlayer):
    """A model that is asked again and again. `latencies` are seconds of the questions that nothing interrupted."""

    def __init__(self, spec: PolicySpec, scenario: Scenario, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(spec, scenario)
        self.latencies: list[float] = []
        self._clock = clock
        self._view: TurnView | None = None
        self._asked_at: float | None = None  # of a question that the game knows nothing of
        self._number = -1

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None:
        self._view, self._asked_at = view, None
        super().ask(number, view, uniform)

    def keep_busy(self) -> None:
        """Takes in the answer to a question of its own, and asks the next one, while the game has none open."""
        if self._question is not None or self._view is None:
            return
        if self._asked_at is not None:
            if self._brain.poll() is None:
                return
            self.latencies.append(self._clock() - self._asked_at)
        self._number -= 1
        self._brain.ask(self._number, self._view.observation, self._view.legal, uniform=0.5)
        self._asked_at = self._clock()


def shipped_brains() -> list[str]:
    """The models that an adapter ships for, each with it, as policies."""
    home = resources.files("assets") / "adapters"
    return sorted(f"{model.name}:{SCENARIO}" for model in home.iterdir() if (model / SCENARIO).is_dir())


def measure(policy: str, frames: int, size: tuple[int, int]) -> dict[str, Any]:
    """Plays so many frames. Raises one of USER_ERRORS for a brain that can't be had, before any frame."""
    scenario = scenarios.get(SCENARIO)
    spec = parse_policy(policy)
    if spec.kind != "model":
        raise BadUse(f"--brain {policy}: is no model, so there is nothing to wait for; give a model")
    make_player(spec, scenario).close()  # says what is missing
    prepare_pygame(dummy=True)
    from game.view.play_show import PlayShow
    from game.view.window import Window

    player = BusyPlayer(spec, scenario)
    roster = Roster(scenario)
    roster.add(policy, player)
    try:
        session = Session(scenario, {}, player, policy, deadline_s=PATIENCE_S)
        stage = Stage(session)
        stage.speed = SPEED
        session.start(0)
        window = Window(PlayShow(session, stage, roster, size), size=size)
        try:
            seconds, waited = run(window, player, frames)
        finally:
            window.close()
    finally:
        roster.close()
    wall, cpu = [one for one, _ in seconds], [one for _, one in seconds]
    return {
        "brain": policy, "model": player.identity.model, "size": list(size), "frames": len(seconds),
        "frame_ms_p50": percentile_ms(wall, 50), "frame_ms_p99": percentile_ms(wall, 99),
        "frame_ms_max": 1000 * max(wall), "frames_over_goal": sum(1000 * one > GOAL_MS for one in wall),
        "frame_cpu_ms_p50": percentile_ms(cpu, 50), "frame_cpu_ms_p99": percentile_ms(cpu, 99),
        "warm_s": waited, "turns": session.turns_played, "decisions": len(player.latencies),
        "decision_ms_p50": percentile_ms(player.latencies, 50), "decision_ms_p95": percentile_ms(player.latencies, 95),
    }  # fmt: skip


def run(window: Window, player: BusyPlayer, frames: int) -> tuple[list[tuple[float, float]], float]:
    """The work of each frame once the brain is awake, as `paced` gives it, and how many seconds it took to wake up."""
    began = time.perf_counter()
    while player.waking:
        paced(window, player)
    waited = time.perf_counter() - began
    return [paced(window, player) for _ in range(frames)], waited


def paced(window: Window, player: BusyPlayer) -> tuple[float, float]:
    """One frame and the wait for the next; the seconds of its work, by the clock and of the processor."""
    began, cpu_began = time.perf_counter(), time.thread_time()
    window.frame(1 / FRAMES_PER_S)
    took = time.perf_counter() - began, time.thread_time() - cpu_began
    left = 1.0
    while left > 0:
        player.keep_busy()
        left = began + 1 / FRAMES_PER_S - time.perf_counter()
        player.wait(max(left, 0.0))
        window.show.wait(0)  # the answer to a question of the game is taken in the moment it comes
    return took


def row(found: dict[str, Any]) -> str:
    values = (
        found["brain"], found["frames"], f"{found['frame_ms_p50']:.2f}", f"{found['frame_ms_p99']:.2f}",
        f"{found['frame_ms_max']:.1f}", found["frames_over_goal"], f"{found['frame_cpu_ms_p99']:.2f}",
        found["decisions"], f"{found['decision_ms_p50']:.1f}", f"{found['decision_ms_p95']:.1f}",
    )  # fmt: skip
    return line(tuple(map(str, values)))


def line(words: Sequence[str]) -> str:
    cells = zip(words, WIDTHS, strict=True)
    return "".join(word.ljust(width) if at == 0 else word.rjust(width) for at, (word, width) in enumerate(cells))


def arguments() -> Parser:
    parser = Parser(prog="python -m benchmarks.game", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument(
        "--brain", metavar="POLICY", action="append",
        help="a model to measure; may be given several times (default: every shipped one that is here)",
    )  # fmt: skip
    parser.add_argument("--frames", metavar="N", type=int, default=FRAMES, help="default: %(default)s")
    parser.add_argument("--scale", type=int, choices=(1, 2), default=1, help="size of the window; default: 1, 1320x686")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Measures, and prints a table. Returns the exit code."""
    given = arguments().parse_args(words)
    found = []
    print(f"frames: goal is p99 under {GOAL_MS:.1f} ms, speed x{SPEED}, the brain thinking all the time")
    busy, cores = os.getloadavg()[0], os.cpu_count() or 1
    if busy > cores / 2:
        print(f"the machine is busy (load {busy:.1f} on {cores} cores): only cpu p99 says much")
    print(line(COLUMNS), flush=True)
    for policy in given.brain or shipped_brains():
        try:
            if given.frames < 1:
                raise BadUse(f"--frames {given.frames}: give a number from 1")
            found.append(measure(policy, given.frames, (1320 * given.scale, 686 * given.scale)))
        except USER_ERRORS as error:
            if given.brain:
                return fail("benchmarks.game", error)
            print(f"{policy} is left out: {error}", file=sys.stderr)
            continue
        print(row(found[-1]), flush=True)
    if not found:
        return fail("benchmarks.game", BadUse("no model is here to be measured"))
    if given.json:
        print(json.dumps({**found[0], "brains": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
