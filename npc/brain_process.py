"""The brain in a process of its own, so that the picture never waits for it.

The process is started with ``spawn`` and owns MLX; this module imports MLX only in there. The caller asks
without waiting and polls; an answer for a turn that has passed is dropped by its number.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from typing import TYPE_CHECKING, Any

from npc.errors import NpcError

if TYPE_CHECKING:
    from npc.policy import Decision

WARMING, READY, THINKING, DEAD, CLOSED = "warming", "ready", "thinking", "dead", "closed"


class BrainError(NpcError):
    """The brain process could not start or has died; the message is one line that says why."""


@dataclass(frozen=True)
class BrainInfo:
    """What the process loaded; the hashes are of the weights in its memory. ``prefix_ids``: the static prefix as the
    brain reads it.
    """

    model: str
    why: str
    base_hash: str
    tokenizer_hash: str
    weights_hash: str
    prefix_ids: tuple[int, ...]
    speaks: bool = False


@dataclass(frozen=True)
class Ask:
    turn: int
    observation: str
    legal: tuple[str, ...]
    tau: float
    uniform: float | None


@dataclass(frozen=True)
class Speak:
    """Asks for a line of speech, when there is nothing to decide."""

    key: int
    situation: str


class BrainProcess:
    """One brain, one process.

    ``state`` is ``warming`` (loading; asks are taken and answered later), ``ready``, ``thinking``, ``dead``
    (see ``error``) or ``closed``. ``info`` is None while warming. Use it as a context manager, or call
    :meth:`close`.
    """

    def __init__(self, model: str, adapter: str | None, prefix: str, threads: int = 1) -> None:
        self.info: BrainInfo | None = None
        self.error = ""
        self._state = WARMING
        self._asked: int | None = None
        self._answer: Decision | None = None
        self._refusal = ""
        self._line: tuple[int, str] | None = None
        context = multiprocessing.get_context("spawn")
        self._pipe, child_end = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(child_end, model, adapter, prefix, threads), name="errand-brain", daemon=True
        )
        with interrupts_held():
            self._process.start()
        child_end.close()

    @property
    def state(self) -> str:
        self._receive()
        if self._state == READY and self._asked is not None:
            return THINKING
        return self._state

    def ask(
        self,
        turn: int,
        observation: str,
        legal: Sequence[str],
        tau: float = 1.0,
        uniform: float | None = None,
    ) -> None:
        """Asks for the decision of ``turn`` and returns at once. A question that is still open is given up.

        ``uniform`` in [0, 1) draws the action; None takes the most probable one.
        """
        self._check_alive()
        self._asked = turn
        self._answer, self._refusal = None, ""
        try:
            self._pipe.send(Ask(turn, observation, tuple(legal), tau, uniform))
        except OSError:
            self._died()
            self._check_alive()

    def poll(self) -> Decision | None:
        """The decision of the turn asked last, once; None while there is none. Raises :class:`BrainError`
        when dead.
        """
        self._check_alive()
        if self._refusal:
            message, self._refusal, self._asked = self._refusal, "", None
            raise BrainError(message)
        if self._asked is None or self._answer is None:
            return None
        answer, self._answer, self._asked = self._answer, None, None
        return answer

    def forget(self) -> None:
        """Gives up the open question (its turn was played by a fallback): its answer will be dropped."""
        self._asked, self._answer, self._refusal = None, None, ""

    def speak(self, key: int, situation: str) -> None:
        """Asks for a spoken line for `situation` and returns at once. It is made when no decision is asked for, given
        up as soon as one is, and there only for a model that `info.speaks`; `key` comes back with it."""
        self._check_alive()
        with contextlib.suppress(OSError):  # a process that has just died is noticed where decisions are asked for
            self._pipe.send(Speak(key, situation))

    def spoken(self) -> tuple[int, str] | None:
        """(key, line) of the last line that came, once; None while there is none."""
        self._receive()
        line, self._line = self._line, None
        return line

    def wait(self, timeout_s: float) -> None:
        """Blocks until something arrives or ``timeout_s`` seconds have passed; for tests and headless
        play.
        """
        if self._state in (WARMING, READY):
            self._pipe.poll(timeout_s)
            self._receive()

    def close(self, timeout_s: float = 2.0) -> None:
        """Ends the process; a second call does nothing."""
        if self._state == CLOSED:
            return
        self._state = CLOSED
        with contextlib.suppress(OSError):  # a dead process has closed its end already
            self._pipe.send(None)
        self._process.join(timeout_s)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(timeout_s)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()

    def __enter__(self) -> BrainProcess:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _check_alive(self) -> None:
        self._receive()
        if self._state == DEAD:
            raise BrainError(self.error)
        if self._state == CLOSED:
            raise BrainError("the brain process was closed")

    def _receive(self) -> None:
        """Takes in all that has arrived, without waiting."""
        try:
            while self._state in (WARMING, READY) and self._pipe.poll():
                kind, value = self._pipe.recv()
                if kind == "ready":
                    self.info, self._state = value, READY
                elif kind == "failed":
                    self._state, self.error = DEAD, value
                elif kind == "line":
                    self._line = value
                elif kind == "refused":
                    turn, message = value
                    if turn == self._asked:
                        self._refusal = message
                else:
                    turn, decision = value
                    if turn == self._asked:
                        self._answer = decision
        except (EOFError, OSError):
            self._died()

    def _died(self) -> None:
        self._process.join(1.0)
        self._state = DEAD
        self.error = f"the brain process ended unexpectedly (exit code {self._process.exitcode})"


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """The child inherits a blocked SIGINT, so that Ctrl-C reaches it from its first instruction without
    effect.
    """
    resource_tracker.ensure_running()  # it would unblock the signal if it were started by Process.start
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: connection.Connection, model: str, adapter: str | None, prefix: str, threads: int) -> None:
    """The process: loads, says what it loaded, answers the newest question until it is told to end."""
    from npc import blas

    blas.preload(threads)
    from npc.speech import Speaker

    try:
        policy, info = _load(model, adapter, prefix)
    except (ValueError, OSError) as error:
        pipe.send(("failed", str(error)))
        return
    pipe.send(("ready", info))
    speaker = None
    while True:
        try:
            question = pipe.recv()
            speech = question if isinstance(question, Speak) else None
            while question is not None and pipe.poll():
                newer = pipe.recv()
                if isinstance(newer, Speak):
                    speech = newer
                else:
                    question = newer
        except EOFError:  # the game is gone
            return
        if question is None:
            return
        try:
            if isinstance(question, Ask):
                uniforms = None if question.uniform is None else [question.uniform]
                decision = policy.decide([question.observation], [question.legal], question.tau, uniforms)[0]
                pipe.send(("decision", (question.turn, decision)))
            if speech is not None and info.speaks:
                speaker = speaker or Speaker(policy.brain)
                line = speaker.line(speech.situation, speech.key, lambda: not pipe.poll())
                if line:
                    pipe.send(("line", (speech.key, line)))
        except ValueError as error:
            assert isinstance(question, Ask)
            pipe.send(("refused", (question.turn, str(error))))
        except BrokenPipeError:
            return


def _load(model: str, adapter: str | None, prefix: str) -> tuple[Any, BrainInfo]:
    from npc import adapters, models
    from npc.policy import ClosedPolicy
    from npc.speech import can_speak

    brain = models.load(model)
    if adapter is not None:
        adapters.load_adapter(brain, adapter)
    policy = ClosedPolicy(brain, prefix)
    policy.decide(["."], [("a", "b")])  # the first answer must not pay for warming up
    info = BrainInfo(
        model=brain.name,
        why=brain.why,
        base_hash=brain.base_hash,
        tokenizer_hash=brain.tokenizer_hash,
        weights_hash=adapters.weights_hash(brain),
        prefix_ids=tuple(policy.prefix_ids),
        speaks=can_speak(brain),
    )
    return policy, info
