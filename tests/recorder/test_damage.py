"""Whatever bytes a file holds: what is intact is read, what is lost is counted, nothing else is raised."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder import (
    DamagedLogError,
    DictionaryError,
    NotALogError,
    OpenError,
    Reader,
    RecorderError,
    Writer,
    appender,
    dictionary,
)
from recorder.codec import TYPES, encode
from recorder.framing import HEAD_SIZE, MAX_CONTENT, SYNC, Flag, Op, pack
from recorder.summary import summarize
from tests.recorder.making import a_begin, a_log, a_turn, extra_record, frames_of, turns_of, zstd


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of a few thousand bytes, every kind of record in it; a short SCHEMA saves the tests time."""
    monkeypatch.setattr(appender, "schema_json", lambda: "{}")
    path = tmp_path / "small.b22"
    a_log(path, index_every=6)
    return path


def read_in_every_way(path: Path) -> None:
    """Calls all that a reader offers; lets RecorderError alone pass."""
    with contextlib.suppress(RecorderError), Reader(path) as reader:
        for one in (reader.turns, reader.records, reader.episodes, reader.steps, reader.episode_ids):
            with contextlib.suppress(RecorderError):
                list(one())
        with contextlib.suppress(RecorderError):
            reader.check()
        for episode in (0, 1, 7):
            with contextlib.suppress(RecorderError):
                reader.episode(episode)
        with contextlib.suppress(RecorderError):
            reader.prefix("00")
        with contextlib.suppress(RecorderError):
            summarize(reader).plain()
        _ = reader.clean, reader.footer


def test_truncated_at_every_byte(small: Path) -> None:
    data, frames = small.read_bytes(), frames_of(small)
    turns, _ = turns_of(small)
    ends = [frame.end for frame in frames if frame.op == Op.TURN]
    for length in reversed(range(len(data))):
        os.truncate(small, length)
        with Reader(small) as reader:
            read = list(reader.turns("all"))
            damage = reader.damage
            assert read == turns[: sum(end <= length for end in ends)], length
            assert not damage.damaged and not reader.clean, length
            assert damage.records == sum(frame.end <= length for frame in frames), length
            whole = max((frame.end for frame in frames if frame.end <= length), default=0)
            assert damage.torn_bytes == length - whole, length
            if length % 11 == 0:
                assert [turn for one in reader.episodes() for turn in one.turns] == read
                for one in reader.episode_ids():
                    assert reader.episode(one).turns == [turn for turn in read if turn.episode == one]


def test_flipped_at_every_byte(small: Path) -> None:
    data, frames = small.read_bytes(), frames_of(small)
    turns, _ = turns_of(small)
    offsets = [frame.offset for frame in frames if frame.op == Op.TURN]
    prefix = a_prefix_hash(small)
    owners = [frame for frame in frames for _ in range(frame.offset, frame.end)]
    with small.open("r+b", buffering=0) as file:
        for at, frame in enumerate(owners):
            os.pwrite(file.fileno(), bytes([data[at] ^ 1 << (at % 8)]), at)
            expected = [turn for turn, offset in zip(turns, offsets, strict=True) if offset != frame.offset]
            with Reader(small) as reader:
                assert list(reader.turns("all")) == expected, at
                damage = reader.damage
                assert damage.records == len(frames) - 1, at
                if frame is frames[-1]:
                    assert damage.damaged or damage.torn_bytes
                else:
                    assert damage.first_bad_offset == frame.offset and damage.damaged
                    assert damage.bad_bytes == frame.end - frame.offset and damage.missing == 1
                if at % 11 == 0:
                    assert reader.prefix(prefix).token_ids == [1, 2, 3]
                    for one in reader.episode_ids():
                        with contextlib.suppress(DamagedLogError):
                            found = reader.episode(one)
                            assert found.turns == [turn for turn in expected if turn.episode == one]
            os.pwrite(file.fileno(), data[at : at + 1], at)


