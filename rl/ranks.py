"""Several processes that learn as one: `mlx.launch -n 2 --backend ring -- python -m rl.train ...`.

Each process is a rank. All of them hold the whole state of the run, play their share of an update's groups and take the
gradient of it; episodes are told to all, gradients are added up around MLX's ring, and every rank takes the same
optimizer step. The first rank alone writes the run folder. A process that was not launched this way is the one rank of
its own, for which nothing here does anything, and MLX's distributed part is not even started.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue, SimpleQueue
from threading import Thread
from types import GenericAlias
from typing import Any, TypeVar, get_type_hints
from zlib import crc32

import msgspec
import numpy as np

from npc.blas import cores
from npc.mlx import mx
from npc.models import hash_arrays
from rl.learner import NO_GRADIENT, Gradient
from rl.optim import Arrays
from rl.pool import LocalPool, Pool

T = TypeVar("T")

RANK, HOSTS = "MLX_RANK", "MLX_HOSTFILE"  # what mlx.launch sets for its ring


class RankError(RuntimeError):
    """The ranks can't go on together; one line that says why."""


def launched_rank() -> int:
    """Which rank this process is; 0 where it was not launched as one of several."""
    return int(os.environ[RANK]) if _hosts() > 1 else 0


def join() -> Ranks:
    """The ranks of the launch that this process belongs to; itself alone, where it was not launched.

    Waits for the others to come. Raises RankError where they can't be reached.
    """
    if _hosts() < 2:
        return Ranks()
    try:
        return Ring()
    except RankError as error:
        raise RankError(f"{error}; where another program has the ports, choose others: mlx.launch --starting-port "
                        "PORT") from error  # fmt: skip


