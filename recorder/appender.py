"""The lower half of a writer: the locked file, INDEX and repeated records, syncing, the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from recorder import sync as syncing
from recorder.codec import OPS, Deflater, encode, schema_json
from recorder.dictionary import dictionary_hash, dictionary_id
from recorder.directory import NAMED, Directory, IdRanges
from recorder.errors import ClosedError, RecordTooLargeError, SyncFailedError
from recorder.framing import Flag, Op
from recorder.lookup import Levels
from recorder.records import (
    Dictionary,
    EpisodeBegin,
    EpisodeEnd,
    Footer,
    Gap,
    Header,
    Index,
    Prefix,
    Record,
    Schema,
    Turn,
)
from recorder.reopen import Check, Tail, examine, open_locked
from recorder.sync import Syncer, SyncPolicy
from recorder.tape import Tape

REPEAT_EVERY = 4 << 20
"""Bytes after which the dictionary and the prefixes in use are written once more."""

PREFIXES_REPEATED = 8
"""How many of the prefixes used last are repeated."""


class Appender:
    """Appends whole records to a log and keeps account of them. Not for use by two threads at once.

    Raises at opening what `open_locked` and `examine` raise.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        *,
        append: bool,
        check: Check = "auto",
        dictionary: bytes | None,
        policy: SyncPolicy,
        sync_every: float,
        level: int,
        index_every: int,
        header_content: bytes | None = None,
        dictionaries: Sequence[bytes] = (),
    ) -> None:
        """`header_content` is the header's bytes where they are to be kept as they came; `dictionaries` are embedded
        besides the one that is compressed with."""
        self.path = path
        self.closed = True  # until everything stands, for __del__
        self.running: dict[int, int] = {}
        """Open episodes, each with the number of its next turn."""
        self.tolerant = False
        """Whether records are taken also after a flush that failed."""
        self._policy, self._every, self._index_every = policy, sync_every, index_every
        self._syncer: Syncer | None = None
        self._pid = os.getpid()
        embedded = [*([dictionary] if dictionary is not None else []), *dictionaries]
        self._vital = [Dictionary(id=dictionary_id(data), data=data) for data in embedded]
        hashes = {str(one.id): dictionary_hash(one.data) for one in self._vital}
        header = msgspec.structs.replace(header, dictionaries=hashes)
        self._deflate = Deflater(dictionary, level)
        self._repeated: OrderedDict[str, Prefix] = OrderedDict()
        encoded = encode(header)
        self._fd = open_locked(path, append)
        try:
            tail = examine(path, dictionary, check) if os.fstat(self._fd).st_size else Tail()
            self._go_on(tail)
            self.put_stored(Op.HEADER, 0, encoded[1] if header_content is None else header_content, encoded[0])
            self._put_vital()
            self.put(Schema(json=schema_json()))
            self._put_vital()  # a second copy, apart from the first: one bad byte orphans no turn
            if policy != "none":
                with contextlib.suppress(OSError):  # a folder that can't be synced is no reason not to record
                    syncing.flush_folder(path.parent)
        except BaseException:
            self.abandon()
            raise
        self.closed = False

    def _go_on(self, tail: Tail) -> None:
        self.repaired = tail.cut
        """Bytes of an unfinished last record that were cut off at opening."""
        if tail.cut:
            os.ftruncate(self._fd, tail.offset)
        self._tape = Tape(self._fd, self.path, tail.offset, tail.sequence)
        self._directory, self._survey = tail.directory, tail.survey
        self._index_start, self._previous_index = tail.index_start, tail.previous_index
        self._levels: Levels | None = tail.levels
        """The tree of INDEX records; None where a stretch is missing from it, so that readers have to scan."""
        self.tally = tail.tally
        """Figures of the whole file, earlier sessions included."""
        self._repeat_at = tail.offset + REPEAT_EVERY

    @property
    def episodes(self) -> IdRanges:
        """Ids of all episodes that the log holds."""
        return self.tally.ids

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and self._pid == os.getpid():
            warnings.warn(f"{self.path}: writer was never closed", ResourceWarning, stacklevel=2, source=self)
            self.abandon()

    # ---------------------------------------------------------------- records

    def ready(self) -> None:
        """Before a record: what is due is written first. Raises WriteFailedError.

        It goes before and not after, so that an exception always means that the caller's record isn't in.
        """
        if self._tape.mark[0] >= self._repeat_at:
            self._repeat_at = self._tape.mark[0] + REPEAT_EVERY
            self._put_vital()
            for prefix in list(self._repeated.values()):
                self.put(prefix)
        if self._directory.noted >= self._index_every:
            self._write_index()

    def put(self, record: Record) -> None:
        """Writes one record. Raises RecordError or WriteFailedError, and then it isn't in the file."""
        self.put_encoded(*encode(record))

    def repeat(self, prefix: Prefix) -> None:
        """Has a prefix repeated from now on, as long as it is among those used last."""
        self._repeated[prefix.hash] = prefix
        self._repeated.move_to_end(prefix.hash)
        if len(self._repeated) > PREFIXES_REPEATED:
            self._repeated.popitem(last=False)

    def _put_vital(self) -> None:
        for dictionary in self._vital:
            self.put(dictionary)

    def put_encoded(self, record: Record, content: bytes) -> None:
        """Writes one record that `encode` has checked. Raises as `put`."""
        op = OPS[type(record)]
        if op == Op.HEADER:
            self.put_stored(op, 0, content, record)  # readable by eye, and without zstd
        else:
            self.put_stored(op, Flag.ZSTD, self._deflate.record(op, content), record)

    def put_stored(self, op: int, flags: int, payload: bytes, record: Record | None) -> None:
        """Writes one record whose payload is ready; `record` is what it holds, None where that isn't known here."""
        before = self._tape.mark
        try:
            self._tape.append(op, flags, payload)
        finally:
            if self._tape.mark != before:  # also when Ctrl-C came between the write and here
                self._took(op, record, before[0])

    def _took(self, op: int, record: Record | None, offset: int) -> None:
        """Keeps account of a record that is in the file."""
        match record:
            case Turn():
                self.running[record.episode] = record.turn + 1
            case EpisodeBegin():
                self.running[record.episode] = 0
            case EpisodeEnd():
                self.running.pop(record.episode, None)
            case Gap():
                self.running[record.episode] = (record.turn or 0) + record.lost
        self.tally.note(record)
        self._survey.note(record, offset)
        if isinstance(record, Index):
            self._previous_index, self._index_start = offset, self._tape.mark[0]
            self._directory = Directory()
            if self._levels is not None:
                self._levels.written(offset, record.levels)
        else:
            self._directory.note(record, offset)
        if self._policy != "none":
            if self._syncer is None:
                self._syncer = Syncer(self._fd, self._every)
            self._syncer.wrote()

    def _write_index(self) -> None:
        attempts, prefixes, dictionaries = self._survey.stored()
        counts = self.tally.counts()
        if len(attempts) > NAMED:
            attempts, counts = [], msgspec.structs.replace(counts, left_out=True)
        whole = self._levels is not None
        index = Index(
            start=self._index_start,
            previous=self._previous_index,
            spots=self._directory.spots(self._index_start),
            attempts=attempts,
            prefixes=prefixes,
            dictionaries=dictionaries,
            levels=self._levels.with_own(self._tape.mark[0], self._directory) if self._levels is not None else [],
            counts=counts if whole else None,
        )
        try:
            self.put(index)
        except RecordTooLargeError:
            # only after a log that had no INDEX for very long; readers scan such a log
            self._directory, self._previous_index, self._levels = Directory(), None, None
            self._index_start = self._tape.mark[0]

    # ---------------------------------------------------------------- lasting

    def check(self) -> None:
        """Raises ClosedError, or the SyncFailedError of a flush that failed on its thread."""
        if self.closed:
            raise ClosedError(f"{self.path}: the writer is closed")
        if self._pid != os.getpid():
            raise ClosedError(f"{self.path}: this writer belongs to the process that forked this one")
        if self._syncer is not None and self._syncer.error is not None and not self.tolerant:
            raise self._sync_failed(self._syncer.error)

    @property
    def size(self) -> int:
        """Bytes of the file, up to its last good record."""
        return self._tape.mark[0]

    @property
    def records(self) -> int:
        """How many records the file has, the copies of dictionaries and prefixes, indexes and the footer included."""
        return self._tape.mark[1]

    @property
    def sync_error(self) -> str:
        """In one line, why records can't be made durable; "" where they can."""
        error = self._syncer.error if self._syncer is not None else None
        return "" if error is None else str(self._sync_failed(error))

    def ask_sync(self) -> None:
        """Asks the thread for a flush, without waiting."""
        if self._syncer is not None:
            self._syncer.ask()

    def sync(self) -> None:
        """Returns when everything written would outlast a power cut. Raises SyncFailedError."""
        try:
            syncing.flush(self._fd)
        except OSError as error:
            raise self._sync_failed(error) from error

    def _sync_failed(self, error: OSError) -> SyncFailedError:
        failed = SyncFailedError(f"{self.path}: records could not be made durable: {error.strerror}")
        failed.__cause__ = error
        return failed

    def close(self) -> None:
        """INDEX, FOOTER, sync, unlock. Raises WriteFailedError or SyncFailedError, and is closed then too."""
        if self.closed:
            return
        if self._pid != os.getpid():
            self.closed = True  # a forked copy: the log is its parent's
            return
        try:
            self.check()
            if self._directory.noted:
                self._write_index()
            self.put(
                Footer(
                    index=self._previous_index,
                    records=self._tape.mark[1],
                    episodes=self.tally.episodes,
                    turns=self.tally.turns,
                    closed_unix=time.time(),
                )
            )
            if self._policy != "none":
                self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Lets go of the file as it is, without a footer."""
        self.closed = True
        syncer, self._syncer = self._syncer, None
        if syncer is not None:
            syncer.stop()
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)
