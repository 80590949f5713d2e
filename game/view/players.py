"""Who plays the errand-runner: a rule, answering at once, or a model in a process of its own.

Questions carry a number that never comes twice in a session, so that an answer for a turn that has passed is known
by it and dropped. No MLX is imported in this process.
"""

from __future__ import annotations

import contextlib
import time
from typing import Protocol

import msgspec

from npc import catalog
from npc.brain_process import DEAD, BrainError, BrainInfo, BrainProcess
from npc.decision import Decision
from npc.errors import ModelError
from rl.policies import PolicySpec, ScriptedPolicy, TurnView
from scenarios.contract import Scenario

WAKE_S = 60.0  # a brain that isn't awake after so long is not waited for any longer
RESTARTS = 1


class NoAnswer(Exception):
    """There will be no decision for this turn; the text is one line that says why."""


class BrainFailed(ValueError):
    """The brain could not be loaded at all: one line, naming the file."""


class Identity(msgspec.Struct, frozen=True):
    """Who decides, as the log names it. Hashes are "" for a rule, and while a model is still loading."""

    model: str = ""
    adapter: str = ""
    base_hash: str = ""
    tokenizer_hash: str = ""
    weights_hash: str = ""
    prefix_ids: tuple[int, ...] = ()


class Player(Protocol):
    """Decides one turn at a time, without being waited for."""

    @property
    def identity(self) -> Identity: ...

    @property
    def person(self) -> bool:
        """Whether somebody at the controls decides, who has no deadline."""
        ...

    @property
    def waking(self) -> bool:
        """Whether it is still loading (and may be waited for): its deadline has not begun."""
        ...

    @property
    def trouble(self) -> str:
        """What is wrong with it for good, or ""."""
        ...

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None: ...

    def poll(self) -> Decision | None:
        """The decision, once, or None while there is none. Raises NoAnswer, or BrainFailed."""
        ...

    def wait(self, seconds: float) -> None:
        """Blocks until something may have arrived, or for so long."""
        ...

    def forget(self) -> None:
        """Gives up the open question: its answer will be dropped."""
        ...

    def close(self) -> None: ...


class RulePlayer:
    """`random`, `teacher` or `oracle`."""

    person = False
    waking = False
    trouble = ""
    identity = Identity()

    def __init__(self, kind: str, scenario: Scenario) -> None:
        self._policy = ScriptedPolicy(kind, scenario)
        self._always_draws = kind == "random"
        self._answer: Decision | None = None

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None:
        self._answer = self._policy.decide([view], None if uniform is None else [uniform])[0]

    def poll(self) -> Decision | None:
        answer, self._answer = self._answer, None
        return answer

    def wait(self, seconds: float) -> None:
        """An answer is always there at once."""

    def forget(self) -> None:
        self._answer = None

    def close(self) -> None:
        self._answer = None


class ModelPlayer:
    """A model, with or without an adapter, in its own process; started again once when that dies."""

    person = False

    def __init__(self, spec: PolicySpec, scenario: Scenario) -> None:
        self.spec = spec
        self.trouble = ""
        self._prefix = scenario.prefix
        self._restarts = RESTARTS
        self._info: BrainInfo | None = None
        self._question: tuple[int, TurnView, float | None] | None = None
        self._fault = ""
        self._identity = Identity(spec.model, adapter_name(spec))
        self._brain = self._start()

    def _start(self) -> BrainProcess:
        self._started = time.monotonic()
        return BrainProcess(self.spec.model, self.spec.adapter, self._prefix)

    @property
    def identity(self) -> Identity:
        if self._info is None and self._brain.info is not None:
            info = self._info = self._brain.info
            self._identity = Identity(
                info.model, adapter_name(self.spec), info.base_hash, info.tokenizer_hash, info.weights_hash,
                info.prefix_ids,
            )  # fmt: skip
        return self._identity

    @property
    def waking(self) -> bool:
        still = self._brain.info is None and not self.trouble
        return still and time.monotonic() - self._started < WAKE_S

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None:
        self._question = (number, view, uniform)
        self._fault = self.trouble
        if self.trouble:
            return
        try:
            self._send()
        except BrainError as error:
            self._fault = self._lost(error)

    def _send(self) -> None:
        assert self._question is not None
        number, view, uniform = self._question
        self._brain.ask(number, view.observation, view.legal, uniform=uniform)

    def poll(self) -> Decision | None:
        if self._question is None:
            return None
        answer = None
        if not self._fault:
            try:
                answer = self._brain.poll()
            except BrainError as error:
                self._fault = self._lost(error)
        if answer is not None and not self._unchanged():
            self.trouble = self._fault = f"{self.spec.text} was changed while it played; start the game again to use it"
        if self._fault:
            self._question, fault = None, self._fault
            raise NoAnswer(fault)
        if answer is not None:
            self._question = None
        return answer

    def _unchanged(self) -> bool:
        """Whether the weights are those that the log names, in a brain that was started again too."""
        first, now = self.identity, self._brain.info
        return now is not None and (first.base_hash, first.tokenizer_hash, first.weights_hash) == (
            now.base_hash, now.tokenizer_hash, now.weights_hash
        )  # fmt: skip

    def _lost(self, error: BrainError) -> str:
        """What to do about a fault; the reason why this turn gets no answer, or "" when it was asked again."""
        if self._brain.state != DEAD:
            return str(error)
        was_awake = self.identity.weights_hash != ""
        if not self._restarts:
            if not was_awake:
                raise BrainFailed(str(error))
            self.trouble = f"{error}, a second time"
            return self.trouble
        self._restarts -= 1
        self._brain.close()
        self._brain = self._start()
        if was_awake:
            return f"{error}; it was started again"
        self._send()
        return ""

    def wait(self, seconds: float) -> None:
        self._brain.wait(seconds)

    def speak(self, key: int, situation: str) -> None:
        """Asks for a line for flavour, which may come by `line` or not. A dead brain is told of by `poll`, not here."""
        with contextlib.suppress(BrainError):
            self._brain.speak(key, situation)

    def line(self) -> tuple[int, str] | None:
        """(key, words) that were said since, once."""
        return self._brain.spoken()

    def forget(self) -> None:
        self._question = None
        self._brain.forget()

    def close(self) -> None:
        self._brain.close(timeout_s=0.5)


def make_player(spec: PolicySpec, scenario: Scenario) -> Player:
    """The player that a policy names. Raises BrainFailed, before any process starts, for a model that isn't there."""
    if spec.kind == "http":
        raise BrainFailed(f"{spec.text}: a model behind a server plays in rl.evaluate and teaches in rl.distill only")
    if spec.kind != "model":
        return RulePlayer(spec.kind, scenario)
    try:
        catalog.need(catalog.resolve(spec.model)[0])
    except ModelError as error:
        raise BrainFailed(f"{error}; or play with random, teacher or oracle") from error
    return ModelPlayer(spec, scenario)


def adapter_name(spec: PolicySpec) -> str:
    """What the log and the panel call the adapter: the words after the colon, or the run that was named."""
    _, colon, name = spec.text.partition(":")
    return (name if colon else spec.text) if spec.adapter else ""
