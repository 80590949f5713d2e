"""One episode found without reading the log: INDEX records as a tree that grows at its end.

Each INDEX says where the records of its own stretch lie (`spots`), and carries `levels`, lists of `Branch`. A branch of
levels[0] is one INDEX. When a list has FAN branches it is full: what is written next begins it anew, and one branch of
levels[1] stands for it, which names the INDEX that carried the full list; and so on upwards. So every INDEX is the root
of a tree over all that was written before it, an episode is found in a handful of reads however long the log is, and
writing an INDEX costs the same at the end of a log as at its beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from recorder.directory import Directory, Place, merge_spot
from recorder.errors import RecorderError
from recorder.records import Branch, Index, Spot

FAN = 32
"""Branches in a full list."""

DEPTH = 8
"""Most lists of branches: enough for more records than a log can have."""

Kind = Literal["records", "amends"]


class BrokenIndexError(RecorderError):
    """An INDEX record isn't where another one says. Readers scan the log instead; nobody sees this error."""


class Levels:
    """The growing end of the tree, as a writer keeps it."""

    def __init__(self, levels: Sequence[Sequence[Branch]] = ()) -> None:
        self.lists: list[list[Branch]] = [list(one) for one in levels]

    def with_own(self, offset: int, directory: Directory) -> list[list[Branch]]:
        """The levels of an INDEX that is about to be written at `offset` over the stretch of `directory`."""
        amended = [episode for episode, place in directory.episodes.items() if place.amends]
        others = [episode for episode, place in directory.episodes.items() if place.has_records]
        own = Branch(
            index=offset,
            first=min(others, default=None), last=max(others, default=None),
            amend_first=min(amended, default=None), amend_last=max(amended, default=None),
        )  # fmt: skip
        lowest = self.lists[0] if self.lists else []
        return [[*lowest, own], *(list(one) for one in self.lists[1:])]

    def written(self, offset: int, levels: list[list[Branch]]) -> None:
        """Goes on after the INDEX at `offset` was written with these levels."""
        grown = [list(one) for one in levels]
        for level in reversed(range(len(levels))):  # from the top: a list is full only once it stands in an INDEX
            if len(levels[level]) >= FAN:
                grown[level] = []
                if level + 1 == len(grown):
                    grown.append([])
                grown[level + 1].append(_over(offset, levels[level]))
        self.lists = grown


def _over(offset: int, branches: Sequence[Branch]) -> Branch:
    """One branch that stands for a full list, which the INDEX at `offset` carries."""

    def among(name: str, choose: Callable[..., int]) -> int | None:
        found = [value for one in branches if (value := getattr(one, name)) is not None]
        return choose(found) if found else None

    return Branch(
        index=offset, first=among("first", min), last=among("last", max),
        amend_first=among("amend_first", min), amend_last=among("amend_last", max),
    )  # fmt: skip


class Lookup:
    """The tree of a log, read from its last INDEX as far as is needed. `read` gives the INDEX at an offset, or None."""

    KEEP = 64
    """INDEX records that are held."""

    def __init__(self, root: Index, offset: int, read: Callable[[int], Index | None]) -> None:
        self._root = root
        self._offset = offset
        self._read = read
        self._held: OrderedDict[int, tuple[Index, dict[int, Spot]]] = OrderedDict()

    def place(self, episode: int, kind: Kind) -> Place:
        """Offsets of an episode's records, or of its AMENDs, before the end of the root. Raises BrokenIndexError."""
        place = Place()
        for index, spot in self._spots(episode, kind):
            try:
                merge_spot(place, index.start, spot)
            except ValueError as error:
                raise BrokenIndexError(str(error)) from error
        return place

    def _spots(self, episode: int, kind: Kind) -> Iterator[tuple[Index, Spot]]:
        if len(self._root.levels) > DEPTH:
            raise BrokenIndexError("an INDEX has more levels than there can be")
        for level in reversed(range(len(self._root.levels))):
            yield from self._descend(self._root.levels[level], level, episode, kind)

    def _descend(self, branches: list[Branch], level: int, episode: int, kind: Kind) -> Iterator[tuple[Index, Spot]]:
        for branch in branches:
            first, last = (
                (branch.first, branch.last) if kind == "records" else (branch.amend_first, branch.amend_last)
            )
            if first is None or last is None or not first <= episode <= last:
                continue
            index, spots = self._index(branch.index)
            if level:
                if len(index.levels) < level:
                    raise BrokenIndexError("an INDEX has fewer levels than another one says")
                yield from self._descend(index.levels[level - 1], level - 1, episode, kind)
            elif episode in spots:
                yield index, spots[episode]

    def _index(self, offset: int) -> tuple[Index, dict[int, Spot]]:
        held = self._held.get(offset)
        if held is None:
            index = self._root if offset == self._offset else self._read(offset)
            if index is None or index.start > offset:
                raise BrokenIndexError(f"no INDEX at offset {offset}, where another one says")
            held = self._held[offset] = (index, {spot.episode: spot for spot in index.spots})
            if len(self._held) > self.KEEP:
                self._held.popitem(last=False)
        else:
            self._held.move_to_end(offset)
        return held
