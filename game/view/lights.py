"""Daylight, lamps and lit windows: the village is multiplied by a picture of its light, then what glows is laid on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pygame

from assets.pixels import rgba
from game.sim.cast import RUNNER
from game.view.daylight import Light
from game.view.stage import Moment
from game.view.tiles import TileMap

GLOWING = ("lit", "lit dark", "ember")  # colours of the palette that give light of their own
PANE = (74, 84, 112)  # a window that nobody has lit
WARM = (255, 190, 110)
KEEPERS = {"inn": ("Mara", "inn"), "bakery": ("Nell", "bakery")}  # windows that are dark while the keeper is away
CARRIED = ("lantern", "candle")
LAMP_REACH, WINDOW_REACH, HAND_REACH, CANDLE_REACH = 46, 34, 40, 26  # source pixels


class _Panes(NamedTuple):
    """The windows of one building: lit and unlit, as big as the building's area, and where their light comes from."""

    area: pygame.Rect
    bright: pygame.Surface
    dark: pygame.Surface
    centres: list[tuple[int, int]]


class Lights:
    """The light of one village, found in the drawing of its ground."""

    def __init__(self, ground: pygame.Surface, tiles: TileMap) -> None:
        """`ground` is the village at scale 1."""
        self._map = pygame.Surface(ground.get_size())
        self._glows: dict[tuple[int, int], pygame.Surface] = {}
        mask = _glowing(ground)
        self._panes: dict[str, _Panes] = {}
        for name, area in tiles.areas().items():
            part = np.zeros_like(mask)
            columns, rows = slice(area.left, area.right), slice(area.top, area.bottom)
            part[columns, rows] = mask[columns, rows]
            mask[columns, rows] = False
            if part.any():
                part_of_ground, part_of_mask = ground.subsurface(area), part[columns, rows]
                self._panes[name] = _Panes(
                    area, _cut(part_of_ground, part_of_mask), _filled(part_of_mask, PANE), _clusters(part)
                )
        self._lamps = [tiles.tile_rect(x, y, 1) for x, y in tiles.where("lamp")]
        self._rest = _cut(ground, mask)

    def draw(
        self,
        surface: pygame.Surface,
        sky: Light,
        lit: float,
        moment: Moment,
        spots: Mapping[str, pygame.Rect],
        items: Iterable[tuple[str, str, pygame.Rect]],
    ) -> None:
        """Dims the drawing by the sky and lights it by lamps, `lit` of them (0 … 1)."""
        light = self._map
        light.fill(sky)
        level = round(lit * 8)
        on = {name: self._is_on(name, moment) for name in self._panes}
        if level:
            for tile in self._lamps:
                self._glow(light, (tile.centerx, tile.y + 5), LAMP_REACH, level)
            for name, panes in self._panes.items():
                if on[name]:
                    for centre in panes.centres:
                        self._glow(light, centre, WINDOW_REACH, level)
            for name, spot in spots.items():
                figure = moment.before.figure(name)
                if figure is not None and (figure.carries in CARRIED or name == "Bram"):
                    flicker = round(math.sin(moment.time_s * 11 + spot.x) * 0.6)
                    self._glow(light, (spot.centerx, spot.centery - 2), HAND_REACH, max(level + flicker, 1))
                elif name == RUNNER:
                    self._glow(light, (spot.centerx, spot.centery - 2), CANDLE_REACH, max(level // 2, 1))
            for item, _, drawn in items:
                if item in CARRIED:
                    self._glow(light, drawn.center, CANDLE_REACH, level)
        surface.blit(light, (0, 0), special_flags=pygame.BLEND_RGB_MULT)
        surface.blit(self._rest, (0, 0))
        for name, panes in self._panes.items():
            if on[name] and level:
                panes.bright.set_alpha(min(90 + 21 * level, 255))
                surface.blit(panes.bright, panes.area)
            elif not on[name]:
                surface.blit(panes.dark, panes.area)

    @staticmethod
    def _is_on(name: str, moment: Moment) -> bool:
        """Whether somebody is at home there, who keeps the house."""
        who, place = KEEPERS.get(name, ("", ""))
        keeper = moment.before.figure(who)
        return keeper is None or keeper.dest == place

    def _glow(self, light: pygame.Surface, centre: tuple[int, int], reach: int, level: int) -> None:
        if (reach, level) not in self._glows:
            self._glows[reach, level] = _radial(reach, level / 8)
        glow = self._glows[reach, level]
        light.blit(glow, (centre[0] - reach, centre[1] - reach), special_flags=pygame.BLEND_RGB_ADD)


def _glowing(ground: pygame.Surface) -> np.ndarray:
    """bool (width, height): the pixels of the drawing that give light."""
    pixels = pygame.surfarray.array3d(ground)
    mask = np.zeros(pixels.shape[:2], dtype=bool)
    for name in GLOWING:
        mask |= (pixels == np.array(rgba(name)[:3])).all(axis=2)
    return mask


def _cut(ground: pygame.Surface, mask: np.ndarray) -> pygame.Surface:
    """The masked pixels of the ground on a surface of its size, the rest transparent."""
    cut = pygame.Surface(ground.get_size())
    pixels = np.where(mask[..., None], pygame.surfarray.array3d(ground), 0)
    pygame.surfarray.blit_array(cut, pixels)
    cut.set_colorkey((0, 0, 0), pygame.RLEACCEL)
    return cut


def _filled(mask: np.ndarray, colour: Light) -> pygame.Surface:
    filled = pygame.Surface(mask.shape)
    pygame.surfarray.blit_array(filled, np.where(mask[..., None], np.array(colour), 0))
    filled.set_colorkey((0, 0, 0), pygame.RLEACCEL)
    return filled


def _clusters(mask: np.ndarray, cell: int = 24) -> list[tuple[int, int]]:
    """The middle of the masked pixels of each cell of a coarse grid."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for x, y in np.argwhere(mask).tolist():
        found.setdefault((x // cell, y // cell), []).append((x, y))
    return [
        (sum(x for x, _ in points) // len(points), sum(y for _, y in points) // len(points))
        for points in found.values()
        if len(points) >= 6
    ]


def _radial(reach: int, strength: float) -> pygame.Surface:
    """A warm glow that falls off to nothing at `reach`, in a few steps, as pixel art does."""
    side = 2 * reach
    axis = np.arange(side) - reach + 0.5
    distance = np.sqrt(axis[:, None] ** 2 + axis[None, :] ** 2) / reach
    fall = np.clip(1 - distance, 0, 1) ** 1.5
    stepped = np.round(fall * 7) / 7 * 0.62 * strength
    glow = pygame.Surface((side, side))
    pygame.surfarray.blit_array(glow, (stepped[..., None] * np.array(WARM)).astype(np.uint8))
    return glow
