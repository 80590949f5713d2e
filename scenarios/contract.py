"""What a scenario offers to the trainer, the recorder and the game. Nothing here knows of the village.

A state is opaque: whoever holds one hands it back to the scenario that built it. Texts, phrases, digests and rewards
are all that leaves it, so that a scenario can be a village errand, a board game or somebody's own game.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

MAX_SEED = 2**63 - 1


class ScenarioError(ValueError):
    """Bad use of a scenario: one line that names what is wrong and what would be right."""


class RewardTerm(msgspec.Struct, frozen=True):
    """One part of the reward. `low` and `top` bound what it can sum to over an episode."""

    name: str
    doc: str
    low: float
    top: float


class Option(msgspec.Struct, frozen=True):
    """A setting of a scenario, a word out of `choices`."""

    name: str
    default: str
    choices: tuple[str, ...]
    doc: str


class Outcome(msgspec.Struct, frozen=True):
    """How a turn went. `terms`: what each reward term earned in it; `ended`: why the episode is over, or None."""

    kind: str
    text: str
    ticks: int
    terms: dict[str, float]
    ended: str | None


class FreeText(msgspec.Struct, frozen=True):
    """A turn is one free text instead of a legal phrase; a policy here writes at most `max_tokens` of it."""

    max_tokens: int


class Scenario(ABC):
    """One behaviour to learn. Instances hold no state of an episode."""

    name: str
    version: int
    engine_version: str  # of the rules underneath, where several scenarios share them
    turn_cap: int
    reward_terms: tuple[RewardTerm, ...]
    options: tuple[Option, ...]
    splits: dict[str, range]  # "train", "validation", "test": seed ranges that can't overlap
    prefix: str  # the static part of every prompt
    vocabulary: tuple[str, ...]  # every word that observations, phrases and prefix are made of
    free_text: FreeText | None = None  # where a turn is a text: `legal` is then empty, and `apply` takes any text
    training: Mapping[str, int | float | str] = {}  # settings of rl.train that suit it, by name; the command line wins

    @property
    @abstractmethod
    def source_hash(self) -> str:
        """Hash of the source of rules and reward: catches a version that was not raised."""

    @abstractmethod
    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Any:
        """A fresh state. Raises ScenarioError for a seed out of 0 … 2**63-1 or an unknown option."""

    @abstractmethod
    def clone(self, state: Any) -> Any: ...

    @abstractmethod
    def digest(self, state: Any) -> dict[str, str]:
        """part -> 16 hex digits, equal in every process for equal states."""

    @abstractmethod
    def dump(self, state: Any) -> bytes: ...

    @abstractmethod
    def load(self, data: bytes) -> Any: ...

    @abstractmethod
    def observation(self, state: Any) -> str:
        """The per-turn text: all that the policy is given besides the prefix and the legal phrases."""

    def retell(self, observation: str) -> str:
        """The observation, read into what it says and written again; equal to it (checks see to that). A scenario
        that reads its own observations, as a teacher mostly does, gives its reader here."""
        return observation

    def credit_key(self, observation: str) -> tuple[str, ...]:
        """The stage that an observation shows, from coarse to fine, for credit by stage. Without one, all are alike."""
        return ()

    def situation(self, observation: str) -> str:
        """Where the character stands in a turn, in plain words and one line, for reports that people read. Without
        words of its own, the observation as it stands. May raise ValueError for a text of another version's form."""
        return observation

    def mission(self, observation: str) -> str:
        """What the episode is about, in plain words and one line ("bring the lantern to Mara"); empty without any."""
        return ""

    @abstractmethod
    def legal(self, state: Any) -> tuple[str, ...]:
        """The legal phrases; a function of the observation alone."""

    @abstractmethod
    def apply(self, state: Any, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        """Plays one turn in place. An illegal phrase uses up the turn; its outcome says so."""

    @abstractmethod
    def ended(self, state: Any) -> str | None:
        """Why the episode is over ("success", "turn_cap", …), or None."""

    @abstractmethod
    def oracle(self, state: Any) -> str:
        """A phrase chosen with sight of everything: solves every seed, and gives the ceiling."""

    @abstractmethod
    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        """A phrase chosen from what the policy sees, and the memory for the next turn (None at first)."""

    def resolve_options(self, options: Mapping[str, str] | None) -> dict[str, str]:
        """All options with their values. Raises ScenarioError for an unknown name or value."""
        values = {option.name: option.default for option in self.options}
        choices = {option.name: option.choices for option in self.options}
        for name, value in (options or {}).items():
            if name not in values:
                raise ScenarioError(f"{self.name}: no option {name!r}; {nearest(name, values)}")
            if value not in choices[name]:
                raise ScenarioError(f"{self.name}: option {name}={value!r}: choose one of {', '.join(choices[name])}")
            values[name] = value
        return values


def check_seed(seed: object) -> int:
    """The seed, when it is one. Raises ScenarioError otherwise; 0 is a seed like any other."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise ScenarioError(f"seed {seed!r}: a seed is a whole number from 0 to {MAX_SEED}")
    return seed


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that isn't known: the nearest that is, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}"


def hash_source(*parts: object) -> str:
    """blake2b-64 over the source text of modules, classes or functions."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(inspect.getsource(part).encode())  # type: ignore[arg-type]
    return digest.hexdigest()
