"""When the picture shows what: it follows the session's turns at a speed, and changes nothing in them. No pygame."""

from __future__ import annotations

from dataclasses import dataclass

from game.view.session import OVER, PLAYED, THINKING, Session
from game.view.snapshot import Snapshot
from recorder import Turn

SPEEDS = (1, 4, 16)
TICKS_PER_S = 7.0  # a tile a tick, at speed x1
THINK_S = 0.6  # how long thinking is shown at least
READ_S = 1.3  # how long an outcome stays
OVER_S = 2.5  # how long the end of an episode stays, at any speed a third of it at least


@dataclass(frozen=True)
class Moment:
    """What to draw: people on their way from `before` to `after`, `part` of it done (0 … 1), and who says what.

    `time_s` is the picture's own clock, for what moves of itself. `speech` is (who, words) or None.
    """

    before: Snapshot
    after: Snapshot
    part: float
    tick: int
    time_s: float
    thinking: bool
    speech: tuple[str, str] | None
    mark: str


class Stage:
    """Leads the session on as its picture is done: thinking, the way, the outcome, the end of the episode."""

    def __init__(self, session: Session, turns: int | None = None) -> None:
        self.session = session
        self.speed = SPEEDS[0]
        self.paused = False
        self.done = False  # the turns that were asked for are played and shown
        self.time_s = 0.0
        self._turns = turns
        self._step = False
        self._shown = 0.0  # seconds that the present part has been shown, at the present speed
        self._at = 0.0  # ticks into the trace

    @property
    def revealed(self) -> bool:
        """Whether the picture has come to the end of the turn."""
        session = self.session
        return session.phase == OVER or (session.phase == PLAYED and self._at >= len(session.trace) - 1)

    def advance(self, seconds: float) -> None:
        """One frame of so many seconds: looks for an answer, and goes on unless paused."""
        self.time_s += seconds
        session = self.session
        session.listen()
        if self.paused:
            return
        self._shown += seconds * self.speed
        if session.phase == THINKING:
            if session.answer is not None and self._shown >= THINK_S:
                session.play()
                self._shown = self._at = 0.0
        elif session.phase == PLAYED:
            if not self.revealed:
                self._at = min(self._at + seconds * self.speed * TICKS_PER_S, len(session.trace) - 1)
                self._shown = 0.0
            elif self._shown >= READ_S:
                self._after_turn()
        elif self._shown >= max(OVER_S, OVER_S / 3 * self.speed):
            self.start(session.next_seed())

    def _after_turn(self) -> None:
        if self._turns is not None and self.session.turns_played >= self._turns:
            self.done = True
            return
        self.session.proceed()
        self._shown = 0.0
        if self._step:
            self.paused, self._step = True, False

    def start(self, seed: int) -> None:
        """Begins an episode, at once."""
        self.session.start(seed)
        self._shown = self._at = 0.0

    def pause(self) -> None:
        """Stops, or goes on."""
        self.paused, self._step = not self.paused, False

    def step(self) -> None:
        """Goes on until the turn is shown, then pauses; after an episode, begins the next one."""
        if self.session.phase == OVER:
            self.start(self.session.next_seed())
            self.paused = True
            return
        self.paused, self._step = False, True

    def faster(self, by: int) -> None:
        """The next speed, or with -1 the one before."""
        at = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]

    def finish(self) -> None:
        """Shows the end of the turn now: for a single picture."""
        self._at = max(len(self.session.trace) - 1, 0)

    def moment(self) -> Moment | None:
        """What to draw now; None where the scenario is not played in the village."""
        session = self.session
        trace = session.trace
        if not trace:
            return None
        tick = min(int(self._at), len(trace) - 1) if session.phase == PLAYED else 0
        if session.phase == OVER:
            tick = len(trace) - 1
        after = trace[min(tick + 1, len(trace) - 1)]
        part = self._at - tick if session.phase == PLAYED else 0.0
        told = self.revealed and session.phase != THINKING
        speech = spoken(session.turn, trace[-1]) if told else None
        mark = ""
        if told and session.turn.outcome_kind in ("robbed", "gone", "illegal"):
            mark = "alert"
        thinking = session.phase == THINKING
        return Moment(trace[tick], after, min(part, 1.0), tick, self.time_s, thinking, speech, mark)


def spoken(turn: Turn, people: Snapshot) -> tuple[str, str]:
    """Who says an outcome: "Mara: no idea" is Mara's, the rest is the errand-runner's own, fallbacks among it."""
    text = turn.outcome_text
    if turn.fallback:
        return people.figures[0].name, f"I was daydreaming … {text}"
    who, colon, words = text.partition(": ")
    if colon and any(figure.name == who for figure in people.figures):
        return who, words[:1].upper() + words[1:]
    return people.figures[0].name, text[:1].upper() + text[1:]
