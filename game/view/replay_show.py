"""A replay in the window: the picture of play, and a timeline under it that the mouse and the keys move along."""

from __future__ import annotations

import time
from dataclasses import replace

import pygame

from game.view.daylight import clock_words
from game.view.facts import facts_of
from game.view.ghosts import Ghost, ghosts_of
from game.view.layout import EXTRA_ROW, FIRST_SIZE
from game.view.picture import Picture, View
from game.view.replay import Replay
from game.view.session import THINKING
from game.view.show import Control, Point, keys_line
from game.view.timeline import Timeline, place_at
from recorder import Turn
from scenarios.village_map import load_village

LINES = 16  # of an answer in free text
LEFT_BUTTON, WHEEL_UP, WHEEL_DOWN = 1, 4, 5


class ReplayShow:
    """Satisfies `show.Show`. It stays open at the end of the record."""

    done = False

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.first_size = (FIRST_SIZE[0], FIRST_SIZE[1] + EXTRA_ROW)
        self.picture = Picture(self.first_size, extra_rows=1)
        page = Control((pygame.K_h, pygame.K_F1, pygame.K_QUESTION), "h", "this page of keys", self._turn_help, "keys")
        self.controls = (*controls_of(replay), page)
        self.helped = False
        self._timeline = Timeline()
        self._held = False  # the pointer holds the timeline

    def _turn_help(self) -> None:
        self.helped = not self.helped

    def resize(self, size: tuple[int, int]) -> None:
        self.picture.resize(size)

    def advance(self, seconds: float) -> None:
        self.replay.advance(seconds)

    def draw(self, p99_ms: float = 0.0) -> pygame.Surface:
        """Picture, panel and timeline at the present place."""
        surface = self.picture.draw(self._view(p99_ms))
        self._timeline.draw(surface, self.picture.layout.extra, self.replay.rerun, self.replay.place)
        return surface

    def _view(self, p99_ms: float) -> View:
        replay, shown, moment = self.replay, self.replay.shown, self.replay.moment()
        facts = facts_of(shown, replay.revealed)
        ghosts: tuple[Ghost, ...] = ()
        decided = shown.phase != THINKING
        if moment is not None and not replay.revealed:
            ghosts = ghosts_of(load_village(), moment.before.figures[0], shown.turn, decided, "")
        helped = tuple((control.shown, control.doc) for control in self.controls) if self.helped else ()
        return View(
            moment=moment, text=text_of(shown.turn), facts=replace(facts, tally=self._tally()),
            status=replay.note or self._where(), wrong=bool(replay.note), speed=self._speed(p99_ms),
            keys=keys_line(self.controls), paused=replay.paused, ghosts=ghosts, help=helped,
        )  # fmt: skip

    def _tally(self) -> str:
        numbers = self.replay.book.numbers
        return f"episode {numbers.index(self.replay.number) + 1:,} of {len(numbers):,}"

    def _where(self) -> str:
        replay = self.replay
        how = replay.rerun.ended or "broken off"
        return f"{replay.book.path}: episode {replay.number} ({how}), turn {replay.turn} (0 to {replay.length - 1})"

    def _speed(self, p99_ms: float) -> str:
        replay, moment = self.replay, self.replay.moment()
        words = [f"frame p99 {p99_ms:.1f} ms"] if p99_ms else []
        if moment is not None:
            words.append(clock_words(moment.before.tick))
        return "  ·  ".join([*words, "paused" if replay.paused else f"speed ×{replay.speed}"])

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def press(self, key: int) -> bool:
        """Escape closes the page of keys, if it is open."""
        if key == pygame.K_ESCAPE and self.helped:
            self.helped = False
            return True
        return False

    def click(self, at: Point, button: int) -> None:
        """On the timeline: shows that place. The wheel moves by a turn, wherever the pointer is."""
        if button == WHEEL_UP:
            self.replay.back()
        elif button == WHEEL_DOWN:
            self.replay.forward()
        elif button == LEFT_BUTTON:
            self._held = self.picture.layout.extra.collidepoint(at)
            self.drag(at)

    def drag(self, at: Point) -> None:
        """Holding the timeline: the place follows the pointer."""
        if self._held:
            self.replay.paused, self.replay.note = True, ""
            self.replay.seek(place_at(self.picture.layout.extra, at[0], self.replay.length))

    def hover(self, at: Point) -> None:
        self._held = False


def text_of(turn: Turn) -> str:
    """What stands in the village's place where there is none: what was seen, and an answer in free text."""
    if turn.legal or not turn.executed:
        return turn.observation
    said = turn.executed.split("\n")
    return "\n".join([turn.observation, "", *said[:LINES], *(["…"] if len(said) > LINES else [])])


def controls_of(replay: Replay) -> tuple[Control, ...]:
    """What the keys do to a replay."""
    plus = (pygame.K_PLUS, pygame.K_KP_PLUS, pygame.K_EQUALS)
    return (
        Control((pygame.K_SPACE,), "space", "pause, or go on; at the end, from the start", replay.pause, "pause"),
        Control((pygame.K_LEFT,), "left", "back to the turn before", replay.back, "back"),
        Control((pygame.K_RIGHT, pygame.K_n), "right", "on to the next turn", replay.forward, "on"),
        Control((pygame.K_HOME,), "home", "to the start", lambda: replay.go(-1)),
        Control((pygame.K_END,), "end", "to the end", lambda: replay.go(replay.length)),
        Control((pygame.K_f,), "f", "to the first turn that went wrong", replay.to_failure, "first failure"),
        Control(plus, "+", "faster", lambda: replay.faster(1), "faster"),
        Control((pygame.K_MINUS, pygame.K_KP_MINUS), "−", "slower", lambda: replay.faster(-1), "slower"),
        Control((pygame.K_TAB, pygame.K_PAGEDOWN), "tab", "the next episode", lambda: replay.open(1), "next episode"),
        Control((pygame.K_b, pygame.K_PAGEUP), "b", "the episode before", lambda: replay.open(-1), "episode before"),
    )
