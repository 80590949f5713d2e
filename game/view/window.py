"""The window: runs a show, listens to keys and mouse, keeps the pace. Opens no sound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pygame

from game.view.frames import FrameTimes
from game.view.show import Show

FRAMES_PER_S = 60
LONGEST_FRAME_S = 0.1  # after a hiccup the picture goes on from where it was
TYPED = {"+": pygame.K_PLUS, "-": pygame.K_MINUS, "?": pygame.K_QUESTION}


class Window:
    """One window for one show. Only the display is initialised: no mixer, no joysticks."""

    def __init__(
        self,
        show: Show,
        on_frame: Callable[[], None] = lambda: None,
        title: str = "Errand",
        size: tuple[int, int] | None = None,
    ) -> None:
        """Opens the window, of `size` or of what the show wants and the screen has room for.

        `on_frame` is called after each frame. Raises pygame.error without a display.
        """
        pygame.display.init()
        if pygame.display.get_driver() == "offscreen" and os.environ.get("SDL_VIDEODRIVER") != "offscreen":
            pygame.display.quit()
            raise pygame.error("there is no display")  # SDL would go on with a window that nobody can see
        self.show = show
        self.times = FrameTimes()
        self.open = True
        self._on_frame = on_frame
        pygame.display.set_caption(title)
        self.screen = pygame.display.set_mode(size or self._first_size(), pygame.RESIZABLE)
        self._fit()

    def _first_size(self) -> tuple[int, int]:
        """The size that the show wants, or less where the screen is smaller."""
        sizes = pygame.display.get_desktop_sizes()
        width, height = self.show.first_size
        if not sizes:
            return width, height
        share = min(1.0, 0.94 * sizes[0][0] / width, 0.88 * sizes[0][1] / height)
        return int(width * share), int(height * share)

    def run(self) -> None:
        """Until it is closed, or the show is done."""
        before = time.monotonic()
        while self.open and not self.show.done:
            now = time.monotonic()
            self.frame(min(now - before, LONGEST_FRAME_S))
            before = now
            self._pace(now + 1 / FRAMES_PER_S)

    def frame(self, seconds: float) -> None:
        """Takes in all events, moves the show on by so many seconds, and draws it."""
        began = time.perf_counter()
        for event in pygame.event.get():
            self._handle(event)
        if not self.open:
            return
        self.show.advance(seconds)
        self.screen.blit(self.show.draw(self.times.p99_ms), (0, 0))
        pygame.display.flip()
        self.times.add(time.perf_counter() - began)
        self._on_frame()

    def close(self) -> None:
        pygame.display.quit()

    def _pace(self, until: float) -> None:
        """Waits for the next frame; an answer of the brain is noticed the moment it comes."""
        self.show.wait(max(until - time.monotonic(), 0.0))
        time.sleep(max(until - time.monotonic(), 0.0))

    def _fit(self) -> None:
        self.show.resize(self.screen.get_size())

    def _handle(self, event: pygame.event.Event) -> None:
        if event.type == pygame.QUIT:
            self.open = False
        elif event.type == pygame.VIDEORESIZE:
            self.screen = pygame.display.get_surface() or self.screen
            self._fit()
        elif event.type == pygame.KEYDOWN:
            self._key(event)
        elif event.type == pygame.MOUSEBUTTONDOWN:
            self.show.click(event.pos, event.button)
        elif event.type == pygame.MOUSEMOTION:
            (self.show.drag if event.buttons[0] else self.show.hover)(event.pos)

    def _key(self, event: pygame.event.Event) -> None:
        if self.show.press(event.key):
            return
        if event.key == pygame.K_ESCAPE:
            self.open = False
            return
        typed = TYPED.get(event.unicode, event.key)  # where a sign is on the keyboard differs from land to land
        control = next((control for control in self.show.controls if typed in control.keys), None)
        if control is not None:
            control.act()
