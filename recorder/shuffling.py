"""A stream in another order, at constant memory."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def shuffled(items: Iterable[T], seed: int, buffer: int) -> Iterator[T]:
    """The items in an order that `seed` decides: each is drawn from a buffer of `buffer` that came before it.

    With a buffer as long as the stream, a uniform shuffle; with a shorter one, an item comes at most about as early as
    its place less the buffer, and how late is only a matter of luck.
    """
    dice = random.Random(seed)
    held: list[T] = []
    for item in items:
        if len(held) < buffer:
            held.append(item)
            continue
        at = dice.randrange(buffer)
        yield held[at]
        held[at] = item
    dice.shuffle(held)
    yield from held
