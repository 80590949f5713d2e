"""What a page needs to draw an episode turn by turn: ground, pictures, and where everybody stood. No pygame.

Whatever is not played in the village has no picture: a page shows its observations instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from pytiled_parser import parse_map
from pytiled_parser.layer import TileLayer

from game.sim.cast import CHARACTERS, ITEMS, RUNNER
from game.sim.world import World
from scenarios.contract import Scenario
from scenarios.village_map import GID_MASK, load_village

Tile = tuple[int, int]  # x, y


class Figure(NamedTuple):
    """Somebody on a tile; `carries` is an item or "". The errand-runner is called "runner"."""

    name: str
    x: int
    y: int
    carries: str


class Scene(NamedTuple):
    """The village before a turn; `path` holds the tiles that the errand-runner walks over in it, the first one its own.
    The last scene of an episode has no path."""

    figures: tuple[Figure, ...]
    lying: tuple[tuple[str, int, int], ...]  # item, x, y
    wanted: str
    asker: str
    path: tuple[Tile, ...]


class Ground(NamedTuple):
    """The village's map as layers of tile numbers (row-major, 0 for none), bottom first, and its pictures as PNG files:
    `tiles` (the sheet, `sheet_columns` tiles wide), `items` (in the order of `items`), and one for each character."""

    columns: int
    rows: int
    tile: int
    sheet_columns: int
    layers: tuple[tuple[int, ...], ...]
    places: tuple[tuple[str, int, int], ...]
    items: tuple[str, ...]
    pictures: dict[str, bytes]


def scenes(scenario: Scenario, seed: int, options: Mapping[str, str], phrases: Sequence[str],
           digests: Sequence[Mapping[str, str]] = ()) -> list[Scene] | None:  # fmt: skip
    """Plays `phrases` again and says what there was to see: a scene before each, and one after the last.

    None for a scenario that is not played in the village, and where a digest of `digests` (one after each phrase)
    differs: the rules have changed since, so the picture would show what never was.
    """
    state = scenario.build(seed, options)
    if not isinstance(state, World):
        return None
    found = []
    for number, phrase in enumerate(phrases):
        before = _scene(state)
        path = [(state.state.runner.x, state.state.runner.y)]
        scenario.apply(state, phrase, on_tick=lambda world, path=path: path.append(_runner(world)))  # type: ignore[misc]
        found.append(before._replace(path=tuple(path)))
        if number < len(digests) and dict(digests[number]) != scenario.digest(state):
            return None
    return [*found, _scene(state)]


@cache
def ground() -> Ground:
    """The map and the pictures that ship with the game."""
    with resources.as_file(resources.files("assets")) as assets:
        tiled = parse_map(assets / "maps" / "village.tmj")
        layers = [layer for layer in tiled.layers if isinstance(layer, TileLayer) and layer.data and layer.visible]
        (tileset,) = tiled.tilesets.values()
        pictures = {"tiles": (assets / "maps" / str(tileset.image)).read_bytes()}
        for name in ("items", RUNNER, *(name.lower() for name in CHARACTERS)):
            pictures[name] = (assets / "sprites" / f"{name}.png").read_bytes()
    return Ground(
        int(tiled.map_size.width), int(tiled.map_size.height), int(tiled.tile_size.width), int(tileset.columns),
        tuple(tuple(gid & GID_MASK for row in layer.data or [] for gid in row) for layer in layers),
        tuple((place.name, place.x, place.y) for place in load_village().places), ITEMS, pictures,
    )  # fmt: skip


def _scene(world: World) -> Scene:
    state = world.state
    runner = Figure(RUNNER, state.runner.x, state.runner.y, state.runner.hold)
    people = tuple(Figure(person.name, person.x, person.y, person.carries) for person in state.people)
    lying = []
    for item, name in state.lying.items():
        place = world.map.place(name)
        lying.append((item, place.x, place.y))
    return Scene((runner, *people), tuple(lying), state.errand.item, state.errand.asker, ())


def _runner(world: Any) -> Tile:
    return world.state.runner.x, world.state.runner.y
