"""Logs of later and earlier programs: what isn't known is skipped, what isn't there has its default."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from recorder import Op, Reader, UnsupportedFormatError, Writer, recover
from recorder.codec import TYPES
from recorder.framing import FORMAT, HEAD_SIZE, MAX_PAYLOAD, MINOR, SYNC, Flag, pack, unpack_head
from recorder.summary import overview, summarize
from tests.recorder.making import a_begin, a_log, a_turn, extra_record, frames_of, turns_of, write_episodes, zstd

GOLDEN = Path(__file__).parent / "golden"


def test_unknown_ops_and_flags_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    made = a_log(path)
    extra_record(path, 200, b"of a later version")
    data, last = path.read_bytes(), frames_of(path)[-1]
    path.write_bytes(data + pack(Op.TURN, Flag.ZSTD | 0x40, last.sequence + 1, b"in some other form"))
    read, damage = turns_of(path)
    assert read == made and damage.skipped_unknown == 2 and not damage.damaged
    with Writer(path, append=True, dictionary=None) as log:  # and appended to
        made += write_episodes(log, range(5, 6))
    read, damage = turns_of(path)
    assert read == made and not damage.damaged


def test_unknown_fields_are_ignored_and_missing_ones_have_their_default(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0))
    content = {"episode": 0, "turn": 1, "observation": "o", "proposed": "p", "executed": "e", "mood": [1, {}]}
    extra_record(path, Op.TURN, zstd(msgspec.msgpack.encode(content)))
    with Reader(path) as reader:
        turn = list(reader.turns())[1]
        assert not reader.damage.damaged
    assert (turn.executed, turn.tau, turn.legal, turn.logps, turn.fallback) == ("e", 0.0, [], b"", False)


def test_a_later_major_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    header = msgspec.msgpack.encode({"format": FORMAT + 1, "program": "errand", "engine_version": "9.0"})
    path.write_bytes(pack(Op.HEADER, 0, 0, header))
    for opening in (lambda: Reader(path), lambda: Writer(path, append=True)):
        with pytest.raises(UnsupportedFormatError, match=r"format 2, written by errand 9\.0; .* up to format 1"):
            opening()


def test_the_bytes_of_a_record_are_as_specified() -> None:
    """docs/b22-format.md says these; no reader in another language would forgive a change."""
    record = pack(op=6, flags=1, sequence=0x01020304, payload=b"abc")
    assert record[:4] == SYNC == bytes([0xFF, 0x62, 0x32, 0x32])
    assert record[4:14] == bytes([6, 1, 3, 0, 0, 0, 4, 3, 2, 1])
    assert record[14:18] == (0xD7144959).to_bytes(4, "little") and record[18:] == b"abc"
    assert unpack_head(record[:HEAD_SIZE]).length == 3
    assert {int(op): op.name for op in Op} == {
        1: "HEADER", 2: "SCHEMA", 3: "DICT", 4: "PREFIX", 5: "EPISODE_BEGIN", 6: "TURN", 7: "EPISODE_END",
        8: "AMEND", 9: "INDEX", 10: "FOOTER", 11: "GAP",
    }


def test_every_field_that_was_added_has_a_default() -> None:
    """The fields without a default are those of the first version; a reader fails on a log without them."""
    required = {
        kind.__name__: {field.name for field in msgspec.structs.fields(kind) if field.required}
        for kind in TYPES.values()
    }
    assert required == {
        "Header": set(), "Schema": {"json"}, "Dictionary": {"id", "data"}, "Prefix": {"hash", "text"},
        "EpisodeBegin": {"episode", "scenario", "scenario_version", "seed"},
        "Turn": {"episode", "turn", "observation", "proposed", "executed"},
        "EpisodeEnd": {"episode", "ended", "success", "turns", "total_reward"},
        "Amend": {"episode"}, "Gap": {"episode"}, "Index": {"start"}, "Footer": set(),
    }


def test_defaults_never_change() -> None:
    """Fields at their default aren't stored: another default would change what old logs say."""
    empty = {str: "", bytes: b"", int: 0, float: 0.0, bool: False, list: [], dict: {}, type(None): None}
    other = {}
    for kind in TYPES.values():
        for field in msgspec.structs.fields(kind):
            if not field.required:
                default = field.default
                if default is msgspec.NODEFAULT:
                    default = field.default_factory()
                if default != empty[type(default)]:
                    other[f"{kind.__name__}.{field.name}"] = default
    assert other == {"Header.format": 1, "Footer.format": 1, "EpisodeBegin.group_size": 1}


def test_the_specification_names_every_op_and_field() -> None:
    text = (Path(__file__).parents[2] / "docs" / "b22-format.md").read_text()
    sections = {title.split("\n")[0]: title.split("\n## ")[0] for title in text.split("\n### ")[1:]}
    for op, kind in TYPES.items():
        name = Op(op).name
        assert f"| {op} | {name} |" in text
        cells = [row.split("|")[1] for row in sections[name].splitlines() if row.startswith("| ")]
        named = {word.strip(" •") for cell in cells for word in cell.split(",")} - {"field"}
        assert named == set(kind.__struct_fields__), name
    assert f"at most {MAX_PAYLOAD:,}" in text


