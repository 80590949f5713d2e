"""Where long work stands: in place on a terminal; for a pipe or a file, a plain line now and then."""

from __future__ import annotations

import os
import threading
import time

from rich.console import Console

EVERY_S = float(os.environ.get("ERRAND_PROGRESS_S", "20"))  # between two plain lines


class Progress:
    """Tells on `console` what is being done, as a context manager around the work.

    On a terminal the line stays in its place. Anywhere else (with `live` False there, too) a plain line with the
    seconds since the start comes every `EVERY_S`, however long the work takes without a word of its own.
    """

    def __init__(self, console: Console, live: bool | None = None) -> None:
        self._console = console
        self._status = console.status("") if (console.is_terminal if live is None else live) else None
        self._text = ""
        self._began = self._heard = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="errand-progress", daemon=True)

    def __enter__(self) -> Progress:
        self._began = self._heard = time.monotonic()
        if self._status is not None:
            self._status.start()
        else:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
        else:
            self._over.set()
            self._thread.join()

    def now(self, text: str) -> None:
        """What is being done from now on."""
        self._text = text
        if self._status is not None:
            self._status.update(text)

    def heard(self) -> None:
        """Something else was printed just now, so that no line is needed for a while."""
        self._heard = time.monotonic()

    def _tell(self) -> None:
        while not self._over.wait(max(0.0, self._heard + EVERY_S - time.monotonic())):
            now = time.monotonic()
            if now - self._heard >= EVERY_S:
                self._heard = now
                self._console.print(f"{now - self._began:.0f} s: {self._text}", highlight=False, markup=False,
                                    soft_wrap=True)  # fmt: skip
