"""Where everything lies: built record by record, stored in INDEX records, merged by readers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping

from recorder.records import (
    Amend,
    Attempt,
    Dictionary,
    EpisodeBegin,
    EpisodeEnd,
    Gap,
    Index,
    Prefix,
    Record,
    Spot,
    Turn,
)


class Place:
    """Absolute offsets of the records of one episode."""

    __slots__ = ("amends", "begin", "end", "gaps", "turns")

    def __init__(self) -> None:
        self.begin: int | None = None
        self.turns = array("Q")
        self.end: int | None = None
        self.amends = array("Q")
        self.gaps = array("Q")

    @property
    def has_records(self) -> bool:
        """Whether there is anything but AMENDs."""
        return self.begin is not None or self.end is not None or bool(self.turns or self.gaps)


def _add(offsets: array[int], offset: int) -> None:
    if not offsets or offsets[-1] != offset:
        offsets.append(offset)


def merge_spot(place: Place, start: int, spot: Spot) -> None:
    """Takes in what the INDEX of the stretch from `start` says. Raises ValueError where it makes no sense."""
    if spot.begin is not None:
        place.begin = spot.begin
    offset = start
    for step in spot.turns:
        offset += step
        if step < 0 or offset >= 2**63:
            raise ValueError(f"episode {spot.episode}: turn offsets run backwards")
        place.turns.append(offset)
    if spot.end is not None:
        place.end = spot.end
    for offset in (*spot.amends, *spot.gaps):
        if not 0 <= offset < 2**63:
            raise ValueError(f"episode {spot.episode}: an offset is out of range")
    place.amends.extend(spot.amends)
    place.gaps.extend(spot.gaps)


class Directory:
    """Offsets of all records of the episodes in a stretch of a log; 8 bytes a turn."""

    def __init__(self) -> None:
        self.episodes: dict[int, Place] = {}
        self.noted = 0
        """How many records were taken in one by one."""

    def note(self, record: Record | None, offset: int) -> None:
        """Takes in one record. A repeated call for the same offset changes nothing."""
        self.noted += 1
        match record:
            case Turn():
                _add(self._place(record.episode).turns, offset)
            case EpisodeBegin():
                self._place(record.episode).begin = offset
            case EpisodeEnd():
                self._place(record.episode).end = offset
            case Amend():
                _add(self._place(record.episode).amends, offset)
            case Gap():
                _add(self._place(record.episode).gaps, offset)

    def _place(self, episode: int) -> Place:
        place = self.episodes.get(episode)
        if place is None:
            place = self.episodes[episode] = Place()
        return place

    def spots(self, start: int) -> list[Spot]:
        """As the INDEX of the stretch that begins at `start` stores it."""
        spots = []
        for episode, place in self.episodes.items():
            turns, last = [], start
            for offset in place.turns:
                turns.append(offset - last)
                last = offset
            spots.append(
                Spot(
                    episode=episode, begin=place.begin, turns=turns, end=place.end, amends=list(place.amends),
                    gaps=list(place.gaps),
                )
            )  # fmt: skip
        return spots

    def merge(self, index: Index) -> None:
        """Takes in the INDEX of the stretch that follows. Raises ValueError where it makes no sense."""
        for spot in index.spots:
            merge_spot(self._place(spot.episode), index.start, spot)


class Survey:
    """What is known of a whole log by name: attempts, prefixes, dictionaries. Small, however long the log is.

    `attempts` maps (run, attempt) to the first update that was recorded in it; `prefixes` and `dictionaries` map a
    name to the offset of the latest copy.
    """

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, int], int] = {}
        self.prefixes: dict[str, int] = {}
        self.dictionaries: dict[int, int] = {}

    def note(self, record: Record | None, offset: int) -> None:
        """Takes in one record."""
        match record:
            case EpisodeBegin():
                self._attempt(record.run, record.attempt, record.update)
            case Prefix():
                self.prefixes[record.hash] = offset
            case Dictionary():
                self.dictionaries[record.id] = offset

    def _attempt(self, run: str, attempt: int, update: int) -> None:
        key = (run, attempt)
        self.attempts[key] = min(update, self.attempts.get(key, update))

    def merge(self, index: Index) -> None:
        """Takes in an INDEX. Raises ValueError where it makes no sense."""
        for one in index.attempts:
            self._attempt(one.run, one.attempt, one.first_update)
        self.prefixes.update(index.prefixes)
        self.dictionaries.update({int(key): offset for key, offset in index.dictionaries.items()})

    def stored(self) -> tuple[list[Attempt], dict[str, int], dict[str, int]]:
        """As the fields `attempts`, `prefixes` and `dictionaries` of an INDEX. Of the prefixes, the last NAMED."""
        attempts = [Attempt(run=r, attempt=a, first_update=u) for (r, a), u in self.attempts.items()]
        last = sorted(self.prefixes.items(), key=lambda one: one[1])[-NAMED:]
        return attempts, dict(last), {str(key): offset for key, offset in self.dictionaries.items()}

    def superseded(self, begin: EpisodeBegin) -> bool:
        """Whether a later attempt of the same run went back to this episode's update or before it."""
        return superseded(self.attempts, begin)


NAMED = 1024
"""Most prefixes in an INDEX; older ones are found by reading the log. With more attempts than that, an INDEX says that
it had to leave something out."""


def superseded(attempts: Mapping[tuple[str, int], int], begin: EpisodeBegin) -> bool:
    """Whether one of `attempts` (of Survey) went back to this episode's update or before it."""
    return any(
        run == begin.run and attempt > begin.attempt and first <= begin.update
        for (run, attempt), first in attempts.items()
    )


class IdRanges:
    """A set of integers as sorted ranges: ids handed out in a row take no memory of their own."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __len__(self) -> int:
        return sum(end - start for start, end in self)

    @property
    def above(self) -> int:
        """The number after the largest; 0 for an empty set."""
        return self._ends[-1] if self._ends else 0

    def add_range(self, start: int, end: int) -> None:
        """Puts in start … end - 1. Raises ValueError where that doesn't lie behind all that is in it."""
        if not self.above <= start < end:
            raise ValueError(f"a range {start} … {end} behind {self.above}")
        self._starts.append(start)
        self._ends.append(end)

    def add(self, number: int) -> None:
        """Puts one number in."""
        if number in self:
            return
        at = bisect_right(self._starts, number)
        joins_left = at > 0 and self._ends[at - 1] == number
        joins_right = at < len(self._starts) and self._starts[at] == number + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends[at]
            del self._starts[at], self._ends[at]
        elif joins_left:
            self._ends[at - 1] = number + 1
        elif joins_right:
            self._starts[at] = number
        else:
            self._starts.insert(at, number)
            self._ends.insert(at, number + 1)