def a_prefix_hash(path: Path) -> str:
    with Reader(path) as reader:
        return next(reader.episodes()).begin.prefix_hash


def test_a_flip_in_either_dictionary_orphans_no_turn(tmp_path: Path) -> None:
    trained = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)], 1024)
    path, flipped = tmp_path / "a.b22", tmp_path / "flipped.b22"
    made = a_log(path, dictionary=trained)
    data = bytearray(path.read_bytes())
    copies = [frame for frame in frames_of(path) if frame.op == Op.DICT]
    assert len(copies) == 2
    assert all(zstandard.get_frame_parameters(f.payload).dict_id for f in frames_of(path) if f.op == Op.TURN)
    for at in (at for copy in copies for at in range(copy.offset, copy.end, 3)):
        data[at] ^= 0x10
        flipped.write_bytes(data)
        data[at] ^= 0x10
        read, damage = turns_of(flipped)
        assert read == made and damage.undecodable == 0 and damage.bad_regions == 1


def test_a_lost_dictionary_is_said_and_can_be_lent(tmp_path: Path) -> None:
    trained = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)], 1024)
    path = tmp_path / "a.b22"
    made = a_log(path, dictionary=trained)
    data = bytearray(path.read_bytes())
    for frame in frames_of(path):
        if frame.op == Op.DICT:
            data[frame.offset + HEAD_SIZE] ^= 1
    path.write_bytes(data)
    read, damage = turns_of(path)
    assert read == [] and damage.undecodable >= len(made) and damage.damaged
    assert damage.first_error is not None and "dictionary" in damage.first_error
    assert turns_of(path, dictionaries=[trained])[0] == made


def test_a_wrong_dictionary_is_said_and_not_used(tmp_path: Path) -> None:
    """Another one with the same id would give other texts without any error."""
    samples = [dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)]
    trained, other = dictionary.train(samples, 1024), dictionary.train(samples[:300], 1024)
    forged = other[:4] + trained[4:8] + other[8:]
    assert dictionary.dictionary_id(forged) == dictionary.dictionary_id(trained) and forged != trained
    path = tmp_path / "a.b22"
    made = a_log(path, dictionary=trained)
    assert turns_of(path, dictionaries=[forged])[0] == made, "the file's own comes first"
    data = bytearray(path.read_bytes())
    for frame in frames_of(path):
        if frame.op == Op.DICT:
            data[frame.offset + HEAD_SIZE] ^= 1
    path.write_bytes(data)
    read, damage = turns_of(path, dictionaries=[forged])
    assert read == [] and damage.undecodable >= len(made)
    assert "is lost from the file, and the one at hand is another one" in str(damage.first_error)
    with pytest.raises(DictionaryError, match="not a trained zstd dictionary"):
        Reader(path, dictionaries=[b"words"])


def test_the_middle_cut_out(small: Path) -> None:
    """A lost block: no bad byte is left, the sequence numbers tell."""
    data, frames = small.read_bytes(), frames_of(small)
    gone = [frame for frame in frames if frame.op == Op.TURN][1:3]
    small.write_bytes(data[: gone[0].offset] + data[gone[1].end :])
    read, damage = turns_of(small)
    assert len(read) == 4 and damage.bad_regions == 0 and damage.missing == 2 and damage.damaged
    with Reader(small) as reader:
        assert summarize(reader).incomplete == 1
        # the INDEX records point elsewhere now; the reader finds that out and scans
        assert [turn.turn for turn in reader.episode(1).turns] == [0, 1, 2]


def test_a_repeated_block_is_left_out(small: Path) -> None:
    data, frames = small.read_bytes(), frames_of(small)
    turn = next(frame for frame in frames if frame.op == Op.TURN)
    small.write_bytes(data[: turn.end] + data[turn.offset : turn.end] + data[turn.end :])
    read, damage = turns_of(small)
    assert len(read) == 6 and damage.out_of_sequence == 1 and damage.damaged


