"""Write assets/maps/village.tmj and its tileset from the plan below: `python -m assets.make_village`.

The map is an ordinary Tiled map (it opens in Tiled): tile layers ground, buildings and decoration, and an
object layer "places" with one point for each place, in the middle of the tile that a visitor stands on. Every
tile of the tileset has a boolean property "walkable"; a tile of the map is free when the tiles of all its
layers are walkable.
"""

import json
from pathlib import Path

from assets.draw_buildings import BUILDINGS
from assets.draw_terrain import EAST, EDGED, NORTH, SMALL, SOUTH, WEST, grass, planks
from assets.pixels import TILE, Image, canvas, grain, paste, write_png

FOLDER = Path(__file__).parent / "maps"
COLUMNS = 16  # of the tileset picture
TILED = "1.11.0"

# "." grass, "=" path, ":" cobbles, "s" sand, "~" water, "-" bridge, "#" pier; digits are PLACES, letters (and
# ",") are BLOCKS and THINGS
PLAN = """
TTTTTTTTTTTTTTTTTTTT~~TTTTTTTT
T,..OOO..T...CCCC..t~~.T.....T
T...OOO......CCCCg..~~..FFFF.T
T.t.OOO..t.,.CCCC...~~..FFFF.T
T...OOO......CCCCg,.~~,.FFFF.T
T,.l.9....T.l.5..T..~~.a.6...T
T....=........=.....~~..,=...T
T.t.================--====.t.T
T...=....:::::..MMM.~~...=..,T
T.ff=ff.l::w::..MMM.~~.KK=LL.T
T.pb8bp..::4::l.MMM.~~.KK:LL.T
T.pb=bp..:::::..MMM.~~:::2:::T
T.ff=ff...=.,..t.3..~~:::::::T
T..=================--===:::cT
T..=BBBB..=IIIII..,l~~..=...tT
T..=BBBB.t=IIIII.t..~~.l=..,.T
T..=BBBB..=IIIIIc.ss~~ss#s~~~~
T.,==7=======1===s~~~~~~0v~~~~
T.t..,...t.l...ss~~~~~~###~~~~
TTTTTTTTTTTTTTss~~~~~~~~~~~~~~
""".strip().split("\n")

PLACES = ("dock", "inn", "market", "mill", "well", "chapel", "forge", "bakery", "garden", "tower")
BLOCKS = {
    "I": "inn",
    "B": "bakery",
    "F": "forge",
    "C": "chapel",
    "O": "tower",
    "M": "mill",
    "K": "red stall",
    "L": "teal stall",
}
THINGS = {  # what stands on the tile, and the ground under it
    "T": ("pine", "."),
    "t": ("tree", "."),
    ",": ("flowers", "."),
    "f": ("fence", "."),
    "p": ("side fence", "."),
    "b": ("bed", "."),
    "w": ("well", ":"),
    "l": ("lamp", "."),
    "c": ("crates", "."),
    "a": ("anvil", "."),
    "g": ("grave", "."),
    "v": ("boat", "~"),
}
PLACE_GROUND = {"dock": "#", "market": ":", "well": ":"}  # the others' visitors stand on the path
TERRAINS = {"=": "path", ":": "cobbles", "s": "sand", "~": "water"}
SAME = {"=": "=:-#s", ":": ":=-#", "s": "s=~#", "~": "~-#"}  # neighbours across which a terrain runs on
WALKABLE_THINGS = ("flowers",)
BUILT = ("fence", "side fence", "well")  # things that belong to the layer of the buildings


