"""What a window shows and how it is played: one protocol for the game, the replay and whatever else moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pygame

Point = tuple[int, int]
GAP = "    "  # between two entries of the line of keys


@dataclass(frozen=True)
class Control:
    """A thing that a key does. The table of these feeds the keyboard and the page of keys.

    `keys` are pygame's key codes; `shown` is how they are written; `brief` stands in the line of keys, "" for none.
    """

    keys: tuple[int, ...]
    shown: str
    doc: str
    act: Callable[[], None]
    brief: str = ""


class Show(Protocol):
    """Everything about a window but the window. Points are pixels of the picture that `draw` gives."""

    @property
    def controls(self) -> Sequence[Control]:
        """What the keys do."""
        ...

    @property
    def done(self) -> bool:
        """Whether there is nothing more to show."""
        ...

    @property
    def first_size(self) -> tuple[int, int]:
        """How big the picture is before anybody resized it."""
        ...

    def resize(self, size: tuple[int, int]) -> None: ...

    def advance(self, seconds: float) -> None:
        """One frame of so many seconds."""
        ...

    def draw(self, p99_ms: float) -> pygame.Surface:
        """The picture of now, of the size that was asked for; `p99_ms` is the frame time to show."""
        ...

    def wait(self, seconds: float) -> None:
        """Blocks until something may have happened, or for so long."""
        ...

    def press(self, key: int) -> bool:
        """A key that comes before the controls, as in an open menu; False if it means nothing here."""
        ...

    def click(self, at: Point, button: int) -> None: ...

    def drag(self, at: Point) -> None:
        """The pointer moves with the left button held."""
        ...

    def hover(self, at: Point) -> None: ...


def keys_line(controls: Sequence[Control]) -> str:
    """The line of keys under the picture."""
    return GAP.join(f"{control.shown}: {control.brief}" for control in controls if control.brief)
