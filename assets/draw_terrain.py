"""The ground tiles and the small one-tile things of the village map."""

from collections.abc import Callable

from assets.pixels import (
    TILE,
    Image,
    canvas,
    disc,
    dots,
    drawing,
    frame,
    grain,
    line,
    outlined,
    rect,
    speckle,
)

NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8  # bits of an edge mask: set where the neighbour is the same terrain


def grass(variant: int) -> Image:
    """A tile of grass, one of four."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "grass")
    speckle(tile, variant, "grass light", 5)
    speckle(tile, variant + 50, "grass dark", 4)
    for tuft in range(variant):
        x, y = 2 + grain(tuft, variant, 7) % 11, 3 + grain(tuft, variant, 9) % 11
        dots(tile, [(x, y), (x + 2, y), (x + 1, y + 1)], "grass light")
    return tile


def _with_edges(tile: Image, mask: int, ground: Image, rim: str, depth: int) -> None:
    """Let `ground` grow `depth` uneven pixels in from the sides whose bit is not set; then a pixel of rim."""
    for along in range(TILE):
        reach = depth + (grain(along // 2, depth, 3) > 55)
        for step in range(reach + 1):
            for bit, x, y in (
                (NORTH, along, step),
                (SOUTH, along, TILE - 1 - step),
                (WEST, step, along),
                (EAST, TILE - 1 - step, along),
            ):
                if mask & bit:
                    continue
                if step < reach:
                    tile[y, x] = ground[y, x]
                elif not (tile[y, x] == ground[y, x]).all():
                    dots(tile, [(x, y)], rim)


def path(mask: int) -> Image:
    """Trodden earth; grass grows in from the sides that are not path."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "path")
    speckle(tile, 21, "path light", 7)
    speckle(tile, 22, "path dark", 5)
    _with_edges(tile, mask, grass(0), "path dark", 2)
    return tile


def cobbles(mask: int) -> Image:
    """Paving stones; grass at the sides that are not paved."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "cobble dark")
    for row in range(4):
        for column in range(-1, 4):
            x = column * 4 + (2 if row % 2 else 0)
            rect(tile, x, row * 4, 3, 3, "cobble light" if grain(column, row, 5) < 22 else "cobble")
    _with_edges(tile, mask, grass(0), "cobble dark", 1)
    return tile


def sand(mask: int) -> Image:
    """Beach; grass at the sides that are not beach."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "sand")
    speckle(tile, 31, "sand light", 8)
    speckle(tile, 32, "sand dark", 4)
    _with_edges(tile, mask, grass(0), "sand dark", 1)
    return tile


def water(mask: int) -> Image:
    """Water; a sandy bank and a line of foam at the sides that are not water."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "water")
    speckle(tile, 41, "water dark", 6)
    for x, y in ((2, 4), (10, 7), (5, 12)):
        rect(tile, x, y, 4, 1, "water light")
        dots(tile, [(x + 4, y + 1)], "water light")
    _with_edges(tile, mask, sand(15), "foam", 2)
    return tile


def planks(along: str) -> Image:
    """A wooden deck with boards across the way: "east" for a bridge walked east-west, "south" for a pier."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "wood")
    for board in range(0, TILE, 4):
        rect(tile, 0, board, TILE, 1, "wood light")
        rect(tile, 0, board + 3, TILE, 1, "wood dark")
    dots(tile, [(3, 1), (12, 5), (3, 9), (12, 13)], "wood dark")
    rect(tile, 0, 0, 1, TILE, "ink")
    rect(tile, TILE - 1, 0, 1, TILE, "ink")
    rect(tile, 1, 0, 1, TILE, "wood light")
    rect(tile, TILE - 2, 0, 1, TILE, "wood dark")
    return tile if along == "south" else tile.transpose(1, 0, 2).copy()


def tree() -> Image:
    """A round tree, seen a little from above."""
    tile = canvas(TILE, TILE)
    rect(tile, 7, 11, 3, 4, "wood dark")
    disc(tile, 7.5, 6.5, 5.6, "leaf")
    disc(tile, 6, 5, 3.4, "leaf light")
    disc(tile, 7, 6.2, 2.6, "leaf")
    dots(tile, [(4, 4), (5, 3), (9, 4), (8, 9), (11, 7)], "leaf light")
    dots(tile, [(10, 10), (11, 9), (9, 11), (6, 11), (12, 8)], "leaf dark")
    return outlined(tile, "leaf dark")


