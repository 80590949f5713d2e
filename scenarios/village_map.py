"""Read the village's map (assets/maps/village.tmj, a Tiled map) into the simulation's integers."""

from functools import cache
from importlib import resources
from pathlib import Path

from pytiled_parser import UnknownFormat, parse_map
from pytiled_parser.layer import ObjectLayer, TileLayer
from pytiled_parser.tiled_map import TiledMap
from pytiled_parser.tiled_object import Point

from game.sim.village_map import BLOCKED, FREE, UNREACHABLE, MapError, Place, VillageMap

PLACE_NAMES = ("dock", "inn", "market", "mill", "well", "chapel", "forge", "bakery", "garden", "tower")
PLACES_LAYER = "places"
GID_MASK = 0x1FFFFFFF  # the upper three bits of a tile number say how it is flipped


@cache
def load_village() -> VillageMap:
    """The map that ships with the game; places in the order of PLACE_NAMES."""
    with resources.as_file(resources.files("assets") / "maps") as folder:
        return read_map(folder / "village.tmj")


def read_map(path: Path, names: tuple[str, ...] = PLACE_NAMES) -> VillageMap:
    """Read a Tiled map. A tile is free unless a layer holds a tile whose property "walkable" is false.

    Raises MapError, in one line that names the file, when it can't be read, when a place of `names` is
    missing, is there twice or stands on a blocked tile, or when no way leads from one place to another.
    """
    try:
        tiled = parse_map(path)
    except (OSError, UnknownFormat, KeyError, TypeError) as error:
        raise MapError(f"{path}: not a Tiled map that can be read: {error}") from error
    if tiled.infinite:
        raise MapError(f"{path}: the map is infinite; switch that off in Tiled's map properties")
    width, height = int(tiled.map_size.width), int(tiled.map_size.height)
    village = VillageMap(width, height, _walkable(tiled, width, height), _places(tiled, path, names))
    _check(village, path)
    return village


def _walkable(tiled: TiledMap, width: int, height: int) -> bytes:
    walls = {
        firstgid + number
        for firstgid, tileset in tiled.tilesets.items()
        for number, tile in (tileset.tiles or {}).items()
        if tile.properties and tile.properties.get("walkable") is False
    }
    free = bytearray([FREE]) * (width * height)
    for layer in tiled.layers:
        if isinstance(layer, TileLayer) and layer.data:
            for y, row in enumerate(layer.data):
                for x, gid in enumerate(row):
                    if gid & GID_MASK in walls:
                        free[y * width + x] = BLOCKED
    return bytes(free)


def _places(tiled: TiledMap, path: Path, names: tuple[str, ...]) -> tuple[Place, ...]:
    points = [
        thing
        for layer in tiled.layers
        if isinstance(layer, ObjectLayer) and layer.name == PLACES_LAYER
        for thing in layer.tiled_objects
        if isinstance(thing, Point)
    ]
    places = []
    for name in names:
        found = [point for point in points if point.name == name]
        if len(found) != 1:
            count = f"{len(found)} points named {name!r}"
            raise MapError(f"{path}: object layer {PLACES_LAYER!r} has {count}; it needs exactly one")
        x = int(found[0].coordinates.x // tiled.tile_size.width)
        y = int(found[0].coordinates.y // tiled.tile_size.height)
        places.append(Place(name, x, y))
    return tuple(places)


def _check(village: VillageMap, path: Path) -> None:
    for place in village.places:
        if not village.free(place.x, place.y):
            tile = f"tile ({place.x}, {place.y})"
            raise MapError(f"{path}: place {place.name!r} stands on {tile}, which is blocked; move its point")
    for place in village.places[1:]:
        first = village.places[0]
        if village.distance(place.x, place.y, first.name) == UNREACHABLE:
            raise MapError(
                f"{path}: no way leads from {place.name!r} to {first.name!r}; open one in the layers"
            )
