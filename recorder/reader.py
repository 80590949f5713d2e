"""Reads a log: streaming, by episode, whatever state the file is in."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Literal, Self

import msgspec

from recorder import follow as following
from recorder.catalog import Catalog
from recorder.directory import Place
from recorder.episode import Episode
from recorder.errors import ClosedError, DamagedLogError, EpisodeNotFoundError, PrefixNotFoundError
from recorder.follow import POLL
from recorder.framing import Op
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Footer, Gap, Header, Prefix, Record, Turn
from recorder.scan import Damage, Frame
from recorder.store import Store

Attempts = Literal["latest", "all"]
"""`latest` leaves out what a resumed run went back behind and recorded again; `all` gives everything."""

_STEPS = frozenset({Op.HEADER, Op.EPISODE_BEGIN, Op.TURN, Op.EPISODE_END, Op.GAP})


class Reader:
    """A log opened for reading, up to the bytes it had at that moment (but for `follow`).

    Damage is passed over and counted in `damage`, which every pass (`records`, `steps`, `turns`, `episodes`,
    `check`) starts afresh; with `strict`, the first damage raises DamagedLogError. Only RecorderError and its
    subclasses are raised for what a file holds. `header` is None where the first record is lost.

    `dictionaries` serve frames whose dictionary is lost from the file, as does the one that ships with the
    project. Not for use by two threads at once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        strict: bool = False,
        dictionaries: Collection[bytes] = (),
    ) -> None:
        self.strict = strict
        self.damage = Damage()
        self._store = Store(path, dictionaries)
        self.path = self._store.path
        self.header: Header | None = self._store.header
        self._catalog: Catalog | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; a second time does nothing."""
        self._closed = True
        self._store.source.close()

    @property
    def size(self) -> int:
        """Bytes of the file when it was opened."""
        return self._store.source.size

    @property
    def footer(self) -> Footer | None:
        """The FOOTER at the very end, or None."""
        return self._open.footer()

    @property
    def clean(self) -> bool:
        """Whether the last writer closed the log. An unclean one is fully readable all the same."""
        return self.footer is not None

    # ---------------------------------------------------------------- streaming, at constant memory

    def records(self, ops: Collection[Op] | None = None) -> Iterator[tuple[Frame, Record]]:
        """Every record of a known op (or of `ops` alone), decoded, in the order of the file."""
        self.damage = Damage()
        for found in self._open.records(self.damage, ops, strict=self.strict):
            yield found
            self._open  # noqa: B018 - the caller may have closed the reader meanwhile

    def steps(
        self,
        attempts: Attempts = "latest",
        *,
        follow: bool = False,
        poll: float = POLL,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[EpisodeBegin | None, Turn]]:
        """Every turn in the order of the file, with its episode's begin (None where that is lost).

        With `follow`, goes on with what is written meanwhile and looks every `poll` seconds, until the log is closed;
        or, where it is given, until `stop()` says so, which is asked whenever there is nothing new. A later attempt
        hides only what comes after it was seen.
        """
        superseded = self._superseded(attempts)
        running: dict[int, EpisodeBegin] = {}
        hidden: set[int] = set()
        for frame, record in self._steps(follow, poll, stop):
            match record:
                case EpisodeBegin():
                    running[record.episode] = record
                    if follow:
                        self.catalog.survey.note(record, frame.offset)
                    if superseded(record):
                        hidden.add(record.episode)
                case Turn():
                    if record.episode not in hidden:
                        yield running.get(record.episode), record
                case EpisodeEnd():
                    running.pop(record.episode, None)
                    hidden.discard(record.episode)
                case Header():
                    running.clear()
                    hidden.clear()

    def turns(
        self,
        attempts: Attempts = "latest",
        *,
        follow: bool = False,
        poll: float = POLL,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Turn]:
        """Every turn in the order of the file; `follow`, `poll` and `stop` as in `steps`."""
        for _, turn in self.steps(attempts, follow=follow, poll=poll, stop=stop):
            yield turn

    def _steps(self, on: bool, poll: float, stop: Callable[[], bool] | None) -> Iterator[tuple[Frame, Record]]:
        if not on:
            yield from self.records(_STEPS)
            return
        self.damage = damage = Damage()
        frames = following.follow(self._open.source, damage, poll, stop)
        yield from self._open.records(damage, _STEPS | {Op.DICT}, strict=self.strict, frames=frames)

    def episodes(self, attempts: Attempts = "latest") -> Iterator[Episode]:
        """Every episode, in the order in which they end; those that never ended come last of their session.

        Holds the turns of open episodes only. Turns whose begin is lost are counted, not given.
        """
        superseded = self._superseded(attempts)
        waiting: dict[int, Episode] = {}
        for _, record in self.records(_STEPS):
            match record:
                case EpisodeBegin() if not superseded(record):
                    amends = self._amends(record.episode)
                    waiting[record.episode] = Episode(record, [], None, amends, [])
                case Turn() if record.episode in waiting:
                    waiting[record.episode].turns.append(record)
                case Gap() if record.episode in waiting:
                    waiting[record.episode].gaps.append(record)
                case EpisodeEnd() if record.episode in waiting:
                    yield msgspec.structs.replace(waiting.pop(record.episode), end=record)
                case Header():
                    yield from waiting.values()
                    waiting.clear()
        yield from waiting.values()

    def check(self) -> Damage:
        """Reads and decodes the whole log and says what is damaged."""
        self.damage = damage = Damage()
        for _ in self._open.records(damage):
            pass
        return damage

    # ---------------------------------------------------------------- by name

    def episode_ids(self) -> list[int]:
        """Ids of all episodes whose begin is in the log, of all attempts, in the order of the file."""
        begins = [(place.begin, one) for one, place in self._open.directory().episodes.items()]
        return [one for begin, one in sorted((b, one) for b, one in begins if b is not None)]

    def episode(self, episode: int) -> Episode:
        """One episode, read straight from where it lies. Raises EpisodeNotFoundError, DamagedLogError."""
        catalog = self.catalog
        found = self._episode_at(catalog.place(episode), episode)
        if found is None and catalog.distrust():  # what an INDEX says is not what lies there
            found = self._episode_at(catalog.place(episode), episode)
        if found is None:
            if not catalog.place(episode).has_records:
                raise EpisodeNotFoundError(f"{self.path}: no episode {episode} in the log")
            raise DamagedLogError(f"{self.path}: the begin of episode {episode} can't be read")
        return found

    def begins(self) -> Iterator[EpisodeBegin]:
        """The begin of every episode, of all attempts, in the order of the file, each read from where it lies."""
        places = self._open.directory().episodes.values()
        for offset in sorted(place.begin for place in places if place.begin is not None):
            record = self._open.record_at(offset)
            if isinstance(record, EpisodeBegin):
                yield record

    def prefixes(self) -> Iterator[Prefix]:
        """The static prefixes that are known without reading the log: of a very long one, the latest."""
        for digest, offset in self.catalog.survey.prefixes.items():
            record = self._open.record_at(offset)
            if isinstance(record, Prefix) and record.hash == digest:
                yield record

    def prefix(self, digest: str) -> Prefix:
        """The static prefix of this hash. Raises PrefixNotFoundError."""
        offset = self.catalog.survey.prefixes.get(digest)
        if offset is not None:
            found = self._store.record_at(offset)
            if isinstance(found, Prefix) and found.hash == digest:
                return found
        for _, record in self._open.records(Damage(), {Op.PREFIX}):
            if isinstance(record, Prefix) and record.hash == digest:
                return record
        raise PrefixNotFoundError(f"{self.path}: no prefix {digest!r} in the log")

    def superseded(self, begin: EpisodeBegin) -> bool:
        """Whether a later attempt of the same run went back to this episode's update or before it."""
        return self.catalog.survey.superseded(begin)

    def attempts(self) -> dict[tuple[str, int], int]:
        """The first update that was recorded in each (run, attempt)."""
        return dict(self.catalog.survey.attempts)

    # ---------------------------------------------------------------- inside

    @property
    def _open(self) -> Store:
        if self._closed:
            raise ClosedError(f"{self.path}: the reader is closed")
        return self._store

    def _superseded(self, attempts: Attempts) -> Callable[[EpisodeBegin], bool]:
        if attempts not in ("latest", "all"):
            raise ValueError(f"attempts is {attempts!r}; it can be 'latest' or 'all'")
        return (lambda _: False) if attempts == "all" else self.catalog.survey.superseded

    @property
    def catalog(self) -> Catalog:
        """What is known of the log without reading it."""
        if self._catalog is None:
            self._catalog = Catalog(self._open)
        return self._catalog

    def _amends(self, episode: int) -> list[Amend]:
        found = [self._open.record_at(offset) for offset in self.catalog.amends(episode)]
        return [one for one in found if isinstance(one, Amend) and one.episode == episode]

    def _episode_at(self, place: Place, episode: int) -> Episode | None:
        """None where its begin isn't where `place` says, or where anything is missing that a scan might find."""
        begin = None if place.begin is None else self._open.record_at(place.begin)
        if not isinstance(begin, EpisodeBegin) or begin.episode != episode:
            return None
        there = [
            record
            for offset in (*place.turns, *place.gaps, *([] if place.end is None else [place.end]))
            if isinstance(record := self._open.record_at(offset), Turn | Gap | EpisodeEnd) and record.episode == episode
        ]
        expected = len(place.turns) + len(place.gaps) + (place.end is not None)
        if len(there) != expected and not self.catalog.scanned:
            return None
        return Episode(
            begin,
            [one for one in there if isinstance(one, Turn)],
            next((one for one in there if isinstance(one, EpisodeEnd)), None),
            self._amends(episode),
            [one for one in there if isinstance(one, Gap)],
        )
