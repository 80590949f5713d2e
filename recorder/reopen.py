"""Opening the file of a writer: the lock, and what an existing log has to be before it is appended to."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Literal

from recorder.codec import TYPES, read_payload
from recorder.dictionary import dictionary_id
from recorder.directory import Directory, Survey
from recorder.errors import DamagedLogError, DictionaryError, LockedError, LogExistsError, OpenError, PayloadError
from recorder.framing import HEAD_SIZE, MAX_SEQUENCE, Flag, unpack_head
from recorder.lookup import Levels
from recorder.records import Dictionary, Index
from recorder.scan import Damage
from recorder.store import Store
from recorder.tally import Tally

Check = Literal["auto", "whole", "tail"]
"""How much of a log is looked at before it is appended to. `whole`: every record's CRC. `tail`: what was written after
the last INDEX; damage farther back stays for `verify` to find, and is made no worse. `auto`: whole for a log of up to
WHOLE bytes, which takes no noticeable time, and tail for a longer one. A log without a usable INDEX is read whole."""

CHECKS: tuple[str, ...] = ("auto", "whole", "tail")

WHOLE = 8 << 20


class Tail:
    """Where an appending writer goes on, and what the log already holds."""

    def __init__(self) -> None:
        self.offset = 0
        self.sequence = 0
        self.index_start = 0
        self.previous_index: int | None = None
        self.root_start = 0
        """Where the stretch of the INDEX at `previous_index` begins."""
        self.directory = Directory()
        """Of the stretch since the last INDEX."""
        self.survey = Survey()
        self.tally = Tally()
        self.levels: Levels | None = Levels()
        self.cut = 0
        """Bytes of an unfinished last record that are to be cut off."""


def open_locked(path: Path, append: bool) -> int:
    """The file, created or opened, locked for one writer. Raises OpenError, LogExistsError, LockedError."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OpenError(f"{path}: can't be opened for writing: {reason}; give another place") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OpenError(f"{path}: not a regular file")
        try:
            # flock, not lockf: a reader of the same process that closes the file would release a lockf
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(f"{path}: another writer has it open") from error
        except OSError as error:
            raise OpenError(f"{path}: can't be locked: {error.strerror}") from error
        if not append and os.fstat(fd).st_size:
            raise LogExistsError(f"{path}: already there; append to it, or give another name")
    except BaseException:
        os.close(fd)
        raise
    return fd


def examine(path: Path, dictionary: bytes | None, check: Check = "auto") -> Tail:
    """Looks at a log to append to it.

    Raises DamagedLogError where anything but an unfinished last record is damaged, NotALogError,
    UnsupportedFormatError, and DictionaryError where the log has another dictionary of the same id.
    """
    store = Store(path, () if dictionary is None else (dictionary,))
    try:
        return _examine(store, dictionary, check)
    finally:
        store.source.close()


def _examine(store: Store, dictionary: bytes | None, check: Check) -> Tail:
    tail = _from_root(store)
    whole = check == "whole" or (check == "auto" and store.source.size <= WHOLE)
    if tail.previous_index is not None and not store.stands(tail.previous_index, 0 if whole else tail.root_start):
        tail = Tail()
    if whole:
        _check_damage(store, 0, None)
    _check_damage(store, tail.index_start, tail.sequence)
    damage = Damage()
    for frame in store.source.frames(damage, tail.index_start, expected=tail.sequence):
        tail.offset, tail.sequence = frame.end, frame.sequence + 1
        if frame.op not in TYPES or frame.flags & ~Flag.KNOWN:
            tail.tally.note(None)
            tail.directory.note(None, frame.offset)
            continue
        try:
            record = read_payload(frame.op, frame.flags, frame.payload, store.inflate)
        except PayloadError as error:
            raise DamagedLogError(f"{store.path}: can't be appended to: offset {frame.offset}: {error}") from error
        store.check_format(record)
        tail.tally.note(record)
        tail.survey.note(record, frame.offset)
        tail.directory.note(record, frame.offset)
        if isinstance(record, Index):  # one that is not about the whole file: the stretch ends here all the same
            tail.previous_index, tail.index_start = frame.offset, frame.end
            tail.directory, tail.levels = Directory(), None
    tail.cut = store.source.size - tail.offset
    if tail.sequence > MAX_SEQUENCE:
        raise DamagedLogError(f"{store.path}: has used up its sequence numbers; begin a new log")
    _check_dictionaries(store, tail.survey, dictionary)
    return tail


def _from_root(store: Store) -> Tail:
    """What the last INDEX says of the file before it, if there is one that says so."""
    tail = Tail()
    root = store.root()
    if root is None:
        return tail
    frame, index = root
    try:
        tail.survey.merge(index)
        tail.tally = Tally(index.counts)
    except ValueError:
        return Tail()
    tail.tally.note(index)
    tail.levels = Levels()
    tail.levels.written(frame.offset, index.levels)
    tail.offset = tail.index_start = frame.end
    tail.sequence, tail.previous_index, tail.root_start = frame.sequence + 1, frame.offset, index.start
    return tail


def _check_damage(store: Store, start: int, expected: int | None) -> None:
    """Raises DamagedLogError where anything from `start` on is damaged but an unfinished last record."""
    damage = Damage()
    end = start
    for frame in store.source.frames(damage, start, expected=expected):
        end = frame.end
    left = store.source.size - end
    one_bad_end = damage.bad_regions == 1 and left == damage.bad_bytes
    middle = damage.bad_regions and not (one_bad_end and _is_one_record(store, end))
    if middle or damage.missing or damage.out_of_sequence:
        where = damage.first_bad_offset if damage.bad_regions else "a gap in the sequence numbers"
        raise DamagedLogError(
            f"{store.path}: damaged in the middle ({damage.bad_bytes} bytes in {damage.bad_regions} places, "
            f"{damage.missing} records missing, first at {where}); appending would bury it: save what is intact "
            f"with `python -m recorder recover {store.path}`, or begin a new log"
        )


def _check_dictionaries(store: Store, survey: Survey, dictionary: bytes | None) -> None:
    if dictionary is None:
        return
    known = dictionary_id(dictionary)
    offset = survey.dictionaries.get(known)
    record = None if offset is None else store.record_at(offset)
    if isinstance(record, Dictionary) and record.id == known and record.data != dictionary:
        raise DictionaryError(f"{store.path}: holds another dictionary with the id {known}")


def _is_one_record(store: Store, offset: int) -> bool:
    """Whether the bytes from `offset` to the end are one record by their length, if not by their CRC."""
    data = store.source.read(offset, HEAD_SIZE)
    return len(data) == HEAD_SIZE and offset + HEAD_SIZE + unpack_head(data).length == store.source.size
