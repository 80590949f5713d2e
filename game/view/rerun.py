"""An episode of a log, run again from its seed and its executed actions. No model is asked, no picture known.

What the panel says comes from the record; what the picture shows comes from the world that is run again, and after
every turn the two are compared by digest, so that nothing is shown that did not happen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from msgspec.structs import replace

import scenarios
from game.view.errors import BadUse
from game.view.players import Identity
from game.view.session import Session
from game.view.snapshot import Snapshot
from npc.decision import Decision
from recorder import DamagedLogError, Episode, EpisodeBegin, EpisodeNotFoundError, Reader, Turn
from rl.policies import TurnView
from scenarios.contract import Scenario, ScenarioError

FAILURES = ("illegal", "robbed", "gone", "refused")  # kinds of outcome that set the errand back


class RerunError(BadUse):
    """An episode that can't be shown: one line that names the log, the episode and the remedy."""


@dataclass(frozen=True)
class Rerun:
    """`turns` is the record, late rewards included; `traces[n]` the ticks of turn n, the state before it first.

    `ended` is None for an episode that was broken off.
    """

    scenario: Scenario
    begin: EpisodeBegin
    turns: list[Turn]
    traces: list[list[Snapshot]]
    ended: str | None

    @property
    def failure(self) -> int | None:
        """The first turn that set the errand back, or None; see `failed`."""
        return next((at for at in range(len(self.turns)) if self.failed(at)), None)

    def failed(self, at: int) -> bool:
        """Whether turn `at` went wrong: a fallback acted, its outcome says so, a reward term other than a cost that
        every turn has was taken back, or the episode ended in it without success."""
        turn = self.turns[at]
        lost = (name for name, value in turn.terms.items() if value < 0)
        taken_back = any(any(other.terms.get(name, 0.0) >= 0 for other in self.turns) for name in lost)
        last = at == len(self.turns) - 1 and self.ended not in (None, "success")
        return turn.fallback or turn.outcome_kind in FAILURES or taken_back or last


class LogBook:
    """The episodes of one log, read one at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the log. Raises RecorderError for what is no log, RerunError for one without any episode."""
        self._reader = Reader(path)
        self.path = self._reader.path
        self.numbers = self._reader.episode_ids()
        if not self.numbers:
            self.close()
            raise RerunError(f"{self.path}: no episode can be read in it; python -m recorder verify says what it holds")

    def close(self) -> None:
        self._reader.close()

    def rerun(self, number: int) -> Rerun:
        """Episode `number`, run again. Raises RerunError, and RecorderError for one that can't be read."""
        where = f"{self.path}: episode {number}"
        try:
            episode = self._reader.episode(number)
        except EpisodeNotFoundError:
            raise RerunError(f"{self.path}: no episode {number}; there is {_spans(self.numbers)}") from None
        except DamagedLogError as error:
            raise RerunError(f"{error}; python -m recorder verify says what is damaged") from error
        _check_whole(where, episode)
        scenario = _scenario_of(where, episode.begin)
        turns = [replace(turn, terms=episode.terms(turn.turn)) for turn in episode.turns]
        traces = _run(where, scenario, episode)
        return Rerun(scenario, episode.begin, turns, traces, episode.end.ended if episode.end else None)


class RecordedPlayer:
    """Answers every question with `next`: what was executed, whatever it was. Satisfies `players.Player`."""

    person = False
    waking = False
    trouble = ""
    identity = Identity()

    def __init__(self, first: Turn) -> None:
        self.next = first

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None: ...

    def poll(self) -> Decision | None:
        return Decision(self.next.executed, 0, [], 0.0, [], [], [], self.next.tau, self.next.greedy)

    def wait(self, seconds: float) -> None: ...

    def forget(self) -> None: ...

    def close(self) -> None: ...


def _check_whole(where: str, episode: Episode) -> None:
    turns = episode.turns
    gap = next((at for at, turn in enumerate(turns) if turn.turn != at), len(turns))
    if gap < len(turns) or (episode.end is not None and episode.end.turns > len(turns)):
        raise RerunError(f"{where}: turn {gap} is lost from the damaged log; choose another by --episode N")
    if not turns:
        raise RerunError(f"{where}: it was broken off before its first turn; choose another by --episode N")


def _scenario_of(where: str, begin: EpisodeBegin) -> Scenario:
    try:
        scenario = scenarios.get(begin.scenario)
        scenario.resolve_options(begin.options)
    except ScenarioError as error:
        raise RerunError(f"{where} can't be run again here: {error}") from error
    if begin.scenario_version != scenario.version:
        raise RerunError(
            f"{where} is of {begin.scenario} version {begin.scenario_version}, and this is version {scenario.version}; "
            "replay it with the program that wrote it"
        )
    return scenario


def _run(where: str, scenario: Scenario, episode: Episode) -> list[list[Snapshot]]:
    """The ticks of every turn. Raises RerunError at the first difference from the record."""
    begin = episode.begin
    player = RecordedPlayer(episode.turns[0])
    session = Session(scenario, begin.options, player, begin.policy)
    session.start(begin.seed)
    _compare(f"{where}, start", begin.digest_start, session.begin.digest_start)
    traces = []
    for recorded in episode.turns:
        at = f"{where}, turn {recorded.turn}"
        if session.ended is not None:
            raise RerunError(f"{at}: the episode is over by then when it is run again; {FOREIGN}")
        if session.turns:
            player.next = recorded
            session.proceed()
        session.play()
        _compare(at, recorded.digest_after, session.turn.digest_after)
        traces.append(session.trace)
    return traces


FOREIGN = "the log was made with other rules (python -m recorder verify --resim tells more)"


def _compare(where: str, logged: dict[str, str], now: dict[str, str]) -> None:
    parts = [part for part in {**now, **logged} if logged.get(part) != now.get(part)]
    if logged and parts:
        differ = "differs" if len(parts) == 1 else "differ"
        raise RerunError(f"{where}: {', '.join(parts)} {differ} when it is run again; {FOREIGN}")


def _spans(numbers: list[int]) -> str:
    """ "0 to 4, 7": what there is, in few words."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(first) if first == last else f"{first} to {last}" for first, last in spans[:6]]
    return ", ".join(words) + (" and more" if len(spans) > 6 else "")
