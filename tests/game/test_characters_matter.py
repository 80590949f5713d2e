"""The other characters are not scenery: without any one of them, errands go otherwise."""

from collections import Counter
from functools import cache

import pytest

from game.sim.cast import CHARACTERS
from game.sim.world import World
from tests.game.village import FETCH, play_teacher

SEEDS = FETCH.splits["train"][:200]
SHARE = 0.05


@cache
def errand(seed: int, without: str) -> tuple[str | None, int]:
    """How the teacher's play ends, and after how many turns."""
    world = play_teacher(seed, {"without": without})
    return FETCH.ended(world), world.state.turn


@pytest.mark.parametrize("name", CHARACTERS)
def test_leaving_a_character_out_changes_how_errands_go(name: str) -> None:
    changed = {seed for seed in SEEDS if errand(seed, name) != errand(seed, "nobody")}
    others = [seed for seed in SEEDS if FETCH.build(seed).state.errand.asker != name]
    assert len(others) > len(SEEDS) / 2
    assert len(changed) >= SHARE * len(SEEDS)
    assert len(changed.intersection(others)) >= SHARE * len(others), f"{name} matters only as the asker"


@pytest.mark.parametrize("name", CHARACTERS)
def test_every_errand_can_still_be_run_without_it(name: str) -> None:
    for seed in SEEDS[:60]:
        world = FETCH.build(seed, {"without": name})
        assert world.person(name) is None
        while not FETCH.ended(world):
            FETCH.apply(world, FETCH.oracle(world))
        assert world.state.delivered, f"seed {seed} without {name}"


def deeds(seed: int) -> set[str]:
    """What the characters did of their own accord, or answered, while the teacher ran the errand."""
    world = FETCH.build(seed)
    item, asker = world.state.errand.item, world.state.errand.asker
    start = {person.name: person.dest for person in world.state.people}
    done: set[str] = set()

    def watch(now: World) -> None:
        people = {person.name: person for person in now.state.people}
        done.update(f"{name} moved" for name, person in people.items() if person.dest != start[name])
        if not now.state.delivered:
            done.update(f"{name} had it" for name, person in people.items() if person.carries == item)

    while not FETCH.ended(world):
        phrase, _ = FETCH.teacher(None, FETCH.observation(world))
        outcome = FETCH.apply(world, phrase, watch)
        if outcome.kind in ("told", "handed"):
            done.add(phrase.replace("ask", outcome.kind + " by"))
    if f"{asker} moved" in done:
        done.add("Ada called the asker away")
    return done


def test_everybody_does_what_they_are_there_for() -> None:
    counts = Counter(deed for seed in SEEDS for deed in deeds(seed))
    share = {deed: count / len(SEEDS) for deed, count in counts.items()}
    for deed in ("Ada called the asker away", "Pip had it", "Olin had it", "handed by Olin", "handed by Pip"):
        assert share.get(deed, 0) >= SHARE, deed
    for name in CHARACTERS:
        assert share[f"{name} moved"] >= SHARE
        assert share.get(f"told by {name}", 0) >= 0.02, name
