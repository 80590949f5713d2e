"""Episodes there and back as .b22 records: everything of them, and nothing that isn't what was asked for."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

import scenarios
from recorder import DamagedLogError, PayloadError, Reader, Turn, Writer
from recorder.framing import HEAD_SIZE
from recorder.parcel import pack_records, unpack_records
from rl.branching import play_branched
from rl.logbook import Author
from rl.parcels import ParcelError, pack_episodes, unpack_episodes
from rl.rollout import FAILED, Episode, Plan, play
from tests.rl.making import Clumsy

FETCH = scenarios.get("fetch_item")
AUTHOR = Author("", "nano", "", "w", "b", "t")
PLANS = [Plan(seed, FETCH.resolve_options({}), f"u1a0/g{seed}", f"0/{seed}/{n}") for seed in (3, 4) for n in range(4)]


def test_episodes_come_back_as_they_were() -> None:
    played = play(Clumsy(0.5), FETCH, PLANS)
    played[2].ended, played[2].error = FAILED, "Traceback …\nValueError: no such tile"
    parcel = pack_episodes(played, AUTHOR, FETCH)
    assert unpack_episodes(parcel, PLANS, AUTHOR, FETCH) == played
    assert sum(len(episode.turns) for episode in played) > 50
    plain = sum(len(msgspec.msgpack.encode(turn)) for episode in played for turn in episode.turns)
    assert len(parcel) < plain / 2


def test_forks_come_back_with_their_roots() -> None:
    played = play_branched(Clumsy(0.5), FETCH, PLANS)
    assert [episode.plan.fork for episode in played].count("") == 4 and played[3].plan.opening
    assert unpack_episodes(pack_episodes(played, AUTHOR, FETCH), PLANS, AUTHOR, FETCH) == played


def test_a_log_takes_the_records_of_a_parcel_as_they_are(tmp_path) -> None:
    played = play(Clumsy(0.5), FETCH, PLANS[:2])
    with Writer(tmp_path / "log.b22") as log:
        for record in unpack_records(pack_episodes([played[0]], AUTHOR, FETCH)):
            {"EpisodeBegin": log.begin_episode, "Turn": log.turn, "EpisodeEnd": log.end_episode}[
                type(record).__name__
            ](record)  # type: ignore[operator]
    with Reader(tmp_path / "log.b22") as read:
        (episode,) = read.episodes()
    assert episode.turns == played[0].turns and episode.begin.weights_hash == "w"


@pytest.mark.parametrize("at", [0, 5, HEAD_SIZE + 3, -1])
def test_a_flipped_byte_is_never_learned_from(at: int) -> None:
    parcel = bytearray(pack_episodes(play(Clumsy(0.5), FETCH, PLANS[:1]), AUTHOR, FETCH))
    parcel[at] ^= 1
    with pytest.raises(DamagedLogError):
        unpack_episodes(bytes(parcel), PLANS[:1], AUTHOR, FETCH)


def test_a_parcel_that_was_cut_is_an_error_wherever_it_was_cut() -> None:
    played = play(Clumsy(0.5), FETCH, PLANS[:2])
    parcel = pack_episodes(played, AUTHOR, FETCH)
    ends = [0]
    for record in unpack_records(parcel):
        ends.append(ends[-1] + len(pack_records([record])))
    assert ends[-1] == len(parcel)
    for cut in [*ends[:-1], ends[1] + 7, len(parcel) - 1]:
        with pytest.raises((DamagedLogError, ParcelError)):
            unpack_episodes(parcel[:cut], PLANS[:2], AUTHOR, FETCH)


@pytest.mark.parametrize(
    ("plan", "author", "says"),
    [
        ({"seed": 5}, AUTHOR, "seed is 3"),
        ({"group": "u2a0/g1"}, AUTHOR, "group"),
        ({"options": FETCH.resolve_options({"difficulty": "5"})}, AUTHOR, "options"),
        ({}, replace(AUTHOR, weights_hash="v"), "weights_hash is 'w' where it was played, 'v' here"),
        ({}, replace(AUTHOR, base_hash="c"), "base_hash"),
    ],
)
def test_what_was_not_asked_for_is_refused(plan, author, says) -> None:
    parcel = pack_episodes([Episode(PLANS[0], {}, ended="turn_cap")], AUTHOR, FETCH)
    with pytest.raises(ParcelError, match=says):
        unpack_episodes(parcel, [replace(PLANS[0], **plan)], author, FETCH)


def test_more_or_fewer_episodes_than_asked_for_are_refused() -> None:
    parcel = pack_episodes([Episode(plan, {}, ended="turn_cap") for plan in PLANS[:2]], AUTHOR, FETCH)
    with pytest.raises(ParcelError, match="more than the 1"):
        unpack_episodes(parcel, PLANS[:1], AUTHOR, FETCH)
    with pytest.raises(ParcelError, match="2 of 3"):
        unpack_episodes(parcel, PLANS[:3], AUTHOR, FETCH)


def test_another_dictionary_is_named(monkeypatch) -> None:
    parcel = pack_records([Turn(episode=0, turn=0, observation="a" * 99, proposed="wait", executed="wait")])
    monkeypatch.setattr("recorder.parcel.shipped", lambda: None)
    with pytest.raises(PayloadError, match="dictionary"):
        list(unpack_records(parcel))
