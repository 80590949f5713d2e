"""The people of the village, drawn from a description of each: 16 x 20 pixels, feet on the lowest rows.

A figure is drawn facing south, east or north; west is east in a mirror. Step 0 stands, steps 1 and 2 walk.
"""

from collections.abc import Callable
from dataclasses import dataclass

from assets.pixels import Image, canvas, dots, line, outlined, rect

WIDTH, HEIGHT = 16, 20
DIRECTIONS = ("north", "east", "south", "west")
STEPS = 3

Extra = Callable[
    [Image, str, int], None
]  # draws on a figure: direction (never "west"), the row of the top of the head


@dataclass(frozen=True)
class Look:
    """What tells one person from another. Colours are names of the palette that have a "dark" beside them."""

    coat: str
    legs: str
    hair: str
    skin: str = "skin"
    skirt: bool = False
    long_hair: bool = False
    small: bool = False
    behind: Extra | None = None  # drawn before the body
    front: Extra | None = None  # drawn after it


def figure(look: Look, direction: str, step: int) -> Image:
    """One picture of the sheet."""
    if direction == "west":
        return figure(look, "east", step)[:, ::-1].copy()
    image = canvas(WIDTH, HEIGHT)
    top = 7 if look.small else 4
    if look.behind:
        look.behind(image, direction, top)
    _legs(image, look, direction, step, top)
    _body(image, look, direction, step, top)
    _head(image, look, direction, top)
    if look.front:
        look.front(image, direction, top)
    return outlined(image)


def _legs(image: Image, look: Look, direction: str, step: int, top: int) -> None:
    hip = top + (9 if look.small else 11)
    left, right = (0, 0) if step == 0 else ((-1, 1) if step == 1 else (1, -1))
    if direction == "east":
        for offset in (left * 2, right * 2):
            rect(image, 7 + offset, hip, 2, 19 - hip, look.legs)
            rect(image, 7 + offset, 18, 3, 1, "ink")
        return
    for x, lift in ((5, max(left, 0)), (9, max(right, 0))):
        rect(image, x, hip, 2, 18 - hip - lift, look.legs)
        rect(image, x, 18 - lift, 2, 1, "ink")


def _body(image: Image, look: Look, direction: str, step: int, top: int) -> None:
    coat, dark = look.coat, f"{look.coat} dark"
    shoulder = top + 6
    length = 4 if look.small else 6
    if look.skirt:
        for row in range(length + 2):
            spread = (row + 1) // 3
            rect(image, 5 - min(spread, 2), shoulder + row, 6 + 2 * min(spread, 2), 1, coat)
            dots(image, [(10 + min(spread, 2), shoulder + row)], dark)
        rect(image, 3, shoulder + length + 1, 10, 1, dark)
    swing = (0, 1, -1)[step]
    if direction == "east":
        rect(image, 5, shoulder, 6, length, coat)
        rect(image, 5, shoulder, 2, length, dark)
        rect(image, 7 + swing, shoulder + 1, 2, length - 2, dark)
        rect(image, 7 + 2 * swing, shoulder + length - 1, 2, 1, look.skin)
        return
    rect(image, 4, shoulder, 8, length, coat)
    rect(image, 10, shoulder, 2, length, dark)
    for x, hand in ((3, swing), (12, -swing)):
        rect(image, x, shoulder + 1, 1, length - 2, dark)
        dots(image, [(x, shoulder + length - 1 - (hand > 0))], look.skin)


def _head(image: Image, look: Look, direction: str, top: int) -> None:
    skin = look.skin
    rect(image, 4, top + 1, 8, 5, skin)
    rect(image, 5, top, 6, 7, skin)
    if direction == "north":
        rect(image, 4, top + 1, 8, 4, look.hair)
        rect(image, 5, top, 6, 6, look.hair)
        if look.long_hair:
            rect(image, 4, top + 1, 8, 7, look.hair)
    elif direction == "east":
        rect(image, 4, top + 1, 3, 5 if look.long_hair else 3, look.hair)
        rect(image, 5, top, 6, 2, look.hair)
        rect(image, 9, top + 3, 1, 2, "ink")
        dots(image, [(12, top + 4)], skin)
        dots(image, [(9, top + 6), (10, top + 5)], f"{skin} dark")
        if look.long_hair:
            rect(image, 4, top + 6, 2, 2, look.hair)
    else:
        rect(image, 4, top + 1, 8, 1, look.hair)
        rect(image, 5, top, 6, 2, look.hair)
        dots(image, [(4, top + 2), (11, top + 2)], look.hair)
        rect(image, 6, top + 3, 1, 2, "ink")
        rect(image, 9, top + 3, 1, 2, "ink")
        rect(image, 7, top + 6, 2, 1, f"{skin} dark")
        if look.long_hair:
            rect(image, 4, top + 2, 1, 5, look.hair)
            rect(image, 11, top + 2, 1, 5, look.hair)


