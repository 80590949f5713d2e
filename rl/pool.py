"""Worker processes that each own an MLX: what is too heavy for one thread is shared out among them.

Elementwise work in MLX runs on one thread of a CPU, so two processes with one BLAS thread each beat one with two.
A job is a module-level function `job(state, payload)`, where `state` is what the worker's `setup(*args)` returned.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

from npc.blas import thread_environment
from npc.brain_process import interrupts_held

TRIES = 2  # how often a worker that died is started again for the same job

class WorkerError(RuntimeError):
    """A job failed in a worker; the text holds the worker's traceback."""


class Maps(Protocol):
    """Who runs jobs: `workers` of them side by side, the results in the order of the payloads."""

    @property
    def workers(self) -> int: ...

    def map(self, job: Callable[[Any, Any], Any], payloads: Sequence[Any]) -> list[Any]: ...


Memory = Callable[[Callable[[Any, Any], Any], Any], str]
"""Says of a job and its payload what the worker's state is afterwards: "new", what this job made of it alone; "more",
what it made of what was there; "" where it is as before."""


class Pool:
    """`workers` processes. Results come back in the order of the payloads, whichever worker was quicker.

    With `memory`, a worker that dies is started again, and its job is done again; the jobs that its state came from are
    done before. `say` is told so, `restarts` counts it, `lost` holds the jobs. Without, its death is a WorkerError.
    """

    def __init__(self, workers: int, setup: Callable[..., Any], args: Sequence[Any] = (),
                 memory: Memory | None = None, say: Callable[[str], None] = lambda _: None) -> None:  # fmt: skip
        self.workers = workers
        self.restarts = 0
        self.lost: list[tuple[Callable[[Any, Any], Any], Any]] = []
        self._setup, self._args = setup, tuple(args)
        self._memory, self._say = memory, say
        self._kept: list[list[tuple[Any, Any]]] = [[] for _ in range(workers)]
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        for _ in range(workers):
            process, pipe = self._start()
            self._processes.append(process)
            self._pipes.append(pipe)

    def map(self, job: Callable[[Any, Any], Any], payloads: Sequence[Any]) -> list[Any]:
        """`job(state, payload)` for every payload. Payload i runs on worker i modulo the number of workers.

        Raises WorkerError where a job raised, or a worker died over it again and again.
        """
        for worker, payload in zip(range(self.workers), payloads, strict=False):
            self._send(worker, job, payload)
        results: list[Any] = []
        failure = None
        for index, payload in enumerate(payloads):
            worker = index % self.workers
            try:
                good, value = self._pipes[worker].recv()
            except (EOFError, OSError):
                good, value = self._again(worker, job, payload)
            if not good and failure is None:
                failure = value
            if good:
                self._keep(worker, job, payload)
            results.append(value)
            # one job at a time on each pipe, so that neither side can block the other
            if index + self.workers < len(payloads):
                self._send(worker, job, payloads[index + self.workers])
        if failure is not None:
            raise WorkerError(failure)
        return results

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> tuple[Any, Connection]:
        context = multiprocessing.get_context("spawn")
        # both are inherited: threads are counted when the library loads, and Ctrl-C is the parent's to answer
        with thread_environment(1), interrupts_held():
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._setup, self._args), daemon=True)
            process.start()
            theirs.close()
        return process, ours

    def _send(self, worker: int, job: Callable[[Any, Any], Any], payload: Any) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # dead, as shows when it should answer
            self._pipes[worker].send((job, payload))

    def _again(self, worker: int, job: Callable[[Any, Any], Any], payload: Any) -> tuple[bool, Any]:
        """Does a job again that its worker died over: in a new one, brought to where the old one was."""
        if self._memory is None:  # who knows what it had
            raise WorkerError(f"worker {worker} died")
        for _ in range(TRIES):
            self._pipes[worker].close()
            self._processes[worker].join()
            code = self._processes[worker].exitcode
            self._processes[worker], self._pipes[worker] = self._start()
            self.restarts += 1
            self.lost.append((job, payload))
            self._say(f"worker {worker} died (exit code {code}): it is started again, and does again what it was at")
            try:
                for before, given in [*self._kept[worker], (job, payload)]:
                    self._pipes[worker].send((before, given))
                    answer = self._pipes[worker].recv()
                    if not answer[0]:
                        break
            except (EOFError, OSError):
                continue
            return answer
        raise WorkerError(f"worker {worker} died {TRIES + 1} times over the same job (exit code {code})")

    def _keep(self, worker: int, job: Callable[[Any, Any], Any], payload: Any) -> None:
        how = "" if self._memory is None else self._memory(job, payload)
        if how == "new":
            self._kept[worker] = []
        if how:
            self._kept[worker].append((job, payload))


class LocalPool:
    """The same without processes: every job runs here, one after the other."""

    workers = 1
    restarts = 0
    lost: Sequence[tuple[Callable[[Any, Any], Any], Any]] = ()

    def __init__(self, setup: Callable[..., Any], args: Sequence[Any] = ()) -> None:
        self._state = setup(*args)

    def map(self, job: Callable[[Any, Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [job(self._state, payload) for payload in payloads]

    def close(self) -> None:
        pass

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _serve(pipe: Connection, setup: Callable[..., Any], args: tuple[Any, ...]) -> None:
    state = None
    failed = None
    try:
        state = setup(*args)
    except Exception:  # told to the caller at its first job
        failed = traceback.format_exc()
    while True:
        try:
            job, payload = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, job(state, payload)) if failed is None else (False, failed)
        except Exception:
            answer = (False, traceback.format_exc())
        try:
            pipe.send(answer)
        except OSError:  # the parent stopped waiting, and closed its end
            return