def test_the_first_golden_file_stays_readable() -> None:
    """A file as the first version of this project wrote it, beside what is in it."""
    path = GOLDEN / "format-1.b22"
    with Reader(path) as reader:
        assert reader.clean and reader.header is not None and reader.header.minor == 0
        summary = summarize(reader)
        assert summary.good and (summary.episodes, summary.turns, summary.sessions) == (3, 8, 2)
        episodes = list(reader.episodes())
        assert [len(one.turns) for one in episodes] == [3, 3, 2] and all(one.whole for one in episodes)
        assert episodes[0].begin.seed == 100 and episodes[0].amends[0].terms == {"found": 1.0}
        assert reader.prefix(episodes[0].begin.prefix_hash).text == "You run errands in a village."
        kept = msgspec.json.decode(path.with_suffix(".json").read_bytes())
        turns = [turn for one in episodes for turn in one.turns]
        assert [msgspec.to_builtins(turn) for turn in turns] == kept
        assert [reader.episode(one.begin.episode).turns for one in episodes] == [one.turns for one in episodes]


def test_the_golden_file_of_format_1_1_stays_readable(tmp_path: Path) -> None:
    """With what minor version 1 added: a GAP, a reward version, and the tree of INDEX records."""
    path = GOLDEN / "format-1.1.b22"
    with Reader(path) as reader:
        assert reader.clean and reader.header is not None and reader.header.minor == 1
        summary, quick = summarize(reader), overview(reader)
        assert summary.good and (summary.episodes, summary.turns, summary.sessions, summary.gaps) == (4, 9, 2, 1)
        assert not quick.checked and (quick.episodes, quick.turns, quick.gaps) == (4, 9, 1)
        kept = msgspec.json.decode(path.with_suffix(".json").read_bytes())
        assert [msgspec.to_builtins(turn) for turn in reader.turns()] == kept
        assert reader.episode(0).terms(2) == {"found": 1.0, "success": 0.0} and reader.episode(0).labels == {}
        assert reader.episode(1).rewards("2").tolist() == [0.0, 0.0, 2.0] and reader.episode(1).reward_version == "2"
        (gap,) = reader.episode(3).gaps
        assert (gap.turn, gap.lost, [turn.turn for turn in reader.episode(3).turns]) == (0, 2, [2])
        assert not reader.catalog.scanned, "found through the tree"
    copy = tmp_path / "copy.b22"
    copy.write_bytes(path.read_bytes())
    with Writer(copy, append=True) as log:  # and it can be gone on in
        write_episodes(log, range(4, 5))
    assert len(turns_of(copy)[0]) == 12 and not turns_of(copy)[1].damaged


def test_a_log_of_a_newer_minor_version(tmp_path: Path) -> None:
    """Whatever a later program may add, at once: ops, flags, fields anywhere. Known things are read, appended to,
    recovered; unknown ones are kept."""
    path = tmp_path / "a.b22"

    def z(content: dict[str, object]) -> bytes:
        return zstd(msgspec.msgpack.encode(content))

    turn = {"episode": 0, "observation": "o", "proposed": "p", "executed": "e", "mood": {"new": [1]}}
    end = {"episode": 0, "ended": "e", "success": True, "turns": 2, "total_reward": 1.0, "x": None}
    records = [
        (Op.HEADER, 0, msgspec.msgpack.encode({"format": FORMAT, "minor": 9, "city": "Bree", "program": "later"})),
        (77, 0, b"an op that is not known here"),
        (Op.EPISODE_BEGIN, 1, z({"episode": 0, "scenario": "s", "scenario_version": 1, "seed": 0, "weather": 1.5})),
        (Op.TURN, 1, z({**turn, "turn": 0})),
        (Op.TURN, 0x81, b"stored in a way that is not known here"),
        (Op.TURN, 1, z({**turn, "turn": 1})),
        (Op.EPISODE_END, 1, z(end)),
        (Op.INDEX, 1, z({"start": 0, "previous": None, "spots": [{"episode": 0, "elsewhere": 4}], "better": 1})),
        (78, 1, b"\0" * 50),
    ]
    path.write_bytes(b"".join(pack(op, flags, at, payload) for at, (op, flags, payload) in enumerate(records)))
    out = tmp_path / "b.b22"
    for step in range(3):
        with Reader(path) as reader:
            (episode,) = reader.episodes()
            assert [one.executed for one in episode.turns] == ["e", "e"] and episode.whole
            assert reader.episode(0) == episode and reader.header is not None and reader.header.minor == 9
            assert reader.check().skipped_unknown == 3 and not reader.damage.damaged and summarize(reader).good
        if step == 0:
            Writer(path, append=True).close()
        elif step == 1:
            assert recover(path, out).unknown == 3
            path = out


def test_there_is_a_golden_file_of_every_minor_version() -> None:
    names = {f"format-{FORMAT}.{minor}" if minor else f"format-{FORMAT}" for minor in range(MINOR + 1)}
    assert {path.stem for path in GOLDEN.glob("*.b22")} == names


def test_the_golden_turn_has_all_fields() -> None:
    assert set(msgspec.structs.asdict(a_turn(0, 0))) >= set(
        msgspec.json.decode((GOLDEN / "format-1.json").read_bytes())[0]
    )
