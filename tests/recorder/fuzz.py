"""Damaged and hostile logs by the thousand.

    python -m tests.recorder.fuzz [--inputs 100000] [--seed N] [--engine random|atheris]

Each input is a small log, changed at random: bytes flipped, cut, repeated or put in; or the content of a record changed
behind its compression and CRC, so that what is decoded is not what was encoded. Everything a reader offers is
called on it, `recover` and an appending writer too. Only RecorderError may come out; no more memory may be taken than
the format's cap allows; and where the CRCs were not made to fit, no turn may come out that was not put in.

The engine `random` needs nothing and gives the same inputs for a seed; `atheris` (where it is installed) is led by the
code that an input reaches.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from recorder import Amend, Reader, RecorderError, Turn, Writer, appender, recover
from recorder.framing import HEAD_SIZE, MAX_CONTENT, SYNC, Flag, Op, pack
from recorder.scan import Damage, Frame, Source
from recorder.summary import overview, summarize
from tests.recorder.making import write_episodes

MEMORY = 6 * MAX_CONTENT
"""Most bytes that reading a small log may take: a payload, its content, and what is decoded from it."""


class Target:
    """A small log with every kind of record, and what is tried on each change of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "input.b22"
        self.out = folder / "out.b22"
        schema, appender.schema_json = appender.schema_json, lambda: "{}"
        try:
            with Writer(self.path, dictionary=None, sync="none", index_every=5) as log:
                prefix = log.add_prefix("You run errands.", [1, 2])
                self.turns = write_episodes(log, range(2), 3, prefix_hash=prefix, run="r", update=2)
                log.amend(Amend(episode=0, turn_terms={"x": [1.0, 2.0, 3.0]}, reward_version="2"))
            with Writer(self.path, append=True, dictionary=None, sync="none", index_every=2) as log:
                self.turns += write_episodes(log, range(2, 3), 2, run="r", update=2, attempt=1)
        finally:
            appender.schema_json = schema
        self.data = self.path.read_bytes()
        source = Source(self.path)
        self.frames: list[Frame] = list(source.frames(Damage()))
        source.close()

    def try_all(self, data: bytes, only_these: Sequence[Turn] | None) -> None:
        """Everything on one input. `only_these` are the turns that may come out."""
        self.path.write_bytes(data)
        self.out.unlink(missing_ok=True)
        with contextlib.suppress(RecorderError), Reader(self.path) as reader:
            calls: list[Callable[[], Any]] = [
                lambda: list(reader.turns()), lambda: list(reader.episodes("all")), lambda: list(reader.steps()),
                lambda: list(reader.turns(follow=True, poll=0, stop=lambda: True)), reader.check, reader.episode_ids,
                lambda: reader.episode(0).rewards(), lambda: reader.episode(2), lambda: reader.prefix("00"),
                lambda: overview(reader).plain(), lambda: summarize(reader).plain(), lambda: list(reader.begins()),
            ]  # fmt: skip
            for call in calls:
                with contextlib.suppress(RecorderError):
                    call()
            if only_these is not None:
                known = {msgspec.msgpack.encode(turn) for turn in only_these}
                read = map(msgspec.msgpack.encode, reader.turns("all"))
                assert known.issuperset(read), "a turn came of nothing"
        with contextlib.suppress(RecorderError):
            recover(self.path, self.out)
            with Reader(self.out) as reader:
                assert not reader.check().bad_regions and reader.clean, "what was recovered is damaged"
        with contextlib.suppress(RecorderError), Writer(self.path, append=True, dictionary=None, sync="none") as log:
            made = write_episodes(log, range(log.next_episode, log.next_episode + 1), 1)
            with Reader(self.path) as reader:
                assert list(reader.turns("all"))[-1:] == made, "what was appended reads back"


