"""The whole picture, off-screen, at its own size: the village, the panel, a line of state and a line of keys."""

from __future__ import annotations

from pathlib import Path

import pygame

from game.view.facts import facts_of
from game.view.panel import MARGIN, Panel
from game.view.scene import SCALE, Scene
from game.view.session import Session
from game.view.stage import Stage
from game.view.text import DARK, DIM, GOLD, INK, RED, Fonts, fit, wrap, write
from game.view.tiles import load_tiles
from scenarios.village_map import load_village

PANEL_WIDTH = 360
FOOT = 46
KEYS = "space: pause    n: one turn    + −: speed    r: this seed again    tab: next seed    esc: quit"


class Picture:
    """Draws a session as its stage shows it. `size` is the picture's width and height in pixels."""

    def __init__(self) -> None:
        """Loads map, sprites and font. Raises MapError where one can't be read."""
        self._fonts = Fonts()
        tiles = load_tiles()
        self._scene = Scene(load_village(), tiles, self._fonts)
        width, height = tiles.size(SCALE)
        self._village = pygame.Rect(0, 0, width, height)
        self.size = (width + PANEL_WIDTH, height + FOOT)
        self._panel = Panel((PANEL_WIDTH, self.size[1]), self._fonts)
        self._surface = pygame.Surface(self.size)

    def draw(self, session: Session, stage: Stage) -> pygame.Surface:
        """The picture of this moment; the same surface every time."""
        surface = self._surface
        moment = stage.moment()
        if moment is not None:
            self._scene.draw(surface, moment)
        else:
            self._draw_text(surface, session.turn.observation)
        surface.blit(self._panel.draw(facts_of(session, stage.revealed)), (self._village.width, 0))
        self._draw_foot(surface, session, stage)
        return surface

    def save(self, session: Session, stage: Stage, path: Path) -> None:
        """Draws and writes a PNG. Raises OSError or pygame.error."""
        pygame.image.save(self.draw(session, stage), str(path))

    def _draw_text(self, surface: pygame.Surface, observation: str) -> None:
        """Instead of the village: what the player is told, for a scenario that is not played there."""
        surface.fill(DARK, self._village)
        y = 40
        for part in observation.split("\n"):
            for line in wrap(self._fonts.large, part, self._village.width - 80, 20):
                write(surface, self._fonts.large, line, (40, y), INK)
                y += 30

    def _draw_foot(self, surface: pygame.Surface, session: Session, stage: Stage) -> None:
        foot = pygame.Rect(0, self._village.bottom, self._village.width, FOOT)
        surface.fill(DARK, foot)
        font = self._fonts.normal
        speed = "paused" if stage.paused else f"speed x{stage.speed}"
        room = foot.width - 2 * MARGIN
        shown = write(surface, font, speed, (0, foot.y + 6), GOLD if stage.paused else INK, right=foot.right - MARGIN)
        words, wrong = state_line(session)
        text = fit(font, words, room - shown.width - 20, middle=True)
        write(surface, font, text, (MARGIN, foot.y + 6), RED if wrong else INK)
        write(surface, font, KEYS, (MARGIN, foot.y + 26), DIM)


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
