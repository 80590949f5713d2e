"""The village's picture at the sprites' own size: ground, what lies about, people on their way, the light.

It is drawn small and blown up by a whole number, so that every pixel stays a square; words are laid over it at the
window's own resolution (`game.view.words`).
"""

from __future__ import annotations

import math

import pygame

from game.sim.cast import RUNNER
from game.sim.village_map import VillageMap
from game.view.daylight import lamps, minute_of, sky
from game.view.ghosts import Ghost
from game.view.lights import Lights
from game.view.scenery import Scenery
from game.view.snapshot import Figure
from game.view.sprites import STANDING, STEP_TO, Sprites, walking_step
from game.view.stage import Moment
from game.view.text import GOLD
from game.view.tiles import TileMap

APART = 20  # source pixels between people who share a tile
BEHIND = 13  # and between the rows that they stand in
IN_A_ROW = 3
SLIDE = 9.0  # how fast people make room for each other, a second
ITEM_APART = 14
GHOST = (236, 240, 255)

Point = tuple[float, float]


class Scene:
    """Draws one moment after the other. It remembers where people look and stand aside, which is picture only."""

    def __init__(self, village: VillageMap, tiles: TileMap) -> None:
        """`size` is that of the drawing, in source pixels."""
        self.size = tiles.size(1)
        self.village = village
        self.areas = tiles.areas()  # of the buildings, in source pixels
        self._tiles = tiles
        self._ground = tiles.draw(1)
        self._sprites = Sprites(1)
        self._half: dict[str, pygame.Surface] = {}
        self._lights = Lights(self._ground, tiles)
        self._scenery = Scenery(village, tiles, self._sprites)
        self._looks: dict[str, str] = {}
        self._aside: dict[str, Point] = {}
        self._time_s = 0.0
        self._surface = pygame.Surface(self.size)
        self.spots: dict[str, pygame.Rect] = {}  # where each one's tile is drawn, after `draw`
        self.items: list[tuple[str, str, pygame.Rect]] = []  # (item, place, where it is drawn), after `draw`

    def draw(self, surface: pygame.Surface, where: pygame.Rect, moment: Moment, ghosts: tuple[Ghost, ...] = ()) -> None:
        """The whole village, blown up to fill `where`, which should have the shape of `size`."""
        small = self._draw_small(moment, ghosts)
        target = surface.subsurface(where)
        width = where.width
        if width % self.size[0] == 0:
            pygame.transform.scale(small, where.size, target)
        else:
            factor = max(-(-width // self.size[0]), 1)
            pygame.transform.smoothscale(pygame.transform.scale_by(small, factor), where.size, target)

    def tile_rect(self, x: int, y: int) -> pygame.Rect:
        """The source pixels of a tile."""
        return self._tiles.tile_rect(x, y, 1)

    def _draw_small(self, moment: Moment, ghosts: tuple[Ghost, ...]) -> pygame.Surface:
        surface = self._surface
        surface.blit(self._ground, (0, 0))
        minute = minute_of(moment.before.tick + moment.part * (moment.after.tick - moment.before.tick))
        lit = lamps(minute)
        self.spots = self._spots(moment)
        self._scenery.draw_under(surface, moment)
        self._draw_ghosts(surface, ghosts)
        self._draw_items(surface, moment)
        order = sorted(moment.before.figures, key=lambda figure: (self.spots[figure.name].y, figure.name == RUNNER))
        for figure in order:
            self._draw_person(surface, figure, self.spots[figure.name], moment)
        self._scenery.draw_over(surface, moment, self.spots)
        self._lights.draw(surface, sky(minute), lit, moment, self.spots, self.items)
        self._draw_marks(surface, moment)
        return surface

    def _draw_ghosts(self, surface: pygame.Surface, ghosts: tuple[Ghost, ...]) -> None:
        """Dots along the ways that may be taken: the likelier, the clearer; the chosen one in gold."""
        for ghost in sorted(ghosts, key=lambda ghost: (ghost.chosen, ghost.strength)):
            dot = pygame.Surface((4, 4), pygame.SRCALPHA)
            strength = 235 if ghost.chosen else 60 + round(150 * ghost.strength)
            pygame.draw.rect(dot, (*(GOLD if ghost.chosen else GHOST), strength), (0, 0, 4, 4), border_radius=1)
            for (x, y), (next_x, next_y) in zip(ghost.tiles, ghost.tiles[1:], strict=False):
                here = self.tile_rect(x, y)
                for step in (0.0, 0.5):
                    if (x, y) == ghost.tiles[0] and step == 0.0:
                        continue
                    surface.blit(dot, (here.centerx - 2 + round((next_x - x) * step * here.width),
                                       here.centery + round((next_y - y) * step * here.height)))  # fmt: skip
            if ghost.chosen and ghost.tiles:
                goal = self.tile_rect(*ghost.tiles[-1])
                pygame.draw.rect(surface, dot.get_at((1, 1)), goal.inflate(-2, -2), 1, border_radius=4)

    def _draw_items(self, surface: pygame.Surface, moment: Moment) -> None:
        shown = moment.before if moment.part < 1 else moment.after
        self.items = []
        for place in self.village.places:
            here = [item for item, where in shown.lying if where == place.name]
            tile = self.tile_rect(place.x, place.y)
            x = tile.centerx - ITEM_APART * len(here) // 2 - 1
            for item in here:
                corner = (x, tile.bottom + 8)
                if item == shown.wanted:
                    glow = pygame.Surface((18, 18), pygame.SRCALPHA)
                    strength = 90 + int(40 * math.sin(moment.time_s * 4))
                    pygame.draw.circle(glow, (*GOLD, strength), (9, 9), 8)
                    surface.blit(glow, (corner[0] - 1, corner[1] - 1))
                drawn = surface.blit(self._sprites.item(item), corner)
                self.items.append((item, place.name, drawn))
                x += ITEM_APART

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
            tile = self.tile_rect(figure.x, figure.y)
            step = after[figure.name].x - figure.x, after[figure.name].y - figure.y
            self._looks[figure.name] = STEP_TO.get(step, self._looks.get(figure.name, "south"))
            spots[figure.name] = tile.move(
                round(step[0] * moment.part * tile.width + now[0]), round(step[1] * moment.part * tile.height + now[1])
            )
        return spots

    def _draw_person(self, surface: pygame.Surface, figure: Figure, spot: pygame.Rect, moment: Moment) -> None:
        later = moment.after.figure(figure.name) or figure
        walks = (later.x, later.y) != (figure.x, figure.y)
        step = walking_step(2 * moment.tick + int(2 * moment.part)) if walks else STANDING
        x, y = self._sprites.person_corner(spot)
        if not walks and math.sin(moment.time_s * 2.2 + sum(map(ord, figure.name)) % 7) > 0.6:
            y -= 1  # breathing
        if moment.mark == "heart" and figure.name in (RUNNER, moment.after.asker):
            y -= round(3 * abs(math.sin(moment.time_s * 7)))  # jumping for joy
        shadow = pygame.Surface((11, 4), pygame.SRCALPHA)
        pygame.draw.ellipse(shadow, (0, 0, 0, 90), shadow.get_rect())
        surface.blit(shadow, shadow.get_rect(center=(spot.centerx, spot.bottom - 2)))
        looks = self._looks.get(figure.name, "south") if walks else "south"
        surface.blit(self._sprites.person(figure.name.lower(), looks, step), (x, y))
        if figure.carries:
            surface.blit(self._carried(figure.carries), (x + 9, y + 10))

    def _carried(self, item: str) -> pygame.Surface:
        """An item in somebody's hands, at half its size."""
        if item not in self._half:
            self._half[item] = pygame.transform.smoothscale(self._sprites.item(item), (9, 9))
        return self._half[item]

    def _draw_marks(self, surface: pygame.Surface, moment: Moment) -> None:
        """Marks over heads, not dimmed by the night."""
        bob = round(math.sin(moment.time_s * 5))
        x, y = self._sprites.mark_corner(self.spots[RUNNER])
        if moment.thinking:
            surface.blit(self._sprites.thinking(int(moment.time_s * 3)), (x, y - 6))
        elif moment.mark:
            surface.blit(self._sprites.mark(moment.mark), (x + 13, y + 12 + bob))  # beside: what is said is above
        asker = moment.before.asker
        busy = {remark.who for remark in (*moment.remarks, *([moment.speech] if moment.speech else []))}
        if asker in self.spots and asker not in busy:
            x, y = self._sprites.mark_corner(self.spots[asker])
            surface.blit(self._sprites.mark("goal"), (x, y - 5 + bob))


def _room(names: list[str]) -> dict[str, Point]:
    """Offsets from a tile for people who share it: rows of three, the first row in front."""
    offsets = {}
    for at, name in enumerate(names):
        row = at // IN_A_ROW
        in_this_row = min(len(names) - row * IN_A_ROW, IN_A_ROW)
        x = (at % IN_A_ROW - (in_this_row - 1) / 2) * APART
        offsets[name] = (x, float(-BEHIND * row))
    return offsets
