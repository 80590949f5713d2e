"""What people say of themselves, read from the ticks of a turn: the same ticks give the same words. No pygame.

Only pictures come of this. Where a line is picked out of several, the dice are a checksum of who and when, apart from
the world's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from game.sim.cast import PLACES, ROUTINES, RUNNER
from game.view.snapshot import Figure, Snapshot
from recorder import Turn
from scenarios.village_map import load_village

LASTS_TICKS = 14  # two seconds at speed x1


class Remark(NamedTuple):
    """Words over a head."""

    who: str
    words: str


ARRIVES = {
    ("Nell", "bakery"): ("Fresh bread!", "Open again!"),
    ("Nell", "mill"): ("Two sacks of flour.", "Flour, please."),
    ("Mara", "inn"): ("Soup is ready!", "The inn is open."),
    ("Mara", "market"): ("Onions, eggs, ale …", "How much for that?"),
    ("Tom", "dock"): ("Now, quiet, fish.", "They bite today."),
    ("Tom", "market"): ("Fresh fish!", "Who wants a trout?"),
    ("Ada", "tower"): ("All in order.", "What a view."),
    ("Ada", "chapel"): ("Ding, dong!", "Is everyone here?"),
}
LEAVES = {
    ("Nell", "bakery"): ("Closed! Off for flour.", "Back soon!"),
    ("Nell", "mill"): ("Home to bake.",),
    ("Mara", "inn"): ("To the market.",),
    ("Tom", "dock"): ("Off to sell these.",),
}
IDLE = {
    "Mara": ("Such a day.", "Who pays for all this?"),
    "Tom": ("Was that a bite?", "La la la …"),
    "Nell": ("Mind the oven.", "Who ate a bun?"),
    "Bram": ("Move along.", "All quiet."),
    "Pip": ("Heh heh.", "I saw nothing!"),
    "Ada": ("Hm, hm.", "Rules are rules."),
    "Olin": ("Ribbons! Pans!", "Nice and cheap!"),
}


def remarks(trace: Sequence[Snapshot], tick: int) -> tuple[Remark, ...]:
    """What was said in the ticks up to `tick` of the trace, the latest of each, the newest last."""
    said: dict[str, str] = {}
    for at in range(max(0, tick - LASTS_TICKS), min(tick, len(trace) - 1)):
        for remark in _between(trace[at], trace[at + 1]):
            said.pop(remark.who, None)
            said[remark.who] = remark.words
    return tuple(Remark(who, words) for who, words in said.items())


def idle(people: Snapshot, turn: int, left: int) -> tuple[Remark, ...]:
    """While the errand-runner thinks: the asker's wish at first, later its impatience, or somebody's mumbling."""
    if turn == 0:
        return (Remark(people.asker, f"Bring me the {people.wanted}, please!"),)
    dice = crc32(f"{people.tick} idle".encode())
    if left <= 8 and dice % 2:
        late = f"Still no {people.wanted} …" if left > 3 else "I could have gone myself!"
        return (Remark(people.asker, late),)
    resting = [figure for figure in people.figures if figure.name in IDLE and figure.name != people.asker]
    if not resting or dice % 3 == 0:
        return ()
    who = resting[dice // 6 % len(resting)].name
    return (Remark(who, _one(IDLE[who], who, people.tick)),)


def spoken(turn: Turn, people: Snapshot, before: Snapshot | None = None) -> Remark:
    """Who says an outcome: "Mara: no idea" is Mara's, the rest is the errand-runner's own, fallbacks among it.

    `people` are shown at the end of the turn, `before` at its beginning.
    """
    text = turn.outcome_text
    if turn.fallback:
        return Remark(RUNNER, f"I was daydreaming … {text}")
    who, colon, words = text.partition(": ")
    if colon and people.figure(who) is not None:
        return Remark(who, words[:1].upper() + words[1:])
    if turn.outcome_kind == "delivered":
        return Remark(people.asker, f"My {people.wanted}! Thank you!")
    if turn.outcome_kind == "handed":
        giver = turn.executed.removeprefix("ask ")
        return Remark(giver if people.figure(giver) is not None else RUNNER, f"The {people.wanted}? Here, take it.")
    return Remark(RUNNER, _of_runner(turn, people, before or people) or text[:1].upper() + text[1:])


def plight(turn: Turn, people: Snapshot) -> str:
    """What a model that can speak is told, to put the turn's line in its own words; "" where the line holds facts that
    must be said as they are."""
    wanted, runner = people.wanted, "The errand-runner"
    place = turn.executed.removeprefix("go to the ")
    told = {
        "delivered": f"{people.asker} thanks the errand-runner for the {wanted}",
        "robbed": f"{runner} grumbles that Pip has run off with the {wanted}",
        "gone": f"{runner} grumbles that the {wanted} is not there any more",
        "taken": f"{runner} is glad to have found a {people.figures[0].carries}",
        "waited": f"{runner} waits and is bored",
    }
    if turn.outcome_kind == "arrived" and (wanted, place) not in people.lying and people.figures[0].carries != wanted:
        return f"{runner} grumbles that there is no {wanted} at the {place}"
    return "" if turn.fallback else told.get(turn.outcome_kind, "")


def _of_runner(turn: Turn, people: Snapshot, before: Snapshot) -> str:
    """How the errand-runner puts what came of it; "" where the record's own words do."""
    runner, wanted = people.figures[0], people.wanted
    kind = turn.outcome_kind
    if kind == "robbed":
        return f"Hey! {turn.outcome_text}!"
    if kind == "illegal":
        held, pip = before.figures[0].carries, people.figure("Pip")
        if held and pip is not None and pip.carries == held:
            return f"I can't do that! And Pip has my {held}!"
        return "I can't do that!"
    if kind == "gone":
        return f"{turn.outcome_text[:1].upper()}{turn.outcome_text[1:]}! It lay here just now."
    if kind == "taken":
        return f"Got the {wanted}!" if runner.carries == wanted else f"A {runner.carries}! That will do. Or not?"
    if kind == "dropped":
        return "Not this one."
    if kind == "waited":
        return "…"
    if kind == "arrived":
        return _at(turn.executed.removeprefix("go to the "), runner, people)
    return ""


