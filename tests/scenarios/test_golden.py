"""What the scenarios play is what their golden files say; every scenario has one."""

import difflib

import pytest

import scenarios
from tests.scenarios.golden.regenerate import COMMAND, PLAYS, SCENARIO, path_of, playthrough


@pytest.mark.parametrize("play", PLAYS)
def test_the_golden_playthrough_is_still_what_is_played(play: str) -> None:
    recorded = path_of(play).read_text(encoding="utf-8").splitlines()
    played = playthrough(SCENARIO.get(play, play), PLAYS[play]).splitlines()
    changes = list(difflib.unified_diff(recorded, played, "recorded", "played", lineterm="", n=0))[:12]
    assert not changes, "\n".join(
        [f"{play} plays otherwise than its golden file says; if that is meant, raise its version and run: {COMMAND}",
         *changes]
    )


def test_every_scenario_has_a_golden_playthrough() -> None:
    assert {SCENARIO.get(play, play) for play in PLAYS} | {"fetch_item"} == set(scenarios.names())
