"""The ground of the village: which tiles are free, where the places are, and the way to them.

Everything here is integers and tuples, and pure: the same map gives the same steps in every process.
A tile is (x, y), x growing east and y growing south, both from 0.
"""

from functools import lru_cache

import msgspec

BLOCKED = 0
FREE = 1
UNREACHABLE = -1
NEIGHBOURS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west: the order that breaks ties


class MapError(ValueError):
    """A map that can't be played, or a question about a place that it doesn't have. One line."""


class Place(msgspec.Struct, frozen=True):
    """A named place; (x, y) is the tile that a visitor stands on."""

    name: str
    x: int
    y: int


class VillageMap(msgspec.Struct, frozen=True):
    """width x height tiles; `walkable` is row-major, one byte a tile, 1 = free, 0 = blocked."""

    width: int
    height: int
    walkable: bytes
    places: tuple[Place, ...]

    def free(self, x: int, y: int) -> bool:
        """Whether a character can stand on (x, y). False outside the map."""
        return 0 <= x < self.width and 0 <= y < self.height and self.walkable[y * self.width + x] == FREE

    def place_at(self, x: int, y: int) -> Place | None:
        """The place whose visitor tile is (x, y), or None."""
        for place in self.places:
            if place.x == x and place.y == y:
                return place
        return None

    def place(self, name: str) -> Place:
        """The place called `name`. Raises MapError for a name that the map doesn't have."""
        for place in self.places:
            if place.name == name:
                return place
        raise MapError(f"the map has no place {name!r}; it has {', '.join(p.name for p in self.places)}")

    def distances_to(self, name: str) -> tuple[int, ...]:
        """Walking distance in tiles from every tile (row-major) to the place; -1 where no way leads."""
        place = self.place(name)
        return self.distances_to_tile(place.x, place.y)

    def distances_to_tile(self, x: int, y: int) -> tuple[int, ...]:
        """As `distances_to`, for any tile; -1 everywhere when (x, y) itself is blocked."""
        return _distances(self.width, self.height, self.walkable, x, y)

    def distance(self, x: int, y: int, name: str) -> int:
        """Walking distance in tiles from (x, y), a tile of the map, to the place; -1 where no way leads."""
        return self.distances_to(name)[y * self.width + x]

    def step_towards(self, x: int, y: int, name: str) -> tuple[int, int]:
        """The next tile of a shortest way to the place; (x, y) itself when there or when no way leads."""
        place = self.place(name)
        return self.step_towards_tile(x, y, place.x, place.y)

    def step_towards_tile(self, x: int, y: int, to_x: int, to_y: int) -> tuple[int, int]:
        """As `step_towards`, for any tile."""
        distances = self.distances_to_tile(to_x, to_y)
        nearer = distances[y * self.width + x] - 1
        if nearer < 0:
            return x, y
        for dx, dy in NEIGHBOURS:
            next_x, next_y = x + dx, y + dy
            if self.free(next_x, next_y) and distances[next_y * self.width + next_x] == nearer:
                return next_x, next_y
        return x, y


class Ways:
    """What every tick asks of a map, looked up instead of searched for. Made once a map (`ways_of`); never changed.

    `spots`: place -> its tile. `names`: by tile (row-major), the place there or "". `onward`: place -> by tile, the
    next tile of a shortest way there, as `VillageMap.step_towards` gives it. `nearest`: by tile, all places, nearest
    first; equally near ones in the map's order, those that no way leads to before all.
    """

    __slots__ = ("names", "nearest", "onward", "spots", "width")

    def __init__(self, village: VillageMap) -> None:
        tiles = [(x, y) for y in range(village.height) for x in range(village.width)]
        self.width = village.width
        self.spots = {place.name: (place.x, place.y) for place in village.places}
        at = {spot: name for name, spot in reversed(self.spots.items())}
        self.names = [at.get(tile, "") for tile in tiles]
        self.onward = {name: [village.step_towards(x, y, name) for x, y in tiles] for name in self.spots}
        distances = [(village.distances_to(name), name) for name in self.spots]
        self.nearest = [
            tuple(name for _, name in sorted(distances, key=lambda one: one[0][number]))
            for number in range(len(tiles))
        ]


@lru_cache(maxsize=64)
def ways_of(village: VillageMap) -> Ways:
    """The tables of a map."""
    return Ways(village)


@lru_cache(maxsize=2048)
def _distances(width: int, height: int, walkable: bytes, x: int, y: int) -> tuple[int, ...]:
    """Breadth first from (x, y) over free 4-neighbours; row-major, -1 where the search doesn't come."""
    distances = [UNREACHABLE] * (width * height)
    if not (0 <= x < width and 0 <= y < height and walkable[y * width + x] == FREE):
        return tuple(distances)
    distances[y * width + x] = 0
    frontier = [(x, y)]
    for at_x, at_y in frontier:  # grows while it is walked: a queue
        further = distances[at_y * width + at_x] + 1
        for dx, dy in NEIGHBOURS:
            next_x, next_y = at_x + dx, at_y + dy
            if 0 <= next_x < width and 0 <= next_y < height:
                tile = next_y * width + next_x
                if walkable[tile] == FREE and distances[tile] == UNREACHABLE:
                    distances[tile] = further
                    frontier.append((next_x, next_y))
    return tuple(distances)
