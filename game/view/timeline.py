"""The strip under a replay: one cell a turn, what it earned or cost, where it went wrong, and the place shown."""

from __future__ import annotations

import pygame

from game.view.rerun import Rerun
from game.view.text import DARK, GOLD, GREEN, INK, RED

CELL = (50, 55, 74)
SHOWN = (82, 92, 124)
SIDE = 18  # pixels left free on either side, at scale 1


class Timeline:
    """Draws a replay's timeline into a rectangle, and reads places from it."""

    def __init__(self) -> None:
        self._drawn: tuple[Rerun, tuple[int, int], pygame.Surface, pygame.Surface] | None = None

    def draw(self, surface: pygame.Surface, room: pygame.Rect, rerun: Rerun, place: float) -> None:
        """Into `room` of the surface; `place` is from 0 to the number of turns."""
        before, after = self._layers(rerun, room.size)
        track = track_of(room)
        x = track.left + round(track.width * place / len(rerun.turns))
        surface.blit(after, room)
        surface.blit(before, room, pygame.Rect(0, 0, x - room.left, room.height))
        unit = max(room.height // 13, 1)
        pygame.draw.rect(surface, GOLD, (x - unit // 2, room.top + unit, unit + 1, room.height - 2 * unit))
        knob = [(x - 3 * unit, room.top), (x + 3 * unit, room.top), (x, room.top + 4 * unit)]
        pygame.draw.polygon(surface, GOLD, knob)

    def _layers(self, rerun: Rerun, size: tuple[int, int]) -> tuple[pygame.Surface, pygame.Surface]:
        if self._drawn is None or self._drawn[0] is not rerun or self._drawn[1] != size:
            self._drawn = (rerun, size, _cells(rerun, size, SHOWN), _cells(rerun, size, CELL))
        return self._drawn[2:]


def place_at(room: pygame.Rect, x: int, turns: int) -> float:
    """The place, from 0 to `turns`, that the window's column x shows."""
    track = track_of(room)
    return min(max((x - track.left) / max(track.width, 1), 0.0), 1.0) * turns


def track_of(room: pygame.Rect) -> pygame.Rect:
    """The part of the strip that the turns take."""
    side = SIDE * room.height // 26
    unit = max(room.height // 13, 1)
    return pygame.Rect(room.left + side, room.top + 2 * unit, max(room.width - 2 * side, 1), room.height - 4 * unit)


def _cells(rerun: Rerun, size: tuple[int, int], colour: tuple[int, int, int]) -> pygame.Surface:
    surface = pygame.Surface(size)
    surface.fill(DARK)
    track = track_of(pygame.Rect((0, 0), size))
    count, unit = len(rerun.turns), max(size[1] // 13, 1)
    gap = unit if track.width // count > 4 * unit else 0
    most = max((abs(turn.reward) for turn in rerun.turns), default=0.0) or 1.0
    for at, turn in enumerate(rerun.turns):
        left = track.left + track.width * at // count
        right = track.left + track.width * (at + 1) // count - gap
        cell = pygame.Rect(left, track.top, max(right - left, 1), track.height)
        pygame.draw.rect(surface, colour, cell)
        middle, half = cell.centery, cell.height / 2
        pygame.draw.line(surface, DARK, (cell.left, middle), (cell.right - 1, middle))
        bar = max(round(half * abs(turn.reward) / most), 1) if turn.reward else 0
        inner = cell.inflate(-min(cell.width // 2, 6 * unit), 0)
        if turn.reward > 0:
            pygame.draw.rect(surface, GREEN, (inner.left, middle - bar, inner.width, bar))
        elif turn.reward < 0:
            pygame.draw.rect(surface, RED, (inner.left, middle + 1, inner.width, bar))
        if rerun.failed(at):
            wide = min(4 * unit, max(cell.width // 2, 1))
            corner = [(cell.left, cell.top), (cell.left + 2 * wide, cell.top), (cell.left, cell.top + 5 * unit)]
            pygame.draw.polygon(surface, RED, corner)
    if rerun.ended is not None:
        pole = track.right + unit
        pygame.draw.rect(surface, INK, (pole, track.top, max(unit // 2, 1), track.height))
        flag = GREEN if rerun.ended == "success" else RED
        pygame.draw.rect(surface, flag, (pole + 1, track.top, 5 * unit, 4 * unit))
    return surface
