"""A recorded episode on a timeline: any place of it at once, forwards and backwards, or at a speed. No pygame.

The place runs from 0 (the start) to the number of turns (the end of the last one). Within a turn it is first thought,
then done tick by tick, then its outcome stands, for as long as in play.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from game.view.rerun import LogBook, RecordedPlayer, Rerun, RerunError
from game.view.session import PLAYED, THINKING, Result
from game.view.snapshot import Snapshot
from game.view.stage import READ_S, SPEEDS, THINK_S, TICKS_PER_S, Moment, moment_of
from recorder import EpisodeBegin, RecorderError, Turn
from scenarios.contract import Scenario


@dataclass(frozen=True)
class Shown:
    """A record as far as it stood at one moment; satisfies `facts.Told`, so that the panel is that of play."""

    scenario: Scenario
    begin: EpisodeBegin
    turn: Turn
    turns: list[Turn]
    phase: str
    ended: str | None
    trace: list[Snapshot]
    deciding: str
    player: RecordedPlayer
    results: tuple[Result, ...] = ()
    waiting: str = "thinking …"

    @property
    def seed(self) -> int:
        return self.begin.seed


class Replay:
    """The episodes of a log, one at a time. `note` says why something that was asked for can't be shown, or ""."""

    def __init__(self, book: LogBook, number: int | None = None) -> None:
        """Opens episode `number`, the first of the log by default. Raises RerunError or RecorderError."""
        self.book = book
        self.number = book.numbers[0] if number is None else number
        self.rerun = book.rerun(self.number)
        self.speed = SPEEDS[0]
        self.paused = False
        self.note = ""
        self.time_s = 0.0
        self._turn = 0
        self._seconds = 0.0  # of the turn, at speed x1
        self._shown: Shown | None = None

    # -- where it is --------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """How many turns the episode has."""
        return len(self.rerun.turns)

    @property
    def turn(self) -> int:
        """The turn that is shown, counted from 0."""
        return self._turn

    @property
    def place(self) -> float:
        """Where on the timeline, from 0 to `length`."""
        return self._turn + self._seconds / self._lasts(self._turn)

    @property
    def at_end(self) -> bool:
        return self._turn == self.length - 1 and self._seconds >= self._lasts(self._turn)

    @property
    def at(self) -> float:
        """Ticks into the trace of the turn."""
        ticks = self._ticks(self._turn)
        return float(ticks) if self.revealed else min(max(self._seconds - THINK_S, 0.0) * TICKS_PER_S, ticks)

    @property
    def revealed(self) -> bool:
        """Whether the turn is shown to its end."""
        return self._seconds >= self._done(self._turn)

    @property
    def shown(self) -> Shown:
        """The record as far as it stood at this place."""
        phase = THINKING if self._seconds < THINK_S else PLAYED
        turn = self._turn
        if self._shown is None or (self._shown.turn.turn, self._shown.phase) != (turn, phase):
            self._shown = _shown(self.rerun, turn, phase)
        return self._shown

    def moment(self) -> Moment | None:
        """What the picture shows; None where the scenario is not played in the village."""
        shown = self.shown
        left = shown.scenario.turn_cap - shown.turn.turn
        return moment_of(shown.trace, self.at, shown.turn, shown.phase, self.time_s, left, shown.ended)

    def _ticks(self, turn: int) -> int:
        return max(len(self.rerun.traces[turn]) - 1, 0)

    def _done(self, turn: int) -> float:
        return THINK_S + self._ticks(turn) / TICKS_PER_S

    def _lasts(self, turn: int) -> float:
        return self._done(turn) + READ_S

    # -- going elsewhere ----------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """One frame of so many seconds; pauses at the end."""
        self.time_s += seconds
        if self.paused:
            return
        self._seconds += seconds * self.speed
        while self._seconds >= self._lasts(self._turn) and self._turn < self.length - 1:
            self._seconds -= self._lasts(self._turn)
            self._turn += 1
        if self.at_end:
            self._seconds = self._lasts(self._turn)
            self.paused = True

    def seek(self, place: float) -> None:
        """Shows a place of the timeline; one outside of it is its nearer end."""
        place = min(max(place, 0.0), float(self.length))
        self._turn = min(int(place), self.length - 1)
        self._seconds = (place - self._turn) * self._lasts(self._turn)

    def go(self, turn: int) -> None:
        """Pauses and shows how turn `turn` came out; before turn 0 is the start, after the last the end."""
        self.paused, self.note = True, ""
        if turn < 0:
            self.seek(0.0)
        elif turn >= self.length:
            self.seek(float(self.length))
        else:
            self._turn, self._seconds = turn, self._done(turn)

    def forward(self) -> None:
        """To the outcome of this turn, or of the next one when this one is shown already."""
        self.go(self._turn + 1 if self.revealed else self._turn)

    def back(self) -> None:
        """To the outcome of the turn before this one."""
        self.go(self._turn - 1)

    def to_failure(self) -> None:
        """To the first turn that set the errand back, if there is one."""
        failure = self.rerun.failure
        if failure is None:
            self.note = "nothing went wrong in this episode"
        else:
            self.go(failure)

    def pause(self) -> None:
        """Stops, or goes on; at the end, from the start."""
        self.note = ""
        if self.paused and self.at_end:
            self.seek(0.0)
        self.paused = not self.paused

    def faster(self, by: int) -> None:
        """The next speed, or with -1 the one before."""
        at = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]

    def open(self, by: int) -> None:
        """Another episode of the log, `by` places after this one; `note` says so where it can't be shown."""
        numbers = self.book.numbers
        at = numbers.index(self.number) + by
        if not 0 <= at < len(numbers):
            self.note = f"this is the {'last' if by > 0 else 'first'} episode of the log"
            return
        try:
            self.rerun = self.book.rerun(numbers[at])
        except (RerunError, RecorderError) as error:
            self.note = str(error)
            return
        self.number, self.note, self.paused, self._shown = numbers[at], "", False, None
        self.seek(0.0)


def _shown(rerun: Rerun, turn: int, phase: str) -> Shown:
    record, trace, last = rerun.turns[turn], rerun.traces[turn], turn == len(rerun.turns) - 1
    thinking = phase == THINKING
    return Shown(
        scenario=rerun.scenario, begin=rerun.begin, turn=_question(record) if thinking else record,
        turns=rerun.turns[: turn if thinking else turn + 1], phase=phase, trace=trace[:1] if thinking else trace,
        ended=rerun.ended if last and not thinking else None, deciding=record.player or rerun.begin.policy,
        player=RecordedPlayer(record),
    )  # fmt: skip


def _question(record: Turn) -> Turn:
    """The record as far as it stood before the decision."""
    return replace(
        record, proposed="", executed="", prompt_ids=[], sampled_ids=[], logps=b"", probs=b"", outcome_kind="",
        outcome_text="", ticks=0, terms={}, fallback=False, digest_after={}, decision_ms=0.0, policy_note="", player="",
    )  # fmt: skip
