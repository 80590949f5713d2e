"""From bytes to intact records: bounded reads, finding the next record after damage, and what was lost."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder.errors import DamagedLogError, OpenError, ReadError
from recorder.framing import HEAD_SIZE, MAX_PAYLOAD, SYNC, checksum, unpack_head

BLOCK = 256 << 10
FIRST_BLOCK = 16 << 10
"""What is read where nothing near was read before; twice as much each time reading goes on from there, up to BLOCK."""


class Frame(NamedTuple):
    """An intact record: where it stands, what it is, and its stored payload."""

    offset: int
    op: int
    flags: int
    sequence: int
    payload: bytes

    @property
    def end(self) -> int:
        """Offset of the byte after it."""
        return self.offset + HEAD_SIZE + len(self.payload)


class Fault(Enum):
    """Why there is no intact record at an offset."""

    CUT = "the file ends inside of it"
    BAD = "not a record, or its bytes are damaged"


class Damage(msgspec.Struct):
    """What one pass over a log met. Counts are records unless they say bytes."""

    records: int = 0
    """Intact records."""
    bad_regions: int = 0
    """Stretches of bytes that belong to no intact record."""
    bad_bytes: int = 0
    """Bytes in those stretches."""
    first_bad_offset: int | None = None
    """Where the first stretch begins."""
    missing: int = 0
    """Records that the sequence numbers say were there."""
    out_of_sequence: int = 0
    """Intact records left out, because their number was not above the last one's (repeated blocks)."""
    undecodable: int = 0
    """Intact frames whose payload didn't decode (a lost dictionary, a lying size, a wrong type)."""
    orphan_turns: int = 0
    """Turns whose EPISODE_BEGIN is lost."""
    skipped_unknown: int = 0
    """Records of a later minor version (op or flag not known here). Not damage."""
    torn_bytes: int = 0
    """Bytes of an unfinished record at the very end: what a kill leaves. Not damage."""
    first_error: str | None = None
    """The first undecodable payload's error."""

    @property
    def damaged(self) -> bool:
        """Whether anything was lost besides an unfinished last record."""
        return bool(
            self.bad_regions or self.missing or self.out_of_sequence or self.undecodable or self.orphan_turns
        )


