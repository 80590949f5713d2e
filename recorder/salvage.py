"""A damaged log's intact records in a new log, with a mark wherever something of an episode is known to be missing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from pathlib import Path

import msgspec
import zstandard

from recorder.appender import Appender
from recorder.codec import LEVEL, TYPES, read_payload
from recorder.errors import NotALogError, PayloadError
from recorder.framing import Flag, Op
from recorder.fresh import fresh
from recorder.records import EpisodeBegin, EpisodeEnd, Gap, Header, Prefix, Record, Turn
from recorder.scan import Damage, Frame
from recorder.store import Store

REASON = "lost to damage; what was intact was recovered"

_MADE_ANEW = frozenset({Op.DICT, Op.INDEX, Op.FOOTER})


class Recovery(msgspec.Struct):
    """What `recover` found and kept. Counts are records unless they say bytes."""

    source: str
    out: str
    damage: Damage
    """Of the source."""
    records: int = 0
    """Kept from the source."""
    written: int = 0
    """In the new log, as `verify` counts them: those that were kept, `marks`, and what every log has of its own
    (dictionaries, the copies of prefixes, indexes, a footer)."""
    dropped: int = 0
    """Intact frames whose payload doesn't decode; they are not kept."""
    unknown: int = 0
    """Records of a later version, kept as they are."""
    episodes: int = 0
    """Begins kept."""
    whole: int = 0
    """Episodes that ended and have every turn."""
    incomplete: int = 0
    """Episodes that are known to miss something and are marked so in the new log."""
    turns: int = 0
    orphan_turns: int = 0
    """Of these, turns whose episode's begin is lost."""
    marks: int = 0
    """GAP records that were added, each where something is missing."""
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def lossless(self) -> bool:
        """Whether nothing but an unfinished last record is missing now that was not missing before."""
        return not self.damage.damaged and not self.marks


def recover(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, dictionaries: Collection[bytes] = ()
) -> Recovery:
    """Writes every intact record of the log `path` into a new log `out`, at constant memory.

    Payloads are kept bit for bit. Dictionaries, prefixes and indexes are written anew; `dictionaries` serve frames
    whose dictionary is lost, and are embedded. A GAP stands where turns, or an episode's begin, are known to be gone,
    so that the new log is whole in itself and says what it lacks.

    Raises NotALogError where there is no record to keep, LogExistsError where `out` is there already, OpenError,
    UnsupportedFormatError, ReadError, WriteFailedError; there is no `out` then.
    """
    source, target = Path(path), Path(out)
    with fresh(target) as part:
        store = Store(source, dictionaries)
        try:
            return _Salvage(store, source, target).run(part)
        finally:
            store.source.close()


