"""Several processes that learn as one: `mlx.launch -n 2 --backend ring -- python -m rl.train ...`.

Each process is a rank. All of them hold the whole state of the run, play their share of an update's groups and take the
gradient of it; episodes are told to all, gradients are added up around MLX's ring, and every rank takes the same
optimizer step. The first rank alone writes the run folder. A process that was not launched this way is the one rank of
its own, for which nothing here does anything, and MLX's distributed part is not even started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import GenericAlias
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np

from npc.blas import cores
from rl.learner import NO_GRADIENT, Gradient
from rl.optim import Arrays
from rl.pool import LocalPool, Pool

T = TypeVar("T")


class RankError(RuntimeError):
    """The ranks can't go on together; one line that says why."""


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
