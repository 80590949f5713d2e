"""Episodes of a log one a row, and the rows that a question is about: what `ls` prints."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator

import msgspec

from recorder.episode import Episode
from recorder.errors import RecorderError
from recorder.framing import Op
from recorder.reader import Attempts, Reader
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Header


class Row(msgspec.Struct, frozen=True):
    """One episode in a line. What an open episode can't have is None."""

    episode: int
    scenario: str
    scenario_version: int
    seed: int
    options: dict[str, str]
    policy: str
    group: str
    run: str
    update: int
    attempt: int
    split: str
    purpose: str
    turns: int
    reward: float
    """The return: all reward terms of all turns, AMENDs applied."""
    success: bool | None
    ended: str | None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which episodes are asked for; None asks for all. Texts may hold `*` and `?`."""

    scenario: str | None = None
    policy: str | None = None
    group: str | None = None
    run: str | None = None
    split: str | None = None
    purpose: str | None = None
    seed: int | None = None
    attempt: int | None = None
    update: int | None = None
    success: bool | None = None
    """True: ended with success; False: ended without; open episodes are neither."""
    low: float = -math.inf
    top: float = math.inf
    """Bounds of the return, both included."""

    def begin(self, begin: EpisodeBegin) -> bool:
        """Whether an episode that begins so may be one."""
        numbers = (("seed", self.seed), ("attempt", self.attempt), ("update", self.update))
        return all(value is None or getattr(begin, name) == value for name, value in numbers) and all(
            pattern is None or fnmatch.fnmatchcase(getattr(begin, name), pattern)
            for name, pattern in ((name, getattr(self, name)) for name in _TEXTS)
        )

    def row(self, row: Row) -> bool:
        """Whether an episode whose begin fits is one by how it went."""
        return (self.success is None or row.success is self.success) and self.low <= row.reward <= self.top


_TEXTS = ("scenario", "policy", "group", "run", "split", "purpose")
_OUTLINE = frozenset({Op.HEADER, Op.EPISODE_BEGIN, Op.EPISODE_END})


class RangeError(RecorderError, ValueError):
    """A range that can't be read."""


def parse_range(text: str) -> tuple[float, float]:
    """`LOW..TOP`, where either may be left out, or one number. Raises RangeError."""
    low, dots, top = text.partition("..")
    try:
        bounds = (float(low or "-inf"), float((top if dots else low) or "inf"))
    except ValueError:
        bounds = (math.nan, math.nan)
    if not text.strip(".") or not bounds[0] <= bounds[1]:
        raise RangeError(f"range {text!r}: write it as LOW..TOP, LOW.., ..TOP or one number")
    return bounds


def rows(reader: Reader, wanted: Wanted | None = None, attempts: Attempts = "latest") -> Iterator[Row]:
    """The episodes that are wanted, in the order in which they end; open ones last of their session.

    Reads begins and ends; turns only of episodes that are open or have AMENDs.
    """
    wanted = wanted or Wanted()
    amended = {record.episode for _, record in reader.records({Op.AMEND}) if isinstance(record, Amend)}
    waiting: dict[int, EpisodeBegin] = {}
    for _, record in reader.records(_OUTLINE):
        match record:
            case EpisodeBegin() if wanted.begin(record) and (attempts == "all" or not reader.superseded(record)):
                waiting[record.episode] = record
            case EpisodeEnd() if record.episode in waiting:
                begin = waiting.pop(record.episode)
                known = None if begin.episode in amended else record
                yield from _fitting(reader, wanted, begin, known)
            case Header():
                for begin in waiting.values():
                    yield from _fitting(reader, wanted, begin, None)
                waiting.clear()
    for begin in waiting.values():
        yield from _fitting(reader, wanted, begin, None)


def _fitting(reader: Reader, wanted: Wanted, begin: EpisodeBegin, end: EpisodeEnd | None) -> Iterator[Row]:
    row = row_of(reader.episode(begin.episode)) if end is None else _row(begin, end, end.turns, end.total_reward)
    if wanted.row(row):
        yield row


def row_of(episode: Episode) -> Row:
    """The row of an episode that was read."""
    return _row(episode.begin, episode.end, len(episode.turns), episode.total())


def _row(begin: EpisodeBegin, end: EpisodeEnd | None, turns: int, reward: float) -> Row:
    return Row(
        begin.episode, begin.scenario, begin.scenario_version, begin.seed, begin.options, begin.policy, begin.group,
        begin.run, begin.update, begin.attempt, begin.split, begin.purpose, turns, reward,
        None if end is None else end.success, None if end is None else end.ended,
    )  # fmt: skip
