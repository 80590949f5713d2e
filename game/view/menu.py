"""A small menu in the village, and the page of keys: what they hold, how they are drawn, where they were clicked."""

from __future__ import annotations

from dataclasses import dataclass

import pygame

from game.view.text import DARK, DIM, GOLD, INK, Fonts, fit, write

BACK = (40, 43, 60)
EDGE = (120, 112, 96)
POINTED = (84, 72, 48)
ROW = 20  # at scale 1
WIDEST = 340
VEIL = (10, 12, 20, 190)


@dataclass(frozen=True)
class Menu:
    """Lines to choose from, under a caption, that open at a point of the window. `keys` are shown before the lines."""

    caption: str
    lines: tuple[str, ...]
    at: tuple[int, int]
    pointed: int = -1
    keys: tuple[str, ...] = ()

    def key(self, line: int) -> str:
        """The key that chooses a line, or ""."""
        return self.keys[line] if line < len(self.keys) else ""


def draw_menu(surface: pygame.Surface, fonts: Fonts, menu: Menu) -> list[pygame.Rect]:
    """Draws it inside the surface; gives the rectangle of each line."""
    font, px = fonts.normal, fonts.px
    widest = min(px(WIDEST), surface.get_width() - px(24))
    gutter = max((font.size(key)[0] for key in menu.keys), default=0) + px(8) if menu.keys else 0
    width = max(font.size(line)[0] for line in (menu.caption, *menu.lines)) + gutter
    width = min(width + px(16), widest)
    row = px(ROW)
    box = pygame.Rect(menu.at[0], menu.at[1], width, row * (len(menu.lines) + 1) + px(10))
    box.clamp_ip(surface.get_rect().inflate(-px(8), -px(8)))
    pygame.draw.rect(surface, DARK, box.move(px(2), px(2)), border_radius=px(5))
    pygame.draw.rect(surface, BACK, box, border_radius=px(5))
    pygame.draw.rect(surface, EDGE, box, 1, border_radius=px(5))
    inside = width - px(16)
    write(surface, font, fit(font, menu.caption, inside), (box.x + px(8), box.y + px(5)), DIM)
    rows = []
    for at, line in enumerate(menu.lines):
        where = pygame.Rect(box.x + px(3), box.y + px(4) + row * (at + 1), box.width - px(6), row)
        if at == menu.pointed:
            pygame.draw.rect(surface, POINTED, where, border_radius=px(3))
        if menu.key(at):
            write(surface, font, menu.key(at), (box.x + px(8), where.y + px(2)), GOLD)
        words = fit(font, line, inside - gutter, middle=True)
        write(surface, font, words, (box.x + px(8) + gutter, where.y + px(2)), INK)
        rows.append(where)
    return rows


def draw_help(surface: pygame.Surface, room: pygame.Rect, fonts: Fonts, lines: tuple[tuple[str, str], ...]) -> None:
    """The page of keys over the village: (key, what it does), in as many columns as it takes."""
    veil = pygame.Surface(room.size, pygame.SRCALPHA)
    veil.fill(VEIL)
    surface.blit(veil, room)
    px, font = fonts.px, fonts.normal
    left, top, row = room.x + px(24), room.y + px(56), px(22)
    write(surface, fonts.large, "Keys and mouse", (left, room.y + px(20)), GOLD)
    fits = max((room.bottom - top - px(8)) // row, 1)
    columns = -(-len(lines) // fits)
    wide = (room.width - px(36)) // columns
    per_column = -(-len(lines) // columns)
    keys = max(font.size(key)[0] for key, _ in lines) + px(16)
    for at, (key, words) in enumerate(lines):
        x, y = left + at // per_column * wide, top + at % per_column * row
        write(surface, font, key, (x, y), GOLD)
        write(surface, font, fit(font, words, wide - keys - px(10)), (x + keys, y), INK)