def _apron_and_scarf(image: Image, direction: str, top: int) -> None:
    """Mara: a white headscarf with a knot, an apron."""
    rect(image, 4, top, 8, 2, "white")
    rect(image, 5, top - 1, 6, 1, "white")
    rect(image, 5, top + 1, 6, 1, "plaster dark")
    if direction == "north":
        rect(image, 4, top + 1, 8, 2, "white")
        rect(image, 7, top + 3, 2, 2, "plaster dark")
        rect(image, 5, top + 10, 6, 1, "white")
    elif direction == "east":
        dots(image, [(3, top + 2), (2, top + 3), (3, top + 3)], "white")
        rect(image, 9, top + 8, 3, 5, "white")
    else:
        rect(image, 6, top + 8, 4, 6, "white")
        rect(image, 6, top + 10, 4, 1, "plaster dark")


def _oilskin(image: Image, direction: str, top: int) -> None:
    """Tom: a yellow sou'wester, wide at the back, and a full beard."""
    rect(image, 5, top - 1, 6, 2, "yellow")
    rect(image, 4, top, 8, 1, "yellow")
    rect(image, 2, top + 1, 12, 1, "yellow dark")
    if direction == "north":
        rect(image, 3, top + 2, 10, 3, "yellow")
        rect(image, 3, top + 5, 10, 1, "yellow dark")
    elif direction == "east":
        rect(image, 2, top + 2, 3, 2, "yellow dark")
        rect(image, 7, top + 5, 5, 2, "hair grey")
        rect(image, 8, top + 7, 4, 1, "hair grey")
    else:
        rect(image, 4, top + 5, 8, 1, "hair grey")
        rect(image, 5, top + 6, 6, 2, "hair grey")
        rect(image, 7, top + 5, 2, 1, "skin dark")


def _toque(image: Image, direction: str, top: int) -> None:
    """Nell: a tall white cap, a floury apron."""
    rect(image, 5, top - 1, 6, 2, "white")
    rect(image, 4, top - 3, 8, 2, "white")
    rect(image, 4, top + 1, 8, 1, "plaster dark")
    dots(image, [(6, top - 1), (9, top - 1), (11, top - 2)], "plaster dark")
    if direction == "south":
        rect(image, 5, top + 7, 1, 3, "white")
        rect(image, 10, top + 7, 1, 3, "white")
        rect(image, 5, top + 9, 6, 5, "white")
    elif direction == "east":
        rect(image, 9, top + 8, 3, 5, "white")
    else:
        rect(image, 7, top + 10, 2, 2, "white")


def _helmet(image: Image, direction: str, top: int) -> None:
    """Bram: a steel helmet with a red plume, a belt and a spear."""
    rect(image, 4, top, 8, 2, "silver")
    rect(image, 5, top - 1, 6, 1, "silver")
    rect(image, 4, top + 2, 8, 1, "silver dark")
    if direction == "north":
        rect(image, 4, top + 1, 8, 4, "silver")
        rect(image, 10, top + 1, 2, 4, "silver dark")
        rect(image, 7, top - 3, 2, 7, "red")
    elif direction == "east":
        rect(image, 4, top + 2, 2, 4, "silver")
        rect(image, 4, top - 2, 6, 1, "red")
        rect(image, 3, top - 1, 4, 2, "red")
        rect(image, 2, top, 2, 3, "red dark")
    else:
        rect(image, 4, top + 2, 1, 4, "silver dark")
        rect(image, 11, top + 2, 1, 4, "silver dark")
        rect(image, 7, top - 3, 2, 3, "red")
        rect(image, 6, top + 8, 4, 3, "silver")
        dots(image, [(7, top + 9), (8, top + 9)], "yellow")
    x = 14 if direction == "south" else 1 if direction == "north" else 12
    rect(image, x, top - 1, 1, 15, "wood light")
    rect(image, x, top - 3, 1, 3, "silver")


def _cap_and_sack(image: Image, direction: str, top: int) -> None:
    """Pip: a red cap pulled askew, a patched shirt and a sack that is never quite empty."""
    rect(image, 4, top, 8, 1, "red")
    rect(image, 5, top - 1, 6, 1, "red light")
    if direction == "north":
        rect(image, 4, top, 8, 2, "red")
        rect(image, 5, top + 7, 5, 5, "bread dark")
        rect(image, 6, top + 6, 3, 1, "wood dark")
        dots(image, [(6, top + 8), (8, top + 10)], "bread")
    elif direction == "east":
        rect(image, 4, top, 7, 2, "red")
        rect(image, 10, top + 1, 3, 1, "red dark")
        rect(image, 2, top + 7, 4, 4, "bread dark")
        dots(image, [(3, top + 8), (4, top + 9)], "bread")
    else:
        rect(image, 4, top + 1, 6, 1, "red dark")
        dots(image, [(5, top + 2), (8, top + 2), (10, top + 2)], "orange dark")
        rect(image, 9, top + 8, 2, 2, "yellow dark")


