"""Keyed randomness: a draw is a pure function of who asks, when and what for.

There is no generator whose state a stray draw could move: a draw made for the picture, or for a character that
was added, leaves every other character's dice where they were.
"""

from __future__ import annotations

from hashlib import blake2b

MAX_SEED = 2**63 - 1


def draw(seed: int, stream: str, tick: int = 0, entity: str = "", counter: int = 0) -> int:
    """A 64-bit integer that depends on its arguments alone (blake2b, so equal in every process)."""
    key = f"{seed}|{stream}|{tick}|{entity}|{counter}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def below(n: int, seed: int, stream: str, tick: int = 0, entity: str = "", counter: int = 0) -> int:
    """An integer in [0, n). The bias of the remainder is under n / 2**64."""
    return draw(seed, stream, tick, entity, counter) % n


def chance(percent: int, seed: int, stream: str, tick: int = 0, entity: str = "", counter: int = 0) -> bool:
    """True in `percent` of 100 draws."""
    return draw(seed, stream, tick, entity, counter) % 100 < percent


def shuffled(values: tuple[str, ...], seed: int, stream: str, tick: int = 0) -> list[str]:
    """The values in an order keyed by each value itself, so that leaving one out keeps the others' order."""
    return sorted(values, key=lambda value: (draw(seed, stream, tick, value), value))
