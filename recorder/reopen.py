"""Opening the file of a writer: the lock, and what an existing log has to be before it is appended to."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from recorder.dictionary import dictionary_id
from recorder.directory import Directory, IdRanges
from recorder.errors import DamagedLogError, DictionaryError, LockedError, LogExistsError, OpenError
from recorder.framing import HEAD_SIZE, MAX_SEQUENCE, Op, unpack_head
from recorder.records import Dictionary, EpisodeBegin, Gap, Index
from recorder.scan import Damage
from recorder.store import Store


class Tail:
    """Where an appending writer goes on, and what the log already holds."""

    def __init__(self) -> None:
        self.offset = 0
        self.sequence = 0
        self.records = 0
        self.turns = 0
        self.episodes = IdRanges()
        self.index_start = 0
        self.previous_index: int | None = None
        self.directory = Directory()
        self.cut = 0
        """Bytes of an unfinished last record that are to be cut off."""


def open_locked(path: Path, append: bool) -> int:
    """The file, created or opened, locked for one writer. Raises OpenError, LogExistsError, LockedError."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OpenError(f"{path}: can't be opened for writing: {reason}") from error
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


def examine(path: Path, dictionary: bytes | None) -> Tail:
    """Reads a whole log to append to it.

    Raises DamagedLogError where anything but an unfinished last record is damaged, NotALogError,
    UnsupportedFormatError, and DictionaryError where the log has another dictionary of the same id.
    """
    store = Store(path, () if dictionary is None else (dictionary,))
    try:
        return _examine(store, dictionary)
    finally:
        store.source.close()


def _examine(store: Store, dictionary: bytes | None) -> Tail:
    tail, damage = Tail(), Damage()
    known = None if dictionary is None else dictionary_id(dictionary)
    for frame in store.source.frames(damage):
        tail.offset, tail.sequence = frame.end, frame.sequence + 1
        tail.records += 1
        tail.turns += frame.op == Op.TURN
        if frame.op in (Op.EPISODE_BEGIN, Op.GAP, Op.INDEX, Op.DICT):
            record = store.decode(frame)
            if isinstance(record, EpisodeBegin | Gap):
                tail.episodes.add(record.episode)
            elif isinstance(record, Index):
                tail.previous_index, tail.index_start = frame.offset, frame.end
            elif isinstance(record, Dictionary) and record.id == known and record.data != dictionary:
                raise DictionaryError(f"{store.path}: holds another dictionary with the id {known}")
    _check_damage(store, damage, tail)
    for frame, record in store.records(damage, start=tail.index_start):
        tail.directory.note(record, frame.offset)
    if damage.undecodable:
        raise DamagedLogError(f"{store.path}: can't be appended to: {damage.first_error}")
    return tail


def _check_damage(store: Store, damage: Damage, tail: Tail) -> None:
    tail.cut = store.source.size - tail.offset
    if tail.sequence > MAX_SEQUENCE:
        raise DamagedLogError(f"{store.path}: has used up its sequence numbers; begin a new log")
    one_bad_end = damage.bad_regions == 1 and tail.cut == damage.bad_bytes
    middle = damage.bad_regions and not (one_bad_end and _is_one_record(store, tail.offset))
    if middle or damage.missing or damage.out_of_sequence:
        where = damage.first_bad_offset if damage.bad_regions else "a gap in the sequence numbers"
        raise DamagedLogError(
            f"{store.path}: damaged in the middle ({damage.bad_bytes} bytes in {damage.bad_regions} places, "
            f"{damage.missing} records missing, first at {where}); appending would bury it: save what is intact "
            f"with `python -m recorder recover {store.path}`, or begin a new log"
        )


def _is_one_record(store: Store, offset: int) -> bool:
    """Whether the bytes from `offset` to the end are one record by their length, if not by their CRC."""
    data = store.source.read(offset, HEAD_SIZE)
    return len(data) == HEAD_SIZE and offset + HEAD_SIZE + unpack_head(data).length == store.source.size
