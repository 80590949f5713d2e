"""The scenes of an episode are what the world was; what is not the village, or has changed, has none."""

from __future__ import annotations

import struct
from itertools import pairwise

import scenarios
from game.sim.cast import CHARACTERS, ITEMS
from scenarios.pictures import ground, scenes

FETCH = scenarios.get("fetch_item")


def played(seed: int) -> tuple[list[str], list[dict[str, str]], list]:
    """Phrases of the oracle, the digest after each, and the states before each and at the end."""
    state = FETCH.build(seed)
    phrases, digests, states = [], [], [FETCH.clone(state)]
    while FETCH.ended(state) is None:
        phrases.append(FETCH.oracle(state))
        FETCH.apply(state, phrases[-1])
        digests.append(FETCH.digest(state))
        states.append(FETCH.clone(state))
    return phrases, digests, states


def test_a_scene_shows_everybody_and_everything_where_it_is() -> None:
    phrases, digests, states = played(5)
    found = scenes(FETCH, 5, {}, phrases, digests)
    assert found is not None and len(found) == len(phrases) + 1
    for scene, state in zip(found, states, strict=True):
        runner = state.state.runner
        assert scene.figures[0] == ("runner", runner.x, runner.y, runner.hold)
        assert [figure.name for figure in scene.figures[1:]] == [person.name for person in state.state.people]
        assert {(name, state.map.place_at(x, y).name) for name, x, y in scene.lying} == set(state.state.lying.items())
        assert (scene.wanted, scene.asker) == (state.state.errand.item, state.state.errand.asker)


def test_a_path_leads_from_where_the_runner_is_to_where_it_is_next() -> None:
    phrases, _, _ = played(5)
    found = scenes(FETCH, 5, {}, phrases)
    assert found is not None
    for scene, after in pairwise(found):
        assert scene.path[0] == scene.figures[0][1:3]
        assert scene.path[-1] == after.figures[0][1:3]
        steps = pairwise(scene.path)
        assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) <= 1 for a, b in steps)
    assert found[-1].path == ()


def test_rules_that_have_changed_since_give_no_picture() -> None:
    phrases, digests, _ = played(5)
    digests[1] = {**digests[1], "npc": "0" * 16}
    assert scenes(FETCH, 5, {}, phrases, digests) is None


def test_a_scenario_outside_the_village_gives_no_picture() -> None:
    other = scenarios.get("tile_2048")
    state = other.build(3)
    assert scenes(other, 3, {}, [other.legal(state)[0]]) is None


def test_the_ground_has_a_picture_of_everything_that_is_drawn() -> None:
    shown = ground()
    assert {len(layer) for layer in shown.layers} == {shown.columns * shown.rows}
    assert set(shown.pictures) == {"tiles", "items", "runner", *(name.lower() for name in CHARACTERS)}
    sizes = {name: struct.unpack(">II", data[16:24]) for name, data in shown.pictures.items()}
    wide, tall = sizes["tiles"]
    assert wide == shown.sheet_columns * shown.tile
    assert max(number for layer in shown.layers for number in layer) <= shown.sheet_columns * (tall // shown.tile)
    assert shown.items == ITEMS and sizes["items"] == (16 * len(ITEMS), 16)
    assert all(sizes[name.lower()][1] % 4 == 0 for name in CHARACTERS)  # four rows: the ways that they look