def changed_bytes(target: Target, dice: random.Random) -> bytes:
    """The log with a few of its bytes changed."""
    data = bytearray(target.data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        at = dice.randrange(len(data) + 1)
        length = dice.choice((1, 1, 2, 4, 18, 64, 500))
        match dice.randrange(8):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << dice.randrange(8)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = dice.randbytes(length)
            case 5:
                other = dice.randrange(len(data) + 1)
                data[at:at] = data[other : other + length]
            case 6:
                data[at : at + length] = bytes(len(data[at : at + length]))
            case 7:
                data[at:at] = SYNC + dice.randbytes(dice.randrange(20))
        if not data:
            break
    return bytes(data)


def changed_content(target: Target, dice: random.Random) -> bytes:
    """The log with the content of one record changed, and a CRC that fits."""
    frame = dice.choice(target.frames)
    content = bytearray(zstandard.decompress(frame.payload) if frame.flags & Flag.ZSTD else frame.payload)
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(len(content)) if content else 0
        match dice.randrange(4):
            case 0 if content:
                content[at] = dice.randrange(256)
            case 1:
                del content[at:]
            case 2:
                huge = b"\xff\xff\xff\xff"
                content[at:at] = dice.choice((b"\xdf" + huge, b"\xdd" + huge, b"\x91" * 3000, b"\xc0"))
            case 3 if content:
                content[at] = dice.choice((0x00, 0x7F, 0x80, 0x90, 0xC0, 0xCB, 0xCF, 0xD3, 0xFF))
    if dice.random() < 0.1:  # whole records within one
        other = dice.choice(target.frames)
        content += target.data[other.offset : other.offset + dice.choice((300, 3000))]
    op = dice.choice((frame.op, frame.op, frame.op, *Op, 99))
    if frame.flags & Flag.ZSTD and dice.random() < 0.8:
        payload, flags = zstandard.compress(bytes(content)), frame.flags
    else:
        payload, flags = bytes(content), dice.choice((0, frame.flags, dice.randrange(256)))
    sequence = frame.sequence if dice.random() < 0.9 else dice.randrange(2**32)
    return target.data[: frame.offset] + pack(op, flags, sequence, payload) + target.data[frame.end :]


def one(target: Target, dice: random.Random) -> None:
    """One input."""
    if dice.random() < 0.5:
        target.try_all(changed_bytes(target, dice), target.turns)
    else:
        target.try_all(changed_content(target, dice), None)


def by_chance(inputs: int, seed: int, folder: Path) -> None:
    """`inputs` inputs that follow from `seed`. Raises what should not have come out, with the input's number."""
    target = Target(folder)
    for number in range(inputs):
        measured = number % 50 == 0  # measuring is slow
        if measured:
            tracemalloc.start()
        try:
            one(target, random.Random(f"{seed}/{number}"))
            if measured:
                peak = tracemalloc.get_traced_memory()[1]
                assert peak < MEMORY, f"{peak:,} bytes of memory"
        except Exception as error:
            raise AssertionError(f"input {number} of seed {seed}: {type(error).__name__}: {error}") from error
        finally:
            if measured:
                tracemalloc.stop()


def led(inputs: int, folder: Path) -> None:
    """`inputs` inputs that atheris chooses: the bytes of a log, or what stands behind the head of one record."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    target = Target(folder)
    (folder / "corpus").mkdir()
    (folder / "corpus" / "log").write_bytes(b"\0" + target.data)
    for number, frame in enumerate(target.frames):
        stored = target.data[frame.offset + HEAD_SIZE : frame.end]
        (folder / "corpus" / str(number)).write_bytes(bytes([frame.op]) + stored)

    def test_one(data: bytes) -> None:
        if not data or data[0] == 0:
            target.try_all(data[1:], None)
        else:
            target.try_all(target.data + pack(data[0], Flag.ZSTD, len(target.frames), data[1:]), None)

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-runs={inputs}", "-max_len=20000", str(folder / "corpus")], test_one)
    atheris.Fuzz()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recorder.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the engine random (default: %(default)s)")
    parser.add_argument("--engine", choices=("random", "atheris"), default="random", help="(default: %(default)s)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if options.engine == "atheris":
            led(options.inputs, Path(folder))
        else:
            by_chance(options.inputs, options.seed, Path(folder))
    print(f"{options.inputs:,} inputs: nothing but RecorderError, and within {MEMORY >> 20} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
