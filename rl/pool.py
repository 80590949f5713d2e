"""Worker processes that each own an MLX: what is too heavy for one thread is shared out among them.

Elementwise work in MLX runs on one thread of a CPU, so two processes with one BLAS thread each beat one with two.
A job is a module-level function `job(state, payload)`, where `state` is what the worker's `setup(*args)` returned.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from npc.blas import thread_environment
from npc.brain_process import interrupts_held


class WorkerError(RuntimeError):
    """A job failed in a worker; the text holds the worker's traceback."""


class Pool:
    """`workers` processes. Results come back in the order of the payloads, whichever worker was quicker."""

    def __init__(self, workers: int, setup: Callable[..., Any], args: Sequence[Any] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = []
        self._pipes: list[Connection] = []
        # both are inherited: threads are counted when the library loads, and Ctrl-C is the parent's to answer
        with thread_environment(1), interrupts_held():
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, setup, tuple(args)), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(ours)
        self.workers = workers

    def map(self, job: Callable[[Any, Any], Any], payloads: Sequence[Any]) -> list[Any]:
        """`job(state, payload)` for every payload. Payload i runs on worker i modulo the number of workers.

        Raises WorkerError where a job raised or a worker died.
        """
        for pipe, payload in zip(self._pipes, payloads, strict=False):
            pipe.send((job, payload))
        results: list[Any] = []
        failure = None
        for index in range(len(payloads)):
            pipe = self._pipes[index % self.workers]
            try:
                good, value = pipe.recv()
            except EOFError as error:
                raise WorkerError(f"worker {index % self.workers} died") from error
            if not good and failure is None:
                failure = value
            results.append(value)
            # one job at a time on each pipe, so that neither side can block the other
            if index + self.workers < len(payloads):
                pipe.send((job, payloads[index + self.workers]))
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


class LocalPool:
    """The same without processes: every job runs here, one after the other."""

    workers = 1

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
