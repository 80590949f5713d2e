"""The writing end of a log file: whole records or none, with the sequence numbers."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from recorder.errors import WriteFailedError
from recorder.framing import MAX_SEQUENCE, pack


class Tape:
    """Appends records to `fd`. `mark` is (offset, sequence) after the last good record.

    A record that can't be written whole is cut off again, an interrupted one too, so that the file always
    ends with its last good record.
    """

    def __init__(self, fd: int, path: Path, offset: int, sequence: int) -> None:
        self.mark = (offset, sequence)
        self.broken: str | None = None
        """Why nothing can be written any more: a record was left half-written and could not be cut off."""
        self._fd = fd
        self._path = path

    def append(self, op: int, flags: int, payload: bytes) -> int:
        """Writes one record, as a rule by one `write()`; returns its offset. Raises WriteFailedError."""
        offset, sequence = self.mark
        if self.broken is not None:
            raise WriteFailedError(self.broken)
        if sequence > MAX_SEQUENCE:
            raise WriteFailedError(f"{self._path}: has used up its sequence numbers; begin a new log")
        data = pack(op, flags, sequence, payload)
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            self.mark = (offset + written, sequence + 1)
        except BaseException as error:
            if self.mark[0] == offset:
                self._cut(offset)
            if isinstance(error, OSError):
                raise WriteFailedError(
                    f"{self._path}: a record of {len(data)} bytes can't be written: {error.strerror}; "
                    "the log ends with the one before it"
                ) from error
            raise
        return offset

    def _cut(self, offset: int) -> None:
        try:
            os.ftruncate(self._fd, offset)
        except OSError as error:
            self.broken = (
                f"{self._path}: a half-written record can't be cut off: {error.strerror}; reopen the log to "
                "repair it"
            )
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, offset)
            raise
