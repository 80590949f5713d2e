"""The buildings of the village map, each drawn whole and cut into tiles by assets/make_village.py.

A building is seen from the south and a little from above: roof behind, front wall with the door before. The
door is in tile column (columns - 1) // 2 of the lowest row; the place's visitor tile is the one below it.
"""

from collections.abc import Callable

from assets.pixels import TILE, Image, canvas, disc, dots, drawing, frame, grain, line, paste, rect


def _roof(image: Image, x: int, y: int, width: int, height: int, colour: str) -> None:
    """Shingles, lighter at the ridge, with a dark eave."""
    rect(image, x, y, width, height, colour)
    for row in range(0, height, 4):
        rect(image, x, y + row + 3, width, 1, f"{colour} dark")
        for column in range(row % 8, width, 8):
            rect(image, x + column, y + row, 1, 3, f"{colour} dark")
            if grain(column, row, 1) < 30:
                rect(image, x + column + 1, y + row, min(4, width - column - 1), 2, f"{colour} light")
    rect(image, x, y, width, 2, f"{colour} light")
    rect(image, x, y + height - 1, width, 1, "ink")
    frame(image, x, y, width, height, "ink")


def _window(image: Image, x: int, y: int, width: int = 7, height: int = 7) -> None:
    """A lit window with a cross bar."""
    rect(image, x, y, width, height, "lit")
    rect(image, x, y + height // 2 + 1, width, height - height // 2 - 1, "lit dark")
    rect(image, x + width // 2, y, 1, height, "wood dark")
    frame(image, x - 1, y - 1, width + 2, height + 2, "wood dark")
    rect(image, x - 1, y + height + 1, width + 2, 1, "wood light")


def _door(image: Image, x: int, bottom: int, colour: str = "wood") -> None:
    """A door 10 wide and 13 high that stands on row `bottom`."""
    rect(image, x, bottom - 13, 10, 13, "ink")
    rect(image, x + 1, bottom - 12, 8, 12, colour)
    rect(image, x + 4, bottom - 12, 1, 12, f"{colour} dark")
    dots(image, [(x + 7, bottom - 6)], "lit")


def _front(image: Image, top: int, wall: str = "plaster", timber: str = "wood dark") -> None:
    """The front wall from row `top` to the bottom, with timbers at its ends and along its top."""
    height, width = image.shape[:2]
    rect(image, 2, top, width - 4, height - top, wall)
    rect(image, 2, top, width - 4, 2, f"{wall} dark")
    rect(image, 2, height - 3, width - 4, 3, "stone dark")
    for x in range(2, width - 4, 6):
        rect(image, x + 1, height - 3, 4, 2, "stone")
    for x in (2, width - 4):
        rect(image, x, top, 2, height - top, timber)
    frame(image, 1, top, width - 2, height - top, "ink")


def _chimney(image: Image, x: int, y: int, glow: str = "ink") -> None:
    rect(image, x, y, 8, 10, "stone")
    rect(image, x, y, 8, 2, "stone light")
    rect(image, x + 2, y + 1, 4, 2, glow)
    rect(image, x + 1, y + 5, 3, 1, "stone dark")
    rect(image, x + 4, y + 8, 3, 1, "stone dark")
    frame(image, x - 1, y - 1, 10, 12, "ink")


def _door_x(columns: int) -> int:
    return (columns - 1) // 2 * TILE + 3


def house(columns: int, rows: int, roof: str) -> Image:
    """A plain house: roof, lit windows and a door."""
    image = canvas(columns * TILE, rows * TILE)
    top = rows * TILE - 21
    _front(image, top - 1)
    _roof(image, 0, 3, columns * TILE, top - 3, roof)
    _door(image, _door_x(columns), rows * TILE)
    for column in range(columns):
        if column != (columns - 1) // 2:
            _window(image, column * TILE + 5, top + 6)
    return image


def inn() -> Image:
    """Red roof, dormer windows, chimney and a hanging sign with a mug."""
    image = house(5, 3, "red")
    _chimney(image, 62, 3)
    for x in (16, 46):
        rect(image, x, 10, 15, 13, "plaster")
        _window(image, x + 4, 14, 7, 6)
        rect(image, x - 1, 8, 17, 3, "red dark")
        frame(image, x - 1, 8, 17, 16, "ink")
    sign = [
        "kkkkkkkkk",
        "kwwwwwwwk",
        "kwyyyywwk",
        "kwyyyywyk",
        "kwyyyywyk",
        "kwyyyywwk",
        "kwwwwwwwk",
        "kkkkkkkkk",
    ]
    paste(image, drawing(sign, {"k": "ink", "w": "white", "y": "yellow dark"}), 48, 32)
    return image


def bakery() -> Image:
    """Orange roof, a broad oven chimney, a striped awning and a loaf on the sign."""
    image = house(4, 3, "orange")
    _chimney(image, 47, 4, "ember")
    for x in range(32, 62, 4):
        rect(image, x, 28, 4, 6, "white" if x % 8 else "red light")
    rect(image, 32, 34, 30, 1, "ink")
    rect(image, 32, 27, 30, 1, "ink")
    rect(image, 34, 36, 26, 7, "lit")
    frame(image, 33, 35, 28, 9, "wood dark")
    for x in (36, 44, 52):
        rect(image, x, 39, 6, 3, "bread")
        rect(image, x + 1, 38, 4, 1, "bread light")
    loaf = ["..bbbbb..", ".blllbbb.", "blbblbbbd", "bbbbbbbdd", ".ddddddd."]
    paste(image, drawing(loaf, {"b": "bread", "l": "bread light", "d": "bread dark"}), 3, 29)
    return image


def forge() -> Image:
    """Slate roof, glowing chimney, and an open front with the fire in it."""
    image = house(4, 3, "slate")
    _chimney(image, 8, 2, "ember")
    rect(image, 34, 29, 26, 19, "shade")
    rect(image, 38, 37, 14, 11, "stone dark")
    rect(image, 40, 40, 10, 8, "ember")
    rect(image, 42, 42, 6, 6, "lit")
    dots(image, [(41, 38), (45, 36), (48, 38), (44, 34)], "ember")
    line(image, (55, 33), (55, 42), "wood light")
    rect(image, 53, 31, 5, 3, "silver")
    frame(image, 33, 28, 28, 20, "ink")
    return image


def chapel() -> Image:
    """Blue roof, a bell tower in the middle with a cross, a round window of stained glass."""
    image = canvas(64, 64)
    _front(image, 40, "plaster", "stone dark")
    _roof(image, 0, 14, 64, 28, "blue")
    rect(image, 12, 22, 24, 42, "plaster")
    rect(image, 30, 22, 5, 42, "plaster dark")
    frame(image, 12, 22, 24, 42, "ink")
    for row in range(17):
        half = 1 + row * 13 // 16
        rect(image, 24 - half, 6 + row, 2 * half, 1, "blue")
        rect(image, 24 - half, 6 + row, 2, 1, "ink")
        rect(image, 22 + half, 6 + row, 2, 1, "ink")
        rect(image, 24 - half + 2, 6 + row, max(half - 3, 0), 1, "blue light")
    rect(image, 10, 22, 28, 2, "ink")
    rect(image, 23, 0, 2, 8, "yellow")
    rect(image, 21, 2, 6, 2, "yellow")
    disc(image, 24, 34, 6, "ink")
    disc(image, 24, 34, 5, "purple light")
    rect(image, 24, 29, 1, 11, "lit")
    rect(image, 19, 34, 11, 1, "lit")
    dots(image, [(21, 32), (22, 31), (26, 36), (27, 35)], "teal light")
    dots(image, [(21, 36), (26, 31)], "red light")
    _door(image, _door_x(4), 64, "purple")
    for x in (42, 53):
        _window(image, x, 47, 5, 9)
        dots(image, [(x, 47), (x + 4, 47)], "wood dark")
    _window(image, 5, 47, 4, 9)
    return image


def tower() -> Image:
    """The watch tower: grey stone with battlements, arrow slits, a banner and a beacon."""
    image = canvas(48, 64)
    rect(image, 5, 10, 38, 54, "stone")
    for row in range(14):
        for column in range(6):
            x, y = 6 + column * 7 + (3 if row % 2 else 0), 11 + row * 4
            if grain(column, row, 8) < 45 and x < 38:
                rect(image, x, y, 5, 3, "stone light" if x < 20 else "stone dark")
    rect(image, 34, 10, 9, 54, "stone dark")
    frame(image, 5, 10, 38, 54, "ink")
    rect(image, 1, 9, 46, 9, "stone light")
    rect(image, 34, 9, 13, 9, "stone")
    frame(image, 1, 9, 46, 10, "ink")
    for x in (1, 11, 21, 31, 40):
        rect(image, x, 3, 7, 8, "stone light" if x < 30 else "stone")
        frame(image, x, 3, 7, 7, "ink")
        rect(image, x + 1, 9, 5, 2, "stone light" if x < 30 else "stone")
    rect(image, 23, 0, 4, 4, "ember")
    dots(image, [(24, 1), (25, 1), (25, 2), (24, 2)], "lit")
    for x, y in ((11, 26), (34, 26), (11, 44), (34, 44)):
        rect(image, x, y, 2, 7, "ink")
    rect(image, 18, 22, 12, 20, "red")
    rect(image, 18, 22, 2, 20, "red light")
    rect(image, 22, 27, 4, 8, "yellow")
    rect(image, 20, 29, 8, 3, "yellow")
    dots(image, [(23, 41), (24, 41), (22, 41), (25, 41), (23, 40), (24, 40)], "stone")
    frame(image, 17, 21, 14, 1, "ink")
    _door(image, _door_x(3), 64)
    return image


def mill() -> Image:
    """The windmill: a tapering cream body and a brown cap; its sails turn and are drawn by draw_life."""
    image = canvas(48, 64)
    for row in range(46):
        half = 13 + row * 6 // 45
        rect(image, 24 - half, 18 + row, 2 * half, 1, "plaster")
        rect(image, 24 + half // 2, 18 + row, half - half // 2, 1, "plaster dark")
        rect(image, 24 - half, 18 + row, 1, 1, "ink")
        rect(image, 23 + half, 18 + row, 1, 1, "ink")
    for row in range(12):
        half = 4 + row
        rect(image, 24 - half, 8 + row, 2 * half, 1, "wood")
        rect(image, 24 - half, 8 + row, half // 2, 1, "wood light")
        rect(image, 24 - half, 8 + row, 1, 1, "ink")
        rect(image, 23 + half, 8 + row, 1, 1, "ink")
    rect(image, 9, 20, 30, 1, "ink")
    rect(image, 5, 62, 38, 2, "stone dark")
    _window(image, 33, 46, 4, 6)
    _door(image, _door_x(3), 64)
    disc(image, 24, 24, 3, "ink")
    disc(image, 24, 24, 2, "yellow dark")
    return image


def stall(stripe: str) -> Image:
    """A market stall: striped awning over a counter of goods."""
    image = canvas(32, 32)
    rect(image, 2, 14, 2, 17, "wood dark")
    rect(image, 28, 14, 2, 17, "wood dark")
    rect(image, 4, 16, 24, 8, "shade")
    for x in range(0, 32, 4):
        rect(image, x, 4, 4, 13, "white" if x % 8 else stripe)
        rect(image, x, 14, 4, 3, "plaster dark" if x % 8 else f"{stripe} dark")
        dots(image, [(x, 16), (x + 3, 16)], "shade")
    frame(image, 0, 3, 32, 12, "ink")
    rect(image, 1, 23, 30, 8, "wood light")
    rect(image, 1, 26, 30, 1, "wood")
    rect(image, 1, 29, 30, 1, "wood")
    frame(image, 0, 22, 32, 10, "ink")
    for x, colour in (
        (3, "red light"),
        (9, "yellow"),
        (15, "green light"),
        (21, "orange light"),
        (26, "red"),
    ):
        rect(image, x, 20, 3, 3, colour)
        dots(image, [(x + 1, 19)], colour)
    return image


BUILDINGS: dict[str, Callable[[], Image]] = {
    "inn": inn,
    "bakery": bakery,
    "forge": forge,
    "chapel": chapel,
    "tower": tower,
    "mill": mill,
    "red stall": lambda: stall("red"),
    "teal stall": lambda: stall("teal"),
}
