"""Writes a log: one `write()` a turn by the caller, syncing on a thread, damage never left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import msgspec

from recorder.appender import Appender
from recorder.codec import LEVEL, R, encode
from recorder.dictionary import shipped
from recorder.errors import EpisodeStateError, PrefixNotFoundError, RecordError
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Header, Prefix, Turn, prefix_hash
from recorder.sync import POLICIES, SyncPolicy

INDEX_EVERY = 1024
"""Records between two INDEX records."""

MAX_INDEX_EVERY = 1 << 15


class Writer:
    """The one writer of a log.

    What a call was given is in the file when the call returns, and outlasts a kill of the process; it is not
    in the file when the call raises. Nothing is ever dropped: a write that fails raises WriteFailedError, a
    sync that failed on its thread raises SyncFailedError from the next call on. May be shared by threads.

    `dictionary` compresses turns: a trained zstd dictionary, None, or the one that ships with the project
    (none, where it ships none). `sync` and `sync_every` (seconds) say when records are made to outlast a
    power cut: see `recorder.sync.SyncPolicy`.

    Raises at opening: LogExistsError (without `append`), LockedError, OpenError, and with `append`
    DamagedLogError or NotALogError. An unfinished last record is cut off then; `repaired` is its length.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        header: Header | None = None,
        append: bool = False,
        dictionary: bytes | Literal["shipped"] | None = "shipped",
        sync: SyncPolicy = "episode",
        sync_every: float = 1.0,
        level: int = LEVEL,
        index_every: int = INDEX_EVERY,
    ) -> None:
        if sync not in POLICIES:
            raise ValueError(f"sync is {sync!r}; it can be one of {', '.join(POLICIES)}")
        if not 0 < sync_every <= threading.TIMEOUT_MAX:
            raise ValueError(f"sync_every is {sync_every!r}; it has to be a number of seconds above 0")
        if not 1 <= index_every <= MAX_INDEX_EVERY:
            raise ValueError(f"index_every is {index_every!r}; it has to be from 1 to {MAX_INDEX_EVERY}")
        self.path = Path(path)
        self._lock = threading.RLock()
        self._hashes: set[str] = set()
        self._log = Appender(
            self.path,
            header if header is not None else Header.here(),
            append=append,
            dictionary=shipped() if dictionary == "shipped" else dictionary,
            policy=sync,
            sync_every=sync_every,
            level=level,
            index_every=index_every,
        )
        self._policy = sync
        self.repaired: int = self._log.repaired

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise
            # the error in flight is the one to see; the log is complete but for its footer

    @property
    def next_episode(self) -> int:
        """An episode id that the log has not had: one above the largest."""
        return self._log.episodes.above

    def add_prefix(self, text: str, token_ids: Sequence[int] = (), tokenizer_hash: str = "") -> str:
        """Stores a static prefix, once, and returns the hash for EpisodeBegin.prefix_hash."""
        with self._lock:
            self._log.ready()
            given = Prefix(hash="", text=text, token_ids=list(token_ids), tokenizer_hash=tokenizer_hash)
            checked, _ = encode(given)
            digest = prefix_hash(checked.text, checked.token_ids)
            prefix = msgspec.structs.replace(checked, hash=digest)
            if digest not in self._hashes:
                self._log.put(prefix)
                self._log.put(prefix)  # a second copy: one bad byte loses no prefix
                self._hashes.add(digest)
            self._log.repeat(prefix)
            return digest

    def begin_episode(self, begin: EpisodeBegin) -> None:
        """Records an episode's begin. Its id is new to the log, its prefix (if any) was added before."""
        with self._lock:
            self._log.ready()
            begin, content = _checked(begin, EpisodeBegin)
            if begin.episode in self._log.episodes:
                raise EpisodeStateError(
                    f"episode {begin.episode} is already in the log; the next free id is {self.next_episode}"
                )
            if begin.prefix_hash and begin.prefix_hash not in self._hashes:
                raise PrefixNotFoundError(
                    f"episode {begin.episode} names prefix {begin.prefix_hash!r}, which was not added: "
                    "call add_prefix and use the hash that it returns"
                )
            self._log.put_encoded(begin, content)

    def turn(self, turn: Turn) -> None:
        """Records the next turn of an open episode."""
        with self._lock:
            self._log.ready()
            turn, content = _checked(turn, Turn)
            expected = self._log.running.get(turn.episode)
            if expected is None:
                raise EpisodeStateError(f"episode {turn.episode} is not open: begin_episode comes first")
            if turn.turn != expected:
                raise EpisodeStateError(
                    f"episode {turn.episode}: turn {turn.turn} where turn {expected} is next"
                )
            self._log.put_encoded(turn, content)
            if self._policy == "turn":
                self._log.ask_sync()

    def end_episode(self, end: EpisodeEnd) -> None:
        """Records an episode's end; `end.turns` has to be what was recorded."""
        with self._lock:
            self._log.ready()
            end, content = _checked(end, EpisodeEnd)
            recorded = self._log.running.get(end.episode)
            if recorded is None:
                raise EpisodeStateError(f"episode {end.episode} is not open: it can't end")
            if end.turns != recorded:
                raise EpisodeStateError(
                    f"episode {end.episode} ends with turns={end.turns}, but {recorded} were recorded"
                )
            self._log.put_encoded(end, content)
            if self._policy in ("episode", "turn"):
                self._log.ask_sync()

    def amend(self, amend: Amend) -> None:
        """Records late terms or labels for an episode of this log, open or ended."""
        with self._lock:
            self._log.ready()
            amend, content = _checked(amend, Amend)
            if amend.episode not in self._log.episodes:
                raise EpisodeStateError(f"episode {amend.episode} is not in the log: it can't be amended")
            self._log.put_encoded(amend, content)

    def sync(self) -> None:
        """Returns when everything recorded so far would outlast a power cut. Raises SyncFailedError."""
        with self._lock:
            self._log.check()
            self._log.sync()

    def close(self) -> None:
        """Writes the last INDEX and the FOOTER, syncs, lets go of the lock. A second time does nothing.

        Raises WriteFailedError or SyncFailedError; the log is closed and readable all the same.
        """
        with self._lock:
            self._log.close()


def _checked(record: R, kind: type[R]) -> tuple[R, bytes]:
    """The record as it will be read back, and its bytes. Raises RecordError."""
    if type(record) is not kind:
        raise RecordError(f"expected a {kind.__name__}, got {type(record).__name__}")
    return encode(record)
