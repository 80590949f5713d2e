"""The bytes around a payload: `sync | op | flags | length | sequence | crc32 | payload`.

All integers are little-endian. The CRC covers op to sequence and the payload, so that a sync that happens to
stand inside a payload is turned down, and so is a record whose length was damaged.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

FORMAT = 1
"""Major version of the format, written in HEADER and FOOTER. Additions don't raise it."""

MINOR = 1
"""Additions since: 1 brought GAP, reward versions in AMEND, and the tree of INDEX records. A reader that knows
fewer reads what it knows."""

SYNC = b"\xffb22"
"""Begins every record. 0xFF never occurs in UTF-8, so no text that is stored plainly can hold a sync."""

MAX_PAYLOAD = 4 << 20
"""Most bytes of a stored payload; a larger length is damage, and nothing is allocated for it."""

MAX_CONTENT = 4 << 20
"""Most bytes that a compressed payload may say it holds; checked before anything is allocated."""

MAX_SEQUENCE = 2**32 - 1

_HEAD = struct.Struct("<4sBBIII")
_CORE = struct.Struct("<BBII")
HEAD_SIZE = _HEAD.size


class Op(IntEnum):
    """What a record is. A reader skips values that it doesn't know."""

    HEADER = 1
    SCHEMA = 2
    DICT = 3
    PREFIX = 4
    EPISODE_BEGIN = 5
    TURN = 6
    EPISODE_END = 7
    AMEND = 8
    INDEX = 9
    FOOTER = 10
    GAP = 11


class Flag:
    """Bits of the flags byte. A record with a bit that a reader doesn't know is skipped, and counted."""

    ZSTD = 1
    """The payload is one zstd frame with its content size in the frame header."""

    KNOWN = ZSTD


class Head(NamedTuple):
    """The 18 bytes before a payload."""

    sync: bytes
    op: int
    flags: int
    length: int
    sequence: int
    crc: int


def pack(op: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """One whole record."""
    core = _CORE.pack(op, flags, len(payload), sequence)
    crc = zlib.crc32(payload, zlib.crc32(core))
    return b"".join((SYNC, core, crc.to_bytes(4, "little"), payload))


def unpack_head(data: bytes) -> Head:
    """The head in exactly `HEAD_SIZE` bytes; nothing in it is checked yet."""
    return Head._make(_HEAD.unpack(data))


def checksum(head: Head, payload: bytes) -> int:
    """What `head.crc` has to be for this payload."""
    return zlib.crc32(payload, zlib.crc32(_CORE.pack(head.op, head.flags, head.length, head.sequence)))
