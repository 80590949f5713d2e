"""Writes the golden playthroughs again: python -m tests.scenarios.golden.regenerate

One file a scenario: every value that it gives at every turn, for people to read. A change of a rule shows as a
difference in it: look whether it is the one that was meant, and write the files again.
"""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from scenarios import get

COMMAND = "python -m tests.scenarios.golden.regenerate"
FOLDER = Path(__file__).parent


class Play(NamedTuple):
    """What is played: a seed, options, and on which turn something else than the teacher's choice: a phrase, "fourth"
    or "last" of the legal ones."""

    seed: int = 7
    options: Mapping[str, str] = {}
    detours: Mapping[int, str] = {}


PLAYS = {
    "sudoku": Play(detours={0: "row 1 column 1 put 5", 2: "sing a song"}),
    "sudoku_wrong": Play(options={"difficulty": "easy", "marks": "no"}, detours={2: "last"}),
    "sudoku_code": Play(),
    "tile_2048": Play(options={"target": "32"}, detours={0: "sing a song", 1: "last", 4: "UP"}),
    "trade_chain": Play(detours={0: "sing a song", 1: "wait", 3: "fourth"}),
}
SCENARIO = {"sudoku_wrong": "sudoku"}  # a second file of a scenario


def playthrough(name: str, play: Play, command: str = COMMAND) -> str:
    """The file's text: the teacher's play of one seed, with a few detours, illegal ones among them."""
    scenario = get(name)
    options = scenario.resolve_options(play.options)
    lines = [
        f"The golden playthrough of {name}. Written by: {command}",
        "",
        f"version     {scenario.version}",
        f"seed        {play.seed}",
        f"options     {_pairs(options)}",
        f"choices     {'; '.join(o.name + ': ' + ', '.join(o.choices) for o in scenario.options)}",
        f"turn cap    {scenario.turn_cap}",
        f"splits      {'; '.join(f'{name}: {s.start}-{s.stop - 1}' for name, s in scenario.splits.items())}",
        f"reward      {'; '.join(f'{t.name}: {t.low:g} to {t.top:g}' for t in scenario.reward_terms)}",
        f"prefix      {scenario.prefix}",
        f"vocabulary  {' '.join(scenario.vocabulary)}",
        "",
    ]
    state = scenario.build(play.seed, options)
    memory: Any = None
    turn = 0
    while scenario.ended(state) is None:
        legal = scenario.legal(state)
        taught, memory = scenario.teacher(memory, scenario.observation(state))
        detour = play.detours.get(turn, "")
        played = legal[3] if detour == "fourth" else legal[-1] if detour == "last" else detour or taught
        lines += [f"turn {turn}", *_standing(scenario, state)]
        lines += [f"  oracle       {_text(scenario.oracle(state))}", f"  teacher      {_text(taught)}"]
        outcome = scenario.apply(state, played)
        lines += [
            f"  played       {_text(played)}",
            f"  outcome      {outcome.kind}: {outcome.text}",
            f"  ticks        {outcome.ticks}",
            f"  terms        {_pairs({name: f'{value:g}' for name, value in sorted(outcome.terms.items())})}",
            "",
        ]
        turn += 1
    lines += [f"ended: {scenario.ended(state)}", *_standing(scenario, state), ""]
    return "\n".join(lines)


def _standing(scenario: Any, state: Any) -> list[str]:
    return [
        f"  observation  {scenario.observation(state)}",
        f"  legal        {' | '.join(scenario.legal(state))}",
        f"  digest       {_pairs(scenario.digest(state))}",
        f"  dump         {blake2b(scenario.dump(state), digest_size=8).hexdigest()}",
    ]


def _pairs(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _text(said: str) -> str:
    """A text of several lines, each below the other."""
    return said.rstrip("\n").replace("\n", "\n               ")


def path_of(play: str) -> Path:
    return FOLDER / f"{play}.txt"


if __name__ == "__main__":
    for play_name, what in PLAYS.items():
        path_of(play_name).write_text(playthrough(SCENARIO.get(play_name, play_name), what), encoding="utf-8")
        print(f"wrote {path_of(play_name).name}")
