"""zstd dictionaries: training one, checking one, and the one that ships with the project."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files

import zstandard

from recorder.codec import encode
from recorder.errors import DictionaryError
from recorder.records import EpisodeBegin, EpisodeEnd, Turn

MAX_DICTIONARY = 1 << 20
"""Most bytes of a dictionary."""

FIRST_ID, LAST_ID = 32768, 65535
"""Ids outside of zstd's registered range that take two bytes in every frame."""


def sample(record: Turn | EpisodeBegin | EpisodeEnd) -> bytes:
    """What a dictionary is trained on: a record's bytes as they are before compression."""
    return encode(record)[1]


def train(samples: Sequence[bytes], size: int = 32 << 10, level: int = 3) -> bytes:
    """A zstd dictionary of at most `size` bytes for payloads like `samples` (see `sample`).

    Its id follows from the samples, so that the same samples give the same dictionary. A few thousand
    samples from many episodes serve well. Raises DictionaryError where they are too few or too alike.
    """
    chosen: list[bytes | bytearray | memoryview] = list(samples)
    crc = 0
    for one in chosen:
        crc = zlib.crc32(one, crc)
    try:
        trained = zstandard.train_dictionary(
            size, chosen, dict_id=FIRST_ID + crc % (LAST_ID - FIRST_ID + 1), level=level, k=512, d=8
        )
    except (zstandard.ZstdError, ValueError) as error:
        raise DictionaryError(f"can't train a dictionary from {len(chosen)} samples: {error}") from error
    return trained.as_bytes()


def dictionary_id(data: bytes) -> int:
    """The id in a trained dictionary (never 0). Raises DictionaryError."""
    if len(data) > MAX_DICTIONARY:
        raise DictionaryError(f"dictionary has {len(data):,} bytes; {MAX_DICTIONARY:,} are the most")
    try:
        found = zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_FULLDICT)
        found.precompute_compress(level=3)
    except (zstandard.ZstdError, ValueError) as error:
        raise DictionaryError(f"not a trained zstd dictionary: {error}") from error
    if not found.dict_id():
        raise DictionaryError("not a trained zstd dictionary: it has no id")
    return found.dict_id()


def dictionary_hash(data: bytes) -> str:
    """32 hex digits, blake2b-128: tells one that was lent from the one that a log was written with."""
    return blake2b(data, digest_size=16).hexdigest()


@lru_cache(maxsize=1)
def shipped() -> bytes | None:
    """The dictionary `assets/b22/turns.zdict`, or None where the project carries none."""
    try:
        path = files("assets") / "b22" / "turns.zdict"
    except ModuleNotFoundError:
        return None
    return path.read_bytes() if path.is_file() else None

