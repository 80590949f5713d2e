"""The names that `cat --fields` takes: what they may be, and their value for a turn."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from recorder.errors import RecorderError
from recorder.records import EpisodeBegin, EpisodeEnd, Record, Turn, as_plain

_KINDS: dict[str, type[Record]] = {"turn": Turn, "begin": EpisodeBegin, "end": EpisodeEnd}
_DERIVED = ("reward", "logprob")
_NAMES = {
    "turn": (*Turn.__struct_fields__, *_DERIVED),
    "begin": EpisodeBegin.__struct_fields__,
    "end": EpisodeEnd.__struct_fields__,
}
_DICTS = {
    (source, field.name)
    for source, kind in _KINDS.items()
    for field in msgspec.structs.fields(kind)
    if str(field.type).startswith("dict[")
}
DEFAULT = (*Turn.__struct_fields__, "scenario", "seed")
"""The fields that `cat --json` prints when none are asked for."""


class FieldError(RecorderError, ValueError):
    """A field that there is not."""


class Field(msgspec.Struct, frozen=True):
    """One column: the asked name, where it comes from (turn, begin, end), which field and which key of it."""

    name: str
    source: str
    attribute: str
    key: str | None

    def value(self, plain: dict[str, dict[str, Any]]) -> Any:
        """The value, from plain records by source; None where the record or the key isn't there."""
        value = plain.get(self.source, {}).get(self.attribute)
        return value.get(self.key) if self.key is not None and value is not None else value


def resolve(name: str) -> Field:
    """A name of a field of Turn, EpisodeBegin or EpisodeEnd, in that order where two have it.

    `begin.`, `end.` and `turn.` in front pick one; a key of a dict field follows after a dot
    (`terms.success`, `begin.options.difficulty`). Raises FieldError, with the nearest name.
    """
    first, _, rest = name.partition(".")
    if first in _KINDS and rest:
        sources: tuple[str, ...] = (first,)
        first, _, rest = rest.partition(".")
    else:
        sources = tuple(_KINDS)
    for source in sources:
        if first in _NAMES[source]:
            if rest and (source, first) not in _DICTS:
                raise FieldError(f"field {name!r}: {first} has no parts")
            return Field(name, source, first, rest or None)
    known = [one for source in sources for one in _NAMES[source]]
    near = difflib.get_close_matches(first, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    raise FieldError(f"no field {name!r}; {hint}")


def plain_turn(turn: Turn) -> dict[str, Any]:
    """A turn's fields and what follows from them, JSON-ready."""
    return {**as_plain(turn), "reward": turn.reward, "logprob": turn.logprob}
