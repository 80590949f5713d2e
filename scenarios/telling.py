"""The village's observations in plain words, for reports that people read: what its scenarios answer with."""

from __future__ import annotations

from game.sim.observation import NOTHING, ROAD, UNKNOWN, Observation
from game.sim.trading import Sight, way_to


def errand(seen: Observation | Sight) -> str:
    """What the episode is about: "bring the lantern to Mara"."""
    return f"bring the {seen.goal_item} to {seen.goal_person}"


def search(seen: Observation) -> str:
    """Where the errand-runner stands with its search: "at the inn, looking for the lantern"."""
    if seen.hold == seen.goal_item:
        return ", ".join([_place(seen), *_homewards(seen)])
    words = [_place(seen)]
    item = seen.goal_item
    if seen.hold != NOTHING:
        words.append(f"with the {seen.hold} in hand")
    if seen.item == UNKNOWN:
        words.append(f"looking for the {item}")
    elif seen.item in (*seen.people, *seen.asked):
        words.append(f"where {seen.item} has the {item}")
    elif seen.item == seen.place:
        words.append(f"where the {item} lies")
    else:
        words.append(f"thinking the {item} is at the {seen.item}")
    return ", ".join(words)


def trade(seen: Sight) -> str:
    """Where the errand-runner stands with its swaps: "at the dock, with the rope in hand, 2 swaps from the book, next
    with Tom, last seen at the inn"."""
    if seen.hold == seen.goal_item:
        return ", ".join([_place(seen), *_homewards(seen)])
    way = way_to(seen.goal_item, seen.hold, seen.offers)
    words = [_place(seen), f"with the {seen.hold} in hand"]
    if way is None:
        deals = f"{len(seen.offers)} deal{'s' * (len(seen.offers) != 1)}" if seen.offers else "no deal"
        words.append(f"knowing {deals}, and no way to the {seen.goal_item}" if seen.offers else f"knowing {deals}")
        return ", ".join(words)
    words.append(f"{len(way)} swap{'s' * (len(way) != 1)} from the {seen.goal_item}, next with {way[0]}")
    place = next(offer.place for offer in seen.offers if offer.person == way[0])
    if way[0] in (*seen.people, *seen.asked):
        words.append("who is here")
    elif place != UNKNOWN:
        words.append(f"last seen at the {place}")
    return ", ".join(words)


def _place(seen: Observation | Sight) -> str:
    return "on the road" if seen.place == ROAD else f"at the {seen.place}"


def _homewards(seen: Observation | Sight) -> list[str]:
    words = [f"with the {seen.goal_item} for {seen.goal_person}"]
    if seen.asker == UNKNOWN and seen.goal_person not in (*seen.people, *seen.asked):
        words.append(f"looking for {seen.goal_person}")
    return words
