"""The scenario and the test that `python -m scenarios new NAME` writes: whole and working, to be changed into yours.

What it writes is a small game: somebody calls in the night, and the errand-runner walks to where it was.
"""

from __future__ import annotations

import importlib.util
import keyword
from dataclasses import dataclass
from pathlib import Path

import scenarios
from scenarios.contract import ScenarioError

SCENARIO = '''"""NAME: answer the calls of the night.

Mission
    Four times the one on watch calls. Walk to where the call comes from, and not to where Pip rings a bell for fun.
What is seen
    How many calls are left, the place to go to behind "goal", and Pip's behind "hold". These are words that the
    embedded model was taught to read; it can be taught others, and takes longer.
Actions
    `go to the PLACE`, one of four.
What goes wrong
    Another place is too late: the watch is over.
Reward
    `answer` 0.5 for all calls together, each its share; `watch` 0.5 for the whole night.
Ending
    "success" after the last call, "late" after a wrong place, "turn_cap" after 12 turns.
Difficulty
    `calls`: how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from game.sim.rng import below
from scenarios.contract import Option, Outcome, RewardTerm, check_seed
from scenarios.plain import PlainScenario

PLACES = ("dock", "inn", "mill", "well")
ANSWER, WATCH = 0.5, 0.5


class Night(msgspec.Struct):
    """All that decides the next turn: whole numbers and words only, so that it is the same everywhere."""

    seed: int
    calls: int
    heard: int = 0
    late: bool = False
    turn: int = 0


class CLASS(PlainScenario):
    __doc__ = __doc__

    name = "NAME"
    version = 1  # raise it whenever a rule or a reward changes
    engine_version = "1"
    turn_cap = 12
    state_type = Night
    reward_terms = (
        RewardTerm("answer", "calls that were answered, each an equal share", 0.0, ANSWER),
        RewardTerm("watch", "all were", 0.0, WATCH),
    )
    options = (Option("calls", "4", ("2", "4", "8"), "how many there are"),)
    splits = {"train": range(100_000), "validation": range(1_000_000, 1_001_000), "test": range(2_000_000, 2_001_000)}
    prefix = "You run errands in a village . You can go to the PLACE ."
    training = {"updates": 6, "groups": 8, "group_size": 8}  # what suits it in rl.train; the command line wins
    vocabulary = (*prefix.split(), *PLACES, "left", "goal", "hold", "none", *map(str, range(9)))

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Night:
        check_seed(seed)
        return Night(seed, int(self.resolve_options(options)["calls"]))

    def caller(self, state: Night) -> str:
        return PLACES[below(len(PLACES), state.seed, "call", state.heard)]  # drawn by seed and number: no generator

    def pip(self, state: Night) -> str:
        others = [place for place in PLACES if place != self.caller(state)]
        return others[below(len(others), state.seed, "pip", state.heard)]

    def observation(self, state: Night) -> str:
        if self.ended(state):
            return f"left {state.calls - state.heard} goal none"
        return f"left {state.calls - state.heard} goal {self.caller(state)} hold {self.pip(state)}"

    def legal(self, state: Night) -> tuple[str, ...]:
        if self.ended(state):
            return ()
        return tuple(f"go to the {place}" for place in PLACES)  # to be read off the observation alone

    def apply(self, state: Night, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        legal, where = self.legal(state), self.caller(state)
        state.turn += 1
        if phrase not in legal:
            return self.illegal(state, phrase, {})
        state.late = phrase != f"go to the {where}"
        state.heard += not state.late
        if on_tick is not None:
            on_tick(state)
        if state.late:
            return Outcome("late", f"the call came from the {where}", 1, {}, self.ended(state))
        terms = {"answer": ANSWER / state.calls}
        if state.heard == state.calls:
            terms["watch"] = WATCH
        return Outcome("answered", f"{state.calls - state.heard} calls are left", 1, terms, self.ended(state))

    def credit_key(self, observation: str) -> tuple[str, ...]:
        return (observation.split(" ")[1],)  # how far it is: turns of one stage are compared with each other

    def ended(self, state: Night) -> str | None:
        if state.late:
            return "late"
        if state.heard == state.calls:
            return "success"
        return "turn_cap" if state.turn >= self.turn_cap else None

    def oracle(self, state: Night) -> str:
        return f"go to the {self.caller(state)}"  # may look at everything

    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        return f"go to the {observation.split(' ')[3]}", memory  # may look at the observation, and remember
'''

TEST = '''"""NAME holds to what every scenario must hold to, and plays as it is meant to."""

import pytest

import scenarios
from scenarios.conformance import CHECKS

WATCH = scenarios.get("SPEC")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_holds_to_the_contract(check) -> None:
    check(WATCH, WATCH.resolve_options(None), 6)


def test_the_night_is_over_when_all_calls_were_answered() -> None:
    state = WATCH.build(7)
    terms = [WATCH.apply(state, f"go to the {WATCH.caller(state)}").terms for _ in range(4)]
    assert terms == [{"answer": 0.125}] * 3 + [{"answer": 0.125, "watch": 0.5}]
    assert WATCH.ended(state) == "success"


def test_another_place_is_too_late() -> None:
    state = WATCH.build(7)
    wrong = next(phrase for phrase in WATCH.legal(state) if not phrase.endswith(WATCH.caller(state)))
    assert WATCH.apply(state, wrong).ended == "late"
    assert WATCH.legal(state) == ()
'''


@dataclass(frozen=True)
class Written:
    """A scenario's file, and what `scenarios.get` takes for it from that folder."""

    path: Path
    spec: str


def write_new(name: str, folder: Path) -> tuple[Written, Path]:
    """Writes NAME.py and test_NAME.py. Raises ScenarioError for a name that can't be one, a folder that isn't there,
    and a file that is."""
    if not (name.isascii() and name.isidentifier() and name == name.lower()):
        raise ScenarioError(f"new {name!r}: small letters, digits and _, as in night_watch")
    if name in scenarios.names():
        raise ScenarioError(f"new {name!r}: there is a scenario of that name; choose another")
    if keyword.iskeyword(name) or importlib.util.find_spec(name) is not None:
        raise ScenarioError(f"new {name!r}: Python has a word or a module of that name already; choose another")
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
