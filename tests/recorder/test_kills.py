"""kill -9 loses no acknowledged turn: a few kills here, 200 of each kind with -m slow (see tests/recorder/kills.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def kills(what: str, number: int, seed: int) -> dict[str, int]:
    """In a process of its own, which has no threads but its own when it forks."""
    words = [what, "--kills", str(number), "--seed", str(seed), "--json"]
    command = [sys.executable, "-m", "tests.recorder.kills", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert done.stdout, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def check(found: dict[str, int], number: int, at_once: int) -> None:
    assert found["kills"] == number and found["lost"] == 0 and found["damaged"] == 0, found
    assert found["acknowledged"] > number, "turns were written, and acknowledged, before the kills"
    assert found["most_beyond"] <= at_once, "beside them at most the turn in flight"


@pytest.mark.parametrize("what", ["rollout", "game"])
def test_no_acknowledged_turn_is_lost(what: str) -> None:
    check(kills(what, 8 if what == "rollout" else 4, 1), 8 if what == "rollout" else 4, 1)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["rollout", "game"])
def test_no_acknowledged_turn_is_lost_in_200_kills(what: str) -> None:
    check(kills(what, 200, 0), 200, 1)
