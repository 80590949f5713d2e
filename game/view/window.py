"""The window: shows the picture at a whole-number scale, and listens to keys. Opens no sound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pygame

from game.view.picture import Picture
from game.view.session import Session
from game.view.stage import Stage

FRAMES_PER_S = 60
LONGEST_FRAME_S = 0.1  # after a hiccup the picture goes on from where it was
BORDER = (12, 13, 18)


class Window:
    """One window for one session. Only the display is initialised: no mixer, no joysticks."""

    def __init__(self, session: Session, stage: Stage, on_frame: Callable[[], None] = lambda: None) -> None:
        """Opens the window. `on_frame` is called after each frame. Raises pygame.error without a display."""
        pygame.display.init()
        if pygame.display.get_driver() == "offscreen" and os.environ.get("SDL_VIDEODRIVER") != "offscreen":
            pygame.display.quit()
            raise pygame.error("there is no display")  # SDL would go on with a window that nobody can see
        self.session = session
        self.stage = stage
        self.picture = Picture()
        self._on_frame = on_frame
        pygame.display.set_caption("Errand")
        self.screen = pygame.display.set_mode(self._first_size(), pygame.RESIZABLE)
        self.open = True

    def _first_size(self) -> tuple[int, int]:
        """The picture's own size, or less where the screen is smaller."""
        sizes = pygame.display.get_desktop_sizes()
        width, height = self.picture.size
        if not sizes:
            return width, height
        share = min(1.0, 0.94 * sizes[0][0] / width, 0.88 * sizes[0][1] / height)
        return int(width * share), int(height * share)

    def run(self) -> None:
        """Until it is closed, or the turns that were asked for are shown."""
        before = time.monotonic()
        while self.open and not self.stage.done:
            now = time.monotonic()
            self.frame(min(now - before, LONGEST_FRAME_S))
            before = now
            self._pace(now + 1 / FRAMES_PER_S)

    def frame(self, seconds: float) -> None:
        """Takes in all events, moves the picture on by so many seconds, and draws it."""
        for event in pygame.event.get():
            self._handle(event)
        if not self.open:
            return
        self.stage.advance(seconds)
        self.show()
        self._on_frame()

    def show(self) -> None:
        """Draws the present moment."""
        drawn = self.picture.draw(self.session, self.stage)
        scaled, corner = placed(drawn, self.screen.get_size())
        self.screen.fill(BORDER)
        self.screen.blit(scaled, corner)
        pygame.display.flip()

    def close(self) -> None:
        pygame.display.quit()

    def _pace(self, until: float) -> None:
        """Waits for the next frame; an answer of the brain is noticed the moment it comes."""
        self.session.wait(max(until - time.monotonic(), 0.0))
        time.sleep(max(until - time.monotonic(), 0.0))

    def _handle(self, event: pygame.event.Event) -> None:
        if event.type == pygame.QUIT:
            self.open = False
        elif event.type == pygame.VIDEORESIZE:
            self.screen = pygame.display.get_surface() or self.screen
        elif event.type == pygame.KEYDOWN:
            self._key(event)

    def _key(self, event: pygame.event.Event) -> None:
        stage = self.stage
        if event.key == pygame.K_ESCAPE:
            self.open = False
        elif event.key == pygame.K_SPACE:
            stage.pause()
        elif event.key == pygame.K_n:
            stage.step()
        elif event.key == pygame.K_r:
            stage.start(self.session.seed)
        elif event.key in (pygame.K_TAB, pygame.K_RIGHT):
            stage.start(self.session.next_seed())
        elif event.key in (pygame.K_PLUS, pygame.K_KP_PLUS, pygame.K_EQUALS) or event.unicode == "+":
            stage.faster(1)
        elif event.key in (pygame.K_MINUS, pygame.K_KP_MINUS) or event.unicode == "-":
            stage.faster(-1)


def placed(drawn: pygame.Surface, room: tuple[int, int]) -> tuple[pygame.Surface, tuple[int, int]]:
    """The picture for a window of size `room` and its corner: whole-number scale, or shrunk where it is too small."""
    width, height = drawn.get_size()
    scale = min(room[0] // width, room[1] // height)
    if scale > 1:
        drawn = pygame.transform.scale_by(drawn, scale)
    elif scale < 1:
        share = min(room[0] / width, room[1] / height)
        drawn = pygame.transform.smoothscale(drawn, (max(int(width * share), 1), max(int(height * share), 1)))
    return drawn, ((room[0] - drawn.get_width()) // 2, (room[1] - drawn.get_height()) // 2)
