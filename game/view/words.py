"""Words over the village, at the window's own resolution: signs, names and bubbles that keep clear of each other."""

from __future__ import annotations

from collections.abc import Mapping

import pygame

from game.sim.cast import RUNNER
from game.view.remarks import Remark
from game.view.scene import Scene
from game.view.stage import Moment
from game.view.text import DARK, DIM, GOLD, GREEN, INK, Colour, Fonts, outlined, plate, wrap

PAPER = (246, 241, 226)
ASIDE = (214, 208, 196)
SIGN = (52, 44, 40)
BUBBLE_WIDTH = 190  # at scale 1
HEAD = 22  # source pixels from the lower edge of somebody's tile to above the name
MARGIN = 4
FADED = 90  # of 255
CLEAR = 3  # pixels between two bubbles


class Words:
    """Draws the words of one village; keeps what it has rendered."""

    def __init__(self, fonts: Fonts) -> None:
        self._fonts = fonts
        self._kept: dict[tuple[str, str, Colour], pygame.Surface] = {}

    def draw(self, surface: pygame.Surface, where: pygame.Rect, scene: Scene, moment: Moment) -> list[pygame.Rect]:
        """Signs, names, bubbles of a moment that `scene` has just drawn at `where`; gives the bubbles' rectangles."""
        zoom = where.width / scene.size[0]
        bodies = [_scaled(where, zoom, spot.inflate(-4, 0)) for spot in scene.spots.values()]
        for place in scene.village.places:
            tile = scene.tile_rect(place.x, place.y)
            sign = self._sign(place.name)
            spot = sign.get_rect(midtop=_at(where, zoom, tile.centerx, tile.bottom))
            sign.set_alpha(FADED if spot.collidelist(bodies) >= 0 else 255)  # nobody is hidden by a sign
            surface.blit(sign, spot)
        written: list[pygame.Rect] = []
        for figure in sorted(moment.before.figures, key=lambda figure: scene.spots[figure.name].y, reverse=True):
            colour = GOLD if figure.name == RUNNER else GREEN if figure.name == moment.before.asker else INK
            name = self._name(figure.name, colour)
            spot = scene.spots[figure.name]
            label = name.get_rect(midbottom=_at(where, zoom, spot.centerx, spot.bottom - HEAD + 1))
            while label.collidelist(written) >= 0:  # people stand close: their names one above the other
                label.y -= label.height - 2
            written.append(label)
            surface.blit(name, label)
        return self._draw_bubbles(surface, where, zoom, scene.spots, moment, written)

    def _draw_bubbles(
        self,
        surface: pygame.Surface,
        where: pygame.Rect,
        zoom: float,
        spots: Mapping[str, pygame.Rect],
        moment: Moment,
        names: list[pygame.Rect],
    ) -> list[pygame.Rect]:
        """The outcome first, then what others say, newest first; who finds no room stays silent."""
        faces = [name.union(name.move(0, round(zoom * 12))) for name in names]
        taken: list[pygame.Rect] = []
        said = [(moment.speech, PAPER)] if moment.speech is not None else []
        for remark, paper in [*said, *((remark, ASIDE) for remark in reversed(moment.remarks))]:
            if remark.who not in spots:
                continue
            bubble = self._bubble(remark, paper)
            spot = spots[remark.who]
            head = _at(where, zoom, spot.centerx, spot.bottom - HEAD)
            room = where.inflate(-2 * MARGIN, -2 * MARGIN)
            wanted = bubble.get_rect(midbottom=(head[0], head[1] - self._fonts.px(21)))
            place = _free(wanted, [*taken, *faces], room) or _free(wanted, taken, room)
            if place is None:
                continue
            taken.append(place)
            surface.blit(bubble, place)
            x = min(max(head[0], place.left + 8), place.right - 8)
            half, top = self._fonts.px(5), place.bottom - 1
            if head[1] - self._fonts.px(12) > top:
                tip = (head[0], min(top + self._fonts.px(8), head[1] - self._fonts.px(11)))
                pygame.draw.polygon(surface, paper, [(x - half, top - 1), (x + half, top - 1), tip])
        return taken

    def _bubble(self, remark: Remark, paper: Colour) -> pygame.Surface:
        key = ("bubble", remark.words, paper)
        if key not in self._kept:
            font = self._fonts.normal if paper == PAPER else self._fonts.small
            lines = [
                font.render(line, DARK) for line in wrap(font, remark.words, self._fonts.px(BUBBLE_WIDTH), 4)
            ]
            self._kept[key] = plate(lines, paper, DIM, pad=self._fonts.px(6 if paper == PAPER else 5))
        return self._kept[key]

    def _name(self, name: str, colour: Colour) -> pygame.Surface:
        key = ("name", name, colour)
        if key not in self._kept:
            self._kept[key] = outlined(self._fonts.small, name, colour)
        return self._kept[key]

    def _sign(self, name: str) -> pygame.Surface:
        key = ("sign", name, SIGN)
        if key not in self._kept:
            self._kept[key] = plate([self._fonts.small.render(name, INK)], SIGN, DARK, pad=self._fonts.px(4))
        return self._kept[key]


def _at(where: pygame.Rect, zoom: float, x: float, y: float) -> tuple[int, int]:
    """A point of the sprites' picture in the window."""
    return where.x + round(x * zoom), where.y + round(y * zoom)


def _scaled(where: pygame.Rect, zoom: float, source: pygame.Rect) -> pygame.Rect:
    """A rectangle of the sprites' picture in the window."""
    return pygame.Rect(_at(where, zoom, source.x, source.y), (round(source.width * zoom), round(source.height * zoom)))


def _free(wanted: pygame.Rect, taken: list[pygame.Rect], room: pygame.Rect) -> pygame.Rect | None:
    """The wanted place, or one a little aside or higher that is clear of the others; None where there is none."""
    high, aside = wanted.height + CLEAR, wanted.width // 2
    for dx, dy in ((0, 0), (0, -high), (-aside, 0), (aside, 0), (-aside, -high), (aside, -high), (0, -2 * high)):
        place = wanted.move(dx, dy).clamp(room)
        if place.inflate(CLEAR, CLEAR).collidelist(taken) < 0:
            return place
    return None
