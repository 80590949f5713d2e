"""Which legal phrases a place, a person or a thing in the village stands for. No pygame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from game.sim.actions import Action, parse
from game.sim.cast import CHARACTERS, ITEMS, PLACES, RUNNER


class Target(NamedTuple):
    """Something in the village that can be pointed at. `kind` is "place", "person" or "item"; `place` is where it
    is, "" on the road."""

    kind: str
    name: str
    place: str


def intents(target: Target, legal: Sequence[str], here: str) -> tuple[str, ...]:
    """The legal phrases about a target, in the order of the list; `here` is the place of the errand-runner.

    A person or a thing that is elsewhere stands for the way there. The errand-runner itself, and the place where it
    stands, stand for what can be done on the spot.
    """
    known = ((phrase, parse(phrase, PLACES, ITEMS, tuple(CHARACTERS))) for phrase in legal)
    return tuple(phrase for phrase, action in known if action is not None and _is_about(action, target, here))


def _is_about(action: Action, target: Target, here: str) -> bool:
    on_the_spot = action.verb in ("take", "drop", "wait")
    if target.kind == "person" and target.name == RUNNER:
        return action.verb in ("drop", "wait")
    if target.kind == "person":
        return action.person == target.name or (action.verb == "go" and action.place == target.place != here)
    if target.kind == "item":
        return action.item == target.name or (action.verb == "go" and action.place == target.place != here)
    return action.place == target.name or (target.name == here and on_the_spot)
