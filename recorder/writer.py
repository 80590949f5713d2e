"""Writes a log: one `write()` a turn by the caller, syncing on a thread, damage never left behind."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Self

import msgspec

from recorder.appender import Appender
from recorder.codec import LEVEL, R, encode
from recorder.dictionary import shipped
from recorder.episode import RESERVED
from recorder.errors import (
    EpisodeStateError,
    PrefixNotFoundError,
    RecordError,
    RewardVersionError,
    SyncFailedError,
    WriteFailedError,
)
from recorder.losses import Losses, Status
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Header, Prefix, Turn, prefix_hash
from recorder.reopen import CHECKS, Check
from recorder.sync import POLICIES, SyncPolicy

INDEX_EVERY = 1024
"""Records between two INDEX records."""

MAX_INDEX_EVERY = 1 << 15

OnError = Literal["raise", "status"]
"""What a failed write or sync does: raise from the call (the default), or only show in `Writer.status`."""


class Writer:
    """The one writer of a log.

    What a call was given is in the file when the call returns, and outlasts a kill of the process; it is not
    in the file when the call raises. A write that fails (the disk is full) raises WriteFailedError, and the file
    ends with its last good record; a sync that failed on its thread raises SyncFailedError from the next call on.
    The same call may be tried again, and then nothing is lost. Or the caller goes on with the next turn: once there is
    room, recording continues in the same file, behind a GAP that says which turns the episode lacks. With
    `on_error="status"` neither of the two is raised at all: a game plays on, and `status` says what is wrong.
    May be shared by threads.

    `dictionary` compresses turns: a trained zstd dictionary, None, or the one that ships with the project
    (none, where it ships none). `sync` and `sync_every` (seconds) say when records are made to outlast a
    power cut: see `recorder.sync.SyncPolicy`. `check` says how much of a log is looked at before it is appended to: see
    `recorder.reopen.Check`.

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
        check: Check = "auto",
        on_error: OnError = "raise",
    ) -> None:
        if sync not in POLICIES:
            raise ValueError(f"sync is {sync!r}; it can be one of {', '.join(POLICIES)}")
        if not 0 < sync_every <= threading.TIMEOUT_MAX:
            raise ValueError(f"sync_every is {sync_every!r}; it has to be a number of seconds above 0")
        if not 1 <= index_every <= MAX_INDEX_EVERY:
            raise ValueError(f"index_every is {index_every!r}; it has to be from 1 to {MAX_INDEX_EVERY}")
        if on_error not in ("raise", "status"):
            raise ValueError(f"on_error is {on_error!r}; it can be 'raise' or 'status'")
        if check not in CHECKS:
            raise ValueError(f"check is {check!r}; it can be one of {', '.join(CHECKS)}")
        self.path = Path(path)
        self._lock = threading.RLock()
        self._hashes: set[str] = set()
        self._log = Appender(
            self.path,
            header if header is not None else Header.here(),
            append=append,
            check=check,
            dictionary=shipped() if dictionary == "shipped" else dictionary,
            policy=sync,
            sync_every=sync_every,
            level=level,
            index_every=index_every,
        )
        self._policy = sync
        self._losses = Losses()
        self._silent = self._log.tolerant = on_error == "status"
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

    @property
    def status(self) -> Status:
        """How the recording stands now: for a status line."""
        log, losses = self._log, self._losses
        return Status(
            path=str(self.path), turns=log.tally.turns, episodes=log.tally.episodes, bytes=log.size,
            lost_turns=losses.lost + losses.pending(log.running), error=losses.error or log.sync_error,
        )  # fmt: skip

    def add_prefix(self, text: str, token_ids: Sequence[int] = (), tokenizer_hash: str = "") -> str:
        """Stores a static prefix, once, and returns the hash for EpisodeBegin.prefix_hash."""
        with self._lock:
            self._log.check()
            given = Prefix(hash="", text=text, token_ids=list(token_ids), tokenizer_hash=tokenizer_hash)
            checked, _ = encode(given)
            digest = prefix_hash(checked.text, checked.token_ids)
            prefix = msgspec.structs.replace(checked, hash=digest)
            with self._failing(lambda _: self._losses.prefixes.update({digest: prefix})):
                self._log.ready()
                if digest not in self._hashes:
                    self._put_prefix(prefix)
            self._hashes.add(digest)
            self._log.repeat(prefix)
            return digest

    def _put_prefix(self, prefix: Prefix) -> None:
        self._log.put(prefix)
        self._log.put(prefix)  # a second copy: one bad byte loses no prefix
        self._losses.prefixes.pop(prefix.hash, None)

    def begin_episode(self, begin: EpisodeBegin) -> None:
        """Records an episode's begin. Its id is new to the log, its prefix (if any) was added before."""
        with self._lock:
            self._log.check()
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
            with self._failing(lambda _: self._losses.begin_failed(begin)):
                self._log.ready()
                self._put_late_prefix(begin)
                self._log.put_encoded(begin, content)
                self._losses.begins.pop(begin.episode, None)

    def turn(self, turn: Turn) -> None:
        """Records the next turn of an open episode; behind turns that could not be written, a later one may follow."""
        with self._lock:
            log = self._log
            log.check()
            turn, content = _checked(turn, Turn)
            expected = self._next_turn(turn.episode)
            if expected is None:
                raise EpisodeStateError(f"episode {turn.episode} is not open: begin_episode comes first")
            if turn.turn != expected and not self._losses.may_go_on_at(turn.episode, expected, turn.turn):
                raise EpisodeStateError(
                    f"episode {turn.episode}: turn {turn.turn} where turn {expected} is next"
                )
            try:
                log.ready()
                if turn.turn != expected or self._losses.begins:
                    self._catch_up(turn.episode, turn.turn)
                log.put_encoded(turn, content)
            except WriteFailedError as error:
                self._losses.error = str(error)
                self._losses.turn_failed(turn.episode, turn.turn, _reason(error))
                if not self._silent:
                    raise
                return
            if self._losses.error:
                self._losses.error = ""
            if self._policy == "turn":
                log.ask_sync()

    def end_episode(self, end: EpisodeEnd) -> None:
        """Records an episode's end. `end.turns` is the number of its turns: those recorded, and those that could not
        be written."""
        with self._lock:
            self._log.check()
            end, content = _checked(end, EpisodeEnd)
            recorded = self._next_turn(end.episode)
            if recorded is None:
                raise EpisodeStateError(f"episode {end.episode} is not open: it can't end")
            if end.turns != recorded and not self._losses.may_go_on_at(end.episode, recorded, end.turns):
                raise EpisodeStateError(
                    f"episode {end.episode} ends with turns={end.turns}, but {recorded} were recorded"
                )
            with self._failing():
                self._log.ready()
                self._catch_up(end.episode, end.turns)
                self._log.put_encoded(end, content)
                self._losses.done(end.episode)
            if self._policy in ("episode", "turn"):
                self._log.ask_sync()

    def amend(self, amend: Amend) -> None:
        """Records late terms or labels for an episode of this log, open or ended."""
        with self._lock:
            self._log.check()
            amend, content = _checked(amend, Amend)
            if amend.reward_version in RESERVED:
                raise RewardVersionError(f"a reward version can't be named {amend.reward_version!r}")
            if amend.episode not in self._log.episodes:
                raise EpisodeStateError(f"episode {amend.episode} is not in the log: it can't be amended")
            with self._failing():
                self._log.ready()
                self._log.put_encoded(amend, content)

    def sync(self) -> None:
        """Returns when everything recorded so far would outlast a power cut. Raises SyncFailedError."""
        with self._lock:
            self._log.check()
            try:
                self._log.sync()
            except SyncFailedError:
                if not self._silent:
                    raise

    def close(self) -> None:
        """Writes the last INDEX and the FOOTER, syncs, lets go of the lock. A second time does nothing.

        Raises WriteFailedError or SyncFailedError; the log is closed and readable all the same.
        """
        with self._lock, self._failing():
            try:
                if not self._log.closed:
                    for gap in self._losses.unmarked(self._log.running):
                        self._log.put(gap)
            finally:
                self._log.close()

    # ---------------------------------------------------------------- what could not be written

    def _next_turn(self, episode: int) -> int | None:
        """The number of an episode's next turn; None where it isn't open."""
        following = self._log.running.get(episode)
        return 0 if following is None and episode in self._losses.begins else following

    def _catch_up(self, episode: int, turn: int) -> None:
        """Before number `turn` of an episode: its begin, if that could not be written, and a mark for lost turns."""
        begin = self._losses.begins.get(episode)
        if begin is not None:
            self._put_late_prefix(begin)
            self._log.put(begin)
            del self._losses.begins[episode]
        expected = self._log.running[episode]
        if turn > expected:
            self._log.put(self._losses.gap(episode, expected, turn))
            self._losses.lost += turn - expected

    def _put_late_prefix(self, begin: EpisodeBegin) -> None:
        prefix = self._losses.prefixes.get(begin.prefix_hash)
        if prefix is not None:
            self._put_prefix(prefix)

    @contextlib.contextmanager
    def _failing(self, noted: Callable[[WriteFailedError], None] | None = None) -> Iterator[None]:
        """Keeps account of a write or sync that fails or goes well again, and hides it where that was asked for."""
        try:
            yield
            self._losses.error = ""
        except WriteFailedError as error:
            self._losses.error = str(error)
            if noted is not None:
                noted(error)
            if not self._silent:
                raise
        except SyncFailedError:
            if not self._silent:
                raise


def _reason(error: WriteFailedError) -> str:
    cause = error.__cause__
    return f"not written: {cause.strerror}" if isinstance(cause, OSError) else "not written"


def _checked(record: R, kind: type[R]) -> tuple[R, bytes]:
    """The record as it will be read back, and its bytes. Raises RecordError."""
    if type(record) is not kind:
        raise RecordError(f"expected a {kind.__name__}, got {type(record).__name__}")
    return encode(record)
