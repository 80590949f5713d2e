"""Reads a log: streaming, by episode, whatever state the file is in."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Literal, Self

import msgspec

from recorder.directory import Directory
from recorder.episode import Episode
from recorder.errors import ClosedError, DamagedLogError, EpisodeNotFoundError, PrefixNotFoundError
from recorder.framing import Op
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Footer, Gap, Header, Prefix, Record, Turn
from recorder.scan import Damage, Frame
from recorder.store import Store

Attempts = Literal["latest", "all"]
"""`latest` leaves out what a resumed run went back behind and recorded again; `all` gives everything."""

_STEPS = frozenset({Op.HEADER, Op.EPISODE_BEGIN, Op.TURN, Op.EPISODE_END, Op.GAP})


class Reader:
    """A log opened for reading, up to the bytes it had at that moment.

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
        self._slim: Directory | None = None
        self._full: Directory | None = None
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

    def steps(self, attempts: Attempts = "latest") -> Iterator[tuple[EpisodeBegin | None, Turn]]:
        """Every turn in the order of the file, with its episode's begin (None where that is lost)."""
        superseded = self._superseded(attempts)
        running: dict[int, EpisodeBegin] = {}
        hidden: set[int] = set()
        for _, record in self.records(_STEPS):
            match record:
                case EpisodeBegin():
                    running[record.episode] = record
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

    def turns(self, attempts: Attempts = "latest") -> Iterator[Turn]:
        """Every turn in the order of the file."""
        for _, turn in self.steps(attempts):
            yield turn

    def episodes(self, attempts: Attempts = "latest") -> Iterator[Episode]:
        """Every episode, in the order in which they end; those that never ended come last of their session.

        Holds the turns of open episodes only. Turns whose begin is lost are counted, not given.
        """
        superseded = self._superseded(attempts)
        waiting: dict[int, Episode] = {}
        for _, record in self.records(_STEPS):
            match record:
                case EpisodeBegin() if not superseded(record):
                    amends = self._amends(self._survey(), record.episode)
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
        begins = [(place.begin, one) for one, place in self._directory().episodes.items()]
        return [one for begin, one in sorted((b, one) for b, one in begins if b is not None)]

    def episode(self, episode: int) -> Episode:
        """One episode, read straight from where it lies. Raises EpisodeNotFoundError, DamagedLogError."""
        found = self._episode_at(episode)
        if found is None:  # what the INDEX says is not what lies there
            self._full = self._open.scan(slim=False)
            found = self._episode_at(episode)
        if found is None:
            raise DamagedLogError(f"{self.path}: the begin of episode {episode} can't be read")
        return found

    def prefix(self, digest: str) -> Prefix:
        """The static prefix of this hash. Raises PrefixNotFoundError."""
        offset = self._survey().prefixes.get(digest)
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
        return self._survey().superseded(begin)

    def attempts(self) -> dict[tuple[str, int], int]:
        """The first update that was recorded in each (run, attempt)."""
        return dict(self._survey().attempts)

    # ---------------------------------------------------------------- inside

    @property
    def _open(self) -> Store:
        if self._closed:
            raise ClosedError(f"{self.path}: the reader is closed")
        return self._store

    def _superseded(self, attempts: Attempts) -> Callable[[EpisodeBegin], bool]:
        if attempts not in ("latest", "all"):
            raise ValueError(f"attempts is {attempts!r}; it can be 'latest' or 'all'")
        return (lambda _: False) if attempts == "all" else self._survey().superseded

    def _survey(self) -> Directory:
        if self._slim is None:
            self._slim = self._open.load(slim=True)
        return self._slim

    def _directory(self) -> Directory:
        if self._full is None:
            self._full = self._open.load(slim=False)
        return self._full

    def _amends(self, directory: Directory, episode: int) -> list[Amend]:
        place = directory.episodes.get(episode)
        found = [self._open.record_at(offset) for offset in place.amends] if place else []
        return [one for one in found if isinstance(one, Amend) and one.episode == episode]

    def _episode_at(self, episode: int) -> Episode | None:
        directory = self._directory()
        place = directory.episodes.get(episode)
        if place is None:
            raise EpisodeNotFoundError(f"{self.path}: no episode {episode} in the log")
        begin = None if place.begin is None else self._open.record_at(place.begin)
        if not isinstance(begin, EpisodeBegin) or begin.episode != episode:
            return None
        read = [self._open.record_at(offset) for offset in place.turns]
        turns = [one for one in read if isinstance(one, Turn) and one.episode == episode]
        end = None if place.end is None else self._open.record_at(place.end)
        if not isinstance(end, EpisodeEnd) or end.episode != episode:
            end = None
        marks = [self._open.record_at(offset) for offset in place.gaps]
        gaps = [one for one in marks if isinstance(one, Gap) and one.episode == episode]
        return Episode(begin, turns, end, self._amends(directory, episode), gaps)
