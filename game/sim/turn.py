"""One turn: an intent of the errand-runner and the ticks that it takes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from game.sim.actions import Action
from game.sim.observation import UNKNOWN
from game.sim.people import lay, look_around, step_people, try_snatch
from game.sim.rng import chance
from game.sim.world import World

WAIT_TICKS = 5
OnTick = Callable[[World], None]


class Result(msgspec.Struct, frozen=True):
    """How a turn went: a kind of `OUTCOME_KINDS`, a line for people, and how many ticks it took."""

    kind: str
    text: str
    ticks: int


def play_turn(world: World, phrase: str, on_tick: OnTick | None = None) -> Result:
    """Plays `phrase` as the runner's intent. What is not legal uses up the turn as "illegal"; nothing replaces it.

    `on_tick(world)` is called after every tick, for a picture of the way; it must not change the world.
    """
    state = world.state
    action = world.allowed(phrase)
    before = state.tick
    if action is None:
        kind, text = "illegal", f"{phrase!r} is not something that can be done now"
        _tick(world, on_tick)
    else:
        kind, text = _PLAY[action.verb](world, action, on_tick)
    state.turn += 1
    state.runner.last = kind
    world.remember()
    return Result(kind, text, state.tick - before)


def _tick(world: World, on_tick: OnTick | None) -> str:
    """One tick of everybody; the place that Pip ran to when he robbed the runner in it, else ""."""
    world.state.tick += 1
    step_people(world)
    robbed_to = try_snatch(world) if world.state.runner.hold else ""
    if on_tick is not None:
        on_tick(world)
    return robbed_to


def _robbed(world: World, place: str) -> tuple[str, str]:
    runner = world.state.runner
    pip = world.person("Pip")
    assert pip is not None
    if pip.carries == world.state.errand.item:
        runner.item_at = place
        runner.asked = []
    return "robbed", f"Pip snatched the {pip.carries} and ran to the {place}"


def _go(world: World, action: Action, on_tick: OnTick | None) -> tuple[str, str]:
    state = world.state
    runner = state.runner
    ways = world.ways
    onward, width, spot = ways.onward[action.place], ways.width, ways.spots[action.place]
    near_before = {p.name: True for p in world.beside_runner()}
    while True:
        runner.x, runner.y = onward[runner.y * width + runner.x]
        robbed = _tick(world, on_tick)
        if robbed:
            return _robbed(world, robbed)
        if (runner.x, runner.y) == spot:
            return "arrived", f"reached the {action.place}"
        if state.errand.item in state.lying:
            continue  # whoever is met now matters to nobody
        for person in state.people:
            has_it = person.carries == state.errand.item
            if not has_it and (person.name != state.errand.asker or runner.hold != state.errand.item):
                continue
            if not world.is_beside_runner(person) or person.name in near_before:
                continue
            if person.dest == action.place and world.arrived(person):
                continue  # it waits where the runner is going
            said = f"with the {person.carries}" if has_it else "on the way"
            return "met", f"met {person.name} {said}"


def _take(world: World, action: Action, on_tick: OnTick | None) -> tuple[str, str]:
    state = world.state
    _tick(world, on_tick)  # others may be quicker
    if state.lying.get(action.item) != world.place_of_runner():
        return "gone", f"the {action.item} is gone"
    del state.lying[action.item]
    state.runner.hold = action.item
    if action.item == state.errand.item:
        state.runner.asked = []
    return "taken", f"took the {action.item}"


def _drop(world: World, action: Action, on_tick: OnTick | None) -> tuple[str, str]:
    lay(world, action.item, world.place_of_runner())
    world.state.runner.hold = ""
    _tick(world, on_tick)
    return "dropped", f"put down the {action.item}"


def _give(world: World, action: Action, on_tick: OnTick | None) -> tuple[str, str]:
    errand = world.state.errand
    if action.person == errand.asker and action.item == errand.item:
        world.state.runner.hold = ""
        world.state.delivered = True
        person = world.person(action.person)
        assert person is not None
        person.carries, spare = action.item, person.carries
        if spare:
            lay(world, spare, person.dest)
        _tick(world, on_tick)
        return "delivered", f"{action.person} has the {action.item}. Thank you!"
    robbed = _tick(world, on_tick)
    if robbed:
        return _robbed(world, robbed)
    if action.person == errand.asker:
        return "refused", f"{action.person}: I asked for the {errand.item}, not the {action.item}"
    return "refused", f"{action.person}: a {action.item}? I asked for nothing"


def _ask(world: World, action: Action, on_tick: OnTick | None) -> tuple[str, str]:
    state = world.state
    runner = state.runner
    errand = state.errand
    person = world.person(action.person)
    assert person is not None
    look_around(world, person)
    has_it = runner.hold == errand.item
    if action.person not in runner.asked:
        runner.asked.append(action.person)
    here = world.place_of_runner()
    kind, text = "nothing", f"{person.name}: no idea"
    if person.carries == errand.item and not runner.hold:
        person.carries = ""
        runner.hold = errand.item
        runner.asked = []
        kind, text = "handed", f"{person.name} handed over the {errand.item}"
    elif not has_it:
        holder = next((p for p in state.people if p.carries == errand.item and p is not person), None)
        place = person.knows.get(errand.item, "")
        if holder is not None and _saw(world, person.name, "holder"):
            place = holder.dest
        if place and place != here and place != runner.item_at:
            runner.item_at = place
            kind, text = "told", f"{person.name}: the {errand.item}? Try the {place}"
    elif runner.asker_at == UNKNOWN:
        asker = world.person(errand.asker)
        if asker is not None and asker.dest != here and _saw(world, person.name, "asker"):
            runner.asker_at = asker.dest
            kind, text = "told", f"{person.name}: {errand.asker} is at the {asker.dest}"
    robbed = _tick(world, on_tick)
    if robbed:
        return _robbed(world, robbed)
    return kind, text


def _saw(world: World, name: str, what: str) -> bool:
    """Whether a character saw where somebody went. Ada, who sends people about, always knows."""
    return name == "Ada" or chance(60, world.state.seed, f"saw {what}", 0, name, world.state.snatched)


def _wait(world: World, action: Action, on_tick: OnTick | None) -> tuple[str, str]:
    for _ in range(WAIT_TICKS):
        robbed = _tick(world, on_tick)
        if robbed:
            return _robbed(world, robbed)
    return "waited", "waited a little"


_PLAY = {"go": _go, "take": _take, "drop": _drop, "give": _give, "ask": _ask, "wait": _wait}
