"""Writes the golden playthrough again: python -m tests.game.golden.regenerate

Every value that the scenario gives at every turn, for people to read. A change of a rule shows as a
difference in it: look whether it is the one that was meant, and write the file again.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any

from scenarios import get

SEED = 7
GOLDEN = Path(__file__).with_name("fetch_item_seed_7.txt")
DETOURS = {0: "sing a song", 1: "wait", 3: "fourth", 4: "last", 6: "take the moon"}  # turn -> what is played


def playthrough() -> str:
    """The file's text: the teacher's play of one seed, with a few detours, illegal ones among them."""
    scenario = get("fetch_item")
    options = scenario.resolve_options({})
    lines = [
        "The golden playthrough of fetch_item. Written by: python -m tests.game.golden.regenerate",
        "",
        f"version     {scenario.version}",
        f"seed        {SEED}",
        f"options     {_pairs(options)}",
        f"choices     {'; '.join(o.name + ': ' + ', '.join(o.choices) for o in scenario.options)}",
        f"turn cap    {scenario.turn_cap}",
        f"splits      {'; '.join(f'{name}: {s.start}-{s.stop - 1}' for name, s in scenario.splits.items())}",
        f"reward      {'; '.join(f'{t.name}: {t.low:g} to {t.top:g}' for t in scenario.reward_terms)}",
        f"prefix      {scenario.prefix}",
        f"vocabulary  {' '.join(scenario.vocabulary)}",
        "",
    ]
    state = scenario.build(SEED)
    memory: Any = None
    turn = 0
    while scenario.ended(state) is None:
        legal = scenario.legal(state)
        taught, memory = scenario.teacher(memory, scenario.observation(state))
        played = {"fourth": legal[3], "last": legal[-1]}.get(DETOURS.get(turn, ""), DETOURS.get(turn, taught))
        lines += [f"turn {turn}", *_standing(scenario, state)]
        lines += [f"  oracle       {scenario.oracle(state)}", f"  teacher      {taught}"]
        outcome = scenario.apply(state, played)
        lines += [
            f"  played       {played}",
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


def _pairs(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


if __name__ == "__main__":
    GOLDEN.write_text(playthrough(), encoding="utf-8")
    print(f"wrote {GOLDEN.name}")
