"""Records to payload bytes and back: msgpack, the checks before writing, the caps before reading."""

from __future__ import annotations

import math
import sys
import typing
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np
import zstandard

from recorder import records
from recorder.errors import PayloadError, RecordError, RecordTooLargeError
from recorder.framing import MAX_CONTENT, Flag, Op
from recorder.records import Record

TYPES: dict[int, type[Record]] = {
    Op.HEADER: records.Header,
    Op.SCHEMA: records.Schema,
    Op.DICT: records.Dictionary,
    Op.PREFIX: records.Prefix,
    Op.EPISODE_BEGIN: records.EpisodeBegin,
    Op.TURN: records.Turn,
    Op.EPISODE_END: records.EpisodeEnd,
    Op.AMEND: records.Amend,
    Op.INDEX: records.Index,
    Op.FOOTER: records.Footer,
    Op.GAP: records.Gap,
}
OPS: dict[type[Record], Op] = {kind: Op(op) for op, kind in TYPES.items()}
LEVEL = 3
FRAMED = frozenset({Op.EPISODE_BEGIN, Op.TURN, Op.EPISODE_END})
"""What the dictionaries are trained on, and is compressed with one."""


def _plain(value: Any) -> Any:
    """numpy scalars and arrays as Python values; anything else is refused with its type's name."""
    if isinstance(value, np.generic):
        item = value.item()
        if not isinstance(item, np.generic):
            return item
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return value.tolist()
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} can't be recorded")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_DECODERS = {kind: msgspec.msgpack.Decoder(kind) for kind in OPS}


def _float_fields(kind: type[Record]) -> tuple[tuple[str, bool], ...]:
    """Names of the fields of a record that hold floats, each with whether it is a dict of them."""
    hints = typing.get_type_hints(kind).items()
    return tuple((name, hint is not float) for name, hint in hints if hint in (float, dict[str, float]))


_FLOATS = {kind: _float_fields(kind) for kind in OPS}


def schema_json() -> str:
    """JSON Schema of every record, keyed by its op's name."""
    refs, components = msgspec.json.schema_components(
        [TYPES[op] for op in Op], ref_template="#/$defs/{name}"
    )
    ops = {op.name: {"op": int(op), **ref} for op, ref in zip(Op, refs, strict=True)}
    return msgspec.json.encode({"ops": ops, "$defs": components}).decode()


R = TypeVar("R", bound=Record)


def encode(record: R) -> tuple[R, bytes]:
    """The record as it will be read back, and its msgpack bytes.

    Encoding is followed by decoding, so that what a reader would refuse is refused here, by field. Raises
    RecordError for a wrong type, a value out of range, NaN or infinity; RecordTooLargeError over the cap.
    """
    kind = type(record)
    try:
        content = _ENCODER.encode(record)
        checked: Any = _DECODERS[kind].decode(content)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError(_blame(record, error)) from error
    _check(checked)
    if len(content) > MAX_CONTENT:
        raise RecordTooLargeError(
            f"{kind.__name__} takes {len(content):,} bytes; a record holds {MAX_CONTENT:,} at most"
        )
    return checked, content


def _check(record: Record) -> None:
    """Raises RecordError for what types alone don't forbid: NaN and infinity, arrays of the wrong size."""
    kind = type(record)
    for name, is_dict in _FLOATS[kind]:
        value = getattr(record, name)
        if is_dict:
            _check_terms(f"{kind.__name__}.{name}", value)
        elif not math.isfinite(value):
            raise RecordError(f"{kind.__name__}.{name} is {value}: only finite numbers are recorded")
    if isinstance(record, records.Turn):
        _check_arrays(record)
    elif isinstance(record, records.Amend):
        _check_columns(record)


def _check_terms(where: str, terms: dict[str, float]) -> None:
    for key, number in terms.items():
        if not math.isfinite(number):
            raise RecordError(f"{where}[{key!r}] is {number}: only finite numbers are recorded")
    try:
        math.fsum(terms.values())
    except OverflowError as error:
        raise RecordError(f"{where} add up to more than a float holds") from error


def _check_arrays(turn: records.Turn) -> None:
    for name in ("logps", "probs"):
        data: bytes = getattr(turn, name)
        if len(data) % 4:
            raise RecordError(f"Turn.{name} has {len(data)} bytes, which is no whole number of float32")
        if data and not _finite(data):
            raise RecordError(f"Turn.{name} holds NaN or infinity: only finite numbers are recorded")
    if turn.probs and len(turn.probs) != 4 * len(turn.legal):
        raise RecordError(
            f"Turn.probs holds {len(turn.probs) // 4} numbers for {len(turn.legal)} legal phrases"
        )


