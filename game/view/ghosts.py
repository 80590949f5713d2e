"""The ways that the errand-runner may take, as tiles, out of a turn's record. No pygame."""

from __future__ import annotations

from typing import NamedTuple

from game.sim.village_map import VillageMap
from game.view.snapshot import Figure
from recorder import Turn

FAINTEST = 0.08  # likelihood from which a way is shown
GO = "go to the "


class Ghost(NamedTuple):
    """A way from the errand-runner's tile to a place; `strength` is its probability, 0 … 1."""

    tiles: tuple[tuple[int, int], ...]
    strength: float
    chosen: bool


def ghosts_of(village: VillageMap, runner: Figure, turn: Turn, decided: bool, pointed: str = "") -> tuple[Ghost, ...]:
    """The ways of the legal "go to" phrases that are likely enough, and of the one that is done or pointed at."""
    probs = turn.prob_values.tolist() if decided else []
    chosen = turn.executed if decided else pointed
    found = []
    for at, phrase in enumerate(turn.legal):
        strength = probs[at] if probs else 0.0
        if phrase.startswith(GO) and (strength >= FAINTEST or phrase == chosen):
            way = way_to(village, (runner.x, runner.y), phrase.removeprefix(GO))
            found.append(Ghost(way, strength, phrase == chosen))
    return tuple(found)


def way_to(village: VillageMap, start: tuple[int, int], place: str) -> tuple[tuple[int, int], ...]:
    """The tiles of the way that an intent takes, both ends included."""
    tiles = [start]
    while (following := village.step_towards(*tiles[-1], place)) != tiles[-1]:
        tiles.append(following)
    return tuple(tiles)