def test_a_false_sync_is_rejected_by_crc(tmp_path: Path) -> None:
    """Payload bytes that look like a record are passed over when the real record around them is damaged."""
    fake = bytearray(pack(Op.TURN, Flag.ZSTD, 9, zstd(encode(a_turn(0, 9))[1])))
    fake[14] ^= 1
    noise = np.random.default_rng(0).bytes(400)  # does not compress: stands in the file as it is
    path = tmp_path / "a.b22"
    floats = bytes(fake) + noise
    floats = floats[: len(floats) // 4 * 4]
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0))
        finite = _finite(floats)
        log.turn(a_turn(0, 1, logps=finite))
        log.turn(a_turn(0, 2))
    data = bytearray(path.read_bytes())
    assert data.count(SYNC) == len(frames_of(path)) + 1
    hit = [frame for frame in frames_of(path) if frame.op == Op.TURN][1]
    data[hit.offset + HEAD_SIZE] ^= 0xFF
    path.write_bytes(data)
    read, damage = turns_of(path)
    assert [turn.turn for turn in read] == [0, 2]
    assert damage.bad_regions == 1 and damage.bad_bytes == hit.end - hit.offset and damage.missing == 1


def _finite(data: bytes) -> bytes:
    """The bytes with every float32 that isn't finite made so, the first 400 left alone if they are."""
    values = np.frombuffer(data, dtype="<f4").copy()
    values[~np.isfinite(values)] = 0
    return values.tobytes()


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(lambda: zstandard.compress(b"\0" * (64 << 20)), id="bomb that says its size"),
        pytest.param(lambda: _bomb_without_size(), id="bomb that doesn't"),
        pytest.param(lambda: b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\1\0\0", id="1 TiB"),
        pytest.param(lambda: _lying(MAX_CONTENT), id="says the cap, holds less"),
        pytest.param(lambda: _lying(10), id="says less than it holds"),
        pytest.param(lambda: b"\x28\xb5\x2f\xfd\x80\xff\x64\0\0\0\1\0\0", id="window"),
        pytest.param(lambda: zstd(b"\x80") + zstd(b"\x80"), id="two frames"),
        pytest.param(lambda: zstd(encode(a_turn(0, 0))[1]) + b"\0", id="a byte behind"),
        pytest.param(lambda: b"\x50\x2a\x4d\x18\x04\0\0\0abcd", id="skippable frame"),
        pytest.param(lambda: b"", id="nothing"),
        pytest.param(lambda: zstd(b""), id="empty frame"),
        pytest.param(lambda: zstd(b"\xdf\xff\xff\xff\xff"), id="map of 2^32"),
        pytest.param(lambda: zstd(b"\x81\xaaprompt_ids\xdd\xff\xff\xff\xff"), id="list of 2^32"),
        pytest.param(lambda: zstd(b"\x81\xa1z" + b"\x91" * 1_000_000), id="deeply nested"),
        pytest.param(lambda: zstd(b"\x81\xa7episode\xff"), id="negative id"),
        pytest.param(lambda: zstd(b"\xff\xfe"), id="no msgpack"),
        pytest.param(lambda: _turn_with("tau", float("nan")), id="NaN"),
        pytest.param(lambda: _turn_with("terms", {"x": float("inf")}), id="infinite reward"),
        pytest.param(lambda: _turn_with("logps", b"\0\0\xc0\x7f"), id="NaN log-probability"),
        pytest.param(lambda: _turn_with("probs", b"\0\0\0\0"), id="a probability of nothing"),
        pytest.param(lambda: b"not zstd at all", id="no zstd"),
    ],
)
def test_bombs_and_lies_are_counted_not_obeyed(small: Path, payload: Callable[[], bytes]) -> None:
    turns, _ = turns_of(small)
    extra_record(small, Op.TURN, payload())
    tracemalloc.start()
    read, damage = turns_of(small)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read == turns and damage.undecodable == 1 and damage.damaged and damage.first_error
    assert peak < 3 * MAX_CONTENT
    read_in_every_way(small)
    with pytest.raises(DamagedLogError), Reader(small, strict=True) as reader:
        list(reader.turns())


