"""A few hundred damaged and hostile logs here, 20,000 with -m slow (see tests/recorder/fuzz.py)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recorder import Reader
from tests.recorder.fuzz import Target, by_chance, changed_bytes


def test_nothing_but_recorder_errors(tmp_path: Path) -> None:
    by_chance(250, 1, tmp_path)


@pytest.mark.slow
def test_nothing_but_recorder_errors_in_20000_inputs(tmp_path: Path) -> None:
    by_chance(20_000, 2, tmp_path)


def test_inputs_follow_from_their_seed(tmp_path: Path) -> None:
    target = Target(tmp_path)
    first = [changed_bytes(target, random.Random(f"0/{number}")) for number in range(20)]
    assert first == [changed_bytes(target, random.Random(f"0/{number}")) for number in range(20)]
    assert len(set(first)) == 20 and target.data not in first


def test_it_would_see_an_error_of_another_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*_: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(Reader, "check", careless)
    with pytest.raises(AssertionError, match="input 0 of seed 3: IndexError: out of range"):
        by_chance(1, 3, tmp_path)


def test_it_would_see_a_turn_that_came_of_nothing(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.try_all(target.data, target.turns)
    with pytest.raises(AssertionError, match="a turn came of nothing"):
        target.try_all(target.data, target.turns[1:])
    with Reader(target.path) as reader:
        assert reader.episode_ids() == [0, 1, 2]
