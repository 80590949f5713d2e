"""The game's recording. What goes wrong with it is shown and said, and never stops the game."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from recorder import EpisodeBegin, EpisodeEnd, Header, RecorderError, Turn, WriteFailedError, Writer

WAITING = 10_000  # records that are kept while the disk refuses them


class Journal:
    """Writes one session into a log, behind what the log already holds.

    A write that fails is tried again before the next one, in order; `error` says what is wrong, "" when nothing is.
    """

    def __init__(self, path: Path, engine_version: str) -> None:
        """Opens the log. Raises RecorderError, with the file untouched, where that can't be done."""
        if path.suffix != ".b22":
            raise RecorderError(f"{path}: a log's name ends in .b22; give another name")
        header = Header.here("game", engine_version)
        self.path = path
        self.turns = 0
        self.error = ""
        self._fresh = not path.exists()
        self._writer = Writer(path, header=header, append=not self._fresh)
        self._waiting: deque[Callable[[], object]] = deque()
        self._given_up = False
        self._begun = False

    @property
    def next_episode(self) -> int:
        return self._writer.next_episode

    def begin(self, begin: EpisodeBegin, prefix: str, prefix_ids: tuple[int, ...]) -> None:
        self._begun = True
        self._put(lambda: self._writer.add_prefix(prefix, prefix_ids, begin.tokenizer_hash))
        self._put(lambda: self._writer.begin_episode(begin))

    def turn(self, turn: Turn) -> None:
        self._put(lambda: self._writer.turn(turn))
        self.turns += 1

    def end(self, end: EpisodeEnd) -> None:
        self._put(lambda: self._writer.end_episode(end))

    def close(self) -> None:
        """Writes what still waits and closes the log; what could not be written is said.

        A log that was made by this session and holds no episode is taken away again.
        """
        self._write_waiting()
        if self._waiting:
            self._say(f"{self.path}: {len(self._waiting)} records could not be written ({self.error})")
        try:
            self._writer.close()
        except RecorderError as error:
            self._fail(error)
        if self._fresh and not self._begun:
            self.path.unlink(missing_ok=True)

    def status(self) -> str:
        """One line for the window."""
        return f"not recording: {self.error}" if self.error else f"recording to {self.path}, {self.turns} turns"

    def _put(self, write: Callable[[], object]) -> None:
        if self._given_up:
            return
        self._waiting.append(write)
        self._write_waiting()
        if len(self._waiting) > WAITING:
            self._give_up()

    def _write_waiting(self) -> None:
        while self._waiting and not self._given_up:
            try:
                self._waiting[0]()
            except WriteFailedError as error:
                self._fail(error)
                return
            except RecorderError as error:
                self._fail(error)
                self._give_up()
                return
            self._waiting.popleft()
            self.error = ""

    def _give_up(self) -> None:
        self._given_up = True

    def _fail(self, error: RecorderError) -> None:
        if self.error != str(error):
            self._say(str(error))
        self.error = str(error)

    @staticmethod
    def _say(line: str) -> None:
        print(f"recording: {line}", file=sys.stderr)
