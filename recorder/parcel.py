"""Records as bytes on their way from one process to another: framed and compressed as a log holds them.

A parcel is the stretch of a log that holds the records, without header, schema, dictionaries and index: who sends and
who takes it have the same project. It travels whole, so that any damage is an error here and nothing is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recorder.codec import OPS, Deflater, Inflater, encode, read_payload
from recorder.dictionary import dictionary_id, shipped
from recorder.errors import DamagedLogError, PayloadError
from recorder.framing import HEAD_SIZE, SYNC, Flag, checksum, pack, unpack_head
from recorder.records import Record


def pack_records(records: Iterable[Record]) -> bytes:
    """The records as they would stand in a log. Raises RecordError for one that can't be recorded."""
    deflater = Deflater(shipped())
    parts = []
    for sequence, record in enumerate(records):
        op = OPS[type(record)]
        _, content = encode(record)
        parts.append(pack(op, Flag.ZSTD, sequence, deflater.record(op, content)))
    return b"".join(parts)


def unpack_records(parcel: bytes) -> Iterator[Record]:
    """The records of a parcel, in order. Raises DamagedLogError where bytes are damaged or missing, and PayloadError
    where a payload doesn't decode (another version of the project, with another dictionary, sent it)."""
    inflate = Inflater(_dictionary)
    at = sequence = 0
    while at < len(parcel):
        head = unpack_head(parcel[at : at + HEAD_SIZE].ljust(HEAD_SIZE, b"\0"))
        payload = parcel[at + HEAD_SIZE : at + HEAD_SIZE + head.length]
        if head.sync != SYNC or head.sequence != sequence or head.crc != checksum(head, payload):
            raise DamagedLogError(f"a parcel of {len(parcel):,} bytes is damaged at byte {at:,}, record {sequence}")
        if head.flags & ~Flag.KNOWN or head.op not in OPS.values():
            raise PayloadError(f"record {sequence} of a parcel is of a kind that this version doesn't know")
        yield read_payload(head.op, head.flags, payload, inflate)
        at, sequence = at + HEAD_SIZE + head.length, sequence + 1


def _dictionary(number: int) -> bytes | None:
    data = shipped()
    return data if data is not None and dictionary_id(data) == number else None
