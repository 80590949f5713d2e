"""When the picture shows what: it follows the session's turns at a speed, and changes nothing in them. No pygame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from game.view.daylight import clock_words
from game.view.players import ModelPlayer, Player
from game.view.remarks import Remark, idle, plight, remarks, spoken
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

    `time_s` is the picture's own clock, for what moves of itself. `speech` is the turn's outcome or None; `remarks`
    are what people say of themselves. `mark` is the name of a sprite over the errand-runner, or "".
    """

    before: Snapshot
    after: Snapshot
    part: float
    tick: int
    time_s: float
    thinking: bool
    speech: Remark | None
    mark: str
    remarks: tuple[Remark, ...] = ()


MUMBLE_TICKS = 12
MARKS = {"robbed": "alert", "gone": "question", "illegal": "alert", "delivered": "heart", "refused": "question"}


def moment_of(
    trace: Sequence[Snapshot],
    at: float,
    turn: Turn,
    phase: str,
    time_s: float,
    left: int = 20,
    ended: str | None = None,
    line: str = "",
) -> Moment | None:
    """The moment `at` ticks into the trace of a turn; None without a trace.

    `phase` is the session's; `left` the turns that are left in THINKING; `ended` why the episode is over; `line` what a
    model made of the turn's outcome, in place of the words that are ready for it.
    """
    if not trace:
        return None
    if phase == THINKING:
        return Moment(trace[0], trace[min(1, len(trace) - 1)], 0.0, 0, time_s, True, None, "",
                      idle(trace[0], turn.turn, left))  # fmt: skip
    last = len(trace) - 1
    tick = last if phase == OVER else min(int(at), last)
    told = phase == OVER or at >= last
    speech = spoken(turn, trace[-1], trace[0]) if told else None
    if speech is not None and line:
        speech = speech._replace(words=line)
    said = remarks(trace, tick)
    if tick < MUMBLE_TICKS and not told:  # what was said while it thought, until it has been read
        heard = {remark.who for remark in said}
        said = (*(remark for remark in idle(trace[0], turn.turn, left) if remark.who not in heard), *said)
    mark = ("question" if turn.fallback else MARKS.get(turn.outcome_kind, "")) if told else ""
    if told and ended is not None and ended != "success":
        mark = "rain"
        said = (Remark(trace[-1].asker, f"Forget the {trace[-1].wanted}. I'll go myself."),)
    part = at - tick if phase == PLAYED else 0.0
    return Moment(
        trace[tick], trace[min(tick + 1, last)], min(max(part, 0.0), 1.0), tick, time_s, False, speech, mark,
        tuple(remark for remark in said if speech is None or remark.who != speech.who),
    )  # fmt: skip


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
        self._line = ""  # what the model said of the turn on show, where it can speak

    @property
    def revealed(self) -> bool:
        """Whether the picture has come to the end of the turn."""
        session = self.session
        return session.phase == OVER or (session.phase == PLAYED and self._at >= len(session.trace) - 1)

    @property
    def tick(self) -> int:
        """How many ticks of the turn are shown."""
        return int(self._at)

    def advance(self, seconds: float) -> None:
        """One frame of so many seconds: looks for an answer, and goes on unless paused."""
        self.time_s += seconds
        session = self.session
        session.listen()
        self._hear()
        if self.paused:
            return
        self._shown += seconds * self.speed
        if session.phase == THINKING:
            if session.answer is not None and (self._shown >= THINK_S or session.player.person):
                session.play()
                self._shown = self._at = 0.0
                self._ask_for_line()
        elif session.phase == PLAYED:
            if not self.revealed:
                self._at = min(self._at + seconds * self.speed * TICKS_PER_S, len(session.trace) - 1)
                self._shown = 0.0
            elif self._shown >= READ_S:
                self._after_turn()
        elif self._shown >= max(OVER_S, OVER_S / 3 * self.speed):
            self.after_episode()

    def _ask_for_line(self) -> None:
        self._line = ""
        session = self.session
        if isinstance(session.player, ModelPlayer) and session.trace:
            situation = plight(session.turn, session.trace[-1])
            if situation:
                session.player.speak(session.turns_played, situation)

    def _hear(self) -> None:
        player = self.session.player
        said = player.line() if isinstance(player, ModelPlayer) else None
        # a line for a turn that has passed is dropped, and one that comes when its bubble is up changes nothing
        if said is not None and said[0] == self.session.turns_played and not self.revealed:
            self._line = said[1]

    def after_episode(self) -> None:
        """The end was shown: on to the next seed."""
        self.start(self.session.next_seed())

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

    def fork(self, player: Player, name: str) -> None:
        """The turn on show is decided again, by another."""
        self.session.fork(player, name)
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
        left = session.scenario.turn_cap - session.turn.turn
        moment = moment_of(session.trace, self._at, session.turn, session.phase, self.time_s, left, session.ended,
                           self._line)  # fmt: skip
        if moment is not None and moment.thinking and session.player.person:
            return replace(moment, thinking=False, mark="question")
        return moment

    def clock(self) -> str:
        """The hour in the village, as a clock shows it; "" outside of it."""
        trace = self.session.trace
        if not trace:
            return ""
        shown = {THINKING: 0, PLAYED: int(self._at)}.get(self.session.phase, len(trace) - 1)
        return clock_words(trace[min(shown, len(trace) - 1)].tick)
