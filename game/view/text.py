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


class Fonts:
    """Small, normal and large, at a scale. Opens pygame's font module, no display."""

    def __init__(self, scale: float = 1.0) -> None:
        pygame.font.init()
        self.scale = scale
        self.small = pygame.font.Font(None, max(round(17 * scale), 8))
        self.normal = pygame.font.Font(None, max(round(20 * scale), 8))
        self.large = pygame.font.Font(None, max(round(29 * scale), 8))

    def px(self, pixels: float) -> int:
        """A length of scale 1 at this scale, in whole pixels."""
        return round(pixels * self.scale)


def fit(font: pygame.font.Font, text: str, width: int, middle: bool = False) -> str:
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


def wrap(font: pygame.font.Font, text: str, width: int, lines: int) -> list[str]:
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
    font: pygame.font.Font,
    text: str,
    at: tuple[int, int],
    colour: Colour = INK,
    right: int | None = None,
) -> pygame.Rect:
    """Draws one line with its upper left corner at `at`; with `right`, ending at that x instead."""
    drawn = font.render(text, True, colour)
    x = at[0] if right is None else right - drawn.get_width()
    return surface.blit(drawn, (x, at[1]))


def outlined(font: pygame.font.Font, text: str, colour: Colour, edge: Colour = DARK) -> pygame.Surface:
    """A line with a dark edge of one pixel, readable on any ground."""
    inner = font.render(text, True, colour)
    outer = font.render(text, True, edge)
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
