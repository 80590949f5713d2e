"""Frame time and decision latency of the game: `python -m benchmarks.game [--brain POLICY ...] [--json]`.

The window runs as in play, under SDL's dummy driver, at 60 frames a second and speed x16, with the brain in its own
process. Whenever the game has no question for it, the brain is asked one more of the same kind, so that it thinks all
the time, on the same cores as the picture. A frame's time is its work (events, turn loop, drawing), without the wait
for the next one. A decision's latency runs from the question until the frame loop has the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from game.view.players import ModelPlayer
from rl.policies import PolicySpec, TurnView
from scenarios.contract import Scenario

BRAINS = ("nano:fetch_item",)
FRAMES = 2000
GOAL_MS = 1000 / 60
SPEED = 16
COLUMNS = ("brain", "frames", "p50 ms", "p99 ms", "longest", f"over {GOAL_MS:.1f}", "decisions", "p50 ms", "p95 ms")
WIDTHS = (28, 7, 8, 8, 8, 10, 10, 8, 8)


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