def pine() -> Image:
    """A pine of the wood that closes the village in."""
    tile = canvas(TILE, TILE)
    rect(tile, 7, 13, 2, 3, "wood dark")
    for top, width in ((1, 5), (4, 8), (8, 11)):
        for row in range(6):
            half = min(width, 1 + row * width // 5) // 2
            if top + row < 14:
                rect(tile, 8 - half - 1, top + row, 2 * half + 2, 1, "pine")
                dots(tile, [(8 - half, top + row)], "pine light")
                dots(tile, [(7 + half, top + row)], "pine dark")
        rect(tile, 8 - width // 2, min(top + 5, 13), width, 1, "pine dark")
    return outlined(tile, "pine dark")


def fence() -> Image:
    """A piece of the garden's fence."""
    tile = canvas(TILE, TILE)
    for y in (6, 10):
        rect(tile, 0, y, TILE, 2, "wood light")
        rect(tile, 0, y + 2, TILE, 1, "wood dark")
    for x in (2, 10):
        rect(tile, x, 3, 4, 11, "ink")
        rect(tile, x + 1, 4, 2, 9, "wood light")
        rect(tile, x + 2, 4, 1, 9, "wood")
    return tile


def side_fence() -> Image:
    """A piece of the garden's fence that runs north and south."""
    tile = canvas(TILE, TILE)
    for x in (6, 9):
        rect(tile, x, 0, 1, TILE, "wood light")
        rect(tile, x + 1, 0, 1, TILE, "wood dark")
    rect(tile, 6, 3, 5, 11, "ink")
    rect(tile, 7, 4, 3, 9, "wood light")
    rect(tile, 9, 4, 1, 9, "wood")
    return tile


def bed() -> Image:
    """A vegetable bed."""
    tile = canvas(TILE, TILE)
    rect(tile, 0, 0, TILE, TILE, "wood dark")
    for y in (2, 7, 12):
        rect(tile, 0, y + 2, TILE, 1, "wood")
        for x in (1, 6, 11):
            dots(tile, [(x + 1, y), (x, y + 1), (x + 2, y + 1), (x + 1, y - 1)], "green light")
            dots(tile, [(x + 1, y + 1), (x + 1, y + 2)], "green")
            if grain(x, y, 2) < 40:
                dots(tile, [(x + 2, y)], "red light")
    return tile


def well() -> Image:
    """The well: a ring of stones under a small roof."""
    tile = canvas(TILE, TILE)
    rect(tile, 2, 8, 12, 7, "stone")
    rect(tile, 2, 12, 12, 3, "stone dark")
    rect(tile, 4, 8, 8, 3, "water dark")
    rect(tile, 5, 9, 5, 1, "water light")
    dots(tile, [(3, 10), (6, 12), (10, 13), (12, 11), (4, 14)], "stone light")
    rect(tile, 2, 4, 1, 6, "wood dark")
    rect(tile, 13, 4, 1, 6, "wood dark")
    rect(tile, 1, 2, 14, 2, "red")
    rect(tile, 3, 1, 10, 1, "red light")
    rect(tile, 1, 4, 14, 1, "red dark")
    line(tile, (8, 5), (8, 7), "white")
    return outlined(tile)


def flowers() -> Image:
    """Flowers in the grass; free to walk over."""
    tile = canvas(TILE, TILE)
    for x, y, colour in ((3, 3, "pink"), (11, 5, "yellow"), (6, 11, "white"), (13, 12, "pink")):
        dots(tile, [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)], colour)
        dots(tile, [(x, y)], "lit dark")
        dots(tile, [(x, y + 2)], "green light")
    return tile


def lamp() -> Image:
    """A street lamp, lit."""
    tile = canvas(TILE, TILE)
    rect(tile, 7, 7, 2, 8, "slate dark")
    rect(tile, 6, 14, 4, 1, "slate dark")
    rect(tile, 5, 2, 6, 5, "lit")
    rect(tile, 6, 3, 2, 2, "white")
    frame(tile, 5, 1, 6, 7, "slate dark")
    return outlined(tile)


def crates() -> Image:
    """A crate and a barrel."""
    tile = canvas(TILE, TILE)
    rect(tile, 1, 6, 8, 8, "wood light")
    frame(tile, 1, 6, 8, 8, "wood")
    line(tile, (2, 12), (7, 7), "wood")
    rect(tile, 10, 4, 5, 10, "wood")
    rect(tile, 11, 4, 1, 10, "wood light")
    rect(tile, 10, 6, 5, 1, "slate")
    rect(tile, 10, 11, 5, 1, "slate")
    return outlined(tile)


def anvil() -> Image:
    """The smith's anvil on its block."""
    key = {"s": "silver", "d": "silver dark", "w": "wood", "l": "wood light"}
    tile = canvas(TILE, TILE)
    art = ["sssssssssss.", ".dsssssssss.", "...dddddd...", "....dddd....", "...wwwwww...", "...lwwwww..."]
    tile[6:12, 2:14] = drawing(art, key)
    rect(tile, 5, 12, 6, 2, "wood")
    return outlined(tile)


def grave() -> Image:
    """A gravestone of the chapel yard."""
    tile = canvas(TILE, TILE)
    rect(tile, 5, 4, 6, 10, "stone")
    rect(tile, 6, 3, 4, 1, "stone light")
    rect(tile, 7, 5, 2, 6, "stone dark")
    rect(tile, 6, 7, 4, 1, "stone dark")
    return outlined(tile)


def boat() -> Image:
    """A rowing boat, tied up."""
    tile = canvas(TILE, TILE)
    disc(tile, 7.5, 4.5, 4.2, "wood light")
    disc(tile, 7.5, 11, 4.2, "wood light")
    rect(tile, 3, 5, 10, 6, "wood light")
    disc(tile, 7.5, 5, 2.8, "wood dark")
    disc(tile, 7.5, 10.5, 2.8, "wood dark")
    rect(tile, 5, 5, 6, 6, "wood dark")
    rect(tile, 4, 5, 8, 2, "wood")
    rect(tile, 4, 9, 8, 2, "wood")
    return outlined(tile)


EDGED: dict[str, Callable[[int], Image]] = {"path": path, "cobbles": cobbles, "sand": sand, "water": water}
SMALL: dict[str, Callable[[], Image]] = {
    "tree": tree,
    "pine": pine,
    "fence": fence,
    "side fence": side_fence,
    "bed": bed,
    "well": well,
    "flowers": flowers,
    "lamp": lamp,
    "crates": crates,
    "anvil": anvil,
    "grave": grave,
    "boat": boat,
}