def _turn_with(name: str, value: object) -> bytes:
    fields = {"episode": 1, "turn": 3, "observation": "", "proposed": "", "executed": ""}
    return zstd(msgspec.msgpack.encode({**fields, name: value}))


def _bomb_without_size() -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * (64 << 20))


def _lying(size: int) -> bytes:
    """A frame whose header says `size` and whose one block holds 1,000 bytes."""
    honest = zstandard.ZstdCompressor(write_content_size=True).compress(os.urandom(1000))
    assert honest[4] == 0x60 and honest[5:7] == (1000 - 256).to_bytes(2, "little")
    return honest[:4] + b"\xa0" + size.to_bytes(4, "little") + honest[7:]


def test_a_frame_without_a_size_is_refused_as_such(small: Path) -> None:
    extra_record(small, Op.TURN, _bomb_without_size())
    assert "doesn't say its content size" in str(turns_of(small)[1].first_error)


def test_a_turn_has_to_be_a_zstd_frame(small: Path) -> None:
    extra_record(small, Op.TURN, encode(a_turn(0, 3))[1], flags=0)
    assert turns_of(small)[1].undecodable == 1


def test_a_huge_length_allocates_nothing(small: Path) -> None:
    data = bytearray(small.read_bytes())
    first_turn = next(frame for frame in frames_of(small) if frame.op == Op.TURN)
    data[first_turn.offset + 6 : first_turn.offset + 10] = b"\xff\xff\xff\xff"
    small.write_bytes(data)
    tracemalloc.start()
    read, damage = turns_of(small)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert len(read) == 5 and damage.missing == 1


def test_a_length_over_the_cap_is_damage_in_a_large_file_too(tmp_path: Path) -> None:
    """40 MiB of nothing follow, so that the length alone can't be told from its place in the file."""
    path = tmp_path / "a.b22"
    a_log(path)
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + SYNC + b"\6\1" + (32 << 20).to_bytes(4, "little") + b"\0" * 8)
    os.truncate(path, 40 << 20)
    tracemalloc.start()
    read, damage = turns_of(path)
    assert tracemalloc.get_traced_memory()[1] < MAX_CONTENT
    tracemalloc.stop()
    assert len(read) == 6 and damage.first_bad_offset == end


def test_a_length_that_reaches_behind_the_end_in_the_middle(small: Path) -> None:
    """It looks like a torn last record, but intact ones follow: damage, and they are read."""
    data = bytearray(small.read_bytes())
    first_turn = next(frame for frame in frames_of(small) if frame.op == Op.TURN)
    data[first_turn.offset + 6 : first_turn.offset + 10] = (1 << 20).to_bytes(4, "little")
    small.write_bytes(data)
    read, damage = turns_of(small)
    assert len(read) == 5 and damage.damaged and damage.torn_bytes == 0


def test_zeros_at_the_end_are_an_unfinished_write(small: Path) -> None:
    """What a power cut leaves where the file had grown and the data had not arrived."""
    small.write_bytes(small.read_bytes() + bytes(5000))
    read, damage = turns_of(small)
    assert len(read) == 6 and not damage.damaged and damage.torn_bytes == 5000


@pytest.mark.parametrize(
    "content",
    [b"hello\n" * 100, b"\0" * 1000, b"\x89HDF\r\n\x1a\n", b"PK\x03\x04" * 50, SYNC[1:] * 10, b"x" + SYNC],
)
def test_other_files_are_not_logs(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(NotALogError, match=r"other: not a \.b22 log"):
        Reader(path)


def test_an_empty_file_is_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    for content in (b"", SYNC[:2], SYNC, SYNC + b"\x01\x00\x50"):
        path.write_bytes(content)
        read, damage = turns_of(path)
        assert read == [] and not damage.damaged and damage.torn_bytes == len(content)


def test_what_is_no_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="No such file"):
        Reader(tmp_path / "none.b22")
    with pytest.raises(OpenError, match="not a regular file"):
        Reader(tmp_path)
    with pytest.raises(OpenError, match="null"):
        Reader("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OpenError, match="not a regular file"):
        Reader(tmp_path / "pipe")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_arbitrary_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.b22"
    path.write_bytes(data)
    read_in_every_way(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*Op, 77]), st.integers(0, 3), st.binary(max_size=200), st.booleans())