class Tileset:
    """The tiles in the order of the picture, each with a name and whether one can walk on it."""

    def __init__(self) -> None:
        self.tiles: list[tuple[str, Image, bool]] = []
        self.ids: dict[str, int] = {}

    def add(self, name: str, image: Image, walkable: bool) -> None:
        self.ids[name] = len(self.tiles)
        self.tiles.append((name, image, walkable))

    def gid(self, name: str) -> int:
        """The number that a layer holds for the tile: 0 is "no tile" in Tiled, so ids begin at 1."""
        return self.ids[name] + 1

    def picture(self) -> Image:
        rows = -(-len(self.tiles) // COLUMNS)
        picture = canvas(COLUMNS * TILE, rows * TILE)
        for number, (_, image, _) in enumerate(self.tiles):
            paste(picture, image, number % COLUMNS * TILE, number // COLUMNS * TILE)
        return picture

    def description(self) -> dict[str, object]:
        """The tileset as Tiled's JSON has it, embedded in the map."""
        picture = self.picture()
        return {
            "firstgid": 1,
            "name": "village",
            "image": "village_tiles.png",
            "imagewidth": picture.shape[1],
            "imageheight": picture.shape[0],
            "columns": COLUMNS,
            "tilecount": len(self.tiles),
            "tilewidth": TILE,
            "tileheight": TILE,
            "margin": 0,
            "spacing": 0,
            "tiles": [
                {
                    "id": number,
                    "type": name,
                    "properties": [{"name": "walkable", "type": "bool", "value": walkable}],
                }
                for number, (name, _, walkable) in enumerate(self.tiles)
            ],
        }


def make_tileset() -> Tileset:
    """Every ground tile with every edge, the small things, and the buildings cut into tiles."""
    tileset = Tileset()
    for variant in range(4):
        tileset.add(f"grass {variant}", grass(variant), True)
    for name, draw in EDGED.items():
        for mask in range(16):
            tileset.add(f"{name} {mask}", draw(mask), name != "water")
    tileset.add("bridge", planks("east"), True)
    tileset.add("pier", planks("south"), True)
    for name, draw_thing in SMALL.items():
        tileset.add(name, draw_thing(), name in WALKABLE_THINGS)
    for name, draw_building in BUILDINGS.items():
        image = draw_building()
        for row in range(image.shape[0] // TILE):
            for column in range(image.shape[1] // TILE):
                x, y = column * TILE, row * TILE
                tileset.add(f"{name} {column},{row}", image[y : y + TILE, x : x + TILE], False)
    return tileset


def ground_at(x: int, y: int) -> str:
    """The letter of the ground at (x, y), under what stands there; beyond its border the map goes on."""
    letter = PLAN[min(max(y, 0), len(PLAN) - 1)][min(max(x, 0), len(PLAN[0]) - 1)]
    if letter.isdigit():
        return PLACE_GROUND.get(PLACES[int(letter)], "=")
    if letter in THINGS:
        return THINGS[letter][1]
    return "." if letter in BLOCKS else letter


def ground_tile(x: int, y: int) -> str:
    """The name of the ground tile at (x, y): its terrain, and which of its four sides run on."""
    letter = ground_at(x, y)
    if letter not in TERRAINS:
        return {"-": "bridge", "#": "pier"}.get(letter) or f"grass {min(grain(x, y, 13) // 25, 3)}"
    sides = ((NORTH, 0, -1), (EAST, 1, 0), (SOUTH, 0, 1), (WEST, -1, 0))
    mask = sum(bit for bit, dx, dy in sides if ground_at(x + dx, y + dy) in SAME[letter])
    return f"{TERRAINS[letter]} {mask}"


def block_tile(letter: str, x: int, y: int) -> str:
    """The name of the tile of the building whose letters cover (x, y)."""
    row = min(at for at, line in enumerate(PLAN) if letter in line)
    return f"{BLOCKS[letter]} {x - PLAN[row].index(letter)},{y - row}"


def make_map(tileset: Tileset) -> dict[str, object]:
    """The map as Tiled's JSON has it."""
    height, width = len(PLAN), len(PLAN[0])
    layers: dict[str, list[int]] = {"ground": [], "buildings": [], "decoration": []}
    places: dict[str, tuple[int, int]] = {}
    for y, line in enumerate(PLAN):
        for x, letter in enumerate(line):
            thing = THINGS[letter][0] if letter in THINGS else ""
            built = block_tile(letter, x, y) if letter in BLOCKS else thing if thing in BUILT else ""
            decoration = thing if thing not in BUILT else ""
            layers["ground"].append(tileset.gid(ground_tile(x, y)))
            layers["buildings"].append(tileset.gid(built) if built else 0)
            layers["decoration"].append(tileset.gid(decoration) if decoration else 0)
            if letter.isdigit():
                places[PLACES[int(letter)]] = (x, y)
    common = {"opacity": 1, "visible": True, "x": 0, "y": 0}
    tile_layers = [
        {
            "id": number,
            "name": name,
            "type": "tilelayer",
            "width": width,
            "height": height,
            "data": data,
            **common,
        }
        for number, (name, data) in enumerate(layers.items(), start=1)
    ]
    points = [
        {
            "id": number,
            "name": name,
            "type": "place",
            "point": True,
            "x": places[name][0] * TILE + TILE // 2,
            "y": places[name][1] * TILE + TILE // 2,
            "width": 0,
            "height": 0,
            "rotation": 0,
            "visible": True,
        }
        for number, name in enumerate(PLACES, start=1)
    ]
    place_layer = {
        "id": 4,
        "name": "places",
        "type": "objectgroup",
        "draworder": "topdown",
        "objects": points,
    }
    return {
        "type": "map",
        "version": "1.10",
        "tiledversion": TILED,
        "orientation": "orthogonal",
        "renderorder": "right-down",
        "infinite": False,
        "width": width,
        "height": height,
        "tilewidth": TILE,
        "tileheight": TILE,
        "compressionlevel": -1,
        "nextlayerid": 5,
        "nextobjectid": len(PLACES) + 1,
        "layers": [*tile_layers, {**place_layer, **common}],
        "tilesets": [tileset.description()],
    }


def main() -> None:
    """Write the map and the picture of its tiles."""
    tileset = make_tileset()
    write_png(FOLDER / "village_tiles.png", tileset.picture())
    (FOLDER / "village.tmj").write_text(json.dumps(make_map(tileset), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
