"""The scenario and the test that `python -m scenarios new NAME` writes: whole and working, to be changed into yours.

What it writes is a small game: the errand-runner stands in a street of doors and is told which way the bell hangs.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path

import scenarios
from scenarios.contract import ScenarioError

SCENARIO = '''"""NAME: find the bell in a street of doors, and ring it.

Mission
    Go to the door where the bell hangs, and take it.
What is seen
    Turns left, and on which side the bell hangs: west, east or here.
Actions
    `west`, `east`: one door on. `take`: take what hangs here.
What goes wrong
    Taking at the wrong door ends the episode.
Reward
    `near` up to 0.4: the share of the way that was covered (taken back when it is walked back). `ring` 0.6.
Ending
    "success" when the bell is taken, "wrong" at another door, "turn_cap" after 12 turns.
Difficulty
    `doors`: how long the street is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from game.sim.rng import below
from scenarios.contract import Option, Outcome, RewardTerm, check_seed
from scenarios.plain import PlainScenario

NEAR, RING = 0.4, 0.6


class Street(msgspec.Struct):
    """Everything that decides the next turn: whole numbers and words only, so that it is the same everywhere."""

    seed: int
    doors: int
    start: int
    bell: int
    at: int
    turn: int = 0
    over: str = ""


class CLASS(PlainScenario):
    __doc__ = __doc__

    name = "NAME"
    version = 1  # raise it whenever a rule or a reward changes
    engine_version = "1"
    turn_cap = 12
    state_type = Street
    reward_terms = (
        RewardTerm("near", "the share of the way that was covered", -NEAR, NEAR),
        RewardTerm("ring", "the bell was taken", 0.0, RING),
    )
    options = (Option("doors", "7", ("5", "7", "9"), "how long the street is"),)
    splits = {"train": range(100_000), "validation": range(1_000_000, 1_001_000), "test": range(2_000_000, 2_001_000)}
    prefix = "Find the bell in the street and take it ."
    vocabulary = (*prefix.split(), "left", "bell", "west", "east", "here", "over", *map(str, range(13)))

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Street:
        check_seed(seed)
        doors = int(self.resolve_options(options)["doors"])
        bell = below(doors, seed, "bell")
        start = (bell + 1 + below(doors - 1, seed, "start")) % doors  # never where it hangs
        return Street(seed, doors, start, bell, start)

    def observation(self, state: Street) -> str:
        side = "west" if state.bell < state.at else "east" if state.bell > state.at else "here"
        return f"left {self.turn_cap - state.turn} bell {'over' if state.over else side}"

    def legal(self, state: Street) -> tuple[str, ...]:
        return () if state.over else ("west", "east", "take")  # a function of the observation alone

    def apply(self, state: Street, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        before = self.covered(state)
        state.turn += 1
        if phrase not in self.legal(state):
            return self.illegal(state, phrase, {})
        terms = {}
        if phrase == "take":
            state.over = "success" if state.at == state.bell else "wrong"
            if state.over == "success":
                terms["ring"] = RING
            text = "the bell rings" if state.over == "success" else "no bell hangs here"
        else:
            state.at = min(max(state.at + (1 if phrase == "east" else -1), 0), state.doors - 1)
            text = f"at door {state.at + 1}"
        if on_tick is not None:
            on_tick(state)
        terms["near"] = self.covered(state) - before  # a difference: walking to and fro earns nothing
        return Outcome(phrase, text, 1, terms, self.ended(state))

    def covered(self, state: Street) -> float:
        whole = abs(state.start - state.bell)
        return NEAR * max(-1.0, 1 - abs(state.at - state.bell) / whole)

    def ended(self, state: Street) -> str | None:
        return state.over or ("turn_cap" if state.turn >= self.turn_cap else None)

    def oracle(self, state: Street) -> str:
        return "take" if state.at == state.bell else "west" if state.bell < state.at else "east"

    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        side = observation.split(" ")[-1]
        return ("take" if side == "here" else side), memory
'''

TEST = '''"""NAME holds to what every scenario must hold to, and plays as it is meant to."""

import pytest

import scenarios
from scenarios.conformance import CHECKS

BELL = scenarios.get("SPEC")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_holds_to_the_contract(check) -> None:
    check(BELL, BELL.resolve_options(None), 6)


def test_the_bell_is_rung_where_it_hangs() -> None:
    state = BELL.build(7)
    while state.at != state.bell:
        outcome = BELL.apply(state, BELL.oracle(state))
        assert outcome.terms["near"] > 0
    outcome = BELL.apply(state, "take")
    assert (outcome.ended, outcome.terms["ring"]) == ("success", 0.6)


def test_another_door_ends_it() -> None:
    state = BELL.build(7)
    assert BELL.apply(state, "take").ended == "wrong"
    assert BELL.legal(state) == ()
'''


@dataclass(frozen=True)
class Written:
    """A scenario's file, and what `scenarios.get` takes for it from that folder."""

    path: Path
    spec: str


def write_new(name: str, folder: Path) -> tuple[Written, Path]:
    """Writes NAME.py and test_NAME.py. Raises ScenarioError for a name that can't be one, a folder that isn't there,
    and a file that is."""
    if not (name.isascii() and name.isidentifier() and name == name.lower()) or keyword.iskeyword(name):
        raise ScenarioError(f"new {name!r}: small letters, digits and _, as in find_bell")
    if name in scenarios.names():
        raise ScenarioError(f"new {name!r}: there is a scenario of that name; choose another")
    if not folder.is_dir():
        raise ScenarioError(f"--out {folder}: no such folder; make it first")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    spec = f"{name}:{class_name}"
    files = {folder / f"{name}.py": SCENARIO, folder / f"test_{name}.py": TEST}
    for path in files:
        if path.exists():
            raise ScenarioError(f"{path}: is there already; choose another name or --out")
    for path, text in files.items():
        text = text.replace("SPEC", spec).replace("CLASS", class_name).replace("NAME", name)
        path.write_text(text, encoding="utf-8")
    scenario, test = files
    return Written(scenario, spec), test
