"""The things that are carried about, and the marks shown over people's heads: 16 x 16 pixels each."""

from collections.abc import Callable

from assets.pixels import TILE, Image, canvas, disc, dots, frame, line, outlined, rect


def lantern(image: Image) -> None:
    frame(image, 5, 1, 6, 4, "silver dark")
    rect(image, 4, 4, 8, 2, "slate light")
    rect(image, 4, 6, 8, 6, "lit")
    rect(image, 6, 7, 4, 5, "lit dark")
    rect(image, 7, 8, 2, 3, "white")
    rect(image, 4, 6, 1, 6, "slate")
    rect(image, 11, 6, 1, 6, "slate")
    rect(image, 3, 12, 10, 2, "slate light")


def rope(image: Image) -> None:
    disc(image, 7.5, 8.5, 5.8, "bread")
    for x, y in ((3, 5), (5, 4), (10, 3), (12, 6), (12, 11), (9, 13), (5, 13), (3, 11)):
        line(image, (x, y), (x + 1, y + 1), "bread dark")
    disc(image, 7.5, 8.5, 3.6, "bread dark")
    disc(image, 7.5, 8.5, 2.9, "bread light")
    disc(image, 7.5, 8.5, 1.6, "wood dark")
    rect(image, 11, 12, 3, 2, "bread")
    rect(image, 13, 13, 2, 1, "bread light")


def bread(image: Image) -> None:
    disc(image, 5, 8.5, 4.2, "bread")
    disc(image, 10.5, 8.5, 4.2, "bread")
    rect(image, 4, 5, 8, 8, "bread")
    rect(image, 2, 11, 12, 2, "bread dark")
    for x in (4, 7, 10):
        line(image, (x, 8), (x + 2, 5), "bread light")
        line(image, (x, 9), (x + 2, 6), "white")


def fish(image: Image) -> None:
    for row, half in enumerate((2, 4, 5, 5, 4, 2)):
        rect(image, 6 - half, 5 + row, 2 * half, 1, "teal light" if row < 3 else "silver")
    rect(image, 10, 7, 2, 2, "teal light")
    for step in range(3):
        rect(image, 12 + step, 7 - step, 1, 2 + 2 * step, "teal")
    dots(image, [(3, 7)], "ink")
    dots(image, [(6, 6), (8, 6), (7, 8), (5, 9), (9, 8)], "teal")
    rect(image, 6, 3, 3, 2, "teal")


def book(image: Image) -> None:
    rect(image, 3, 2, 10, 12, "purple")
    rect(image, 3, 2, 2, 12, "purple dark")
    rect(image, 5, 12, 8, 1, "white")
    rect(image, 4, 13, 9, 1, "purple dark")
    frame(image, 7, 4, 4, 5, "yellow")
    dots(image, [(8, 6), (9, 6)], "yellow")


def key(image: Image) -> None:
    disc(image, 4.5, 5, 3.6, "yellow")
    disc(image, 4.5, 5, 1.4, "ink")
    for step in range(8):
        rect(image, 6 + step, 7 + step - (step > 6), 2, 2, "yellow")
    rect(image, 12, 9, 2, 2, "yellow dark")
    rect(image, 10, 13, 2, 1, "yellow dark")
    rect(image, 13, 10, 1, 2, "yellow dark")


def hammer(image: Image) -> None:
    rect(image, 7, 6, 2, 9, "wood light")
    rect(image, 8, 6, 1, 9, "wood")
    rect(image, 2, 2, 11, 5, "silver")
    rect(image, 2, 5, 11, 2, "silver dark")
    rect(image, 13, 3, 1, 3, "silver dark")
    rect(image, 6, 2, 4, 5, "silver dark")


def apple(image: Image) -> None:
    disc(image, 5.5, 8.5, 3.9, "red")
    disc(image, 9.5, 8.5, 3.9, "red")
    disc(image, 7.5, 10, 3.6, "red")
    rect(image, 4, 6, 2, 3, "red light")
    dots(image, [(4, 6)], "white")
    line(image, (8, 5), (8, 2), "wood dark")
    rect(image, 9, 2, 4, 2, "green light")
    dots(image, [(12, 1)], "green light")


def candle(image: Image) -> None:
    rect(image, 6, 6, 4, 7, "white")
    rect(image, 9, 6, 1, 7, "plaster dark")
    dots(image, [(6, 8), (5, 8), (5, 9)], "white")
    rect(image, 7, 1, 2, 4, "ember")
    rect(image, 7, 2, 1, 3, "lit")
    dots(image, [(8, 4)], "lit")
    dots(image, [(7, 5)], "ink")
    rect(image, 3, 12, 10, 2, "yellow dark")
    rect(image, 12, 10, 2, 3, "yellow dark")
    rect(image, 4, 12, 7, 1, "yellow")


