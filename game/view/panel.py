"""The panel beside the village: who wants what, what the errand-runner saw, might do, did, and earned."""

from __future__ import annotations

import pygame

from game.view.facts import Choice, Facts
from game.view.text import DIM, GOLD, GREEN, INK, RED, Fonts, fit, wrap, write

BACK = (32, 35, 48)
LINE = (62, 66, 82)
BAR = (58, 82, 120)
CHOSEN_BAR = (126, 96, 40)
MARGIN = 14
ROW = 17
BOTTOM = 196  # what is under the list of choices
MOST_TERMS = 5  # columns of rewards besides the sum


class Panel:
    """Draws Facts; draws again only when they have changed."""

    def __init__(self, size: tuple[int, int], fonts: Fonts) -> None:
        self.size = size
        self._fonts = fonts
        self._drawn: tuple[Facts, pygame.Surface] | None = None

    def draw(self, facts: Facts) -> pygame.Surface:
        """The panel, `size` pixels."""
        if self._drawn is None or self._drawn[0] != facts:
            self._drawn = (facts, self._draw(facts))
        return self._drawn[1]

    def _draw(self, facts: Facts) -> pygame.Surface:
        surface = pygame.Surface(self.size)
        surface.fill(BACK)
        y = self._head(surface, facts)
        y = self._section(surface, y, "It saw", facts.seen)
        if facts.memory:
            y = self._section(surface, y, "It remembers", facts.memory)
        self._choices(surface, y, facts)
        self._result(surface, facts)
        return surface

    @property
    def _right(self) -> int:
        return self.size[0] - MARGIN

    @property
    def _width(self) -> int:
        return self.size[0] - 2 * MARGIN

    def _head(self, surface: pygame.Surface, facts: Facts) -> int:
        fonts, width = self._fonts, self._width
        tally = fonts.small.size(facts.tally)[0]
        write(surface, fonts.small, fit(fonts.small, facts.title, width - tally - 10), (MARGIN, 10), DIM)
        write(surface, fonts.small, facts.tally, (0, 10), DIM, right=self._right)
        y = 30
        if facts.request:
            colour = INK if facts.good is None else GREEN if facts.good else RED
            write(surface, fonts.large, fit(fonts.large, facts.request, width), (MARGIN, y), colour)
            y += 27
        left = f"{facts.turns_left} of {facts.turn_cap} turns left"
        taken = write(surface, fonts.normal, left, (MARGIN, y)).width
        bar = pygame.Rect(MARGIN + taken + 10, y + 3, width - taken - 10, 8)
        pygame.draw.rect(surface, LINE, bar, border_radius=4)
        bar.width = round(bar.width * facts.turns_left / facts.turn_cap)
        if bar.width:
            pygame.draw.rect(surface, GREEN if facts.turns_left > 4 else RED, bar, border_radius=4)
        return y + 22

    def _caption(self, surface: pygame.Surface, y: int, left: str, right: str = "") -> int:
        pygame.draw.line(surface, LINE, (MARGIN, y), (self._right, y))
        write(surface, self._fonts.small, left, (MARGIN, y + 6), DIM)
        if right:
            write(surface, self._fonts.small, right, (0, y + 6), GOLD, right=self._right)
        return y + 22

    def _section(self, surface: pygame.Surface, y: int, caption: str, texts: tuple[str, ...]) -> int:
        y = self._caption(surface, y, caption)
        for text in texts:
            for line in wrap(self._fonts.normal, text, self._width, 3):
                write(surface, self._fonts.normal, line, (MARGIN, y))
                y += ROW
        return y + 5

    def _choices(self, surface: pygame.Surface, y: int, facts: Facts) -> None:
        y = self._caption(surface, y, f"It may do one of {len(facts.choices)}", facts.how)
        room = (self.size[1] - BOTTOM - y) // ROW
        shown, rest = fitting(facts.choices, room)
        for choice in shown:
            self._choice(surface, y, choice)
            y += ROW
        if rest:
            more = f"and {len(rest)} more"
            if any(choice.prob is not None for choice in rest):
                more += f", together {_percent(sum(choice.prob or 0.0 for choice in rest))}"
            write(surface, self._fonts.normal, more, (MARGIN + 14, y + 1), DIM)

    def _choice(self, surface: pygame.Surface, y: int, choice: Choice) -> None:
        font = self._fonts.normal
        if choice.prob is not None:
            bar = pygame.Rect(MARGIN, y, max(round(self._width * choice.prob), 2), ROW - 2)
            if choice.prob > 0:
                pygame.draw.rect(surface, CHOSEN_BAR if choice.chosen else BAR, bar, border_radius=2)
            write(surface, font, _percent(choice.prob), (0, y + 1), INK, right=self._right - 4)
        colour = GOLD if choice.chosen else INK
        if choice.chosen:
            points = [(MARGIN + 4, y + 3), (MARGIN + 10, y + 7), (MARGIN + 4, y + 11)]
            pygame.draw.polygon(surface, GOLD, points)
        write(surface, font, fit(font, choice.phrase, self._width - 70), (MARGIN + 14, y + 1), colour)

    def _result(self, surface: pygame.Surface, facts: Facts) -> None:
        font, y = self._fonts.normal, self.size[1] - BOTTOM + 6
        y = self._caption(surface, y, facts.caption)
        colour = RED if facts.note or facts.good is False else GREEN if facts.good else INK
        words = self._fonts.small if facts.note else font
        for line in wrap(words, facts.note or facts.outcome, self._width, 3 if facts.note else 2):
            write(surface, words, line, (MARGIN, y), colour)
            y += words.get_linesize() + 2
        y = self._caption(surface, self.size[1] - BOTTOM + 68, "Reward of the turn, and the sum so far")
        self._rewards(surface, y, facts)
        y = self._caption(surface, self.size[1] - 58, "Who decides", facts.measured)
        write(surface, font, fit(font, facts.player, self._width, middle=True), (MARGIN, y))

    def _rewards(self, surface: pygame.Surface, y: int, facts: Facts) -> None:
        terms = list(facts.terms)
        if len(terms) > MOST_TERMS:
            others = terms[MOST_TERMS - 1 :]
            terms[MOST_TERMS - 1 :] = [("others", sum(t[1] for t in others), sum(t[2] for t in others))]
        columns = [*terms, ("all", sum(term[1] for term in terms), facts.total)]
        wide = self._width // len(columns)
        font = self._fonts.small
        for at, (name, earned, total) in enumerate(columns):
            right = MARGIN + wide * (at + 1)
            write(surface, font, fit(font, name, wide - 6), (0, y), DIM, right=right)
            write(surface, font, _signed(earned), (0, y + 15), _colour(earned), right=right)
            write(surface, font, _signed(total), (0, y + 30), _colour(total), right=right)


def fitting(choices: tuple[Choice, ...], room: int) -> tuple[list[Choice], list[Choice]]:
    """The choices that are shown in so many lines, and those that the last line sums up; the chosen one is shown."""
    if len(choices) <= room:
        return list(choices), []
    shown = list(choices[: max(room - 1, 1)])
    chosen = next((choice for choice in choices if choice.chosen), None)
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