class _Salvage:
    """One recovery."""

    def __init__(self, store: Store, source: Path, target: Path) -> None:
        self.store = store
        self.found = Recovery(str(source), str(target), Damage(), bytes_in=store.source.size)
        self.following: dict[int, int] = {}
        """Open episodes, each with the number of its next turn."""
        self.marked: set[int] = set()
        """Of these, the ones that have a GAP."""
        self.begun: set[int] = set()
        """Of these, the ones whose begin is there."""
        self.orphaned: set[int] = set()
        """Of these, the ones whose begin is missing and was not marked as such by the source."""
        self.prefixes: set[str] = set()
        self.created = time.time()

    def run(self, part: Path) -> Recovery:
        header, content, needed = self._survey()
        self.log = Appender(
            part, header, append=False, dictionary=None, policy="none", sync_every=1.0, level=LEVEL, index_every=1024,
            header_content=content, dictionaries=needed,
        )  # fmt: skip
        try:
            self._copy()
            self._close_session()
            self.log.close()
        except BaseException:
            self.log.abandon()
            raise
        self.found.written = self.log.records
        self.found.bytes_out = part.stat().st_size
        return self.found

    def _survey(self) -> tuple[Header, bytes | None, list[bytes]]:
        """The header to begin with and the dictionaries that frames name."""
        named: dict[int, None] = {}
        first: tuple[Header, bytes] | None = None
        any_record = False
        for frame in self.store.source.frames(Damage()):
            any_record = True
            if frame.flags & Flag.ZSTD:
                with contextlib.suppress(zstandard.ZstdError):
                    named[zstandard.get_frame_parameters(frame.payload).dict_id] = None
            if frame.op == Op.HEADER and first is None:
                record = self.store.decode(frame)
                if isinstance(record, Header):
                    first = (record, frame.payload)
        if not any_record:
            raise NotALogError(f"{self.store.path}: no record in it can be read; there is nothing to recover")
        named.pop(0, None)
        needed = []
        for wanted in named:
            with contextlib.suppress(PayloadError):  # another one with this id was lent; its frames will be dropped
                data = self.store.dictionary(wanted)
                needed += [] if data is None else [data]
        if first is None:
            return Header.here("recovered; the header is lost"), None, needed
        return first[0], first[1], needed

    def _copy(self) -> None:
        found, first = self.found, True
        for frame in self.store.source.frames(found.damage):
            if frame.op not in TYPES or frame.flags & ~Flag.KNOWN:
                found.damage.skipped_unknown += 1
                found.unknown += 1
                self._keep(frame, None)
                continue
            try:
                record = read_payload(frame.op, frame.flags, frame.payload, self.store.inflate)
            except PayloadError as error:
                found.dropped += 1
                found.damage.undecodable += 1
                found.damage.first_error = found.damage.first_error or f"offset {frame.offset}: {error}"
                continue
            if isinstance(record, Header):
                self._close_session()
            if frame.op in _MADE_ANEW:
                continue
            if isinstance(record, Header) and first:
                first = False  # it begins the new log already
                found.records += 1
                continue
            if isinstance(record, Prefix):
                self._prefix(frame, record)
                continue
            self._mark(record)
            self._keep(frame, record)

    def _keep(self, frame: Frame, record: Record | None) -> None:
        self.log.ready()
        self.log.put_stored(frame.op, frame.flags, frame.payload, record)
        self.found.records += 1

    def _prefix(self, frame: Frame, prefix: Prefix) -> None:
        if prefix.hash not in self.prefixes:
            self.prefixes.add(prefix.hash)
            self._keep(frame, prefix)
            self.log.put_stored(frame.op, frame.flags, frame.payload, prefix)  # as a writer does: two from the start
            self.log.repeat(prefix)

    def _mark(self, record: Record) -> None:
        """Keeps count, and puts a GAP before a record that follows something lost."""
        found = self.found
        match record:
            case EpisodeBegin():
                self.following[record.episode] = 0
                self.begun.add(record.episode)
                found.episodes += 1
            case Gap():  # the writer's own mark
                self.following[record.episode] = (record.turn or 0) + record.lost
                self._is_marked(record.episode)
            case Turn():
                self._expect(record.episode, record.turn)
                self.following[record.episode] = record.turn + 1
                found.turns += 1
                found.orphan_turns += record.episode not in self.begun
                found.damage.orphan_turns += record.episode in self.orphaned
            case EpisodeEnd():
                self._expect(record.episode, record.turns)
                found.whole += record.episode not in self.marked
                self._forget(record.episode)

    def _expect(self, episode: int, turn: int) -> None:
        """Before turn number `turn` of an episode (its end stands behind the last one)."""
        if episode not in self.following:
            self.orphaned.add(episode)
            self._gap(Gap(episode=episode, turn=None, lost=turn, reason=REASON, created_unix=self.created))
        elif turn > self.following[episode]:
            first = self.following[episode]
            self._gap(
                Gap(episode=episode, turn=first, lost=turn - first, reason=REASON, created_unix=self.created)
            )

    def _gap(self, gap: Gap) -> None:
        self.log.ready()
        self.log.put(gap)
        self.found.marks += 1
        self.following[gap.episode] = (gap.turn or 0) + gap.lost
        self._is_marked(gap.episode)

    def _is_marked(self, episode: int) -> None:
        self.found.incomplete += episode not in self.marked
        self.marked.add(episode)

    def _forget(self, episode: int) -> None:
        self.following.pop(episode, None)
        self.marked.discard(episode)
        self.begun.discard(episode)
        self.orphaned.discard(episode)

    def _close_session(self) -> None:
        self.following.clear()
        self.marked.clear()
        self.begun.clear()
        self.orphaned.clear()
