"""The other characters are not scenery: without any one of them, errands go otherwise."""

from functools import cache

import pytest

from game.sim.cast import CHARACTERS
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
