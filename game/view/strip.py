"""The strip under a village in a comparison: who plays, what is asked for, what it chose, what came of it."""

from __future__ import annotations

import pygame

from game.view.compare import Node
from game.view.facts import Facts
from game.view.panel import fitting
from game.view.text import DARK, DIM, GOLD, GREEN, INK, RED, Fonts, fit, write

BACK = (32, 35, 48)
BAR = (58, 82, 120)
CHOSEN_BAR = (126, 96, 40)
TRACK = (74, 80, 104)
HEIGHT, SLIDER = 136, 26  # at scale 1, without and for the slider
SIDE, ROW, CHOICES = 12, 17, 3
RIGHT = 150  # how wide the column of the reward is


class Strip:
    """Draws Facts into a rectangle; a column of choices on the left, of the reward on the right."""

    def __init__(self, fonts: Fonts) -> None:
        self._fonts = fonts

    def draw(self, surface: pygame.Surface, room: pygame.Rect, policy: str, facts: Facts) -> None:
        """Everything but the slider, into the upper part of `room`."""
        fonts, px = self._fonts, self._fonts.px
        surface.fill(BACK, room)
        left, right = room.left + px(SIDE), room.right - px(SIDE)
        y = room.top + px(8)
        done = facts.turn_cap - facts.turns_left
        count = fonts.small.render(f"turn {done} of {facts.turn_cap}", DIM)
        surface.blit(count, (right - count.get_width(), y))
        name = fit(fonts.small, policy, right - left - count.get_width() - px(10), middle=True)
        write(surface, fonts.small, name, (left, y), GOLD)
        y += px(18)
        colour = INK if facts.good is None else GREEN if facts.good else RED
        write(surface, fonts.large, fit(fonts.large, facts.request, right - left), (left, y), colour)
        y += px(27)
        words = facts.note or facts.outcome
        write(surface, fonts.normal, fit(fonts.normal, words, right - left), (left, y), RED if facts.note else colour)
        y += px(22)
        self._choices(surface, pygame.Rect(left, y, right - left - px(RIGHT), px(CHOICES * ROW)), facts)
        self._reward(surface, right, y, facts)

    def _choices(self, surface: pygame.Surface, room: pygame.Rect, facts: Facts) -> None:
        fonts, px = self._fonts, self._fonts.px
        decided = any(choice.chosen for choice in facts.choices)
        if not decided:
            write(surface, fonts.normal, facts.how, room.topleft, DIM)
            return
        shown, _ = fitting(facts.choices, CHOICES + 1)
        for at, choice in enumerate(shown[:CHOICES]):
            y = room.top + at * px(ROW)
            percent = "" if choice.prob is None else f"{100 * choice.prob:.0f} %"
            if choice.prob:
                bar = pygame.Rect(room.left, y, max(round(room.width * choice.prob), 2), px(ROW - 2))
                pygame.draw.rect(surface, CHOSEN_BAR if choice.chosen else BAR, bar, border_radius=2)
            taken = write(surface, fonts.normal, percent, (0, y + px(1)), INK, right=room.right - px(4)).width
            text = fit(fonts.normal, choice.phrase, room.width - taken - px(16))
            write(surface, fonts.normal, text, (room.left + px(5), y + px(1)), GOLD if choice.chosen else INK)

    def _reward(self, surface: pygame.Surface, right: int, y: int, facts: Facts) -> None:
        fonts, px = self._fonts, self._fonts.px
        write(surface, fonts.small, "reward so far", (0, y), DIM, right=right)
        colour = GREEN if facts.total > 0 else RED if facts.total < 0 else DIM
        total = f"{facts.total:+.3f}".replace("-", "−")
        write(surface, fonts.large, total, (0, y + px(15)), colour, right=right)


def slider_of(fonts: Fonts, strip: pygame.Rect) -> pygame.Rect:
    """Where the slider of a strip is: its lowest part, without the label on its right."""
    px = fonts.px
    return pygame.Rect(
        strip.left + px(SIDE), strip.bottom - px(SLIDER), strip.width - 2 * px(SIDE) - px(RIGHT), px(SLIDER - 6)
    )


def draw_slider(surface: pygame.Surface, fonts: Fonts, strip: pygame.Rect, nodes: tuple[Node, ...], at: int) -> None:
    """The checkpoints of a run as bars, as high as the share of validation seeds they solve; the chosen one in gold."""
    room = slider_of(fonts, strip)
    pygame.draw.line(surface, TRACK, (room.left, room.bottom - 1), (room.right - 1, room.bottom - 1))
    wide = room.width / len(nodes)
    success = 0.0
    for number, node in enumerate(nodes):
        success = success if node.success is None else node.success
        high = max(round((room.height - 2) * success), 2)
        bar = pygame.Rect(room.left + round(wide * number), room.bottom - 1 - high, max(round(wide) - 2, 1), high)
        pygame.draw.rect(surface, GOLD if number == at else TRACK, bar)
    node = nodes[at]
    label = node.name if node.success is None else f"{node.name}: solves {100 * node.success:.0f} %"
    right = strip.right - fonts.px(SIDE)
    write(surface, fonts.small, label, (0, room.top + fonts.px(4)), INK, right=right)


def node_at(fonts: Fonts, strip: pygame.Rect, count: int, x: int) -> int:
    """The number of the checkpoint under the window's column x."""
    room = slider_of(fonts, strip)
    return min(max(int((x - room.left) / max(room.width, 1) * count), 0), count - 1)


def verdict(fonts: Fonts, facts: Facts) -> pygame.Surface | None:
    """How it ended, on a plate; None before."""
    if facts.good is None:
        return None
    turns = facts.turn_cap - facts.turns_left
    words = f"done in {turns} turns" if facts.good else f"not done in {turns} turns"
    label = fonts.large.render(words, DARK)
    plate = pygame.Surface((label.get_width() + 2 * fonts.px(10), label.get_height() + fonts.px(8)))
    plate.fill(GREEN if facts.good else RED)
    plate.blit(label, (fonts.px(10), fonts.px(4)))
    return plate
