"""What a reader knows of a log without reading it: its last INDEX, and whatever was written after that."""

from __future__ import annotations

from collections.abc import Sequence

from recorder.directory import Directory, Place, Survey
from recorder.lookup import BrokenIndexError, Kind, Lookup
from recorder.scan import Damage
from recorder.store import Store
from recorder.tally import Tally


class Catalog:
    """Finds episodes and holds figures. Reads the stretch behind the last INDEX when it is made; a log without a usable
    one it reads whole."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.survey = Survey()
        self.tally = Tally()
        self.damage = Damage()
        """Of what was read."""
        self._tail = Directory()
        self._lookup: Lookup | None = None
        self.scanned = False
        """Whether everything known comes from the records themselves."""
        self._unproved: tuple[int, int] | None = None
        """Offset of the last INDEX and of its stretch, until `_is_sound` has looked."""
        start, sequence = self._take_root()
        self.partial = start > 0
        """Whether only the stretch from the last INDEX was read."""
        for frame, record in store.records(self.damage, None, start, expected=sequence):
            self.survey.note(record, frame.offset)
            self.tally.note(record)
            self._tail.note(record, frame.offset)
        self.scanned = not self.partial

    def _take_root(self) -> tuple[int, int | None]:
        """Where to read on, and with which sequence number; the beginning where no INDEX is of use."""
        root = self._store.root()
        if root is None:
            return 0, 0
        frame, index = root
        try:
            self.survey.merge(index)
            self.tally = Tally(index.counts)
        except ValueError:
            self.survey, self.tally = Survey(), Tally()
            return 0, 0
        self.tally.note(index)
        self._lookup = Lookup(index, frame.offset, self._store.index_at)
        self._unproved = (frame.offset, index.start)
        return frame.end, frame.sequence + 1

    def place(self, episode: int) -> Place:
        """Where an episode's records lie (its AMENDs apart); an empty place where there is none."""
        place = self._place(episode)
        if not place.has_records and not self._is_sound():
            self.distrust()
            place = self._place(episode)
        return place

    def _is_sound(self) -> bool:
        """Before an episode is said to be missing: whether the last INDEX is a record of its own."""
        if self._unproved is not None and not self.scanned:
            offset, start = self._unproved
            self._unproved = None
            return self._store.stands(offset, start)
        return True

    def _place(self, episode: int) -> Place:
        place = self._before(episode, "records")
        tail = self._tail.episodes.get(episode)
        if tail is not None and tail.begin is not None:
            place.begin = tail.begin
        if tail is not None and tail.end is not None:
            place.end = tail.end
        if tail is not None:
            place.turns.extend(tail.turns)
            place.gaps.extend(tail.gaps)
        return place

    def amends(self, episode: int) -> Sequence[int]:
        """Offsets of an episode's AMENDs, in order."""
        if not self.tally.amends:
            return ()
        before = self._before(episode, "amends").amends
        tail = self._tail.episodes.get(episode)
        return [*before, *(tail.amends if tail is not None else ())]

    def _before(self, episode: int, kind: Kind) -> Place:
        if self._lookup is None:
            return Place()
        try:
            return self._lookup.place(episode, kind)
        except BrokenIndexError:
            self.distrust()
            return Place()

    def distrust(self) -> bool:
        """Forgets what INDEX records say and scans the log; False where that was done already."""
        if self.scanned:
            return False
        self._lookup, self._tail, self.scanned = None, self._store.scan(), True
        return True
