"""What moves in the village and belongs to nobody: cat, ducks, smoke, ripples, the mill's sails."""

from collections.abc import Callable

import numpy as np

from assets.pixels import TILE, Image, canvas, disc, dots, drawing, frame, line, outlined, rect

CAT = {"k": "ink", "o": "orange", "l": "orange light", "d": "orange dark", "w": "white", "y": "lit"}
CAT_SIT = (
    "..........",
    "......k.k.",
    "......oko.",
    ".....ooooo",
    ".....oyoyo",
    ".....oowwo",
    "....looow.",
    "...loodoo.",
    "d..oodooo.",
    "d..ooooww.",
    "doooooooo.",
    ".ddoowoww.",
)
CAT_BLINK = tuple(row.replace("oyoyo", "ookok") for row in CAT_SIT)
CAT_WALK_1 = (
    "........k.k",
    "d.......oko",
    "d......oooo",
    ".d.....oyoy",
    ".oooloooowo",
    ".oodoodoow.",
    ".oooooooo..",
    ".oo...oo...",
    ".o.o..o.o..",
    "w..w.w..w..",
)
CAT_WALK_2 = (
    "........k.k",
    ".d......oko",
    "d......oooo",
    "d......oyoy",
    ".oooloooowo",
    ".oodoodoow.",
    ".oooooooo..",
    "..oo.oo....",
    "..oo.oo....",
    "..ww.ww....",
)
DUCK = {"g": "green dark", "y": "yellow", "b": "wood light", "d": "wood", "w": "white", "k": "ink", "f": "foam"}
DUCK_1 = (
    ".......gg..",
    "......gkgyy",
    "......ggg..",
    "d....wwg...",
    "bbbbbbbb...",
    "bbddddbb...",
    ".bbbbbb....",
    "f.ffff.f...",
)
DUCK_2 = (
    "...........",
    ".......gg..",
    "......gkgyy",
    "d.....ggg..",
    "bbbb.wwg...",
    "bbddbbbb...",
    "bbbbbbb....",
    ".f.fff.ff..",
)


def _smoke(radius: float) -> Callable[[Image], None]:
    def draw(image: Image) -> None:
        disc(image, 7.5, 7.5, radius, "stone light")
        disc(image, 6.5, 6.5, radius * 0.6, "white")

    return draw


def _ripple(length: int) -> Callable[[Image], None]:
    def draw(image: Image) -> None:
        rect(image, 0, 1, length, 1, "foam")
        rect(image, length // 2, 2, length // 2 + 1, 1, "water light")

    return draw


def closed(image: Image) -> None:
    """A board that hangs before the bakery's shop window: shut, with a cross."""
    line(image, (4, 0), (7, 3), "wood dark")
    line(image, (11, 0), (8, 3), "wood dark")
    rect(image, 1, 3, 14, 9, "wood light")
    frame(image, 1, 3, 14, 9, "wood dark")
    for step in range(5):
        rect(image, 5 + step, 5 + step, 2, 1, "red")
        rect(image, 9 - step, 5 + step, 2, 1, "red")


def rod(image: Image) -> None:
    """A fishing rod held to the west, with its line in the water."""
    line(image, (15, 14), (5, 3), "wood light")
    line(image, (14, 14), (6, 4), "wood dark")
    line(image, (4, 3), (2, 13), "silver")
    rect(image, 1, 13, 3, 2, "red")
    dots(image, [(2, 12)], "white")


def _text(rows: tuple[str, ...], key: dict[str, str]) -> Callable[[Image], None]:
    def draw(image: Image) -> None:
        picture = drawing(rows, key)
        top = TILE - 2 - picture.shape[0]
        image[top : top + picture.shape[0], 2 : 2 + picture.shape[1]] = picture

    return draw


LIFE: dict[str, tuple[Callable[[Image], None], bool]] = {  # how it is drawn, and whether it has an outline
    "cat sit 1": (_text(CAT_SIT, CAT), True),
    "cat sit 2": (_text(CAT_BLINK, CAT), True),
    "cat walk 1": (_text(CAT_WALK_1, CAT), True),
    "cat walk 2": (_text(CAT_WALK_2, CAT), True),
    "duck 1": (_text(DUCK_1, DUCK), False),
    "duck 2": (_text(DUCK_2, DUCK), False),
    "smoke 1": (_smoke(2.2), False),
    "smoke 2": (_smoke(3.2), False),
    "smoke 3": (_smoke(4.2), False),
    "ripple 1": (_ripple(3), False),
    "ripple 2": (_ripple(6), False),
    "ripple 3": (_ripple(8), False),
    "closed": (closed, True),
    "rod": (rod, False),
}


def life() -> Image:
    """All of LIFE in one row of 16 x 16 pictures."""
    image = canvas(TILE * len(LIFE), TILE)
    for column, (draw, edged) in enumerate(LIFE.values()):
        picture = canvas(TILE, TILE)
        draw(picture)
        image[:, column * TILE : (column + 1) * TILE] = outlined(picture) if edged else picture
    return image


SAIL_STEPS = 6  # of a quarter turn, after which four sails look the same again


def sails() -> Image:
    """The four sails of the mill at each step of a quarter turn, 48 x 64 pixels each, in one row."""
    width, height = 3 * TILE, 4 * TILE
    image = canvas(width * SAIL_STEPS, height)
    for step in range(SAIL_STEPS):
        picture = canvas(width, height)
        rows, columns = np.mgrid[:height, :width]
        x, y = columns - 23.5, rows - 23.5
        for quarter in range(4):
            angle = np.pi / 4 + np.pi / 2 * (quarter + step / SAIL_STEPS)
            along = x * np.cos(angle) + y * np.sin(angle)
            across = -x * np.sin(angle) + y * np.cos(angle)
            cloth = (along >= 7) & (along <= 23) & (across >= -0.5) & (across <= 5.5)
            rim = cloth & ((across > 4.6) | (along < 8) | (along > 22))
            lattice = cloth & (np.mod(along, 5) < 1)
            _paint(picture, cloth, "white")
            _paint(picture, lattice, "plaster dark")
            _paint(picture, rim, "ink")
            _paint(picture, (along >= 0) & (along <= 23.5) & (abs(across) < 0.9), "wood dark")
        disc(picture, 23.5, 23.5, 3, "ink")
        disc(picture, 23.5, 23.5, 2, "yellow dark")
        image[:, step * width : (step + 1) * width] = picture
    return image


def _paint(picture: Image, mask: np.ndarray, colour: str) -> None:
    stamp = canvas(1, 1)
    rect(stamp, 0, 0, 1, 1, colour)
    picture[mask] = stamp[0, 0]
