"""What the errand-runner sees, knows and remembers, as a struct with a text form, and the actions that it allows.

The text puts facts side by side ("item dock") and what decides nearest to the end, because a small model copies a
value best when it stands right behind its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from game.sim.actions import Action
from game.sim.cast import CHARACTERS, ITEMS, PLACES

NOTHING = "none"
UNKNOWN = "unknown"
ROAD = "road"


class ObservationError(ValueError):
    """A text that is not an observation; says at which word."""


class Observation(msgspec.Struct, frozen=True):
    """One turn as the errand-runner sees it. Lists keep the order of the text."""

    left: int  # turns left, this one included
    last: str  # how the last action went: an outcome kind
    goal_item: str
    goal_person: str
    unseen: tuple[str, ...]  # places not looked at yet for what is missing, nearest first; empty when nothing is
    asker: str  # where the asker is thought to be: a place or "unknown"
    item: str  # where the item is thought to be: a place, a person beside the runner, "hand" or "unknown"
    place: str  # where the runner stands: a place or "road"
    hold: str  # the item in hand or "none"
    items: tuple[str, ...]  # items that lie here
    asked: tuple[str, ...]  # people beside the runner who were asked already
    people: tuple[str, ...]  # people beside the runner who were not

    def text(self) -> str:
        words = ["left", str(self.left), "last", self.last]
        words += ["unseen", *self.unseen]
        words += ["asker", self.asker, "at", self.place, "asked", *self.asked]
        words += ["goal", self.goal_item, self.goal_person, "hold", self.hold]
        words += ["item", self.item, "here", *self.items, "with", *self.people]
        return " ".join(words)


_KEYS = ("left", "last", "unseen", "asker", "at", "asked", "goal", "hold", "item", "here", "with")


def parse_observation(text: str) -> Observation:
    """The struct that `text` is the text form of.

    Raises ObservationError where a key is missing, out of order, or a value does not belong to it.
    """
    words = text.split(" ")
    values: dict[str, tuple[str, ...]] = {}
    at = 0
    for index, key in enumerate(_KEYS):
        if at >= len(words) or words[at] != key:
            raise ObservationError(f"word {at + 1}: expected {key!r}")
        end = at + 1
        following = _KEYS[index + 1] if index + 1 < len(_KEYS) else None
        while end < len(words) and words[end] != following:
            end += 1
        values[key] = tuple(words[at + 1 : end])
        at = end

    def one(key: str, allowed: tuple[str, ...] | None = None, nth: int = 0, of: int = 1) -> str:
        if len(values[key]) != of:
            raise ObservationError(f"{key!r} takes {of} word(s), has {len(values[key])}")
        value = values[key][nth]
        if allowed is not None and value not in allowed:
            raise ObservationError(f"{key!r}: {value!r} does not belong here")
        return value

    def several(key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        for value in values[key]:
            if value not in allowed:
                raise ObservationError(f"{key!r}: {value!r} does not belong here")
        return values[key]

    people = tuple(CHARACTERS)
    left = one("left")
    if not (left.isascii() and left.isdigit() and len(left) < 10) or str(int(left)) != left:
        raise ObservationError(f"'left': {left!r} is not a count")
    return Observation(
        left=int(left),
        last=one("last", OUTCOME_KINDS),
        goal_item=one("goal", ITEMS, 0, 2),
        goal_person=one("goal", people, 1, 2),
        unseen=several("unseen", PLACES),
        asker=one("asker", (*PLACES, UNKNOWN)),
        item=one("item", (*PLACES, *people, "hand", UNKNOWN)),
        place=one("at", (*PLACES, ROAD)),
        hold=one("hold", (*ITEMS, NOTHING)),
        items=several("here", ITEMS),
        asked=several("asked", people),
        people=several("with", people),
    )


# How an action can go; the word is what the observation shows as "last".
OUTCOME_KINDS = (
    "start",  # nothing was done yet
    "arrived",  # went there
    "met",  # stopped on the way: someone who matters is near
    "robbed",  # Pip took what was in hand
    "taken",
    "gone",  # it was taken away in the meantime
    "dropped",
    "delivered",
    "refused",  # the wrong item, or the wrong person
    "told",  # the one who was asked knew something
    "handed",  # the one who was asked gave the item
    "nothing",  # the one who was asked knew nothing new
    "left",  # the person walked off before it happened
    "waited",
    "illegal",  # a proposal that was not legal: the turn is used up
)


def legal_actions(seen: Observation) -> tuple[Action, ...]:
    """The legal actions: a function of the observation alone, in the order of the action table."""
    near = tuple([name for name in CHARACTERS if name in seen.people or name in seen.asked])
    return tuple(by_phrase(seen.place, seen.hold, seen.items, near).values())


@lru_cache(maxsize=8192)
def by_phrase(place: str, hold: str, items: tuple[str, ...], near: tuple[str, ...]) -> Mapping[str, Action]:
    """The legal actions by their phrases, from what an observation shows of the place, the hand, the things that lie
    here and the people beside the runner, these in the order of the cast. Kept: few sights come up, and often."""
    actions = [Action("go", place=name) for name in PLACES if name != place]
    if hold == NOTHING:
        actions += [Action("take", item=item) for item in items]
    else:
        if place != ROAD:
            actions.append(Action("drop", item=hold))
        actions += [Action("give", item=hold, person=name) for name in near]
    actions += [Action("ask", person=name) for name in near]
    actions.append(Action("wait"))
    return MappingProxyType({action.phrase(): action for action in actions})


@lru_cache(maxsize=8192)
def phrases(place: str, hold: str, items: tuple[str, ...], near: tuple[str, ...]) -> tuple[str, ...]:
    """The phrases of `by_phrase` as they are listed."""
    return tuple(by_phrase(place, hold, items, near))


def vocabulary() -> tuple[str, ...]:
    """Every word that an observation can hold, counts up to 30 included."""
    counts = tuple(str(n) for n in range(31))
    return (*_KEYS, *OUTCOME_KINDS, *PLACES, *ITEMS, *CHARACTERS, NOTHING, UNKNOWN, ROAD, "hand", *counts)
