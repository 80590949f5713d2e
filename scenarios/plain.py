"""The plain kind of scenario: its whole state is one msgspec struct, and its rules are one file.

Cloning, digests and the byte form follow from the struct, the source hash from the file. What is left to write is the
game: `build`, `observation`, `legal`, `apply`, `ended`, `oracle` and `teacher`. See docs/scenarios.md.
"""

from __future__ import annotations

import sys
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec

from scenarios.contract import Option, Outcome, Scenario, ScenarioError, hash_source

ILLEGAL = "illegal"  # the kind of an outcome whose proposal could not be done


class PlainScenario(Scenario):
    """A scenario with a state of type `state_type`.

    Fields hold whole numbers, words, lists of them, or structs: no floats, sets or objects, so that equal states have
    equal bytes in every process. Each field is one part of the digest.
    """

    state_type: type[msgspec.Struct]
    engine_version = "1"
    options: tuple[Option, ...] = ()
    splits: dict[str, range] = {  # noqa: RUF012
        "train": range(1_000_000),
        "validation": range(1_000_000, 1_010_000),
        "test": range(2_000_000, 2_001_000),
    }

    @cached_property
    def source_hash(self) -> str:
        return hash_source(sys.modules[type(self).__module__])

    def clone(self, state: Any) -> Any:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=self.state_type)

    def digest(self, state: Any) -> dict[str, str]:
        return {
            name: blake2b(msgspec.msgpack.encode(getattr(state, name)), digest_size=8).hexdigest()
            for name in self.state_type.__struct_fields__
        }

    def dump(self, state: Any) -> bytes:
        return msgspec.msgpack.encode(state)

    def load(self, data: bytes) -> Any:
        try:
            return msgspec.msgpack.decode(data, type=self.state_type)
        except msgspec.MsgspecError as error:
            raise ScenarioError(f"{self.name}: not a state of this scenario ({error})") from error

    def illegal(self, state: Any, phrase: str, terms: dict[str, float]) -> Outcome:
        """The outcome of a proposal that can't be done; the turn is used up, nothing else happens."""
        shown = phrase if len(phrase) <= 60 else phrase[:57] + "..."
        return Outcome(ILLEGAL, f"{shown!r} is not something that can be done now", 1, terms, self.ended(state))
