"""The whole picture, off-screen, at any size: the village, the panel, a line of state and a line of keys."""

from __future__ import annotations

from dataclasses import dataclass

import pygame

from game.view.facts import Facts, facts_of
from game.view.ghosts import Ghost, ghosts_of
from game.view.layout import FIRST_SIZE, Layout
from game.view.menu import Menu, draw_help, draw_menu
from game.view.panel import MARGIN, Panel
from game.view.scene import Scene
from game.view.session import THINKING, Session
from game.view.show import GAP
from game.view.stage import Moment, Stage
from game.view.text import DARK, DIM, GOLD, INK, RED, Fonts, fit, wrap, write
from game.view.tiles import load_tiles
from game.view.words import Words
from scenarios.village_map import load_village

BORDER = (18, 20, 28)


@dataclass(frozen=True)
class View:
    """All that one frame shows. `text` stands in the village's place where `moment` is None."""

    moment: Moment | None
    text: str
    facts: Facts
    status: str  # what goes on behind the picture
    wrong: bool  # whether the status tells of a fault
    speed: str
    keys: str = ""
    paused: bool = False
    ghosts: tuple[Ghost, ...] = ()
    pointed: str = ""  # the phrase under a person's pointer
    menu: Menu | None = None
    help: tuple[tuple[str, str], ...] = ()


class Picture:
    """Draws views at a size that may change. `layout` says where its parts are."""

    def __init__(self, size: tuple[int, int] = FIRST_SIZE, extra_rows: int = 0) -> None:
        """Loads map, sprites and font; `extra_rows` of words are kept free. Raises MapError where one can't be read."""
        self.scene = Scene(load_village(), load_tiles())
        self.menu_rows: list[pygame.Rect] = []  # the lines of the menu, after `draw`
        self.bubbles: list[pygame.Rect] = []  # what is said, after `draw`
        self._extra_rows = extra_rows
        self.resize(size)

    def resize(self, size: tuple[int, int]) -> None:
        """From now on pictures of this size; a window that is smaller than a stamp gets one of that size."""
        self.layout = Layout.of(size, self._extra_rows)
        self.size = self.layout.size
        self._fonts = Fonts(self.layout.scale)
        self._words = Words(self._fonts)
        self.panel = Panel(self.layout.panel.size, self._fonts)
        self._surface = pygame.Surface(self.size)

    @property
    def fonts(self) -> Fonts:
        """Those of the present size."""
        return self._fonts

    def draw(self, view: View) -> pygame.Surface:
        """The picture of a view; the same surface every time until the size changes."""
        surface, layout = self._surface, self.layout
        surface.fill(BORDER)
        if view.moment is not None:
            self.scene.draw(surface, layout.village, view.moment, view.ghosts)
            self.bubbles = self._words.draw(surface, layout.village, self.scene, view.moment)
        else:
            self._draw_text(surface, view.text)
        surface.blit(self.panel.draw(view.facts, view.pointed), layout.panel)
        self._draw_foot(surface, view)
        if view.help:
            draw_help(surface, layout.village, self._fonts, view.help)
        self.menu_rows = draw_menu(surface, self._fonts, view.menu) if view.menu is not None else []
        return surface

    def _draw_text(self, surface: pygame.Surface, text: str) -> None:
        """Instead of the village: what the player is told, for a scenario that is not played there."""
        room, px, font = self.layout.village, self._fonts.px, self._fonts.large
        surface.fill(DARK, room)
        y = room.y + px(40)
        for part in text.split("\n"):
            for line in wrap(font, part, room.width - px(80), 20):
                write(surface, font, line, (room.x + px(40), y), INK)
                y += px(30)

    def _draw_foot(self, surface: pygame.Surface, view: View) -> None:
        foot, px = self.layout.foot, self._fonts.px
        surface.fill(DARK, foot)
        font, margin = self._fonts.normal, px(MARGIN)
        room = foot.width - 2 * margin
        colour = GOLD if view.paused else INK
        shown = write(surface, font, view.speed, (0, foot.y + px(6)), colour, right=foot.right - margin)
        text = fit(font, view.status, room - shown.width - px(20), middle=True)
        write(surface, font, text, (foot.x + margin, foot.y + px(6)), RED if view.wrong else INK)
        small = self._fonts.small
        keys = view.keys.split(GAP)
        while len(keys) > 2 and small.size(GAP.join(keys))[0] > room:
            del keys[-2]  # the last one is help, where they all are
        write(surface, small, fit(small, GAP.join(keys), room), (foot.x + margin, foot.y + px(27)), DIM)


def view_of(session: Session, stage: Stage, keys: str = "", pointed: str = "", p99_ms: float = 0.0) -> View:
    """What a session shows as its stage leads it; menus and help are for whoever opens them to add."""
    status, wrong = state_line(session)
    moment = stage.moment()
    decided = session.phase != THINKING
    ghosts: tuple[Ghost, ...] = ()
    if moment is not None and not (decided and stage.revealed):
        ghosts = ghosts_of(load_village(), moment.before.figures[0], session.turn, decided, pointed)
    return View(
        moment=moment, text=session.turn.observation, facts=facts_of(session, stage.revealed), status=status,
        wrong=wrong, speed=speed_words(stage, p99_ms), paused=stage.paused, keys=keys, ghosts=ghosts, pointed=pointed,
    )  # fmt: skip


def speed_words(stage: Stage, p99_ms: float) -> str:
    """The right end of the status line: frame time of the slowest hundredth, hour, speed."""
    words = [f"frame p99 {p99_ms:.1f} ms"] if p99_ms else []
    clock = stage.clock()
    return "  ·  ".join([*words, *([clock] if clock else []), "paused" if stage.paused else f"speed ×{stage.speed}"])


def state_line(session: Session) -> tuple[str, bool]:
    """What goes on behind the picture, and whether something is wrong."""
    journal = session.journal
    recording = journal.status() if journal is not None else "not recording"
    wrong = [session.player.trouble] if session.player.trouble else []
    if session.turns and session.turns[-1].fallback:
        wrong = [f"daydreaming: {session.turns[-1].policy_note}"]
    if journal is not None and journal.error:
        return "; ".join([recording, *wrong]), True
    return "; ".join([*wrong, recording]), bool(wrong)
