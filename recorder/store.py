"""A log file as decoded records: dictionaries found, payloads decoded, the directory loaded or rebuilt."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from recorder import dictionary
from recorder.codec import TYPES, Inflater, read_payload
from recorder.directory import Directory
from recorder.errors import DamagedLogError, NotALogError, PayloadError, UnsupportedFormatError
from recorder.framing import FORMAT, Flag, Op
from recorder.records import (
    Dictionary,
    EpisodeBegin,
    EpisodeEnd,
    Footer,
    Gap,
    Header,
    Index,
    Record,
    Turn,
)
from recorder.scan import Damage, Fault, Frame, Source

FOOTER_REACH = 4096
"""A FOOTER lies within this many bytes of the end."""

_LINKED = frozenset({Op.EPISODE_BEGIN, Op.TURN, Op.EPISODE_END, Op.HEADER, Op.GAP})


class Store:
    """What a reader and a reopening writer both need of a file. Raises NotALogError for a foreign file."""

    def __init__(self, path: str | os.PathLike[str], dictionaries: Collection[bytes] = ()) -> None:
        self._spare = {dictionary.dictionary_id(data): data for data in dictionaries}
        self.inflate = Inflater(self.dictionary)
        self._inflate_plain = Inflater(lambda _: None)
        self._known: dict[int, int] = {}
        self._hashes: dict[str, str] = {}
        """What HEADER records say of the dictionaries, by id."""
        self.source = Source(path)
        self.path = self.source.path
        self._dictionary_scan = self._scan_dictionaries()
        try:
            self.header = self._first_header()
        except BaseException:
            self.source.close()
            raise

    def _first_header(self) -> Header | None:
        if not self.source.size:
            return None
        first = self.source.frame_at(0)
        if not isinstance(first, Frame):
            # a kill while the first record was written leaves its beginning: that is an empty log
            if self.source.next_frame(1) is None and first is not Fault.CUT:
                raise NotALogError(f"{self.path}: not a .b22 log: no record in it can be read")
            return None
        record = self.decode(first)
        self.check_format(record)
        return record if isinstance(record, Header) else None

    def check_format(self, record: Record | None) -> None:
        """Raises UnsupportedFormatError for a HEADER of a later major format."""
        if isinstance(record, Header) and record.format > FORMAT:
            raise UnsupportedFormatError(
                f"{self.path}: format {record.format}, written by {record.program or 'a later program'} "
                f"{record.engine_version}; this program reads up to format {FORMAT}"
            )

    def footer(self) -> Footer | None:
        """The FOOTER at the very end, or None."""
        found = self.source.previous_frame(Op.FOOTER, self.source.size, FOOTER_REACH)
        if found is None or found.end != self.source.size:
            return None
        record = self.decode(found)
        return record if isinstance(record, Footer) else None

    # ---------------------------------------------------------------- records

    def decode(self, frame: Frame) -> Record | None:
        """The record in a frame; None where it isn't known here or doesn't decode."""
        if frame.op not in TYPES or frame.flags & ~Flag.KNOWN:
            return None
        try:
            return read_payload(frame.op, frame.flags, frame.payload, self.inflate)
        except PayloadError:
            return None

    def record_at(self, offset: int) -> Record | None:
        """The record that begins at `offset`; None where no intact one of a known op does."""
        found = self.source.frame_at(offset)
        return self.decode(found) if isinstance(found, Frame) else None

    def records(
        self,
        damage: Damage,
        ops: Collection[Op] | None = None,
        start: int = 0,
        strict: bool = False,
        expected: int | None = None,
        frames: Iterator[Frame] | None = None,
    ) -> Iterator[tuple[Frame, Record]]:
        """Every record of a known op (or of `ops` alone) from `start` on, where the sequence number `expected` is to
        stand, or those of `frames`; counts losses in `damage`.

        Orphan turns are counted where `ops` takes in episodes and turns. With `strict`, the first damage
        raises DamagedLogError.
        """
        link = start == 0 and (ops is None or _LINKED.issubset(ops))
        open_episodes: set[int] = set()
        for frame in self.source.frames(damage, start, strict, expected) if frames is None else frames:
            if frame.op not in TYPES or frame.flags & ~Flag.KNOWN:
                damage.skipped_unknown += 1
                continue
            if ops is not None and frame.op not in ops:
                continue
            try:
                record = read_payload(frame.op, frame.flags, frame.payload, self.inflate)
            except PayloadError as error:
                damage.undecodable += 1
                damage.first_error = damage.first_error or f"offset {frame.offset}: {error}"
                if strict:
                    raise DamagedLogError(f"{self.path}: offset {frame.offset}: {error}") from error
                continue
            self.check_format(record)
            if isinstance(record, Dictionary):
                self._known.setdefault(record.id, frame.offset)
            if link and not self._is_linked(record, open_episodes):
                damage.orphan_turns += 1
                if strict:
                    raise DamagedLogError(f"{self.path}: offset {frame.offset}: a turn without its episode")
            yield frame, record

    @staticmethod
    def _is_linked(record: Record, open_episodes: set[int]) -> bool:
        match record:
            case EpisodeBegin() | Gap():
                open_episodes.add(record.episode)
            case EpisodeEnd():
                open_episodes.discard(record.episode)
            case Header():
                open_episodes.clear()
            case Turn():
                return record.episode in open_episodes
        return True

    # ---------------------------------------------------------------- INDEX records

    def root(self) -> tuple[Frame, Index] | None:
        """The last intact INDEX, where it is about the whole file before it; None where there is none that is."""
        found = self.source.previous_frame(Op.INDEX, self.source.size)
        index = None if found is None else self.decode(found)
        if found is None or not isinstance(index, Index) or index.counts is None or index.counts.left_out:
            return None
        return (found, index) if index.start <= found.offset else None

    def stands(self, offset: int, start: int) -> bool:
        """Whether a record begins at `offset` for who reads forwards from the record at `start`: an INDEX that a search
        backwards has found may be bytes in the payload of another record."""
        for frame in self.source.frames(Damage(), start):
            if frame.offset >= offset:
                return frame.offset == offset
        return False

    def index_at(self, offset: int) -> Index | None:
        """The INDEX that begins at `offset`, or None."""
        index = self.record_at(offset)
        return index if isinstance(index, Index) else None

    def directory(self) -> Directory:
        """Where every record lies, from all INDEX records and the stretch after the last, or from a scan."""
        chain = self._index_chain()
        directory = Directory()
        try:
            for offset in chain:
                index = self.index_at(offset)
                if index is None:
                    return self.scan()
                directory.merge(index)
        except ValueError:
            return self.scan()
        return self._noted(directory, chain[-1] if chain else 0)

    def scan(self) -> Directory:
        """Where every record lies, from the records themselves, whatever INDEX records say."""
        return self._noted(Directory(), 0)

    def _noted(self, directory: Directory, start: int) -> Directory:
        for frame, record in self.records(Damage(), None, start):
            directory.note(record, frame.offset)
        return directory

    def _index_chain(self) -> list[int]:
        """Offsets of all INDEX records in order; empty where they don't cover the log from its start."""
        chain: list[int] = []
        found: Frame | Fault | None = self.source.previous_frame(Op.INDEX, self.source.size)
        while isinstance(found, Frame):
            index = self.decode(found)
            if not isinstance(index, Index) or index.start > found.offset:
                return []
            chain.append(found.offset)
            if index.previous is None:
                return chain[::-1] if index.start == 0 else []
            if index.previous >= found.offset:
                return []
            found = self.source.frame_at(index.previous)
            if not isinstance(found, Frame) or found.end != index.start:
                return []
        return []

    # ---------------------------------------------------------------- dictionaries

    def dictionary(self, wanted: int) -> bytes | None:
        """A dictionary's bytes, from the first intact copy in the file, or from outside of it."""
        if wanted in self._known:
            found = self._dictionary_at(self._known[wanted])
            return found.data if found else None
        for offset in self._dictionary_scan:
            found = self._dictionary_at(offset)
            if found is not None:
                self._known.setdefault(found.id, offset)
                if found.id == wanted:
                    return found.data
        spare = self._spare.get(wanted)
        shipped = dictionary.shipped()
        if spare is None and shipped is not None and dictionary.dictionary_id(shipped) == wanted:
            spare = shipped
        if spare is not None and self._hashes.get(str(wanted), "") not in ("", dictionary.dictionary_hash(spare)):
            raise PayloadError(f"zstd dictionary {wanted} is lost from the file, and the one at hand is another one")
        return spare

    def _scan_dictionaries(self) -> Iterator[int]:
        for frame in self.source.frames(Damage()):
            if frame.op == Op.DICT:
                yield frame.offset
            elif frame.op == Op.HEADER:
                header = self.decode(frame)
                self._hashes.update(header.dictionaries if isinstance(header, Header) else {})

    def _dictionary_at(self, offset: int) -> Dictionary | None:
        frame = self.source.frame_at(offset)
        if not isinstance(frame, Frame) or frame.flags & ~Flag.KNOWN:
            return None
        try:
            record = read_payload(frame.op, frame.flags, frame.payload, self._inflate_plain)
        except PayloadError:
            return None
        return record if isinstance(record, Dictionary) and record.id else None
