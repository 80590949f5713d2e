"""Makes written records durable, on a thread of its own, so that no turn waits for a disk."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from typing import Literal

SyncPolicy = Literal["none", "episode", "interval", "turn"]
"""When records are made durable. `none`: when the operating system likes. `interval`: every so many seconds.
`episode`: that, and at each episode's end. `turn`: that, and at each turn. A kill of the process loses
nothing under any of them; they are about power cuts."""

POLICIES: tuple[str, ...] = ("none", "episode", "interval", "turn")


def flush(fd: int) -> None:
    """Returns when everything written to `fd` will outlast a power cut. Raises OSError."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync leaves data in the drive's own cache there
            return
        except OSError:  # a file system without it (a network share): the next best
            os.fsync(fd)
            return
    os.fdatasync(fd)


def flush_folder(path: str | os.PathLike[str]) -> None:
    """Makes a new file's name durable as well. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Syncer:
    """Flushes `fd` every `every` seconds while there is something new, and when asked to."""

    def __init__(self, fd: int, every: float) -> None:
        self.error: OSError | None = None
        """The first flush that failed. Later ones are tried all the same; none can make up for it."""
        self._fd = fd
        self._every = every
        self._dirty = False
        self._asked = False
        self._stopping = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="b22-sync", daemon=True)
        self._thread.start()

    def wrote(self) -> None:
        """Says that there is something new. Takes no lock."""
        self._dirty = True

    def ask(self) -> None:
        """Asks for a flush now, without waiting for it."""
        with self._wake:
            self._asked = True
            self._wake.notify()

    def stop(self) -> None:
        """Ends the thread, after the flush that it may be in."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._wake:
                if not self._asked and not self._stopping:
                    self._wake.wait(self._every)
                if self._stopping:
                    return
                self._asked = False
            if not self._dirty:
                continue
            self._dirty = False
            try:
                flush(self._fd)
            except OSError as error:
                self.error = self.error or error
