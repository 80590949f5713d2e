"""What a picture of the village needs of one tick. No pygame, and nothing here can change the world."""

from __future__ import annotations

from typing import Any, NamedTuple

from game.sim.cast import RUNNER
from game.sim.world import World


class Figure(NamedTuple):
    """Somebody at tile (x, y); `carries` is an item or "". The errand-runner is called "runner".

    `dest` is the place where a character stands or walks to; "" for the errand-runner.
    """

    name: str
    x: int
    y: int
    carries: str
    dest: str = ""


class Snapshot(NamedTuple):
    """One tick: the runner first, then everybody in the order of the cast; (item, place) for what lies about."""

    figures: tuple[Figure, ...]
    lying: tuple[tuple[str, str], ...]
    asker: str
    wanted: str
    tick: int = 0

    def figure(self, name: str) -> Figure | None:
        """Somebody by name, or None for one who is not in this village."""
        return next((figure for figure in self.figures if figure.name == name), None)


def snapshot(state: Any) -> Snapshot | None:
    """The picture's view of a state, or None for the state of a scenario that is not played in the village."""
    if not isinstance(state, World):
        return None
    s = state.state
    runner = Figure(RUNNER, s.runner.x, s.runner.y, s.runner.hold)
    people = (Figure(p.name, p.x, p.y, p.carries, p.dest) for p in s.people)
    return Snapshot((runner, *people), tuple(s.lying.items()), s.errand.asker, s.errand.item, s.tick)
