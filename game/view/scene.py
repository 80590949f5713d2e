"""The village's picture: ground, places, what lies about, people on their way, who thinks and who speaks."""

from __future__ import annotations

import math

import pygame

from game.sim.cast import RUNNER
from game.sim.village_map import VillageMap
from game.view.snapshot import Figure
from game.view.sprites import STANDING, STEP_TO, Sprites, walking_step
from game.view.stage import Moment
from game.view.text import DARK, DIM, GOLD, GREEN, INK, Fonts, outlined, plate, wrap
from game.view.tiles import TileMap

SCALE = 2
APART = 40  # pixels between people who share a tile
BEHIND = 26  # and between the rows that they stand in
IN_A_ROW = 3
SLIDE = 9.0  # how fast people make room for each other, a second
PAPER = (246, 241, 226)
BUBBLE_WIDTH = 190

Point = tuple[float, float]


class Scene:
    """Draws one moment after the other. It remembers where people look and stand aside, which is picture only."""

    def __init__(self, village: VillageMap, tiles: TileMap, fonts: Fonts) -> None:
        self.size = tiles.size(SCALE)
        self._village = village
        self._tiles = tiles
        self._fonts = fonts
        self._ground = tiles.draw(SCALE)
        self._sprites = Sprites(SCALE)
        self._small = Sprites(1)
        self._looks: dict[str, str] = {}
        self._aside: dict[str, Point] = {}
        self._time_s = 0.0
        self._names: dict[tuple[str, tuple[int, int, int]], pygame.Surface] = {}
        for place in village.places:
            tile = tiles.tile_rect(place.x, place.y, SCALE)
            sign = plate([fonts.small.render(place.name, True, INK)], (52, 44, 40), DARK)
            self._ground.blit(sign, sign.get_rect(midtop=(tile.centerx, tile.bottom + 1)))

    def draw(self, surface: pygame.Surface, moment: Moment) -> None:
        """The whole village at the surface's upper left corner."""
        surface.blit(self._ground, (0, 0))
        self._draw_items(surface, moment)
        spots = self._spots(moment)
        figures = sorted(moment.before.figures, key=lambda figure: (spots[figure.name].y, figure.name == RUNNER))
        for figure in figures:
            self._draw_person(surface, figure, spots[figure.name], moment)
        for figure in figures:
            self._draw_name(surface, figure.name, spots[figure.name], moment)
        self._draw_marks(surface, spots, moment)
        if moment.speech is not None:
            who, words = moment.speech
            self._draw_speech(surface, spots[who], words)

    def _draw_items(self, surface: pygame.Surface, moment: Moment) -> None:
        shown = moment.before if moment.part < 1 else moment.after
        for place in self._village.places:
            here = [item for item, where in shown.lying if where == place.name]
            tile = self._tiles.tile_rect(place.x, place.y, SCALE)
            x = tile.centerx - 14 * len(here) - 2
            for item in here:
                corner = (x, tile.bottom + 14)
                if item == shown.wanted:
                    glow = pygame.Surface((34, 34), pygame.SRCALPHA)
                    strength = 90 + int(40 * math.sin(moment.time_s * 4))
                    pygame.draw.circle(glow, (*GOLD, strength), (17, 17), 16)
                    surface.blit(glow, (corner[0] - 1, corner[1] - 1))
                surface.blit(self._sprites.item(item), corner)
                x += 28

    def _spots(self, moment: Moment) -> dict[str, pygame.Rect]:
        """Where each one's tile is on the picture now, on the way and standing aside included."""
        passed = min(max(moment.time_s - self._time_s, 0.0), 1.0)
        self._time_s = moment.time_s
        where = {figure.name: figure for figure in (moment.after if moment.part >= 0.5 else moment.before).figures}
        groups: dict[tuple[int, int], list[str]] = {}
        for figure in where.values():
            groups.setdefault((figure.x, figure.y), []).append(figure.name)
        goals = {name: offset for names in groups.values() for name, offset in _room(names).items()}
        after = {figure.name: figure for figure in moment.after.figures}
        spots = {}
        for figure in moment.before.figures:
            goal = goals[figure.name]
            now = self._aside.get(figure.name, goal)
            share = min(1.0, passed * SLIDE)
            now = (now[0] + (goal[0] - now[0]) * share, now[1] + (goal[1] - now[1]) * share)
            self._aside[figure.name] = now
            tile = self._tiles.tile_rect(figure.x, figure.y, SCALE)
            step = after[figure.name].x - figure.x, after[figure.name].y - figure.y
            self._looks[figure.name] = STEP_TO.get(step, self._looks.get(figure.name, "south"))
            spots[figure.name] = tile.move(
                round(step[0] * moment.part * tile.width + now[0]), round(step[1] * moment.part * tile.height + now[1])
            )
        return spots

    def _draw_person(self, surface: pygame.Surface, figure: Figure, spot: pygame.Rect, moment: Moment) -> None:
        later = next(other for other in moment.after.figures if other.name == figure.name)
        walks = (later.x, later.y) != (figure.x, figure.y)
        step = walking_step(2 * moment.tick + int(2 * moment.part)) if walks else STANDING
        x, y = self._sprites.person_corner(spot)
        if not walks and math.sin(moment.time_s * 2.2 + _phase(figure.name)) > 0.4:
            y -= 1  # breathing
        shadow = pygame.Surface((22, 8), pygame.SRCALPHA)
        pygame.draw.ellipse(shadow, (0, 0, 0, 90), shadow.get_rect())
        surface.blit(shadow, shadow.get_rect(center=(spot.centerx, spot.bottom - 4)))
        looks = self._looks.get(figure.name, "south") if walks else "south"
        surface.blit(self._sprites.person(figure.name.lower(), looks, step), (x, y))
        if figure.carries:
            surface.blit(self._small.item(figure.carries), (x + 19, y + 21))

    def _draw_name(self, surface: pygame.Surface, name: str, spot: pygame.Rect, moment: Moment) -> None:
        colour = GOLD if name == RUNNER else GREEN if name == moment.before.asker else INK
        if (name, colour) not in self._names:
            self._names[name, colour] = outlined(self._fonts.small, name, colour)
        label = self._names[name, colour]
        surface.blit(label, label.get_rect(midbottom=(spot.centerx, spot.bottom - 42)))

    def _draw_marks(self, surface: pygame.Surface, spots: dict[str, pygame.Rect], moment: Moment) -> None:
        """Marks stand above the names."""
        bob = round(2 * math.sin(moment.time_s * 5))
        runner = spots[RUNNER]
        x, y = self._sprites.mark_corner(runner)
        if moment.thinking:
            surface.blit(self._sprites.thinking(int(moment.time_s * 3)), (x, y - 12))
        elif moment.mark:
            surface.blit(self._sprites.mark(moment.mark), (x + 27, y + 30 + bob))  # beside: what is said is above
        if moment.before.asker in spots and (moment.speech is None or moment.speech[0] != moment.before.asker):
            x, y = self._sprites.mark_corner(spots[moment.before.asker])
            surface.blit(self._sprites.mark("goal"), (x, y - 10 + bob))

    def _draw_speech(self, surface: pygame.Surface, spot: pygame.Rect, words: str) -> None:
        font = self._fonts.normal
        lines = [font.render(line, True, DARK) for line in wrap(font, words, BUBBLE_WIDTH, 3)]
        bubble = plate(lines, PAPER, DIM, pad=6)
        where = bubble.get_rect(midbottom=(spot.centerx, spot.bottom - 66))
        where.clamp_ip(pygame.Rect(4, 4, self.size[0] - 8, self.size[1] - 8))
        tip = (spot.centerx, min(where.bottom + 7, spot.bottom - 58))
        if tip[1] > where.bottom:
            pygame.draw.polygon(surface, PAPER, [(tip[0] - 5, where.bottom - 2), (tip[0] + 5, where.bottom - 2), tip])
        surface.blit(bubble, where)


def _room(names: list[str]) -> dict[str, Point]:
    """Offsets from a tile for people who share it: rows of three, the first row in front."""
    offsets = {}
    for at, name in enumerate(names):
        row = at // IN_A_ROW
        in_this_row = min(len(names) - row * IN_A_ROW, IN_A_ROW)
        x = (at % IN_A_ROW - (in_this_row - 1) / 2) * APART
        offsets[name] = (x, float(-BEHIND * row))
    return offsets


def _phase(name: str) -> float:
    return sum(map(ord, name)) % 7
