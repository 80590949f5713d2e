"""What `stats` counts: bytes by record and by field, and how the episodes of each policy went."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from recorder.codec import Deflater
from recorder.framing import HEAD_SIZE, Op
from recorder.listing import Row, rows
from recorder.reader import Attempts, Reader
from recorder.records import Dictionary, Turn

SAMPLE = 400
"""Turns on which the sizes of fields are measured, at least (all, where a log has fewer)."""


class Kind(msgspec.Struct):
    """Records of one op: how many, and their bytes in the file, heads included."""

    records: int = 0
    bytes: int = 0


class FieldSize(msgspec.Struct):
    """What one field of TURN takes, in bytes a turn."""

    plain: float = 0.0
    """msgpack bytes, its name included, before compression; a mean over the sample."""
    stored: float = 0.0
    """What leaving it out would save in the file: it is compressed with and without, on a sample of turns.
    Below zero where the dictionary expects the field."""


class Played(msgspec.Struct):
    """The episodes of one policy."""

    episodes: int = 0
    ended: int = 0
    successes: int = 0
    turns: int = 0
    reward: float = 0.0
    low: float = math.inf
    top: float = -math.inf

    def take(self, row: Row) -> None:
        """Counts an episode."""
        self.episodes += 1
        self.ended += row.ended is not None
        self.successes += bool(row.success)
        self.turns += row.turns
        self.reward += row.reward
        self.low, self.top = min(self.low, row.reward), max(self.top, row.reward)


class Figures(msgspec.Struct):
    """All that `stats` says of a log."""

    file: str
    bytes: int
    turns: int = 0
    kinds: dict[str, Kind] = {}
    """By op; records of a later version under their number."""
    fields: dict[str, FieldSize] = {}
    policies: dict[str, Played] = {}
    ended: dict[str, int] = {}
    """Episodes by why they ended; "open" for those that never did."""
    actions: dict[str, int] = {}
    """Turns by executed phrase."""
    fallbacks: int = 0
    greedy: int = 0
    replaced: int = 0
    """Turns whose executed phrase isn't the proposed one."""

    def plain(self) -> dict[str, Any]:
        """As JSON-ready values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        values["bytes_per_turn"] = self.bytes / self.turns if self.turns else None
        values["actions"] = dict(self.ranked())
        return values

    def ranked(self) -> list[tuple[str, int]]:
        """Actions, the most frequent first."""
        return sorted(self.actions.items(), key=lambda pair: (-pair[1], pair[0]))


def figures(reader: Reader, attempts: Attempts = "latest") -> Figures:
    """Reads the whole log. Sizes are of all records; play is counted of the `attempts`."""
    found = Figures(file=str(reader.path), bytes=reader.size)
    sample = _sizes(reader, found)
    _measure(found, sample, _dictionary(reader))
    for _, turn in reader.steps(attempts):
        found.actions[turn.executed] = found.actions.get(turn.executed, 0) + 1
        found.fallbacks += turn.fallback
        found.greedy += turn.greedy
        found.replaced += turn.proposed != turn.executed
    for row in rows(reader, attempts=attempts):
        found.policies.setdefault(row.policy, Played()).take(row)
        why = row.ended or "open"
        found.ended[why] = found.ended.get(why, 0) + 1
    return found


def _sizes(reader: Reader, found: Figures) -> list[Turn]:
    """Counts bytes by op; returns turns spread evenly over the log, `SAMPLE` to twice that."""
    sample, step = list[Turn](), 1
    for frame, record in reader.records():
        kind = found.kinds.setdefault(Op(frame.op).name, Kind())
        kind.records += 1
        kind.bytes += HEAD_SIZE + len(frame.payload)
        if not isinstance(record, Turn):
            continue
        if found.turns % step == 0:
            sample.append(record)
            if len(sample) == 2 * SAMPLE:
                sample, step = sample[::2], 2 * step
        found.turns += 1
    return sample


def _stored(turn: Turn) -> dict[str, Any]:
    """The fields of a turn that aren't left out for being at their default."""
    return {
        field.name: value
        for field in msgspec.structs.fields(turn)
        if (value := getattr(turn, field.name)) != _default(field)
    }


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _measure(found: Figures, sample: list[Turn], dictionary: bytes | None) -> None:
    deflate, encoder = Deflater(dictionary), msgspec.msgpack.Encoder()
    for turn in sample:
        stored = _stored(turn)
        whole = len(deflate.turn(encoder.encode(stored)))
        for name in stored:
            size = found.fields.setdefault(name, FieldSize())
            size.plain += len(encoder.encode(name)) + len(encoder.encode(stored[name]))
            without = {key: value for key, value in stored.items() if key != name}
            size.stored += whole - len(deflate.turn(encoder.encode(without)))
    for size in found.fields.values():
        size.plain /= len(sample)
        size.stored /= len(sample)


def _dictionary(reader: Reader) -> bytes | None:
    last = None
    for _, record in reader.records({Op.DICT}):
        if isinstance(record, Dictionary):
            last = record.data
    return last
