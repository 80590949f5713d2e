"""A player on the other side of an OpenAI-compatible server: `http:URL`, where URL ends in /v1 or in an endpoint.

`http:http://127.0.0.1:8080/v1#some-model` names the model after a `#`. With `/chat/completions` (the default under /v1)
the server is told the scenario's page, the observation and the legal phrases; with `/completions` it is given the very
prompt that models here are trained on. Its key, if it wants one, comes from the environment (ERRAND_API_KEY).

A reply counts only when it is one legal phrase and nothing else. After one more try, what was said is played as it
stands: it uses up the turn, and the log shows it. Nothing is guessed out of prose.
"""

from __future__ import annotations

import inspect
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

import httpx

from npc.decision import Decision
from rl.deciding import PolicyNameError, TurnView
from scenarios.contract import Scenario

KEY = "ERRAND_API_KEY"
SHORT_OF_TIME = (408, 409, 425, 429, 500, 502, 503, 504)  # worth asking again
TOKENS = 2048  # that a reply may take, reasoning included
LONGEST_REPLY = 300  # characters of an unusable reply that the log keeps
RULE = "Answer with exactly one of the actions offered, in the same words, and nothing else."
AGAIN = "That is not one of the actions. " + RULE


class RemoteError(ValueError):
    """The server can't be used; one line."""


