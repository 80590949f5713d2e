"""Replay as a check: the executed actions of a log, run again, digest by digest. No model is called.

What a scenario is comes from outside, as `get(name)`; this module asks of it what `Stage` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from recorder.reader import Episode, Reader
from recorder.records import EpisodeBegin


class Stage(Protocol):
    """The part of a scenario that a replay needs."""

    version: int
    engine_version: str

    def build(self, seed: int, options: Mapping[str, str]) -> Any: ...
    def apply(self, state: Any, phrase: str) -> Any: ...
    def digest(self, state: Any) -> Mapping[str, str]: ...


class Difference(msgspec.Struct, frozen=True):
    """The first thing in an episode that came out otherwise. `turn` is None for what comes before turn 0."""

    episode: int
    turn: int | None
    what: str
    scenario: str
    logged_version: int
    program_version: int | None
    logged_engine: str
    program_engine: str

    def __str__(self) -> str:
        where = f"episode {self.episode}, " + ("start" if self.turn is None else f"turn {self.turn}")
        engine = (
            f"engine {self.logged_engine or '?'} in both"
            if self.logged_engine == self.program_engine
            else f"engine {self.logged_engine or '?'} in the log, {self.program_engine or '?'} here"
        )
        return f"{where}: {self.what} ({self._versions()}; {engine})"

    def _versions(self) -> str:
        if self.logged_version == self.program_version:
            return f"scenario {self.scenario} version {self.logged_version} in both"
        here = "none" if self.program_version is None else f"version {self.program_version}"
        return f"scenario {self.scenario} version {self.logged_version} in the log, {here} here"


class Replay(msgspec.Struct):
    """What a replay of a whole log found."""

    episodes: int = 0
    """Episodes run again."""
    compared: int = 0
    """Turns whose digest was compared."""
    unrecorded: int = 0
    """Turns that were run again and have no digest in the log to compare with."""
    unreachable: int = 0
    """Turns that could not be run again, because one before them is lost or came out otherwise."""
    differences: list[Difference] = []
    notes: list[str] = []
    """What a person should know besides: other versions, episodes with lost turns."""

    @property
    def agrees(self) -> bool:
        """No difference was found, and something was compared (unless the log has no turn)."""
        return not self.differences and bool(self.compared or not (self.unrecorded + self.unreachable))


def resim(reader: Reader, get: Callable[[str], Stage]) -> Replay:
    """Runs every episode of a log again, all attempts, and compares the digests after every turn.

    An exception that `get` or the scenario raises is a difference like any other: the log says it went well.
    """
    replay = Replay()
    for episode in reader.episodes("all"):
        begin = episode.begin
        logged = begin.engine_version or (reader.header.engine_version if reader.header else "")
        _Run(replay, begin, logged).play(episode, get)
    if not replay.agrees and not replay.differences:
        replay.notes.append("nothing was compared: no turn that could be run again has a digest in the log")
    return replay


class _Run:
    """One episode's replay."""

    def __init__(self, replay: Replay, begin: EpisodeBegin, logged_engine: str) -> None:
        self.replay, self.begin, self.logged_engine = replay, begin, logged_engine
        self.version: int | None = None
        self.engine = ""

    def play(self, episode: Episode, get: Callable[[str], Stage]) -> None:
        begin, replay = self.begin, self.replay
        replay.episodes += 1
        left = len(episode.turns)
        turn: int | None = None
        try:
            stage = get(begin.scenario)
            self.version, self.engine = stage.version, stage.engine_version
            self._compare_rules(stage)
            state = stage.build(begin.seed, begin.options)
            if begin.digest_start and self._differs(None, begin.digest_start, stage.digest(state)):
                replay.unreachable += left
                return
            for at, recorded in enumerate(episode.turns):
                if recorded.turn != at:
                    replay.unreachable += left
                    self._note(f"episode {begin.episode}: turn {at} is lost from the log; run again up to it")
                    return
                turn = at
                stage.apply(state, recorded.executed)
                left -= 1
                if not recorded.digest_after:
                    replay.unrecorded += 1
                    continue
                replay.compared += 1
                if self._differs(at, recorded.digest_after, stage.digest(state)):
                    replay.unreachable += left
                    return
        except Exception as error:  # a scenario is anybody's code; whatever it raises is the finding
            replay.unreachable += left
            self._found(turn, f"the scenario raised {type(error).__name__}: {error}")

    def _compare_rules(self, stage: Stage) -> None:
        begin = self.begin
        if stage.version != begin.scenario_version:
            self._note(
                f"scenario {begin.scenario}: version {begin.scenario_version} in the log, "
                f"version {stage.version} in this program"
            )
        elif begin.source_hash and begin.source_hash != getattr(stage, "source_hash", begin.source_hash):
            self._note(
                f"scenario {begin.scenario} version {stage.version}: the source of its rules or rewards is "
                "not the one that the log was made with"
            )

    def _differs(self, turn: int | None, logged: Mapping[str, str], now: Mapping[str, str]) -> bool:
        parts = [part for part in {**logged, **now} if logged.get(part) != now.get(part)]
        if parts:
            self._found(turn, f"{', '.join(parts)} {'differs' if len(parts) == 1 else 'differ'}")
        return bool(parts)

    def _found(self, turn: int | None, what: str) -> None:
        begin = self.begin
        self.replay.differences.append(
            Difference(
                begin.episode, turn, what, begin.scenario, begin.scenario_version, self.version, self.logged_engine,
                self.engine,
            )
        )

    def _note(self, text: str) -> None:
        if text not in self.replay.notes:
            self.replay.notes.append(text)