def _finite(data: bytes) -> bool:
    """Whether little-endian float32 bytes hold finite numbers alone.

    Their sum is: as Python floats, which no number of float32 that fits into a record can make overflow.
    """
    if sys.byteorder == "little":  # four times as fast as an array for the few numbers of a turn
        return math.isfinite(sum(memoryview(data).cast("f")))
    return bool(np.isfinite(np.frombuffer(data, dtype=records.FLOAT32)).all())


def _check_columns(amend: records.Amend) -> None:
    lengths = set()
    for name, numbers in amend.turn_terms.items():
        lengths.add(len(numbers))
        if not all(map(math.isfinite, numbers)):
            raise RecordError(f"Amend.turn_terms[{name!r}] holds NaN or infinity: only finite numbers are recorded")
        try:
            math.fsum(numbers)
        except OverflowError as error:
            raise RecordError(f"Amend.turn_terms[{name!r}] add up to more than a float holds") from error
    if len(lengths) > 1:
        raise RecordError(f"Amend.turn_terms has columns of {sorted(lengths)} numbers; each holds one a turn")


def _blame(record: Record, error: Exception) -> str:
    """Names the field that an encoding error is about."""
    kind = type(record).__name__
    if isinstance(error, msgspec.ValidationError):
        return f"{kind}: {error}"
    for name in record.__struct_fields__:
        try:
            _ENCODER.encode(getattr(record, name))
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as cause:
            return f"{kind}.{name}: {cause}"
    return f"{kind}: {error}"


def decode(op: int, content: bytes) -> Record:
    """The record in decompressed payload bytes, checked as `encode` does. Raises PayloadError."""
    try:
        record: Record = _DECODERS[TYPES[op]].decode(content)
        _check(record)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise PayloadError(f"{Op(op).name}: {error}") from error
    return record


class Deflater:
    """Compresses payloads, each into one zstd frame, with a dictionary or none. One thread at a time."""

    def __init__(self, dictionary: bytes | None = None, level: int = LEVEL) -> None:
        data = None
        if dictionary is not None:
            data = zstandard.ZstdCompressionDict(dictionary)
            data.precompute_compress(level=level)
        self._turns = zstandard.ZstdCompressor(
            level=level, dict_data=data, write_content_size=True, write_checksum=False, write_dict_id=True
        )
        self._plain = zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=False)

    def turn(self, content: bytes) -> bytes:
        """A frame that names the dictionary."""
        return self._turns.compress(content)

    def plain(self, content: bytes) -> bytes:
        """A frame that needs no dictionary."""
        return self._plain.compress(content)

    def record(self, op: int, content: bytes) -> bytes:
        """The frame that a record of this kind is stored as."""
        return self.turn(content) if op in FRAMED else self.plain(content)


class Inflater:
    """Decompresses payloads, never into more than `MAX_CONTENT` bytes.

    `lookup` gives a dictionary's bytes for the id that a frame names, or None. At most `KEEP` are held.
    """

    KEEP = 4

    def __init__(self, lookup: Callable[[int], bytes | None]) -> None:
        self._lookup = lookup
        self._ready: OrderedDict[int, zstandard.ZstdDecompressor] = OrderedDict()

    def __call__(self, flags: int, payload: bytes) -> bytes:
        """The content of a payload. Raises PayloadError."""
        if not flags & Flag.ZSTD:
            return payload
        try:
            frame = zstandard.get_frame_parameters(payload)
            if frame.content_size == zstandard.CONTENTSIZE_UNKNOWN:
                raise PayloadError("zstd frame doesn't say its content size")
            if frame.content_size > MAX_CONTENT or frame.window_size > MAX_CONTENT:
                size = max(frame.content_size, frame.window_size)
                raise PayloadError(f"zstd frame asks for {size:,} bytes; {MAX_CONTENT:,} are the cap")
            content = self._decompressor(frame.dict_id).decompress(payload, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise PayloadError(f"zstd: {error}") from error
        if len(content) != frame.content_size:
            raise PayloadError(f"zstd frame says {frame.content_size:,} bytes and holds {len(content):,}")
        return content

    def _decompressor(self, dict_id: int) -> zstandard.ZstdDecompressor:
        ready = self._ready.get(dict_id)
        if ready is None:
            data = None
            if dict_id:
                raw = self._lookup(dict_id)
                if raw is None:
                    raise PayloadError(f"zstd dictionary {dict_id} is not in the file")
                data = zstandard.ZstdCompressionDict(raw, dict_type=zstandard.DICT_TYPE_FULLDICT)
            ready = zstandard.ZstdDecompressor(dict_data=data, max_window_size=MAX_CONTENT)
            self._ready[dict_id] = ready
            if len(self._ready) > self.KEEP:
                self._ready.popitem(last=False)
        return ready


def read_payload(op: int, flags: int, payload: bytes, inflate: Inflater) -> Record:
    """The record in a stored payload. Raises PayloadError."""
    if op == Op.TURN and not flags & Flag.ZSTD:
        raise PayloadError("TURN: not a zstd frame")
    return decode(op, inflate(flags, payload))

