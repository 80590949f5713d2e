"""What the village's tests share: the whole language, a second book-keeping over a world, ways to play."""

from collections.abc import Iterable

from hypothesis import settings

from game.sim.cast import CHARACTERS, ITEMS, PLACES
from game.sim.world import World
from scenarios import get

SETTINGS = settings(derandomize=True, deadline=None)  # the same examples in every run: a red test stays red
FETCH = get("fetch_item")
TOPS = {term.name: term.top for term in FETCH.reward_terms}
DIFFICULTIES = next(option.choices for option in FETCH.options if option.name == "difficulty")
WITHOUT = next(option.choices for option in FETCH.options if option.name == "without")

LANGUAGE = (
    *(f"go to the {place}" for place in PLACES),
    *(f"take the {item}" for item in ITEMS),
    *(f"drop the {item}" for item in ITEMS),
    *(f"give the {item} to {person}" for item in ITEMS for person in CHARACTERS),
    *(f"ask {person}" for person in CHARACTERS),
    "wait",
)  # every phrase that can be legal somewhere


def all_items(world: World) -> list[str]:
    """Every item that is anywhere, as often as it is there, sorted."""
    state = world.state
    carried = [person.carries for person in state.people if person.carries]
    held = [state.runner.hold] if state.runner.hold else []
    return sorted([*state.lying, *carried, *held])


def spots(world: World) -> list[tuple[int, int]]:
    """Where everybody stands, the runner first."""
    runner = world.state.runner
    return [(runner.x, runner.y), *((person.x, person.y) for person in world.state.people)]


def reached(world: World) -> dict[str, float]:
    """What each reward term (time left out) should have paid by now, from the state alone."""
    state = world.state
    item, runner = state.errand.item, state.runner
    if state.delivered:
        return {name: TOPS[name] for name in ("find", "hold", "deliver")}
    holders = [person.name for person in state.people if person.carries == item]
    whereabouts = [state.lying[item]] if item in state.lying else holders
    held = runner.hold == item
    found = held or runner.item_at in whereabouts
    return {"find": TOPS["find"] * found, "hold": TOPS["hold"] * held, "deliver": 0.0}


def play_picks(world: World, picks: Iterable[int]) -> None:
    """Plays legal actions, the n-th pick choosing among those that are legal then; stops at the end."""
    for pick in picks:
        if FETCH.ended(world):
            return
        legal = FETCH.legal(world)
        FETCH.apply(world, legal[pick % len(legal)])


def play_teacher(seed: int, options: dict[str, str] | None = None, turns: int = 100) -> World:
    """The world after the teacher's play to the end, or after so many turns."""
    world = FETCH.build(seed, options)
    memory = None
    for _ in range(turns):
        if FETCH.ended(world):
            break
        phrase, memory = FETCH.teacher(memory, FETCH.observation(world))
        FETCH.apply(world, phrase)
    return world
