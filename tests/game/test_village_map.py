"""What the simulation may rely on in the village's ground: the map that ships, and small ones made here."""

import json
from importlib import resources
from pathlib import Path

import pytest
from pytiled_parser import parse_map

from game.sim.village_map import MapError, Place, VillageMap, ways_of
from scenarios.village_map import PLACE_NAMES, load_village, read_map

TILES = [(x, y) for y in range(20) for x in range(30)]


def tiny(rows: str, **places: tuple[int, int]) -> VillageMap:
    """A map from text: "." free, "#" blocked."""
    lines = rows.split()
    walkable = bytes(letter == "." for line in lines for letter in line)
    named = tuple(Place(name, x, y) for name, (x, y) in places.items())
    return VillageMap(len(lines[0]), len(lines), walkable, named)


def test_the_map_has_the_ten_places_on_free_tiles_of_their_own() -> None:
    village = load_village()
    assert (village.width, village.height, len(village.walkable)) == (30, 20, 600)
    assert tuple(place.name for place in village.places) == PLACE_NAMES
    assert len({(place.x, place.y) for place in village.places}) == 10
    assert all(village.free(place.x, place.y) for place in village.places)
    assert all(village.place_at(place.x, place.y) == place for place in village.places)


def test_every_place_is_reached_from_every_other_and_from_every_free_tile() -> None:
    village = load_village()
    for name in PLACE_NAMES:
        distances = village.distances_to(name)
        for x, y in TILES:
            assert (distances[y * village.width + x] >= 0) == village.free(x, y)


def test_neighbouring_places_are_a_short_walk_apart() -> None:
    village = load_village()
    for place in village.places:
        nearest = min(village.distance(place.x, place.y, name) for name in PLACE_NAMES if name != place.name)
        assert 5 <= nearest <= 14


def test_the_tables_of_ways_say_what_the_map_says() -> None:
    village = load_village()
    ways = ways_of(village)
    assert ways.spots == {place.name: (place.x, place.y) for place in village.places}
    for x, y in TILES:
        tile = y * ways.width + x
        there = village.place_at(x, y)
        assert ways.names[tile] == (there.name if there else "")
        assert all(ways.onward[name][tile] == village.step_towards(x, y, name) for name in PLACE_NAMES)
        far = {name: (village.distance(x, y, name), n) for n, name in enumerate(PLACE_NAMES)}
        assert ways.nearest[tile] == tuple(sorted(PLACE_NAMES, key=far.__getitem__))


def test_each_step_is_to_a_free_neighbour_one_nearer() -> None:
    village = load_village()
    for name in PLACE_NAMES:
        for x, y in TILES:
            if not village.free(x, y):
                continue
            next_x, next_y = village.step_towards(x, y, name)
            if village.distance(x, y, name) == 0:
                assert (next_x, next_y) == (x, y)
                continue
            assert village.free(next_x, next_y)
            assert abs(next_x - x) + abs(next_y - y) == 1
            assert village.distance(next_x, next_y, name) == village.distance(x, y, name) - 1


def test_distances_by_hand() -> None:
    village = tiny("... .#. ..#", inn=(2, 0))
    assert village.distances_to("inn") == (2, 1, 0, 3, -1, 1, 4, 5, -1)


def test_north_then_east_then_south_then_west_break_ties() -> None:
    village = tiny("... ... ...", middle=(1, 1), corner=(2, 0))
    assert village.step_towards(0, 2, "middle") == (0, 1)
    assert village.step_towards(0, 0, "middle") == (1, 0)
    assert village.step_towards(2, 2, "middle") == (2, 1)
    assert village.step_towards(0, 2, "corner") == (0, 1)


def test_no_step_from_where_no_way_leads_and_nothing_free_outside() -> None:
    village = tiny(".#.", inn=(0, 0))
    assert village.step_towards(2, 0, "inn") == (2, 0)
    assert village.step_towards_tile(0, 0, 1, 0) == (0, 0)
    assert not village.free(-1, 0) and not village.free(0, 1) and not village.free(3, 0)


def test_an_unknown_place_is_named() -> None:
    with pytest.raises(MapError, match="no place 'moon'; it has inn"):
        tiny("..", inn=(0, 0)).place("moon")


def test_the_map_file_is_a_tiled_map_whose_layers_the_parser_reads() -> None:
    with resources.as_file(resources.files("assets") / "maps") as folder:
        tiled = parse_map(folder / "village.tmj")
        assert [layer.name for layer in tiled.layers] == ["ground", "buildings", "decoration", "places"]
        assert (tiled.map_size.width, tiled.map_size.height, tiled.tile_size.width) == (30, 20, 16)
        tileset = tiled.tilesets[1]
        assert tileset.image is not None and (folder / tileset.image).is_file()
        assert tileset.tiles is not None and len(tileset.tiles) == tileset.tile_count


def changed(tmp_path: Path, change: str) -> Path:
    """A copy of the map with one thing wrong."""
    data = json.loads((resources.files("assets") / "maps" / "village.tmj").read_text(encoding="utf-8"))
    points = data["layers"][3]["objects"]
    if change == "missing":
        del points[0]
    elif change == "twice":
        points[1]["name"] = "dock"
    elif change == "wall":
        points[1].update(x=0, y=0)
    elif change == "island":
        wall = data["layers"][0]["data"][20]
        pier = next(point for point in points if point["name"] == "dock")
        column = pier["x"] // 16
        data["layers"][0]["data"][15 * 30 : 16 * 30] = [wall] * 30
        assert data["layers"][0]["data"][15 * 30 + column] == wall
    elif change == "infinite":
        data["infinite"] = True
    path = tmp_path / "village.tmj"
    path.write_text(json.dumps(data) if change != "text" else "not a map", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("missing", "0 points named 'dock'; it needs exactly one"),
        ("twice", "2 points named 'dock'"),
        ("wall", r"'inn' stands on tile \(0, 0\), which is blocked"),
        ("island", "no way leads from"),
        ("infinite", "the map is infinite; switch that off"),
        ("text", "not a Tiled map"),
    ],
)
def test_a_map_that_cannot_be_played_gets_one_line(tmp_path: Path, change: str, says: str) -> None:
    with pytest.raises(MapError, match=says) as caught:
        read_map(changed(tmp_path, change))
    assert "\n" not in str(caught.value)
    assert "village.tmj" in str(caught.value)
