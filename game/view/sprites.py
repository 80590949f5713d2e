"""The pictures of people, items and marks, at a whole-number scale. Off-screen: no display is needed."""

from importlib import resources
from importlib.resources.abc import Traversable

import pygame

from game.sim.village_map import MapError
from game.view.tiles import load_picture

PEOPLE = ("mara", "tom", "nell", "bram", "pip", "ada", "olin", "runner")
ITEMS = (
    "lantern",
    "rope",
    "bread",
    "fish",
    "book",
    "key",
    "hammer",
    "apple",
    "candle",
    "bottle",
    "basket",
    "flute",
)
MARKS = ("thinking 1", "thinking 2", "thinking 3", "alert", "question", "goal", "heart", "rain")
LIFE = (
    "cat sit 1", "cat sit 2", "cat walk 1", "cat walk 2", "duck 1", "duck 2", "smoke 1", "smoke 2", "smoke 3",
    "ripple 1", "ripple 2", "ripple 3", "closed", "rod",
)  # fmt: skip
SAIL_STEPS = 6  # of a quarter turn
SAILS_SIZE = (48, 64)
DIRECTIONS = ("north", "east", "south", "west")  # the rows of a person's sheet
STANDING, LEFT_FOOT, RIGHT_FOOT = range(3)  # its columns
PERSON_SIZE = (16, 20)  # source pixels; the head rises above the tile
SMALL_SIZE = (16, 16)  # an item or a mark
STEP_TO = {(0, -1): "north", (1, 0): "east", (0, 1): "south", (-1, 0): "west"}


class Sprites:
    """Every sprite, scaled once when loaded; `scale` is a whole number from 1."""

    def __init__(self, scale: int = 2, folder: Traversable | None = None) -> None:
        """Load the sheets, the game's own by default. Raises MapError for one that can't be read."""
        self.scale = scale
        folder = folder or resources.files("assets") / "sprites"
        self._people: dict[tuple[str, str, int], pygame.Surface] = {}
        for name in PEOPLE:
            cells = _cut(folder / f"{name}.png", PERSON_SIZE, 3, len(DIRECTIONS), scale)
            for number, cell in enumerate(cells):
                self._people[name, DIRECTIONS[number // 3], number % 3] = cell
        self._items = dict(
            zip(ITEMS, _cut(folder / "items.png", SMALL_SIZE, len(ITEMS), 1, scale), strict=True)
        )
        self._marks = dict(
            zip(MARKS, _cut(folder / "marks.png", SMALL_SIZE, len(MARKS), 1, scale), strict=True)
        )

        self._life = dict(zip(LIFE, _cut(folder / "life.png", SMALL_SIZE, len(LIFE), 1, scale), strict=True))
        self._mirrored = {name: pygame.transform.flip(cell, True, False) for name, cell in self._life.items()}
        self._sails = _cut(folder / "sails.png", SAILS_SIZE, SAIL_STEPS, 1, scale)

    def life(self, name: str, mirrored: bool = False) -> pygame.Surface:
        """One of LIFE, as it is drawn (looking east) or mirrored. Unknown names raise KeyError."""
        return (self._mirrored if mirrored else self._life)[name]

    def sails(self, step: int) -> pygame.Surface:
        """The mill's sails after so many steps."""
        return self._sails[step % SAIL_STEPS]

    def person(self, name: str, direction: str = "south", step: int = STANDING) -> pygame.Surface:
        """A person; step STANDING, LEFT_FOOT or RIGHT_FOOT. KeyError for an unknown name."""
        return self._people[name, direction, step]

    def item(self, name: str) -> pygame.Surface:
        """An item. Unknown names raise KeyError."""
        return self._items[name]

    def mark(self, name: str) -> pygame.Surface:
        """A mark to show over a head: one of MARKS."""
        return self._marks[name]

    def thinking(self, tick: int) -> pygame.Surface:
        """The thought bubble, whose dots come one by one as `tick` counts up."""
        return self._marks[MARKS[tick % 3]]

    def person_corner(self, tile: pygame.Rect) -> tuple[int, int]:
        """Where to blit a person: feet two source pixels above the lower edge of the tile's rectangle."""
        return tile.x, tile.bottom - (PERSON_SIZE[1] + 2) * self.scale

    def mark_corner(self, tile: pygame.Rect) -> tuple[int, int]:
        """Where to blit a mark over the head of a person on the tile."""
        return tile.x, self.person_corner(tile)[1] - (SMALL_SIZE[1] - 3) * self.scale


def walking_step(travelled: int) -> int:
    """The step to show after `travelled` half tiles on foot: left and right in turn, standing in between."""
    return (LEFT_FOOT, STANDING, RIGHT_FOOT, STANDING)[travelled % 4]


def _cut(
    sheet: Traversable, size: tuple[int, int], columns: int, rows: int, scale: int
) -> list[pygame.Surface]:
    """The cells of a sheet, row by row, each scaled. Raises MapError when the sheet has another size."""
    with resources.as_file(sheet) as path:
        picture = load_picture(path)
        width, height = size
        if picture.get_size() != (width * columns, height * rows):
            expected = f"{width * columns} x {height * rows}"
            raise MapError(
                f"{path}: the sheet is {picture.get_width()} x {picture.get_height()}, not {expected}"
            )
        return [
            pygame.transform.scale_by(picture.subsurface((x * width, y * height, width, height)), scale)
            for y in range(rows)
            for x in range(columns)
        ]