def test_intact_frames_of_any_content(tmp_path: Path, op: int, flags: int, content: bytes, z: bool) -> None:
    path = tmp_path / "any.b22"
    path.write_bytes(pack(op, flags, 0, zstd(content) if z else content))
    read_in_every_way(path)


leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
json_like = st.recursive(
    leaves | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(sorted({name for kind in TYPES.values() for name in kind.__struct_fields__}))
some_records = st.lists(st.tuples(st.sampled_from(list(Op)), st.dictionaries(fields, json_like)), max_size=4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some_records)
def test_intact_frames_of_wrong_types(tmp_path: Path, records: list[tuple[int, dict[str, object]]]) -> None:
    path = tmp_path / "any.b22"
    contents = [(op, zstd(msgspec.msgpack.encode(content))) for op, content in records]
    path.write_bytes(b"".join(pack(op, Flag.ZSTD, at, one) for at, (op, one) in enumerate(contents)))
    read_in_every_way(path)


def test_an_index_that_lies_is_not_believed(tmp_path: Path) -> None:
    """Offsets that point to intact records of something else: the reader finds out and scans."""
    path = tmp_path / "a.b22"
    made = a_log(path, episodes=3)
    data, frames = path.read_bytes(), frames_of(path)
    index = next(frame for frame in frames if frame.op == Op.INDEX)
    other = next(frame for frame in frames if frame.op == Op.SCHEMA).offset
    lie = {"start": 0, "spots": [{"episode": 1, "begin": other, "turns": [other, 5], "end": 2**63 - 1}]}
    path.write_bytes(
        data[: index.offset] + pack(Op.INDEX, Flag.ZSTD, index.sequence, zstd(msgspec.msgpack.encode(lie)))
    )
    with Reader(path) as reader:
        assert reader.episode(1).turns == [turn for turn in made if turn.episode == 1]


def test_strict_raises_at_the_first_damage(small: Path) -> None:
    data = bytearray(small.read_bytes())
    turn = next(frame for frame in frames_of(small) if frame.op == Op.TURN)
    data[turn.offset + 30] ^= 1
    small.write_bytes(data)
    with Reader(small, strict=True) as reader:
        with pytest.raises(DamagedLogError, match=f"damaged bytes at offset {turn.offset}"):
            list(reader.turns())
        assert reader.check().damaged


def test_reading_takes_constant_memory(tmp_path: Path) -> None:
    peaks = []
    for episodes in (400, 1200):
        path = tmp_path / f"{episodes}.b22"
        a_log(path, episodes)
        tracemalloc.start()
        with Reader(path) as reader:
            assert sum(1 for _ in reader.turns()) == 3 * episodes
            assert sum(1 for _ in reader.episodes()) == episodes
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300_000, peaks


def test_an_orphan_turn_is_read_and_counted(small: Path) -> None:
    data = bytearray(small.read_bytes())
    begin = next(frame for frame in frames_of(small) if frame.op == Op.EPISODE_BEGIN)
    data[begin.offset + 30] ^= 1
    small.write_bytes(data)
    read, damage = turns_of(small)
    assert len(read) == 6 and damage.orphan_turns == 3
    with Reader(small) as reader:
        assert [one.begin.episode for one in reader.episodes()] == [1]
        assert next(reader.steps())[0] is None
        with pytest.raises(DamagedLogError, match="begin of episode 0"):
            reader.episode(0)