def _chain_and_bun(image: Image, direction: str, top: int) -> None:
    """Ada: grey hair in a bun, a gold chain of office and a scroll."""
    rect(image, 6, top - 2, 4, 2, "hair grey")
    rect(image, 6, top - 1, 4, 1, "silver dark")
    if direction == "north":
        rect(image, 6, top - 1, 4, 3, "silver dark")
        line(image, (5, top + 6), (10, top + 6), "yellow")
    elif direction == "east":
        rect(image, 3, top - 1, 4, 3, "hair grey")
        dots(image, [(9, top + 7), (10, top + 8), (8, top + 6)], "yellow")
        rect(image, 10, top + 10, 4, 2, "white")
        dots(image, [(10, top + 11), (13, top + 11)], "plaster dark")
    else:
        dots(
            image,
            [(5, top + 6), (5, top + 7), (6, top + 8), (10, top + 6), (10, top + 7), (9, top + 8)],
            "yellow",
        )
        rect(image, 7, top + 9, 2, 2, "yellow")
        rect(image, 1, top + 10, 3, 2, "white")
        dots(image, [(2, top + 11)], "red")


def _pack(image: Image, direction: str, top: int) -> None:
    """Olin's pack, which is as wide as he is."""
    if direction == "south":
        rect(image, 2, top + 6, 12, 6, "bread dark")
        rect(image, 2, top + 4, 12, 2, "teal light")


def _hat_and_pack(image: Image, direction: str, top: int) -> None:
    """Olin: a broad brown hat with a feather; the pack with a blanket roll and a pan."""
    if direction == "north":
        rect(image, 2, top + 5, 12, 9, "bread dark")
        rect(image, 3, top + 6, 10, 3, "bread")
        rect(image, 2, top + 3, 12, 2, "teal light")
        rect(image, 2, top + 5, 12, 1, "teal dark")
        rect(image, 7, top + 9, 2, 2, "yellow dark")
        rect(image, 11, top + 10, 2, 3, "silver dark")
    elif direction == "east":
        rect(image, 1, top + 4, 5, 9, "bread dark")
        rect(image, 2, top + 6, 3, 3, "bread")
        rect(image, 1, top + 3, 5, 2, "teal light")
        rect(image, 2, top + 10, 2, 2, "silver dark")
    else:
        rect(image, 5, top + 7, 1, 5, "bread dark")
        rect(image, 10, top + 7, 1, 5, "bread dark")
    rect(image, 5, top - 2, 6, 2, "wood")
    rect(image, 5, top - 1, 6, 1, "wood dark")
    rect(image, 2, top, 12, 1, "wood light")
    rect(image, 2, top + 1, 12, 1, "wood")
    dots(image, [(10, top - 2), (11, top - 3), (12, top - 3)], "red light")


def _scarf_and_satchel(image: Image, direction: str, top: int) -> None:
    """The runner: tousled hair, a bright scarf that flies behind, a satchel on a strap."""
    dots(image, [(5, top - 1), (8, top - 1), (10, top - 1), (7, top - 1)], "bread dark")
    rect(image, 4, top + 6, 8, 2, "ember")
    rect(image, 5, top + 7, 6, 1, "lit dark")
    if direction == "north":
        rect(image, 8, top + 8, 3, 4, "ember")
        rect(image, 10, top + 9, 2, 4, "red light")
        rect(image, 3, top + 10, 4, 3, "wood")
    elif direction == "east":
        rect(image, 2, top + 6, 3, 2, "ember")
        rect(image, 1, top + 7, 3, 2, "red light")
        rect(image, 5, top + 10, 4, 3, "wood")
        rect(image, 5, top + 10, 4, 1, "wood light")
    else:
        rect(image, 5, top + 8, 2, 3, "ember")
        line(image, (7, top + 8), (10, top + 11), "wood dark")
        rect(image, 9, top + 10, 4, 3, "wood")
        rect(image, 9, top + 10, 4, 1, "wood light")


PEOPLE: dict[str, Look] = {
    "mara": Look("red", "wood dark", "orange dark", skirt=True, long_hair=True, front=_apron_and_scarf),
    "tom": Look("blue", "slate dark", "hair grey", front=_oilskin),
    "nell": Look("pink", "wood dark", "hair", skin="brown skin", skirt=True, front=_toque),
    "bram": Look("slate", "slate dark", "hair", front=_helmet),
    "pip": Look("green", "wood", "orange dark", small=True, front=_cap_and_sack),
    "ada": Look("purple", "shade", "hair grey", skirt=True, front=_chain_and_bun),
    "olin": Look("leaf", "wood", "hair", behind=_pack, front=_hat_and_pack),
    "runner": Look("teal", "plaster dark", "bread dark", front=_scarf_and_satchel),
}


def sheet(look: Look) -> Image:
    """All pictures of a person: a row for each of DIRECTIONS, a column for each step."""
    image = canvas(WIDTH * STEPS, HEIGHT * len(DIRECTIONS))
    for row, direction in enumerate(DIRECTIONS):
        for step in range(STEPS):
            x, y = step * WIDTH, row * HEIGHT
            image[y : y + HEIGHT, x : x + WIDTH] = figure(look, direction, step)
    return image