class Source:
    """A regular file read by offset. Its size is fixed when it is opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise OpenError(f"{self.path}: can't be opened: {reason}") from error
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise OpenError(f"{self.path}: not a regular file")
        self.size = status.st_size
        self._block: tuple[int, bytes] = (0, b"")
        self._ahead = FIRST_BLOCK

    def close(self) -> None:
        """Closes the file; a second time does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset`; fewer where the file ends (or was cut since it was opened)."""
        at, block = self._block
        begin = offset - at
        if begin >= 0 and begin + count <= len(block):
            return block[begin : begin + count]
        self._ahead = min(2 * self._ahead, BLOCK) if 0 <= begin <= len(block) else FIRST_BLOCK
        block = self._pread(offset, max(count, self._ahead))
        self._block = (offset, block)
        return block[:count] if len(block) > count else block

    def _pread(self, offset: int, count: int) -> bytes:
        count = max(0, min(count, self.size - offset))
        parts = []
        try:
            while count:
                part = os.pread(self._fd, count, offset)
                if not part:
                    break
                parts.append(part)
                offset, count = offset + len(part), count - len(part)
        except OSError as error:
            raise ReadError(f"{self.path}: can't be read at offset {offset}: {error.strerror}") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def frame_at(self, offset: int) -> Frame | Fault:
        """The intact record that begins at `offset`, or why there is none."""
        data = self.read(offset, HEAD_SIZE) if offset >= 0 else b""
        if data[:4] != SYNC[: len(data)] or not data:
            return Fault.BAD
        if len(data) < HEAD_SIZE:
            return Fault.CUT
        head = unpack_head(data)
        if head.length > MAX_PAYLOAD:
            return Fault.BAD
        if offset + HEAD_SIZE + head.length > self.size:
            return Fault.CUT
        payload = self.read(offset + HEAD_SIZE, head.length)
        if len(payload) < head.length:
            return Fault.CUT
        if checksum(head, payload) != head.crc:
            return Fault.BAD
        return Frame(offset, head.op, head.flags, head.sequence, payload)

    def next_frame(self, offset: int) -> Frame | None:
        """The first intact record that begins at `offset` or later."""
        while offset < self.size:
            block = self.read(offset, BLOCK)
            at = block.find(SYNC)
            while at >= 0:
                found = self.frame_at(offset + at)
                if isinstance(found, Frame):
                    return found
                at = block.find(SYNC, at + 1)
            if offset + len(block) >= self.size or len(block) < len(SYNC):
                return None
            offset += len(block) - len(SYNC) + 1
        return None

    def previous_frame(self, op: int, before: int, reach: int | None = None) -> Frame | None:
        """The last intact record of this op that begins before offset `before`, `reach` bytes at most."""
        wanted = SYNC + bytes([op])
        end = before + len(wanted) - 1
        first = 0 if reach is None else max(0, before - reach)
        while end >= first + len(wanted):
            start = max(first, end - BLOCK)
            block = self._pread(start, end - start)
            at = block.rfind(wanted)
            while at >= 0:
                found = self.frame_at(start + at)
                if isinstance(found, Frame) and found.offset < before:
                    return found
                at = block.rfind(wanted, 0, at + len(wanted) - 1)
            if start == first:
                return None
            end = start + len(wanted) - 1
        return None

    def grow(self) -> bool:
        """Takes in what was written since the file was opened or last looked at; says whether its size has changed."""
        try:
            size = os.fstat(self._fd).st_size
        except OSError as error:
            raise ReadError(f"{self.path}: can't be read: {error.strerror}") from error
        changed, self.size = size != self.size, size
        if changed:
            self._block = (0, b"")  # an unfinished end may have been cut off and written over
        return changed

    def frames(
        self,
        damage: Damage,
        start: int = 0,
        strict: bool = False,
        expected: int | None = None,
        final: bool = True,
    ) -> Iterator[Frame]:
        """All intact records from `start` on, in order, at constant memory; counts losses in `damage`.

        A record whose sequence number isn't above the last one's is left out. `expected` is the number that the first
        one is to have, where that is known. With `strict`, the first damage raises DamagedLogError. Unless `final`,
        bytes at the end that are no record are passed over in silence: they may become one.
        """
        offset = start
        if start == 0:
            expected = 0
        while offset < self.size:
            found: Frame | Fault | None = self.frame_at(offset)
            if not isinstance(found, Frame):
                fault = found
                found = self.next_frame(offset + 1)
                if found is None and not final:
                    return
                if found is None and self._is_torn(offset, fault):
                    damage.torn_bytes = self.size - offset
                    return
                end = self.size if found is None else found.offset
                damage.bad_regions += 1
                damage.bad_bytes += end - offset
                if damage.first_bad_offset is None:
                    damage.first_bad_offset = offset
                if strict:
                    raise DamagedLogError(f"{self.path}: {end - offset} damaged bytes at offset {offset}")
                if found is None:
                    return
            offset = found.end
            if expected is not None:
                if found.sequence < expected:
                    damage.out_of_sequence += 1
                    if strict:
                        raise DamagedLogError(
                            f"{self.path}: record {found.sequence} at offset {found.offset} where record "
                            f"{expected} was expected"
                        )
                    continue
                damage.missing += found.sequence - expected
                if strict and found.sequence > expected:
                    raise DamagedLogError(
                        f"{self.path}: {found.sequence - expected} records are missing before offset "
                        f"{found.offset}"
                    )
            expected = found.sequence + 1
            damage.records += 1
            yield found

    def _is_torn(self, offset: int, fault: Fault | Frame | None) -> bool:
        """Whether the bytes from `offset` to the end are what a kill or a power cut leaves."""
        if fault is Fault.CUT:
            return True
        while offset < self.size:
            block = self.read(offset, BLOCK)
            if not block:
                return True
            if block.count(0) != len(block):
                return False
            offset += len(block)
        return True
