"""What moves of itself and means nothing: sails, water, smoke, ducks, a cat. A function of the picture's own clock."""

from __future__ import annotations

import math
from zlib import crc32

import pygame

from game.sim.village_map import VillageMap
from game.view.sprites import Sprites
from game.view.stage import Moment
from game.view.tiles import TileMap

SAIL_STEPS_PER_S = 5.0
RIPPLE_S = 2.4
SMOKE_S = 3.2
PUFFS = 3
CHIMNEYS = {"inn": (66, 2, "Mara"), "bakery": (51, 3, "Nell"), "forge": (12, 1, "")}  # pixels in the building, keeper
DUCK_POND = (336, 290, 34, 10)  # the middle of their round, and how wide and high it is
CAT_WALK = ((138, 230), (138, 262), (146, 274), (238, 274), (238, 262), (146, 262))  # corners of its round
CAT_SPEED, CAT_REST_S = 14.0, 4.0


class Scenery:
    """Draws under and over the people; the same time gives the same picture."""

    def __init__(self, village: VillageMap, tiles: TileMap, sprites: Sprites) -> None:
        self._village = village
        self._sprites = sprites
        areas = tiles.areas()
        self._mill = areas.get("mill")
        self._chimneys = [
            ((areas[name].x + x, areas[name].y + y), name, keeper)
            for name, (x, y, keeper) in CHIMNEYS.items()
            if name in areas
        ]
        self._water = [tiles.tile_rect(x, y, 1) for x, y in tiles.where("water")]
        self._bakery = areas.get("bakery")

    def draw_under(self, surface: pygame.Surface, moment: Moment) -> None:
        """Water, ducks, the cat, the sails and the shut bakery."""
        for at, tile in enumerate(self._water):
            phase = moment.time_s / RIPPLE_S + at * 0.37
            step = int(phase * 4) % 4
            spread = crc32(f"ripple {at} {int(phase)}".encode())
            if spread % 3 == 0:
                corner = (tile.x + spread // 3 % 8, tile.y + 2 + spread // 24 % 10)
                surface.blit(self._sprites.life(("ripple 1", "ripple 2", "ripple 3", "ripple 2")[step]), corner)
        self._draw_ducks(surface, moment.time_s)
        if self._mill is not None:
            surface.blit(self._sprites.sails(int(moment.time_s * SAIL_STEPS_PER_S)), self._mill.topleft)
        nell = moment.before.figure("Nell")
        if self._bakery is not None and nell is not None and nell.dest != "bakery":
            surface.blit(self._sprites.life("closed"), (self._bakery.x + 15, self._bakery.y + 33))
        self._draw_cat(surface, moment.time_s)

    def draw_over(self, surface: pygame.Surface, moment: Moment, spots: dict[str, pygame.Rect]) -> None:
        """Smoke, and a rod in the fisher's hands."""
        for (x, y), name, keeper in self._chimneys:
            who = moment.before.figure(keeper)
            if who is not None and who.dest != name:
                continue
            for puff in range(PUFFS):
                age = (moment.time_s / SMOKE_S + puff / PUFFS + x * 0.13) % 1.0
                picture = self._sprites.life(("smoke 1", "smoke 2", "smoke 3")[int(age * 3)])
                picture.set_alpha(round(150 * (1 - age)))
                drift = 5 * age + 2 * math.sin(age * 6 + x)
                surface.blit(picture, picture.get_rect(center=(round(x + drift), round(y - 20 * age))))
        tom = moment.before.figure("Tom")
        dock = self._village.place("dock")
        later = moment.after.figure("Tom")
        if tom is not None and (tom.x, tom.y) == (dock.x, dock.y) and later is not None and later.dest == "dock":
            bob = round(math.sin(moment.time_s * 1.7))
            surface.blit(self._sprites.life("rod"), (spots["Tom"].x - 11, spots["Tom"].y - 2 + bob))

    def _draw_ducks(self, surface: pygame.Surface, time_s: float) -> None:
        x, y, wide, high = DUCK_POND
        for duck in range(3):
            turn = time_s * 0.22 - duck * 0.42
            goes_west = math.sin(turn) > 0
            picture = self._sprites.life("duck 1" if (int(time_s * 2) + duck) % 2 else "duck 2", mirrored=goes_west)
            surface.blit(picture, (round(x + wide * math.cos(turn)), round(y + high * math.sin(2 * turn) / 2)))

    def _draw_cat(self, surface: pygame.Surface, time_s: float) -> None:
        x, y, walks, west = cat_at(time_s)
        name = ("cat walk 1", "cat walk 2")[int(time_s * 6) % 2] if walks else ("cat sit 1", "cat sit 2")[
            int(time_s * 1.5) % 2
        ]
        surface.blit(self._sprites.life(name, mirrored=west), (x, y))


def cat_at(time_s: float) -> tuple[int, int, bool, bool]:
    """Where the cat is, whether it walks (it rests at every corner), and whether it looks west."""
    legs = list(zip(CAT_WALK, (*CAT_WALK[1:], CAT_WALK[0]), strict=True))
    times = [math.dist(start, end) / CAT_SPEED for start, end in legs]
    time_s %= sum(times) + CAT_REST_S * len(legs)
    for (start, end), walk_s in zip(legs, times, strict=True):
        west = end[0] < start[0]
        if time_s < CAT_REST_S:
            return start[0], start[1], False, west
        time_s -= CAT_REST_S
        if time_s < walk_s:
            part = time_s / walk_s
            x, y = (round(a + (b - a) * part) for a, b in zip(start, end, strict=True))
            return x, y, True, west
        time_s -= walk_s
    return CAT_WALK[0][0], CAT_WALK[0][1], False, False
