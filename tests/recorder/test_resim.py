"""Replay: the executed actions again, a digest after every turn, the first difference by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from recorder import EpisodeBegin, EpisodeEnd, Reader, Turn, Writer
from recorder.resim import Replay, resim


class Count:
    """The smallest game: a total that grows by the length of what is said, and a clock."""

    version = 1
    engine_version = "0.1.0"
    source_hash = "aa"

    def build(self, seed: int, options: Mapping[str, str]) -> dict[str, int]:
        return {"total": seed % 100 + len(options.get("more", "")), "clock": 0}

    def apply(self, state: dict[str, int], phrase: str) -> None:
        state["total"] += len(phrase)
        state["clock"] += 1

    def digest(self, state: dict[str, int]) -> dict[str, str]:
        return {name: f"{value:016x}" for name, value in state.items()}


def record(path: Path, forge: dict[tuple[int, int], dict[str, str]] | None = None, **other: object) -> None:
    """Two episodes of three turns; `forge` puts other digests in the place of some."""
    game = Count()
    with Writer(path, dictionary=None, sync="none") as log:
        for episode in (11, 12):
            begin = {"scenario": "count", "scenario_version": 1, "source_hash": "aa", "options": {"more": "xx"}}
            begin |= {"engine_version": "0.1.0", **other}
            log.begin_episode(EpisodeBegin(episode=episode, seed=episode, **begin))  # type: ignore[arg-type]
            state = game.build(episode, {"more": "xx"})
            for at, said in enumerate(("a", "bb", "ccc")):
                game.apply(state, said)
                digest = {**game.digest(state), **(forge or {}).get((episode, at), {})}
                log.turn(
                    Turn(
                        episode=episode, turn=at, observation="", proposed="?", executed=said, digest_after=digest
                    )
                )
            log.end_episode(EpisodeEnd(episode=episode, ended="cap", success=True, turns=3, total_reward=0.0))


def replay(path: Path, game: Count | None = None) -> Replay:
    with Reader(path) as reader:
        return resim(reader, lambda name: {"count": game or Count()}[name])


def test_an_honest_log_agrees(tmp_path: Path) -> None:
    record(tmp_path / "a.b22")
    found = replay(tmp_path / "a.b22")
    assert found.agrees and (found.episodes, found.compared, found.notes) == (2, 6, [])


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_difference_is_named_the_last_turn_included(tmp_path: Path, turn: int) -> None:
    record(tmp_path / "a.b22", {(12, turn): {"total": "00"}})
    found = replay(tmp_path / "a.b22")
    assert not found.agrees and found.compared == 3 + turn + 1 and found.unreachable == 2 - turn
    (difference,) = found.differences
    assert str(difference) == (
        f"episode 12, turn {turn}: total differs (scenario count version 1 in both; engine 0.1.0 in both)"
    )


def test_parts_that_one_side_lacks_differ(tmp_path: Path) -> None:
    record(tmp_path / "a.b22", {(11, 1): {"mood": "00"}})
    assert "mood differs" in str(replay(tmp_path / "a.b22").differences[0])


def test_another_version_is_said_plainly(tmp_path: Path) -> None:
    class Later(Count):
        version = 2
        engine_version = "0.2.0"

        def apply(self, state: dict[str, int], phrase: str) -> None:
            state["total"] += len(phrase) + 1
            state["clock"] += 1

    record(tmp_path / "a.b22")
    found = replay(tmp_path / "a.b22", Later())
    assert found.notes == ["scenario count: version 1 in the log, version 2 in this program"]
    assert str(found.differences[0]) == (
        "episode 11, turn 0: total differs (scenario count version 1 in the log, version 2 here; "
        "engine 0.1.0 in the log, 0.2.0 here)"
    )


def test_a_forgotten_version_bump_is_noted(tmp_path: Path) -> None:
    record(tmp_path / "a.b22", source_hash="bb")
    found = replay(tmp_path / "a.b22")
    assert found.agrees and "source of its rules or rewards" in found.notes[0]


def test_a_different_start_is_found_before_turn_0(tmp_path: Path) -> None:
    record(tmp_path / "a.b22", digest_start={"total": "00", "clock": f"{0:016x}"})
    found = replay(tmp_path / "a.b22")
    assert [str(one).split(" (")[0] for one in found.differences] == [
        "episode 11, start: total differs", "episode 12, start: total differs",
    ]


def test_what_the_scenario_raises_is_a_finding(tmp_path: Path) -> None:
    class Picky(Count):
        def apply(self, state: dict[str, int], phrase: str) -> None:
            if phrase == "bb":
                raise KeyError("bb")

    record(tmp_path / "a.b22", scenario="count")
    found = replay(tmp_path / "a.b22", Picky())
    assert "episode 11, turn 0: total, clock differ" in str(found.differences[0])
    record(tmp_path / "b.b22", {(e, 0): {"total": f"{e % 100 + 2:016x}", "clock": f"{0:016x}"} for e in (11, 12)})
    found = replay(tmp_path / "b.b22", Picky())
    assert "episode 11, turn 1: the scenario raised KeyError: 'bb'" in str(found.differences[0])


def test_an_unknown_scenario_does_not_pass(tmp_path: Path) -> None:
    record(tmp_path / "a.b22", scenario="gone")
    found = replay(tmp_path / "a.b22")
    assert not found.agrees and "version 1 in the log, none here" in str(found.differences[0])


def test_nothing_compared_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        log.begin_episode(EpisodeBegin(episode=0, scenario="count", scenario_version=1, seed=0))
        log.turn(Turn(episode=0, turn=0, observation="", proposed="a", executed="a"))
    found = replay(path)
    assert not found.agrees and found.unrecorded == 1 and "nothing was compared" in found.notes[0]


def test_two_replays_in_one_process_agree(tmp_path: Path) -> None:
    record(tmp_path / "a.b22", {(12, 1): {"total": "00"}})
    assert replay(tmp_path / "a.b22") == replay(tmp_path / "a.b22")
