"""The panel beside the village: who wants what, what the errand-runner saw, might do, did, and earned."""

from __future__ import annotations

import pygame

from game.view.facts import Choice, Facts
from game.view.text import DIM, GOLD, GREEN, INK, RED, Fonts, fit, wrap, write

BACK = (32, 35, 48)
LINE = (62, 66, 82)
BAR = (58, 82, 120)
CHOSEN_BAR = (126, 96, 40)
POINTED = (70, 74, 96)
# lengths at scale 1
MARGIN = 14
ROW = 17
BOTTOM = 196  # what is under the list of choices
LEAST_CHOICES = 5  # rows that the list keeps, however much is seen and remembered
MOST_TERMS = 5  # columns of rewards besides the sum


class Panel:
    """Draws Facts; draws again only when they have changed."""

    def __init__(self, size: tuple[int, int], fonts: Fonts) -> None:
        self.size = size
        self.rows: list[tuple[str, pygame.Rect]] = []  # phrases and where they are written, after `draw`
        self._fonts = fonts
        self._px = fonts.px
        self._drawn: tuple[Facts, str, pygame.Surface] | None = None

    def draw(self, facts: Facts, pointed: str = "") -> pygame.Surface:
        """The panel, `size` pixels; `pointed` is the phrase that a person's pointer is on."""
        if self._drawn is None or self._drawn[:2] != (facts, pointed):
            self._drawn = (facts, pointed, self._draw(facts, pointed))
        return self._drawn[2]

    def _draw(self, facts: Facts, pointed: str) -> pygame.Surface:
        surface = pygame.Surface(self.size)
        surface.fill(BACK)
        y = self._head(surface, facts)
        end = self.size[1] - self._px(BOTTOM)
        spare = (end - y) // self._row - LEAST_CHOICES - 4  # rows for what is seen and remembered; captions take four
        seen = [line for text in facts.seen for line in wrap(self._fonts.normal, text, self._width, 3)]
        memory = [line for text in facts.memory for line in wrap(self._fonts.normal, text, self._width, 3)]
        y = self._section(surface, y, "It sees", seen[: max(spare - len(memory), 3)])
        if memory:
            y = self._section(surface, y, "It remembers", memory[: max(spare - min(len(seen), 3), 2)])
        self._choices(surface, y, facts, pointed)
        self._result(surface, facts)
        return surface

    @property
    def _row(self) -> int:
        return self._px(ROW)

    @property
    def _left(self) -> int:
        return self._px(MARGIN)

    @property
    def _right(self) -> int:
        return self.size[0] - self._px(MARGIN)

    @property
    def _width(self) -> int:
        return self._right - self._left

    def _head(self, surface: pygame.Surface, facts: Facts) -> int:
        fonts, px, width = self._fonts, self._px, self._width
        tally = write(surface, fonts.small, facts.tally, (0, px(10)), DIM, right=self._right).width
        write(surface, fonts.small, fit(fonts.small, facts.title, width - tally - px(10)), (self._left, px(10)), DIM)
        y = px(30)
        if facts.request:
            colour = INK if facts.good is None else GREEN if facts.good else RED
            write(surface, fonts.large, fit(fonts.large, facts.request, width), (self._left, y), colour)
            y += px(27)
        left = f"{facts.turns_left} of {facts.turn_cap} turns left"
        taken = write(surface, fonts.normal, left, (self._left, y)).width
        bar = pygame.Rect(self._left + taken + px(10), y + px(3), width - taken - px(10), px(8))
        pygame.draw.rect(surface, LINE, bar, border_radius=px(4))
        bar.width = round(bar.width * facts.turns_left / facts.turn_cap)
        if bar.width > 0:
            pygame.draw.rect(surface, GREEN if facts.turns_left > 4 else RED, bar, border_radius=px(4))
        return y + px(22)

    def _caption(self, surface: pygame.Surface, y: int, left: str, right: str = "") -> int:
        px, small = self._px, self._fonts.small
        pygame.draw.line(surface, LINE, (self._left, y), (self._right, y))
        taken = write(surface, small, right, (0, y + px(6)), GOLD, right=self._right).width if right else 0
        write(surface, small, fit(small, left, self._width - taken - px(8)), (self._left, y + px(6)), DIM)
        return y + px(22)

    def _section(self, surface: pygame.Surface, y: int, caption: str, lines: list[str]) -> int:
        y = self._caption(surface, y, caption)
        for line in lines:
            write(surface, self._fonts.normal, line, (self._left, y))
            y += self._row
        return y + self._px(5)

    def _choices(self, surface: pygame.Surface, y: int, facts: Facts, pointed: str) -> None:
        self.rows = []
        many = len(facts.choices)
        y = self._caption(surface, y, f"It may do one of {many}" if many else "It answers in its own words", facts.how)
        room = (self.size[1] - self._px(BOTTOM) - y) // self._row
        shown, rest = fitting(facts.choices, room, pointed)
        for choice in shown:
            row = pygame.Rect(self._left, y, self._width, self._row)
            self.rows.append((choice.phrase, row))
            self._choice(surface, row, choice, choice.phrase == pointed)
            y += self._row
        if rest:
            more = f"and {len(rest)} more"
            if any(choice.prob is not None for choice in rest):
                more += f", together {_percent(sum(choice.prob or 0.0 for choice in rest))}"
            write(surface, self._fonts.normal, more, (self._left + self._px(14), y + 1), DIM)

    def _choice(self, surface: pygame.Surface, row: pygame.Rect, choice: Choice, pointed: bool) -> None:
        font, px = self._fonts.normal, self._px
        if pointed:
            pygame.draw.rect(surface, POINTED, row.inflate(px(6), -2), border_radius=px(2))
        share = 0
        if choice.prob is not None:
            bar = pygame.Rect(row.x, row.y, max(round(row.width * choice.prob), 2), row.height - 2)
            if choice.prob > 0:
                pygame.draw.rect(surface, CHOSEN_BAR if choice.chosen else BAR, bar, border_radius=2)
            share = write(surface, font, _percent(choice.prob), (0, row.y + 1), right=row.right - px(4)).width
        x = row.x + px(14)
        if choice.key:
            x = write(surface, font, choice.key, (row.x + px(2), row.y + 1), GOLD).right + px(7)
            x = max(x, row.x + px(24))
        elif choice.chosen:
            points = [(row.x + px(dx), row.y + px(dy)) for dx, dy in ((4, 3), (10, 7), (4, 11))]
            pygame.draw.polygon(surface, GOLD, points)
        colour = GOLD if choice.chosen else INK
        write(surface, font, fit(font, choice.phrase, row.right - x - share - px(12)), (x, row.y + 1), colour)

    def _result(self, surface: pygame.Surface, facts: Facts) -> None:
        font, px = self._fonts.normal, self._px
        y = self.size[1] - px(BOTTOM) + px(6)
        y = self._caption(surface, y, facts.caption)
        colour = RED if facts.note or facts.good is False else GREEN if facts.good else INK
        words = self._fonts.small if facts.note else font
        for line in wrap(words, facts.note or facts.outcome, self._width, 2):
            write(surface, words, line, (self._left, y), colour)
            y += self._row
        y = self._caption(surface, self.size[1] - px(BOTTOM - 66), "Reward of the turn, and the sum so far")
        self._rewards(surface, y, facts)
        y = self._caption(surface, self.size[1] - px(58), "Who decides", facts.measured)
        write(surface, font, fit(font, facts.player, self._width, middle=True), (self._left, y))

    def _rewards(self, surface: pygame.Surface, y: int, facts: Facts) -> None:
        terms = list(facts.terms)
        if len(terms) > MOST_TERMS:
            others = terms[MOST_TERMS - 1 :]
            terms[MOST_TERMS - 1 :] = [("others", sum(t[1] for t in others), sum(t[2] for t in others))]
        columns = [*terms, ("all", sum(term[1] for term in terms), facts.total)]
        wide = self._width // len(columns)
        font, px = self._fonts.small, self._px
        for at, (name, earned, total) in enumerate(columns):
            right = self._left + wide * (at + 1)
            write(surface, font, fit(font, name, wide - px(6)), (0, y), DIM, right=right)
            write(surface, font, _signed(earned), (0, y + px(15)), _colour(earned), right=right)
            write(surface, font, _signed(total), (0, y + px(30)), _colour(total), right=right)


def fitting(choices: tuple[Choice, ...], room: int, pointed: str = "") -> tuple[list[Choice], list[Choice]]:
    """The choices that are shown in so many lines, and those that the last line sums up.

    The one that is chosen, or that a person points at, is among those shown.
    """
    if len(choices) <= room:
        return list(choices), []
    shown = list(choices[: max(room - 1, 1)])
    chosen = next((choice for choice in choices if choice.chosen or choice.phrase == pointed), None)
    if chosen is not None and chosen not in shown:
        shown[-1] = chosen
    return shown, [choice for choice in choices if choice not in shown]


def _percent(share: float) -> str:
    if 0 < share < 0.005:
        return "<1 %"
    return f"{100 * share:.0f} %"


def _signed(value: float) -> str:
    if abs(value) < 5e-7:
        return "0"
    return f"{value:+.3f}".replace("-", "−")


def _colour(value: float) -> tuple[int, int, int]:
    if abs(value) < 5e-7:
        return DIM
    return GREEN if value > 0 else RED
