"""Draw the village's ground and buildings from its Tiled map, at a whole-number scale.

Works on off-screen surfaces: no display is opened and none is needed.
"""

from importlib import resources
from pathlib import Path

import pygame
from pytiled_parser import parse_map
from pytiled_parser.layer import TileLayer

from game.sim.village_map import MapError


class TileMap:
    """The tile layers of a map, bottom first, and the pictures of its tiles.

    `columns` x `rows` tiles of `tile` source pixels; `layers[name][y][x]` is a tile number, 0 for none.
    """

    def __init__(self, path: Path) -> None:
        """Read the map and its tilesets. Raises MapError when a picture is missing or is not a picture."""
        tiled = parse_map(path)
        self.columns = int(tiled.map_size.width)
        self.rows = int(tiled.map_size.height)
        self.tile = int(tiled.tile_size.width)
        self.layers = {
            layer.name: layer.data
            for layer in tiled.layers
            if isinstance(layer, TileLayer) and layer.data and layer.visible
        }
        self._pictures: dict[int, pygame.Surface] = {}
        self._names: dict[int, str] = {}
        for firstgid, tileset in tiled.tilesets.items():
            if tileset.image is None:
                raise MapError(f"{path}: tileset {tileset.name!r} has no picture; embed one with an image")
            sheet = load_picture(path.parent / tileset.image)
            for number in range(tileset.tile_count):
                corner = (
                    number % tileset.columns * tileset.tile_width,
                    number // tileset.columns * tileset.tile_height,
                )
                size = (tileset.tile_width, tileset.tile_height)
                self._pictures[firstgid + number] = sheet.subsurface(pygame.Rect(corner, size))
            for number, described in (tileset.tiles or {}).items():
                self._names[firstgid + number] = described.class_ or ""

    def picture(self, gid: int) -> pygame.Surface:
        """The source-size picture of a tile number."""
        return self._pictures[gid]

    def where(self, name: str) -> list[tuple[int, int]]:
        """The tiles (x, y) that hold a picture called `name`, or `name` and a number, in any layer."""
        return [
            (x, y)
            for rows in self.layers.values()
            for y, row in enumerate(rows)
            for x, gid in enumerate(row)
            if gid and self._names.get(gid, "").rstrip("0123456789 ") == name
        ]

    def areas(self) -> dict[str, pygame.Rect]:
        """The source pixels that each building covers, by its name: the pictures called "NAME column,row"."""
        found: dict[str, pygame.Rect] = {}
        for rows in self.layers.values():
            for y, row in enumerate(rows):
                for x, gid in enumerate(row):
                    name, _, part = self._names.get(gid, "").rpartition(" ")
                    if "," in part:
                        tile = self.tile_rect(x, y, 1)
                        found[name] = found[name].union(tile) if name in found else tile
        return found

    def size(self, scale: int) -> tuple[int, int]:
        """Width and height of the drawn map in pixels."""
        return self.columns * self.tile * scale, self.rows * self.tile * scale

    def tile_rect(self, x: int, y: int, scale: int) -> pygame.Rect:
        """The pixels of tile (x, y) on the drawn map."""
        side = self.tile * scale
        return pygame.Rect(x * side, y * side, side, side)

    def draw(self, scale: int = 2) -> pygame.Surface:
        """All layers on a new opaque surface of `size(scale)`; scale is a whole number from 1."""
        surface = pygame.Surface(self.size(1))
        for rows in self.layers.values():
            for y, row in enumerate(rows):
                for x, gid in enumerate(row):
                    if gid:
                        surface.blit(self._pictures[gid], (x * self.tile, y * self.tile))
        return pygame.transform.scale(surface, self.size(scale))


def load_picture(path: Path) -> pygame.Surface:
    """Load a PNG with its transparency. Raises MapError naming the file when it can't be read."""
    try:
        return pygame.image.load(str(path))
    except (OSError, pygame.error) as error:
        raise MapError(f"{path}: not a picture that can be read: {error}") from error


def load_tiles() -> TileMap:
    """The map that ships with the game."""
    with resources.as_file(resources.files("assets") / "maps") as folder:
        return TileMap(folder / "village.tmj")