def bottle(image: Image) -> None:
    rect(image, 7, 1, 2, 2, "bread dark")
    rect(image, 7, 3, 2, 3, "green")
    rect(image, 5, 6, 6, 8, "green")
    rect(image, 6, 5, 4, 1, "green")
    rect(image, 10, 7, 1, 7, "green dark")
    rect(image, 6, 7, 1, 3, "green light")
    rect(image, 5, 9, 6, 3, "white")
    dots(image, [(7, 10), (8, 10)], "red")


def basket(image: Image) -> None:
    line(image, (3, 7), (5, 2), "wood light")
    line(image, (12, 7), (10, 2), "wood light")
    rect(image, 5, 1, 6, 1, "wood light")
    rect(image, 2, 6, 12, 2, "bread light")
    for row in range(6):
        rect(image, 3, 8 + row, 10, 1, "bread")
        for x in range(3 + row % 2 * 2, 13, 4):
            rect(image, x, 8 + row, 2, 1, "bread dark")


def flute(image: Image) -> None:
    for step in range(12):
        rect(image, 2 + step, 12 - step, 2, 2, "silver")
        dots(image, [(2 + step, 13 - step)], "silver dark")
    for step in (2, 4, 6, 9):
        dots(image, [(2 + step, 12 - step)], "ink")
    rect(image, 12, 1, 2, 2, "yellow")
    rect(image, 2, 12, 2, 2, "yellow")


ITEMS: dict[str, Callable[[Image], None]] = {
    "lantern": lantern,
    "rope": rope,
    "bread": bread,
    "fish": fish,
    "book": book,
    "key": key,
    "hammer": hammer,
    "apple": apple,
    "candle": candle,
    "bottle": bottle,
    "basket": basket,
    "flute": flute,
}


def _bubble(image: Image) -> None:
    rect(image, 2, 2, 12, 8, "white")
    rect(image, 1, 3, 14, 6, "white")
    rect(image, 6, 10, 3, 1, "white")
    rect(image, 6, 11, 2, 1, "white")
    rect(image, 6, 12, 1, 1, "white")


def _thinking(dots_shown: int) -> Callable[[Image], None]:
    def draw(image: Image) -> None:
        _bubble(image)
        for dot in range(3):
            rect(image, 3 + dot * 4, 5, 2, 2, "blue dark" if dot < dots_shown else "plaster")

    return draw


def alert(image: Image) -> None:
    _bubble(image)
    rect(image, 7, 3, 2, 4, "red")
    rect(image, 7, 8, 2, 1, "red")


def question(image: Image) -> None:
    _bubble(image)
    rect(image, 6, 3, 3, 1, "blue dark")
    rect(image, 9, 4, 1, 1, "blue dark")
    dots(image, [(5, 4), (8, 5), (7, 6)], "blue dark")
    rect(image, 7, 8, 1, 1, "blue dark")


def goal(image: Image) -> None:
    """An arrow that points down at whoever or whatever the errand is about."""
    rect(image, 6, 2, 4, 6, "yellow")
    for row in range(5):
        rect(image, 3 + row, 8 + row, 10 - 2 * row, 1, "yellow")
    rect(image, 9, 2, 1, 6, "yellow dark")


def heart(image: Image) -> None:
    for x in (4, 9):
        rect(image, x, 3, 3, 1, "red light")
    rect(image, 3, 4, 10, 3, "red light")
    for row in range(5):
        rect(image, 3 + row, 7 + row, 10 - 2 * row, 1, "red light")
    rect(image, 4, 4, 2, 2, "white")
    rect(image, 11, 4, 2, 4, "red")


def rain(image: Image) -> None:
    """A small cloud that rains on the one who failed."""
    rect(image, 2, 4, 12, 4, "slate light")
    rect(image, 4, 2, 5, 2, "slate light")
    rect(image, 9, 3, 3, 1, "slate light")
    rect(image, 2, 7, 12, 1, "slate")
    for x, y in ((4, 10), (8, 9), (11, 11)):
        rect(image, x, y, 1, 3, "water light")


MARKS: dict[str, Callable[[Image], None]] = {
    "thinking 1": _thinking(1),
    "thinking 2": _thinking(2),
    "thinking 3": _thinking(3),
    "alert": alert,
    "question": question,
    "goal": goal,
    "heart": heart,
    "rain": rain,
}


def strip(drawings: dict[str, Callable[[Image], None]]) -> Image:
    """One row of 16 x 16 pictures, in the order of the table."""
    image = canvas(TILE * len(drawings), TILE)
    for column, draw in enumerate(drawings.values()):
        picture = canvas(TILE, TILE)
        draw(picture)
        image[:, column * TILE : (column + 1) * TILE] = outlined(picture)
    return image