def _at(place: str, runner: Figure, people: Snapshot) -> str:
    here = [figure.name for figure in people.figures[1:] if abs(figure.x - runner.x) + abs(figure.y - runner.y) <= 2]
    if runner.carries == people.wanted:
        return f"{people.asker}! Your {people.wanted}!" if people.asker in here else f"Where is {people.asker}?"
    if (people.wanted, place) in people.lying:
        return f"There is the {people.wanted}!"
    if place == "bakery" and "Nell" not in here and people.figure("Nell") is not None:
        return "Closed. Of course."
    alone = (f"No {people.wanted}. Nobody either.", f"No {people.wanted} at the {place}.", "Hello? Anybody here?")
    return "" if here else _one(alone, RUNNER, people.tick)


def _between(before: Snapshot, after: Snapshot) -> list[Remark]:
    said: list[Remark] = []
    now = {figure.name: figure for figure in after.figures}
    for figure in before.figures[1:]:
        later = now.get(figure.name)
        if later is not None:
            said += _things(figure, later, before, after) or _ways(figure, later, before, after)
    return said


def _things(figure: Figure, later: Figure, before: Snapshot, after: Snapshot) -> list[Remark]:
    """What is said when something is taken, snatched or put down."""
    if later.carries and not figure.carries:
        if before.figures[0].carries == later.carries and figure.name == "Pip":
            return [Remark("Pip", "Catch me if you can!")]
        if later.carries in dict(before.lying):
            mine = ("Finders keepers!", "Mine now!") if figure.name == "Pip" else (f"This {later.carries} will sell.",)
            return [Remark(figure.name, _one(mine, figure.name, after.tick))]
    if figure.carries and not later.carries and figure.carries in dict(after.lying):
        if figure.name == "Pip":
            return [Remark("Pip", f"The {figure.carries}? Boring.")]
        return [Remark(figure.name, f"{figure.carries.capitalize()} for sale!")]
    return []


def _ways(figure: Figure, later: Figure, before: Snapshot, after: Snapshot) -> list[Remark]:
    """What is said on setting out and on arriving."""
    who = figure.name
    moved = (figure.x, figure.y) != (later.x, later.y)
    ada = before.figure("Ada")
    if figure.dest != later.dest:
        if who == after.asker and ada is not None and (ada.x, ada.y) == (figure.x, figure.y):
            return [Remark("Ada", f"{who}, to the {later.dest}, please!"), Remark(who, "Coming, coming …")]
        asker = after.figure(after.asker)
        if who == "Ada" and asker is not None and later.dest == asker.dest and later.dest not in ROUTINES["Ada"]:
            return [Remark(who, f"Where is {after.asker}?")]
        return _line(LEAVES, who, figure.dest, after.tick)
    if moved and later.dest in PLACES and _stands(later, after) and not _stands(figure, before):
        pip = after.figure("Pip")
        if who == "Bram" and pip is not None and (pip.x, pip.y) == (later.x, later.y):
            return [Remark("Bram", "I watch you, Pip."), Remark("Pip", "I did nothing!")]
        if who == "Bram" and crc32(f"{after.tick} round".encode()) % 3 == 0:
            return [Remark("Bram", f"All quiet at the {later.dest}.")]
        return _line(ARRIVES, who, later.dest, after.tick)
    return []


def _stands(figure: Figure, people: Snapshot) -> bool:
    """Whether it is where it wants to be."""
    place = load_village().place(figure.dest)
    return (place.x, place.y) == (figure.x, figure.y)


def _line(lines: Mapping[tuple[str, str], tuple[str, ...]], who: str, place: str, tick: int) -> list[Remark]:
    known = lines.get((who, place))
    return [Remark(who, _one(known, who, tick))] if known else []


def _one(lines: tuple[str, ...], who: str, tick: int) -> str:
    return lines[crc32(f"{who} {tick}".encode()) % len(lines)]
