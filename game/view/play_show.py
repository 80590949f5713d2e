"""The game in a window: follows the stage, and lets a person take over, choose, hand back and branch off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pygame

from game.view.errors import USER_ERRORS
from game.view.intents import Target, intents
from game.view.layout import FIRST_SIZE
from game.view.menu import Menu
from game.view.person import PERSON
from game.view.picture import Picture, View, view_of
from game.view.play_controls import play_controls
from game.view.players import BrainFailed
from game.view.roster import Roster
from game.view.session import PLAYED, THINKING, Session
from game.view.show import Point, keys_line
from game.view.sound import OUTCOMES, Sounds
from game.view.stage import Stage
from game.view.targets import place_of, target_at

DIGITS = tuple("1234567890")
DIGIT_KEYS = {getattr(pygame, f"K_{prefix}{digit}"): at for at, digit in enumerate(DIGITS) for prefix in ("", "KP")}
UP_DOWN = {pygame.K_UP: -1, pygame.K_DOWN: 1}
ENTER = (pygame.K_RETURN, pygame.K_KP_ENTER)
SAID_S = 4.0  # how long a line about what was just done stays


class PlayShow:
    """Satisfies `show.Show`. What it holds beside session and stage is what is open on the screen."""

    def __init__(
        self,
        session: Session,
        stage: Stage,
        roster: Roster,
        size: tuple[int, int] = FIRST_SIZE,
        sounds: Sounds | None = None,
    ) -> None:
        """`size` is that of the window at first. Raises MapError where map or sprites can't be read."""
        self.session = session
        self.stage = stage
        self.roster = roster
        self.picture = Picture(size)
        self._first_size = size
        self.sounds = sounds
        self.controls = play_controls(self)
        self.help = False
        self.menu: Menu | None = None
        self._acts: tuple[Callable[[], None], ...] = ()  # what each line of the menu does
        self._phrases: tuple[str, ...] = ()  # the lines of a menu of what can be done now
        self._pointed = ""
        self._started_with = session.deciding
        self._brain = session.deciding if session.deciding != PERSON else ""
        self._said: tuple[str, float] = ("", 0.0)
        self._keys = keys_line(self.controls)
        self._turn = (0, 0)

    # -- what a window asks of a show ------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        return self.stage.done

    @property
    def first_size(self) -> tuple[int, int]:
        return self._first_size

    def resize(self, size: tuple[int, int]) -> None:
        self.picture.resize(size)
        self.menu = None

    def advance(self, seconds: float) -> None:
        told, tick = self.stage.revealed, self.stage.tick
        self._guard(lambda: self.stage.advance(seconds))
        if self.sounds is not None:
            self._sound(told, tick)
        turn = (self.session.begin.episode, self.session.turn.turn)
        if turn != self._turn or self.session.phase != THINKING:
            self._turn, self._pointed = turn, ""
            if self._phrases:
                self.close_menu()

    def _sound(self, told: bool, tick: int) -> None:
        """A step at every other tick, a tune for an outcome that is shown from now on."""
        assert self.sounds is not None
        session, stage = self.session, self.stage
        if session.phase == PLAYED and stage.revealed and not told:
            lost = session.ended not in (None, "success")
            tune = "failed" if lost else OUTCOMES.get(session.turn.outcome_kind, "")
            if tune:
                self.sounds.play(tune)
        elif session.phase == PLAYED and stage.tick != tick and stage.tick % 2:
            self.sounds.play("step")

    def draw(self, p99_ms: float) -> pygame.Surface:
        return self.picture.draw(self.view(p99_ms))

    def view(self, p99_ms: float = 0.0) -> View:
        """What is shown now."""
        pointed = self._pointed
        if self.menu is not None and self._phrases:
            pointed = self._phrases[self.menu.pointed]
        shown = view_of(self.session, self.stage, self._keys, pointed if self.asked else "", p99_ms)
        said, until = self._said
        status = said if said and self.stage.time_s < until and not shown.wrong else shown.status
        return replace(shown, status=status, menu=self.menu, help=self.help_lines() if self.help else ())

    def wait(self, seconds: float) -> None:
        self._guard(lambda: self.session.wait(seconds))

    def _guard(self, go_on: Callable[[], None]) -> None:
        """A brain that was chosen from the list and can't be loaded leaves the errand-runner to who chose it.

        Raises BrainFailed for the one that the game was started with.
        """
        try:
            go_on()
        except BrainFailed as error:
            failed = self.session.deciding
            if failed == self._started_with:
                raise
            self.roster.drop(failed)
            self._brain = self._started_with if self._started_with != PERSON else ""
            self.session.hand_to(self.roster.person, PERSON)
            self.say(f"{failed} can't play, it is your turn: {error}")

    def press(self, key: int) -> bool:
        if self.help:
            self.help = False
            return key in (pygame.K_ESCAPE, pygame.K_h, pygame.K_QUESTION, pygame.K_SLASH)
        if self.menu is not None:
            return self._press_in_menu(key)
        if not self.asked:
            return False
        legal = self.session.turn.legal
        if key in DIGIT_KEYS and DIGIT_KEYS[key] < len(legal):
            self.choose(legal[DIGIT_KEYS[key]])
        elif key in UP_DOWN:
            at = legal.index(self._pointed) if self._pointed in legal else -1 if UP_DOWN[key] > 0 else 0
            self._pointed = legal[(at + UP_DOWN[key]) % len(legal)]
        elif key in ENTER and self._pointed in legal:
            self.choose(self._pointed)
        else:
            return False
        return True

    def click(self, at: Point, button: int) -> None:
        if self.help:
            self.help = False
            return
        if button not in (1, 3):
            return
        if self.menu is not None:
            line = self._line_at(at)
            self._choose_line(line) if line >= 0 else self.close_menu()
            return
        phrase = self._phrase_at(at)
        if phrase and self.asked:
            self.choose(phrase)
            return
        moment = self.stage.moment()
        target = target_at(self.picture, moment, at) if moment is not None else None
        if moment is not None and target is not None:
            self._open_intents(target, place_of(self.picture, moment), at)

    def drag(self, at: Point) -> None:
        self.hover(at)

    def hover(self, at: Point) -> None:
        if self.menu is not None:
            self._point_at(self._line_at(at))
        elif self.asked:
            self._pointed = self._phrase_at(at)

    # -- what a person does ----------------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether the errand-runner waits for a person to choose."""
        return self.session.phase == THINKING and self.session.player.person and self.session.answer is None

    def choose(self, phrase: str) -> None:
        """Plays a legal phrase; goes on for this turn where the game is paused."""
        if self.roster.person.choose(phrase):
            self._pointed = ""
            self.close_menu()
            if self.stage.paused:
                self.stage.step()

    def take_over(self) -> None:
        """A person decides from now on, or the policy again."""
        session = self.session
        if session.scenario.free_text is not None:
            self.say("A turn is a text here, not a choice: there is nothing to take over.")
        elif session.deciding != PERSON:
            self._brain = session.deciding
            session.hand_to(self.roster.person, PERSON)
            self.say("You are the errand-runner now. Click, or choose a number; T hands back.")
        elif self._brain:
            self._hand_to(self._brain)
        else:
            self.open_policies(forking=False)

    def open_policies(self, forking: bool = True) -> None:
        """The list of policies: to play the turn on show again with another, or only to hand over to one."""
        names = self.roster.names()
        caption = f"Play turn {self.session.turn.turn + 1} again with" if forking else "Hand the errand-runner to"
        act = self._fork if forking else self._hand_to
        aside = self.picture.fonts.px(30)
        left, top = self.picture.layout.village.topleft
        self._open(caption, names, tuple(partial(act, name) for name in names), (left + aside, top + aside))

    def toggle_help(self) -> None:
        self.help = not self.help
        self.close_menu()

    def help_lines(self) -> tuple[tuple[str, str], ...]:
        """The page of keys: the controls, and what the mouse does."""
        mouse = (
            ("1 … 9, 0", "your turn: choose from the list"),
            ("arrows, enter", "your turn: go through the list, choose"),
            ("click", "place, person or item: what can be done there"),
            ("esc", "close a menu or this page; else quit"),
        )
        return (*((control.shown, control.doc) for control in self.controls), *mouse)

    def say(self, words: str) -> None:
        """A line in the status for a moment."""
        self._said = (words, self.stage.time_s + SAID_S)

    # -- menus -----------------------------------------------------------------------------------------------------

    def close_menu(self) -> None:
        self.menu, self._acts, self._phrases = None, (), ()

    def _open(self, caption: str, lines: tuple[str, ...], acts: tuple[Callable[[], None], ...], at: Point) -> None:
        self.menu, self._acts, self._phrases = Menu(caption, lines, at, 0, DIGITS[: len(lines)]), acts, ()

    def _open_intents(self, target: Target, here: str, at: Point) -> None:
        session = self.session
        name = target.name if target.kind == "person" else f"the {target.name}"
        if not session.player.person:
            self._open(f"{session.deciding} plays", ("take over here",), (self.take_over,), at)
            return
        if not self.asked:
            return
        found = intents(target, session.turn.legal, here)
        if found:
            self._open(name, found, tuple(partial(self.choose, phrase) for phrase in found), at)
            self._phrases = found
        else:
            self.say(f"Nothing can be done with {name} from here.")

    def _press_in_menu(self, key: int) -> bool:
        assert self.menu is not None
        count = len(self.menu.lines)
        if key == pygame.K_ESCAPE:
            self.close_menu()
        elif key in UP_DOWN:
            self._point_at((self.menu.pointed + UP_DOWN[key]) % count)
        elif key in ENTER and self.menu.pointed >= 0:
            self._choose_line(self.menu.pointed)
        elif key in DIGIT_KEYS and DIGIT_KEYS[key] < min(count, len(self.menu.keys)):
            self._choose_line(DIGIT_KEYS[key])
        else:
            return False
        return True

    def _choose_line(self, line: int) -> None:
        act = self._acts[line]
        self.close_menu()
        self._guard(act)

    def _hand_to(self, policy: str) -> None:
        try:
            self.session.hand_to(self.roster.player(policy), policy)
        except USER_ERRORS as error:
            self.say(f"{policy} can't play: {error}")
            return
        self._brain = policy
        self.say(f"{policy} plays on.")

    def _fork(self, policy: str) -> None:
        try:
            player = self.roster.player(policy)
        except USER_ERRORS as error:
            self.say(f"{policy} can't play: {error}")
            return
        turn = self.session.turn.turn
        self.stage.fork(player, policy)
        self._brain = policy
        self.say(f"Branched off before turn {turn + 1}: {policy} plays it again.")

    # -- where the pointer is ----------------------------------------------------------------------------------------

    def _line_at(self, at: Point) -> int:
        return next((line for line, row in enumerate(self.picture.menu_rows) if row.collidepoint(at)), -1)

    def _phrase_at(self, at: Point) -> str:
        left, top = self.picture.layout.panel.topleft
        inside = (at[0] - left, at[1] - top)
        return next((phrase for phrase, row in self.picture.panel.rows if row.collidepoint(inside)), "")

    def _point_at(self, line: int) -> None:
        if self.menu is not None and line >= 0:
            self.menu = Menu(self.menu.caption, self.menu.lines, self.menu.at, line, self.menu.keys)
