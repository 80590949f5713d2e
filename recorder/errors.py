"""Everything that can go wrong with a log, as types. All of them are `RecorderError`."""

from __future__ import annotations


class RecorderError(Exception):
    """Base of every error this package raises on purpose; its text is one line fit for a user."""


class OpenError(RecorderError):
    """The file can't be opened: it is missing, not a regular file, or not permitted."""


class LogExistsError(RecorderError):
    """A new log was asked for where one already stands; nothing was touched."""


class LockedError(RecorderError):
    """Another writer has the file open."""


class NotALogError(RecorderError, ValueError):
    """The file holds no readable .b22 record at all."""


class UnsupportedFormatError(RecorderError, ValueError):
    """The file was written in a later major format than this program reads."""


class DamagedLogError(RecorderError):
    """Bytes of the log are damaged where that can't be passed over (append, or `strict=True`)."""


class PayloadError(RecorderError):
    """A record's frame is intact, but its payload can't be decoded within the cap."""


class ReadError(RecorderError):
    """The operating system failed to read the file."""


class RecordError(RecorderError, ValueError):
    """A record can't be written as given: wrong type, out of range, or not finite. Names the field."""


class RecordTooLargeError(RecordError):
    """A record is larger than a reader is allowed to allocate."""


class EpisodeStateError(RecorderError, ValueError):
    """Calls out of order: an episode begun twice, a turn of no open episode, a turn number skipped."""


class EpisodeNotFoundError(RecorderError, KeyError):
    """The log holds no such episode."""

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0]) if self.args else ""


class PrefixNotFoundError(RecorderError, KeyError):
    """The log holds no prefix of that hash."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class RewardVersionError(RecorderError, ValueError):
    """An episode was not scored under the reward version that was asked for, or a version can't be named so."""


class DictionaryError(RecorderError, ValueError):
    """Bytes that are no trained zstd dictionary, or samples that none can be trained from."""


class WriteFailedError(RecorderError):
    """A record could not be written whole. The file was cut back to its last good record; the record of
    this call is not in it, and the call may be tried again once the cause (`__cause__`) is gone."""


class SyncFailedError(RecorderError):
    """The operating system could not make written records durable. Raised by the next call and by every
    one after it: what a failed sync left on the disk is not known."""


class ClosedError(RecorderError):
    """The writer or reader was closed, is broken, or belongs to the process that this one was forked from."""
