"""A launch's processes over MLX's ring: joining them, and leaving where MLX would wait for ever."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue, SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from npc.mlx import mx
from npc.models import hash_arrays
from rl.optim import Arrays
from rl.ranks import RankError, Ranks

T = TypeVar("T")

RANK, HOSTS = "MLX_RANK", "MLX_HOSTFILE"  # what mlx.launch sets for its ring


def launched_rank() -> int:
    """Which rank this process is; 0 where it was not launched as one of several."""
    return int(os.environ[RANK]) if _hosts() > 1 else 0


def join() -> Ranks:
    """The ranks of the launch that this process belongs to; itself alone, where it was not launched.

    Waits for the others to come. Raises RankError where they can't be reached.
    """
    if _hosts() < 2:
        return Ranks()
    return Ring()


class Ring(Ranks):
    """The ranks of a launch, over MLX's ring.

    Where a rank goes while another waits for it, MLX's own operation never ends, or ends with what its memory held
    before. So a message is numbered and has a checksum, and waiting is this class's, on the thread of its maker, where
    it can be interrupted and sees a closed line; MLX waits on a thread beside.
    """

    stuck = False  # whether MLX was left waiting, in this process

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self._told: Queue[Any] = Queue()
        self._lines: list[int] = []
        self._messages = 0
        Thread(target=self._serve, daemon=True).start()
        before = set(_sockets())
        try:
            with _signals_kill():
                self._group = self._wait(lambda: mx.distributed.init(strict=True, backend="ring"))
        except RuntimeError as error:
            Ring.stuck = True
            raise RankError(f"the other ranks can't be reached ({error}); where another program has the ports, choose "
                            "others: mlx.launch --starting-port PORT") from error  # fmt: skip
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

    def _all(self, operation: Callable[..., mx.array], own: np.ndarray) -> np.ndarray:
        def work() -> np.ndarray:
            with mx.stream(mx.cpu):
                found = operation(mx.array(own), group=self._group)
                mx.eval(found)  # which lets other threads run
                return np.array(found)

        try:
            return self._wait(work)
        except RankError:
            raise
        except RuntimeError as error:
            raise self._gone(str(error)) from error

    def _wait(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises on the thread beside. Raises RankError where the others are gone."""
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
            Ring.stuck = True
            raise
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    def _gone(self, why: str) -> RankError:
        Ring.stuck = True
        return RankError(f"another rank is gone ({why})")

    def _serve(self) -> None:
        while True:
            work = self._asked.get()
            try:
                self._told.put(work())
            except RuntimeError as error:
                self._told.put(error)


def leave(code: int) -> None:
    """The last thing that a process does: ends it with exit code `code` where it would not end by itself, since MLX
    still waits for another rank."""
    if Ring.stuck:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


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


@contextmanager
def _signals_kill() -> Iterator[None]:
    """In the block SIGINT and SIGTERM end the process at once: MLX waits for the other ranks without letting Python
    hear of them, and there is nothing yet to be saved."""
    if current_thread() is not main_thread():
        yield
        return
    before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


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
