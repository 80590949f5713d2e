"""Observations in plain words, for reports that people read. Whatever has no words of its own is shown as it stands."""

from __future__ import annotations

from collections.abc import Callable

from game.sim.observation import NOTHING, ROAD, UNKNOWN, ObservationError, parse_observation


def situation(scenario: str, observation: str) -> str:
    """Where the character stands in this turn: "at the inn, looking for the lantern". The text itself for a scenario
    without words here, and for a text of a version that had another form."""
    return _told(_SITUATIONS, scenario, observation) or observation


def mission(scenario: str, observation: str) -> str:
    """What the episode is about: "bring the lantern to Mara"; empty for a scenario without words here."""
    return _told(_MISSIONS, scenario, observation)


def _told(table: dict[str, Callable[[str], str]], scenario: str, observation: str) -> str:
    tell = table.get(scenario)
    if tell is None:
        return ""
    try:
        return tell(observation)
    except ObservationError:
        return ""


def _errand(observation: str) -> str:
    seen = parse_observation(observation)
    return f"bring the {seen.goal_item} to {seen.goal_person}"


def _village(observation: str) -> str:
    seen = parse_observation(observation)
    where = "on the road" if seen.place == ROAD else f"at the {seen.place}"
    item, asker = seen.goal_item, seen.goal_person
    words = [where]
    if seen.hold == item:
        words.append(f"with the {item} for {asker}")
        if seen.asker == UNKNOWN and asker not in (*seen.people, *seen.asked):
            words.append(f"looking for {asker}")
    else:
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


_SITUATIONS: dict[str, Callable[[str], str]] = {"fetch_item": _village}
_MISSIONS: dict[str, Callable[[str], str]] = {"fetch_item": _errand}
