"""Puts a game together from settings and plays it, in a window or without one. pygame is imported only to draw."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import scenarios
from game.view.answers import Result
from game.view.errors import USER_ERRORS, BadUse
from game.view.journal import Journal
from game.view.person import PERSON
from game.view.roster import Roster
from game.view.saving import FAILED, GOOD, PICTURE, check_target, prepare_pygame, save_picture
from game.view.session import OVER, Session
from game.view.stage import Stage
from scenarios.contract import Scenario, check_seed

if TYPE_CHECKING:
    from game.view.sound import Sounds

__all__ = ["BAD_USE", "FAILED", "GOOD", "INTERRUPTED", "USER_ERRORS", "BadUse", "Reporter", "Settings", "play"]

BAD_USE, INTERRUPTED = 2, 130
PATIENCE_S = 0.05  # headless: how often a deadline is looked at


@dataclass(frozen=True)
class Settings:
    """What `python -m game` was asked for; `turns` None: until the window is closed."""

    brain: str = "nano:fetch_item"
    scenario: str = "fetch_item"
    options: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    record: Path | None = None
    greedy: bool = False
    deadline_s: float = 5.0
    headless: bool = False
    turns: int | None = None
    screenshot: Path | None = None
    json: bool = False
    size: tuple[int, int] = (1320, 686)  # of the window at first, and of the screenshot
    sound: bool = False


def play(settings: Settings) -> int:
    """Plays, and returns the exit code. Raises one of USER_ERRORS for what can't be had."""
    if settings.headless and settings.turns is None:
        raise BadUse("--headless needs an end: give --turns N")
    if settings.headless and settings.sound:
        raise BadUse("--sound needs a window: leave --headless or --sound out")
    if settings.headless and settings.brain == PERSON:
        raise BadUse("--brain human needs a window: leave --headless out, or let a policy play")
    scenario = scenarios.get(settings.scenario)
    if settings.brain == PERSON and scenario.free_text is not None:
        raise BadUse(f"--brain human can't play {scenario.name}: a turn there is a text, not a choice; choose another")
    scenario.resolve_options(settings.options)
    check_seed(settings.seed)
    check_target("--screenshot", settings.screenshot, PICTURE)
    with _parts(settings, scenario) as (roster, journal):
        player = roster.player(settings.brain)
        session = Session(
            scenario, settings.options, player, settings.brain, journal=journal, greedy=settings.greedy,
            deadline_s=settings.deadline_s, traced=not settings.headless,
        )  # fmt: skip
        reporter = Reporter(session, settings.json)
        stage = Stage(session, settings.turns)
        try:
            session.start(settings.seed)
            if settings.headless:
                code = _play_headless(session, stage, settings, reporter)
            else:
                code = _play_window(session, stage, roster, settings, reporter)
        except KeyboardInterrupt:
            code = INTERRUPTED
        reporter.finish()
        for trouble in roster.trouble():
            print(f"brain: {trouble}; the fallback played on", file=sys.stderr)
            code = code or FAILED
    if journal is not None and journal.error:
        code = code or FAILED
    return code


@contextlib.contextmanager
def _parts(settings: Settings, scenario: Scenario) -> Iterator[tuple[Roster, Journal | None]]:
    """Who can play and the log, both closed at the end whatever happens."""
    with contextlib.ExitStack() as closing:
        roster = Roster(scenario)
        closing.callback(roster.close)
        roster.check(settings.brain)
        journal = None
        if settings.record is not None:
            journal = Journal(settings.record, scenario.engine_version)
            closing.callback(journal.close)
        yield roster, journal


def _play_headless(session: Session, stage: Stage, settings: Settings, reporter: Reporter) -> int:
    """Plays exactly so many turns, episode after episode, as fast as the player answers."""
    assert settings.turns is not None
    while True:
        while session.answer is None:
            session.listen()
            session.wait(PATIENCE_S)
        session.play()
        reporter.report()
        if session.turns_played >= settings.turns:
            break
        session.proceed()
        if session.phase == OVER:
            session.start(session.next_seed())
    if settings.screenshot is None:
        return GOOD
    prepare_pygame(dummy=True)
    from game.view.picture import Picture, view_of

    stage.finish()
    return save_picture(settings.screenshot, lambda: Picture(settings.size).draw(view_of(session, stage)))


def _play_window(session: Session, stage: Stage, roster: Roster, settings: Settings, reporter: Reporter) -> int:
    prepare_pygame(dummy=False)
    import pygame

    from game.view.play_show import PlayShow
    from game.view.window import Window

    show = PlayShow(session, stage, roster, settings.size, _sounds() if settings.sound else None)
    try:
        window = Window(show, reporter.report)
    except pygame.error as error:
        raise BadUse(f"no window can be opened ({error}); play with --headless --turns N") from error
    try:
        window.run()
        if settings.screenshot is None:
            return GOOD
        return save_picture(settings.screenshot, lambda: show.picture.draw(show.view()))
    finally:
        window.close()
        if show.sounds is not None:
            show.sounds.close()


def _sounds() -> Sounds:
    import pygame

    from game.view.sound import Sounds

    try:
        return Sounds()
    except pygame.error as error:
        raise BadUse(f"no sound can be opened ({error}); play without --sound") from error


class Reporter:
    """One line for each episode, as soon as it is over."""

    def __init__(self, session: Session, as_json: bool) -> None:
        self._session = session
        self._json = as_json
        self._reported = 0

    def report(self) -> None:
        """Prints what has ended since the last call."""
        for result in self._session.results[self._reported :]:
            self._print(result)
        self._reported = len(self._session.results)

    def finish(self) -> None:
        """Prints what is left, the episode that was broken off included, and the sum of it all."""
        self.report()
        cut = self._session.broken_off()
        if cut is not None:
            self._print(cut)
        if not self._json:
            ended = [result for result in self._session.results if result.ended is not None]
            won = sum(result.success for result in ended)
            print(f"{self._session.turns_played} turns, {len(ended)} episodes ended, {won} of them in success")
        sys.stdout.flush()

    def _print(self, result: Result) -> None:
        if self._json:
            print(msgspec.json.encode(result).decode(), flush=True)
            return
        how = f"{result.ended} after" if result.ended else "broken off after"
        fallbacks = f", {result.fallbacks} fallbacks" if result.fallbacks else ""
        print(
            f"episode {result.episode}, seed {result.seed}: {how} {result.turns} turns, "
            f"reward {result.reward:.3f}{fallbacks}",
            flush=True,
        )