class Ranks:
    """One process alone. `here` counts the ranks on this machine."""

    rank = 0
    size = 1
    here = 1

    def gather(self, own: bytes) -> list[bytes]:
        """What every rank gave, in the order of the ranks. All ranks have to call it, as with all that follows."""
        return [own]

    def workers(self, most: int) -> int:
        """How many workers suit a rank: its share of the machine's cores, `most` at most."""
        return most if self.size == 1 else max(1, min(most, cores() // self.here))

    def add(self, own: np.ndarray) -> np.ndarray:
        """The sum (N,), float32, of what every rank gave; the same bits on all of them."""
        return own

    def first(self, make: Callable[[], T], kind: Any) -> T:
        """What the first rank made, of type `kind`. Where making it raised, the others raise RankError."""
        made: Any = None
        with self.together():
            if self.rank == 0:
                made = make()
        told = self.gather(msgspec.msgpack.encode(made))[0]
        return made if self.rank == 0 else msgspec.msgpack.decode(told, type=kind)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is done within is done by all ranks or has failed for all: the first error raises RankError on those
        that did not have one."""
        try:
            yield
        except Exception as error:
            self.gather(f"{type(error).__name__}: {error}".encode())
            raise
        failed = [(rank, text) for rank, text in enumerate(self.gather(b"")) if text]
        if failed:
            rank, text = failed[0]
            raise RankError(f"rank {rank}: {text.decode()}")

    def agree(self, what: str, arrays: Arrays) -> None:
        """Raises RankError, on all ranks, where they don't hold the same `arrays`, bit for bit."""

    def leave(self, code: int) -> None:
        """The last thing that a process does: ends it with exit code `code` where it could not end by itself."""


class Ring(Ranks):
    """The ranks of a launch, over MLX's ring.

    Where a rank goes while another waits for it, MLX's own operation never ends, or ends with what its memory held
    before. So a message is numbered and has a checksum, and waiting is this class's, on the thread of its maker, where
    it can be interrupted and sees a closed line; MLX waits on a thread beside.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._told: Queue[Any] = Queue()
        self._lines: list[int] = []
        self._messages = 0
        self._lost = False
        Thread(target=self._serve, daemon=True).start()
        before = set(_sockets())
        self._group = self._wait(lambda: mx.distributed.init(strict=True, backend="ring"))
        self._lines = [one for one in _sockets() if one not in before]
        self.rank, self.size = self._group.rank(), self._group.size()
        host = socket.gethostname().encode()
        self.here = self.gather(host).count(host)

    def gather(self, own: bytes) -> list[bytes]:
        self._messages += 1
        head = np.array([self._messages, len(own), crc32(own)], dtype=np.int64)
        heads = self._all(mx.distributed.all_gather, head).reshape(self.size, 3)
        if not (heads[:, 0] == self._messages).all():
            raise self._gone("its message is missing")
        longest = max(1, int(heads[:, 1].max()))
        padded = np.zeros(longest, dtype=np.uint8)
        padded[: len(own)] = np.frombuffer(own, dtype=np.uint8)
        found = self._all(mx.distributed.all_gather, padded).reshape(self.size, longest)
        texts = [row[:length].tobytes() for row, length in zip(found, heads[:, 1].tolist(), strict=True)]
        if [crc32(text) for text in texts] != heads[:, 2].tolist():
            raise self._gone("its message is not whole")
        return texts

    def add(self, own: np.ndarray) -> np.ndarray:
        # what a lost line makes of a sum shows in the next message, and none is kept before
        return self._all(mx.distributed.all_sum, own.astype(np.float32))

    def agree(self, what: str, arrays: Arrays) -> None:
        own = hash_arrays({name: mx.array(value) for name, value in arrays.items()})
        found = [text.decode() for text in self.gather(own.encode())]
        if len(set(found)) > 1:
            held = ", ".join(f"rank {rank} has {text}" for rank, text in enumerate(found))
            raise RankError(f"the ranks no longer hold the same {what}: {held}; model, versions and kind of machine "
                            "must be the same for all")  # fmt: skip

    def leave(self, code: int) -> None:
        if self._lost:  # MLX still waits, and would at the interpreter's end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _all(self, operation: Callable[..., mx.array], own: np.ndarray) -> np.ndarray:
        def work() -> np.ndarray:
            with mx.stream(mx.cpu):
                found = operation(mx.array(own), group=self._group)
                mx.eval(found)  # which lets other threads run
                return np.array(found)

        return self._wait(work)

    def _wait(self, work: Callable[[], T]) -> T:
        """What `work` gives on the thread beside. Raises RankError where the others are gone."""
        self._asked.put(work)
        silent = 0
        try:
            while True:
                try:
                    answer = self._told.get(timeout=0.5)
                    break
                except Empty:
                    # what a rank sent before it went is still read, so a closed line may be closed for a while
                    silent = silent + 1 if any(map(_closed, self._lines)) else 0
                    if silent > 4:
                        raise self._gone("its line is closed") from None
        except KeyboardInterrupt:
            self._lost = True
            raise
        if isinstance(answer, RuntimeError):
            raise self._gone(str(answer)) from answer
        return answer

    def _gone(self, why: str) -> RankError:
        self._lost = True
        return RankError(f"another rank is gone ({why})")

    def _serve(self) -> None:
        while True:
            work = self._asked.get()
            try:
                self._told.put(work())
            except RuntimeError as error:
                self._told.put(error)


class RankPool:
    """The workers of all ranks as one pool: what this rank's own workers don't do, another rank's did."""

    def __init__(self, ranks: Ranks, own: Pool | LocalPool) -> None:
        self.ranks = ranks
        self.workers = own.workers * ranks.size
        self._own = own

    def map(self, job: Callable[[Any, Any], Any], payloads: Sequence[Any]) -> list[Any]:
        """`job(state, payload)` for every payload, in their order. Payload i runs on worker i modulo the number of
        workers, of which every rank has as many in a row. What `job` returns travels as the type that it names.

        Where a job failed on one rank, that one raises WorkerError as its own pool does, and the others RankError.
        """
        if self.ranks.size == 1:
            return self._own.map(job, payloads)
        owners = [index % self.workers // self._own.workers for index in range(len(payloads))]
        mine = self._done(job, payloads, owners)
        kind = GenericAlias(list, (get_type_hints(job)["return"],))
        told = self.ranks.gather(msgspec.msgpack.encode(mine))
        each = [iter(mine if rank == self.ranks.rank else msgspec.msgpack.decode(text, type=kind))
                for rank, text in enumerate(told)]  # fmt: skip
        return [next(each[owner]) for owner in owners]

    def total(self, job: Callable[[Any, Any], Gradient], payloads: Sequence[Any], like: Arrays) -> Gradient:
        """The sum of the gradients that `job` gives for every payload; their arrays have names and shapes of `like`."""
        if self.ranks.size == 1:
            return sum(self._own.map(job, payloads), NO_GRADIENT)
        owners = [index % self.workers // self._own.workers for index in range(len(payloads))]
        mine = sum(self._done(job, payloads, owners), NO_GRADIENT)
        told = self.ranks.gather(msgspec.msgpack.encode(replace(mine, arrays={})))
        rest = sum((msgspec.msgpack.decode(text, type=Gradient) for text in told), NO_GRADIENT)
        names = sorted(like)
        flat = np.concatenate([mine.arrays.get(name, np.zeros_like(like[name])).ravel() for name in names])
        ends = np.cumsum([like[name].size for name in names])
        cut = np.split(self.ranks.add(flat), ends[:-1])
        arrays = {name: part.reshape(like[name].shape) for name, part in zip(names, cut, strict=True)}
        return replace(rest, arrays=arrays)

    def _done(self, job: Callable[[Any, Any], T], payloads: Sequence[Any], owners: Sequence[int]) -> list[T]:
        """This rank's own results, once all ranks have theirs."""
        mine = [one for one, owner in zip(payloads, owners, strict=True) if owner == self.ranks.rank]
        with self.ranks.together():
            return self._own.map(job, mine)

    @property
    def restarts(self) -> int:
        """How often a worker of this rank was started again."""
        return self._own.restarts

    @property
    def lost(self) -> Sequence[tuple[Callable[[Any, Any], Any], Any]]:
        """The jobs that workers of this rank died over."""
        return self._own.lost

    def close(self) -> None:
        self._own.close()


def _hosts() -> int:
    """How many processes the launch has that this one belongs to; 0 without a launch. Raises RankError for one that
    is not a ring."""
    if RANK not in os.environ:
        return 0
    path = os.environ.get(HOSTS)
    if path is None:
        raise RankError(f"{RANK} is set and {HOSTS} is not: launch it with mlx.launch --backend ring")
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
        return len(json.loads(text)) if text else 1  # one process alone gets an empty file
    except (OSError, ValueError, TypeError) as error:
        raise RankError(f"{HOSTS}={path}: not a readable list of hosts ({error})") from error


def _sockets() -> list[int]:
    """The file descriptors of this process that are sockets."""
    found = []
    for name in os.listdir("/dev/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                found.append(int(name))
        except OSError:  # the one that listed them
            continue
    return found


def _closed(line: int) -> bool:
    """Whether the other end of a socket is closed and nothing is left to read."""
    end = socket.socket(fileno=line)
    try:
        return end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except ConnectionError:
        return True
    except OSError:  # nothing to read now
        return False
    finally:
        end.detach()
