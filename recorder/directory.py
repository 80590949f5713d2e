"""Where everything lies: built record by record, stored in INDEX records, merged by readers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

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


class _Place:
    """Absolute offsets of the records of one episode."""

    __slots__ = ("amends", "begin", "end", "gaps", "turns")

    def __init__(self) -> None:
        self.begin: int | None = None
        self.turns = array("Q")
        self.end: int | None = None
        self.amends = array("Q")
        self.gaps = array("Q")


def _add(offsets: array[int], offset: int) -> None:
    if not offsets or offsets[-1] != offset:
        offsets.append(offset)


class Directory:
    """Offsets of all records of a stretch of a log; 8 bytes a turn.

    `attempts` maps (run, attempt) to the first update that was recorded in it. A `slim` directory leaves
    out begins, turns and ends, so that it stays small however long the log is.
    """

    def __init__(self, slim: bool = False) -> None:
        self.slim = slim
        self.episodes: dict[int, _Place] = {}
        self.attempts: dict[tuple[str, int], int] = {}
        self.prefixes: dict[str, int] = {}
        self.dictionaries: dict[int, int] = {}
        self.noted = 0
        """How many records were taken in one by one."""

    def note(self, record: Record | None, offset: int) -> None:
        """Takes in one record. A repeated call for the same offset changes nothing."""
        self.noted += 1
        match record:
            case Turn() if not self.slim:
                _add(self._place(record.episode).turns, offset)
            case EpisodeBegin():
                self._attempt(record.run, record.attempt, record.update)
                if not self.slim:
                    self._place(record.episode).begin = offset
            case EpisodeEnd() if not self.slim:
                self._place(record.episode).end = offset
            case Amend():
                _add(self._place(record.episode).amends, offset)
            case Gap() if not self.slim:
                _add(self._place(record.episode).gaps, offset)
            case Prefix():
                self.prefixes[record.hash] = offset
            case Dictionary():
                self.dictionaries[record.id] = offset

    def _place(self, episode: int) -> _Place:
        place = self.episodes.get(episode)
        if place is None:
            place = self.episodes[episode] = _Place()
        return place

    def _attempt(self, run: str, attempt: int, update: int) -> None:
        key = (run, attempt)
        self.attempts[key] = min(update, self.attempts.get(key, update))

    def to_index(self, start: int, previous: int | None) -> Index:
        """As the INDEX of the stretch that begins at `start`."""
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
            )
        return Index(
            start=start,
            previous=previous,
            spots=spots,
            attempts=[Attempt(run=r, attempt=a, first_update=u) for (r, a), u in self.attempts.items()],
            prefixes=dict(self.prefixes),
            dictionaries={str(key): offset for key, offset in self.dictionaries.items()},
        )

    def merge(self, index: Index) -> None:
        """Takes in the INDEX of the stretch that follows. Raises ValueError where it makes no sense."""
        for spot in index.spots:
            if self.slim and not spot.amends:
                continue
            place = self._place(spot.episode)
            if spot.begin is not None:
                place.begin = spot.begin
            offset = index.start
            for step in () if self.slim else spot.turns:
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
            if not self.slim:
                place.gaps.extend(spot.gaps)
        for one in index.attempts:
            self._attempt(one.run, one.attempt, one.first_update)
        self.prefixes.update(index.prefixes)
        self.dictionaries.update({int(key): offset for key, offset in index.dictionaries.items()})

    def superseded(self, begin: EpisodeBegin) -> bool:
        """Whether a later attempt of the same run went back to this episode's update or before it."""
        return any(
            run == begin.run and attempt > begin.attempt and first <= begin.update
            for (run, attempt), first in self.attempts.items()
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