@dataclass
class Counts:
    """What a teacher cost: questions, replies that were no action (asked again, and played as they stood), requests
    sent again after a failure, and the tokens that the server says it read and wrote."""

    turns: int = 0
    requests: int = 0
    asked_again: int = 0
    refused: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def parse_url(text: str) -> tuple[str, str]:
    """(endpoint, model) of a policy string `http:URL[#MODEL]`. Raises PolicyNameError for what is no address."""
    address = text if text.startswith(("http://", "https://")) else text.removeprefix("http:")
    address, _, model = address.partition("#")
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError) as error:
        raise PolicyNameError(f"policy {text!r}: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise PolicyNameError(f"policy {text!r}: write http:URL, as in http:http://127.0.0.1:8080/v1#MODEL")
    plain = address.rstrip("/")
    return (plain if plain.endswith("/completions") else plain + "/chat/completions"), model


def parse_reply(text: str, legal: Sequence[str]) -> str | None:
    """The legal phrase that a reply is, or None: reasoning in <think> tags, quotes, case, and a full stop aside."""
    said = re.sub(r"^\s*<think>.*?</think>", "", text, flags=re.DOTALL).strip()
    said = said.strip("\"'`*").strip().removesuffix(".").strip()
    folded = {phrase.casefold(): phrase for phrase in legal}
    return folded.get(" ".join(said.split()).casefold()) if "\n" not in said else None


def read_reply(scenario: Scenario, text: str, legal: Sequence[str]) -> str:
    """What is played for a reply: the legal phrase that it is, else itself, which is then no action."""
    return text if scenario.free_text is not None else parse_reply(text, legal) or text[:LONGEST_REPLY]


def page_of(scenario: Scenario) -> str:
    """What an agent that was never taught is told of a scenario."""
    rule = "" if scenario.free_text is not None else f"\n\n{RULE}"
    return f"{inspect.getdoc(type(scenario)) or ''}\n\n{scenario.prefix}{rule}"


def told(scenario: Scenario, observation: str, legal: Sequence[str]) -> str:
    """What it is told of a turn."""
    return observation if scenario.free_text is not None else "\n".join([observation, "", "Actions:", *legal])


class RemotePolicy:
    """Asks the server for each turn, several at a time. Sampled at `tau`, or at temperature 0 where greedy."""

    def __init__(self, text: str, scenario: Scenario, tau: float = 1.0, timeout_s: float = 60.0, retries: int = 4,
                 side_by_side: int = 8, transport: httpx.BaseTransport | None = None) -> None:  # fmt: skip
        self.endpoint, self.model = parse_url(text)
        self.scenario = scenario
        self.tau = tau
        self.retries = retries
        self.side_by_side = side_by_side
        self.counts = Counts()
        self.pause_s = 0.5  # before the first request that is sent again; doubled each time
        self._lock = Lock()
        key = os.environ.get(KEY, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers, transport=transport)

    @property
    def chat(self) -> bool:
        return self.endpoint.endswith("/chat/completions")

    def decide(self, turns: Sequence[TurnView], uniforms: Sequence[float] | None) -> list[Decision]:
        """Raises RemoteError where the server can't be reached, refuses, or answers what is no completion."""
        draws = [None] * len(turns) if uniforms is None else list(uniforms)
        with ThreadPoolExecutor(self.side_by_side) as threads:
            return list(threads.map(self._one, turns, draws))

    def close(self) -> None:
        self._client.close()

    def costs(self) -> dict[str, int]:
        """The counts by name, for provenance."""
        return asdict(self.counts)

    def _one(self, turn: TurnView, uniform: float | None) -> Decision:
        said = self._ask(turn, uniform, None)
        if self.scenario.free_text is not None:
            self._count(turns=1)
            return Decision(said, -1, [], 0.0, [], [], [], self.tau, uniform is None)
        phrase = parse_reply(said, turn.legal)
        if phrase is None and self.chat:
            self._count(asked_again=1)
            said = self._ask(turn, uniform, said)
            phrase = parse_reply(said, turn.legal)
        self._count(turns=1, refused=phrase is None)
        if phrase is None:
            return Decision(said[:LONGEST_REPLY], -1, [], 0.0, [], [], [], self.tau, uniform is None)
        index = turn.legal.index(phrase)
        probs = [float(i == index) for i in range(len(turn.legal))]
        return Decision(phrase, index, probs, 0.0, [], [], [], self.tau, uniform is None)

    def _ask(self, turn: TurnView, uniform: float | None, before: str | None) -> str:
        body: dict[str, Any] = {"temperature": 0.0 if uniform is None else self.tau, "max_tokens": TOKENS}
        if self.model:
            body["model"] = self.model
        if uniform is not None:
            body["seed"] = int(uniform * 2**31)
        if self.chat:
            body["messages"] = self._messages(turn, before)
        else:
            from npc.policy import turn_text

            body |= {"prompt": self.scenario.prefix + turn_text(turn.observation), "max_tokens": 32}
        answer = self._post(body)
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"] if self.chat else choice["text"]
            usage = answer.get("usage") or {}
            read, wrote = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise RemoteError(f"{self.endpoint}: answered something that is no completion ({error!r})") from error
        self._count(prompt_tokens=read, completion_tokens=wrote)
        return text if isinstance(text, str) else ""  # null: a model that said nothing

    def _messages(self, turn: TurnView, before: str | None) -> list[dict[str, str]]:
        messages = [
            {"role": "system", "content": page_of(self.scenario)},
            {"role": "user", "content": told(self.scenario, turn.observation, turn.legal)},
        ]
        if before is not None:
            messages += [{"role": "assistant", "content": before}, {"role": "user", "content": AGAIN}]
        return messages

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        pause = self.pause_s
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                response = self._client.post(self.endpoint, json=body)
                self._count(requests=1, retried=attempt > 0)
                if response.is_success:
                    return response.json()
                if response.status_code not in SHORT_OF_TIME or last:
                    words = " ".join(response.text.split())[:200]
                    raise RemoteError(f"{self.endpoint}: status {response.status_code}: {words}")
                wait = response.headers.get("retry-after", "")
                pause = float(wait) if wait.isdigit() else pause
            except httpx.TransportError as error:
                self._count(requests=1, retried=attempt > 0)
                if last:
                    why = str(error) or type(error).__name__
                    raise RemoteError(f"{self.endpoint}: no answer after {attempt + 1} tries ({why})") from error
            except ValueError as error:
                if isinstance(error, RemoteError):
                    raise
                raise RemoteError(f"{self.endpoint}: answered something that is no JSON ({error})") from error
            time.sleep(min(pause, 30.0))
            pause *= 2
        raise AssertionError("every way out of the loop returns or raises")

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, value in more.items():
                setattr(self.counts, name, getattr(self.counts, name) + int(value))
