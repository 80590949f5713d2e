"""What is written is what is read, to the bit."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder import (
    Amend,
    EpisodeBegin,
    EpisodeEnd,
    EpisodeNotFoundError,
    Header,
    PrefixNotFoundError,
    Reader,
    RecordError,
    RecordTooLargeError,
    Turn,
    Writer,
    pack_floats,
    unpack_floats,
)
from recorder.codec import decode, encode
from recorder.framing import Op
from recorder.records import Schema
from tests.recorder.making import a_begin, a_log, a_turn, an_end, turns_of, write_episodes


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    header = Header.here("test", "0.1.0", {"why": "a test"})
    with Writer(path, header=header, dictionary=None) as log:
        prefix = log.add_prefix("You run errands.", [5, 6, 7], "tok")
        begin = a_begin(3, prefix_hash=prefix, run="r", update=4, attempt=1, digest_start={"map": "00"})
        log.begin_episode(begin)
        turns = [a_turn(3, at) for at in range(4)]
        for turn in turns:
            log.turn(turn)
        end = an_end(3, 4, terms={"found": 0.4}, wall_s=1.5)
        log.end_episode(end)
        amend = Amend(episode=3, turn=1, terms={"found": 0.5}, labels={"by": "hand"}, author="me")
        log.amend(amend)
    with Reader(path) as reader:
        assert reader.header == header
        assert list(reader.turns()) == turns
        assert reader.clean and not reader.damage.damaged
        (episode,) = reader.episodes()
        assert (episode.begin, episode.turns, episode.end) == (begin, turns, end)
        assert episode.amends == [amend] and episode.whole
        assert episode.terms(1) == {"found": 0.5, "success": 0.0} and episode.terms(0)["found"] == 0.1
        assert reader.episode(3) == episode
        assert reader.prefix(prefix).text == "You run errands."
        assert reader.prefix(prefix).token_ids == [5, 6, 7]
        with pytest.raises(PrefixNotFoundError, match="no prefix 'zz'"):
            reader.prefix("zz")
        with pytest.raises(EpisodeNotFoundError, match="no episode 4"):
            reader.episode(4)


def test_interleaved_episodes(tmp_path: Path) -> None:
    """Batched rollouts: turns of many episodes mix, and end in another order than they began."""
    path = tmp_path / "a.b22"
    made: dict[int, list[Turn]] = {episode: [] for episode in range(5)}
    with Writer(path, dictionary=None, index_every=7) as log:
        for episode in made:
            log.begin_episode(a_begin(episode))
        for at in range(4):
            for episode in made:
                if at <= episode:
                    made[episode].append(a_turn(episode, at))
                    log.turn(made[episode][-1])
        for episode in (3, 1, 4, 0, 2):
            log.end_episode(an_end(episode, len(made[episode])))
    with Reader(path) as reader:
        read = list(reader.episodes())
        assert [one.begin.episode for one in read] == [3, 1, 4, 0, 2]
        assert all(one.turns == made[one.begin.episode] and one.whole for one in read)
        assert reader.episode_ids() == [0, 1, 2, 3, 4]
        assert [reader.episode(one).turns for one in made] == list(made.values())
        assert all(begin is not None and begin.episode == turn.episode for begin, turn in reader.steps())


def test_log_probabilities_bit_for_bit(tmp_path: Path) -> None:
    bits = np.array([0xBF800001, 0x80000000, 0x00000001, 0xFF7FFFFF, 0xB3D6BF95], dtype="<u4").view("<f4")
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0, logps=pack_floats(bits)))
    (turn,), _ = turns_of(path)
    assert turn.logp_values.dtype == np.dtype("<f4")
    assert turn.logp_values.tobytes() == bits.tobytes() == turn.logps
    assert unpack_floats(turn.probs).sum() == pytest.approx(1, abs=1e-6)
    assert turn.logprob == math.fsum(float(one) for one in bits)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_seeds(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0, seed=seed))
    with Reader(path) as reader:
        (episode,) = reader.episodes()
        assert episode.begin.seed == seed and isinstance(episode.begin.seed, int)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64, 2**127 + 3, None, 1.5, "7"])
def test_bad_seeds_are_refused(tmp_path: Path, seed: Any) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        with pytest.raises(RecordError, match="seed"):
            log.begin_episode(a_begin(0, seed=seed))
        log.begin_episode(a_begin(0))  # the refused one left nothing behind
    with Reader(path) as reader:
        assert [one.begin.seed for one in reader.episodes()] == [100]


def test_numpy_values_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0, seed=np.int64(7), update=np.uint8(3), run=np.str_("r")))
        log.turn(
            a_turn(
                np.int32(0), 0, sampled_ids=[np.int64(4), np.uint16(5)], prompt_ids=np.arange(3),
                terms={"found": np.float32(0.25)}, tau=np.float64(0.5), fallback=np.bool_(True),
            )
        )
        log.end_episode(an_end(0, np.int64(1), total_reward=np.float32(0.5)))
    with Reader(path) as reader:
        (episode,) = reader.episodes()
    assert (episode.begin.seed, episode.begin.update, episode.begin.run) == (7, 3, "r")
    turn = episode.turns[0]
    assert turn.sampled_ids == [4, 5] and turn.prompt_ids == [0, 1, 2] and turn.terms == {"found": 0.25}
    assert turn.fallback is True and turn.tau == 0.5 and type(turn.terms["found"]) is float
    assert episode.end is not None and episode.end.total_reward == 0.5


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float32("nan")])
@pytest.mark.parametrize(
    ("record", "where"),
    [
        (lambda bad: a_turn(0, 0, terms={"ok": 0.0, "found": bad}), r"Turn\.terms\['found'\]"),
        (lambda bad: a_turn(0, 0, tau=bad), r"Turn\.tau"),
        (lambda bad: a_turn(0, 0, decision_ms=bad), r"Turn\.decision_ms"),
        (lambda bad: a_turn(0, 0, logps=struct.pack("<2f", -1, bad)), r"Turn\.logps"),
        (lambda bad: a_turn(0, 0, legal=["a", "b"], probs=struct.pack("<2f", 1, bad)), r"Turn\.probs"),
        (lambda bad: an_end(0, 0, total_reward=bad), r"EpisodeEnd\.total_reward"),
        (lambda bad: an_end(0, 0, terms={"x": bad}), r"EpisodeEnd\.terms"),
        (lambda bad: Amend(episode=0, terms={"x": bad}), r"Amend\.terms"),
    ],
)
def test_what_is_not_finite_is_refused(tmp_path: Path, bad: float, record: Any, where: str) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        one = record(bad)
        put = {Turn: log.turn, EpisodeEnd: log.end_episode, Amend: log.amend}[type(one)]
        with pytest.raises(RecordError, match=where):
            put(one)
        log.turn(a_turn(0, 0))
    assert len(turns_of(path)[0]) == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"executed": 3}, r"Expected `str`, got `int` - at `\$\.executed`"),
        ({"turn": -1}, r"at `\$\.turn`"),
        ({"logps": b"abc"}, r"Turn\.logps has 3 bytes"),
        ({"logps": np.zeros(2, np.float32)}, r"at `\$\.logps`"),
        ({"probs": pack_floats([0.5])}, r"1 numbers for 9 legal phrases"),
        ({"terms": {"x": 1 + 2j}}, r"Turn\.terms: builtins\.complex can't be recorded"),
        ({"policy_note": object()}, r"Turn\.policy_note: builtins\.object"),
        ({"observation": "\ud800"}, r"Turn\.observation: .*surrogates"),
        ({"ticks": 2**70}, r"Turn\.ticks"),
        ({"sampled_ids": [2**70]}, r"Turn\.sampled_ids"),
        ({"sampled_ids": np.zeros(2, np.float32)}, r"sampled_ids"),
        ({"terms": {"a": 1e308, "b": 1e308}}, r"Turn\.terms add up to more than a float holds"),
        ({"tau": np.longdouble(0.5)}, r"Turn\.tau: numpy\.longdouble"),
    ],
)
def test_wrong_values_are_refused_by_field(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    with Writer(tmp_path / "a.b22", dictionary=None) as log:
        log.begin_episode(a_begin(0))
        with pytest.raises(RecordError, match=message):
            log.turn(a_turn(0, other.pop("turn", 0), **other))


def test_a_record_over_the_cap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        with pytest.raises(RecordTooLargeError, match="Turn takes"):
            log.turn(a_turn(0, 0, observation="x" * (5 << 20)))
        log.turn(a_turn(0, 0, observation="x" * (3 << 20)))
    assert len(turns_of(path)[0][0].observation) == 3 << 20


def test_floats_that_overflow_float32_are_refused() -> None:
    with pytest.raises(RecordError, match="not finite"):
        pack_floats([1e39])
    with pytest.raises(RecordError, match="not finite"):
        pack_floats(np.array([np.nan]))
    assert pack_floats(iter([0.5])) == struct.pack("<f", 0.5)


def test_the_schema_names_every_field(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    with Reader(path) as reader:
        ((_, schema),) = reader.records({Op.SCHEMA})
    assert isinstance(schema, Schema)
    described = msgspec.json.decode(schema.json)
    assert {name: one["op"] for name, one in described["ops"].items()} == {op.name: int(op) for op in Op}
    assert set(described["$defs"]["Turn"]["properties"]) == set(Turn.__struct_fields__)
    assert set(described["$defs"]["EpisodeBegin"]["properties"]) == set(EpisodeBegin.__struct_fields__)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Turn,
        episode=st.integers(0, 2**63 - 1), turn=st.integers(0, 2**63 - 1), observation=texts, proposed=texts,
        executed=texts, prompt_ids=st.lists(st.integers(-(2**63), 2**64 - 1), max_size=5), tau=finite,
        legal=st.lists(texts, max_size=4), terms=st.dictionaries(texts, finite, max_size=3),
        fallback=st.booleans(), digest_after=st.dictionaries(texts, texts, max_size=3),
    )
)
def test_any_turn_round_trips(turn: Turn) -> None:
    checked, content = encode(turn)
    assert checked == turn == decode(Op.TURN, content)


def test_turns_with_line_breaks_of_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    text = "a\nb\r\nc\u0085d\u2028e\x00f"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0, observation=text))
    assert turns_of(path)[0][0].observation == text


def test_a_later_attempt_hides_what_it_went_back_behind(tmp_path: Path) -> None:
    """Attempt 0 recorded updates 0 to 3; the resume went back to 2, and was killed in it."""
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        for update in range(4):
            write_episodes(log, range(update, update + 1), 1, run="r", update=update)
        write_episodes(log, range(50, 51), 1, run="other", update=9)
    with Writer(path, dictionary=None, append=True) as log:
        write_episodes(log, range(4, 5), 1, run="r", update=2, attempt=1)
    with Reader(path) as reader:
        assert [turn.episode for turn in reader.turns()] == [0, 1, 50, 4]
        assert [one.begin.episode for one in reader.episodes()] == [0, 1, 50, 4]
        assert [turn.episode for turn in reader.turns("all")] == [0, 1, 2, 3, 50, 4]
        assert [one.begin.episode for one in reader.episodes("all")] == [0, 1, 2, 3, 50, 4]
        with pytest.raises(ValueError, match="'latest' or 'all'"):
            list(reader.turns("newest"))  # type: ignore[arg-type]
