"""Words on a surface: pygame's own font in three sizes, cut or wrapped to the room that there is."""

from __future__ import annotations

from collections.abc import Iterable

import pygame

INK = (232, 228, 216)
DIM = (154, 158, 168)
GOLD = (244, 200, 96)
GREEN = (128, 200, 120)
RED = (240, 112, 96)
DARK = (24, 26, 36)
ELLIPSIS = "…"

Colour = tuple[int, int, int]

FINER = 3  # letters are drawn so many times as big, so that they stand where they belong when they are small
KEPT = 1500  # rendered lines


class Face:
    """pygame's own font at one size. Letters are spaced as in print, not to whole pixels; keeps what it rendered."""

    def __init__(self, height: int) -> None:
        """`height` as pygame counts it, in pixels."""
        self._big = pygame.font.Font(None, height * FINER)
        self._kept: dict[tuple[str, Colour], pygame.Surface] = {}
        self._widths: dict[str, int] = {}
        self.height = -(-self._big.get_height() // FINER)

    def size(self, text: str) -> tuple[int, int]:
        """Width and height of a line in pixels."""
        if text not in self._widths:
            if len(self._widths) > KEPT:
                self._widths.clear()
            self._widths[text] = -(-self._big.size(text)[0] // FINER)
        return self._widths[text], self.height

    def get_linesize(self) -> int:
        """Pixels from one line to the next."""
        return -(-self._big.get_linesize() // FINER)

    def render(self, text: str, colour: Colour) -> pygame.Surface:
        """A line on a transparent surface of `size(text)`. It is shared: not to be drawn on."""
        key = (text, colour)
        if key not in self._kept:
            if len(self._kept) > KEPT:
                self._kept.clear()
            width, height = self.size(text)
            big = pygame.Surface((max(width, 1) * FINER, height * FINER), pygame.SRCALPHA)
            big.fill((*colour, 0))
            big.blit(self._big.render(text, True, colour), (0, 0))
            self._kept[key] = pygame.transform.smoothscale(big, (max(width, 1), height))
        return self._kept[key]


class Fonts:
    """Small, normal and large, at a scale. Opens pygame's font module, no display."""

    def __init__(self, scale: float = 1.0) -> None:
        pygame.font.init()
        self.scale = scale
        self.small = Face(max(round(17 * scale), 8))
        self.normal = Face(max(round(20 * scale), 8))
        self.large = Face(max(round(29 * scale), 8))

    def px(self, pixels: float) -> int:
        """A length of scale 1 at this scale, in whole pixels."""
        return round(pixels * self.scale)


def fit(font: Face, text: str, width: int, middle: bool = False) -> str:
    """The text, shortened by an ellipsis (in its middle, for a path) until it is at most `width` pixels wide."""
    if font.size(text)[0] <= width:
        return text
    for keep in range(len(text) - 1, 0, -1):
        head = keep // 2 if middle else keep
        tail = text[len(text) - (keep - head) :] if middle else ""
        shorter = text[:head].rstrip() + ELLIPSIS + tail
        if font.size(shorter)[0] <= width:
            return shorter
    return ELLIPSIS


def wrap(font: Face, text: str, width: int, lines: int) -> list[str]:
    """The text in at most so many lines, broken between words; what is left over is cut with an ellipsis."""
    words = text.split(" ")
    wrapped: list[str] = []
    while words:
        if len(wrapped) == lines - 1:
            wrapped.append(fit(font, " ".join(words), width))
            break
        taken = 1
        while taken < len(words) and font.size(" ".join(words[: taken + 1]))[0] <= width:
            taken += 1
        wrapped.append(fit(font, " ".join(words[:taken]), width))
        words = words[taken:]
    return wrapped


def write(
    surface: pygame.Surface,
    font: Face,
    text: str,
    at: tuple[int, int],
    colour: Colour = INK,
    right: int | None = None,
) -> pygame.Rect:
    """Draws one line with its upper left corner at `at`; with `right`, ending at that x instead."""
    drawn = font.render(text, colour)
    x = at[0] if right is None else right - drawn.get_width()
    return surface.blit(drawn, (x, at[1]))


def outlined(font: Face, text: str, colour: Colour, edge: Colour = DARK) -> pygame.Surface:
    """A line with a dark edge of one pixel, readable on any ground."""
    inner = font.render(text, colour)
    outer = font.render(text, edge)
    surface = pygame.Surface((inner.get_width() + 2, inner.get_height() + 2), pygame.SRCALPHA)
    for dx, dy in ((0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2), (2, 2)):
        surface.blit(outer, (dx, dy))
    surface.blit(inner, (1, 1))
    return surface


def plate(lines: Iterable[pygame.Surface], back: Colour, edge: Colour, pad: int = 4) -> pygame.Surface:
    """Lines on a plate with an edge, each centred."""
    drawn = list(lines)
    width = max(line.get_width() for line in drawn) + 2 * pad
    height = sum(line.get_height() for line in drawn) + pad
    surface = pygame.Surface((width, height), pygame.SRCALPHA)
    pygame.draw.rect(surface, back, surface.get_rect(), border_radius=4)
    pygame.draw.rect(surface, edge, surface.get_rect(), 1, border_radius=4)
    y = pad // 2
    for line in drawn:
        surface.blit(line, ((width - line.get_width()) // 2, y))
        y += line.get_height()
    return surface
