"""Lessons about the village's language, from which the embedded model is taught before it ever runs an errand.

A lesson is a text and questions about it. They teach to read an observation ("say item" → "dock"), to tell what is so
in it ("is goal here" → "no"), and to follow orders: an order is a list of steps, and the first of them that can be
done now is done ("order take item ask do" → "ask Nell"). Lists are short, and their steps and their order are random:
none of them says how an errand is run. Behind the bare cue stands, half of the time, what some random order would
bring about, else any legal phrase: an untaught model wanders. Recall lessons are rows of names with their values,
asked again in another order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from game.sim.actions import Action
from game.sim.cast import CHARACTERS, ITEMS, PLACES
from game.sim.observation import NOTHING, OUTCOME_KINDS, ROAD, UNKNOWN, Observation, legal_actions, parse_observation
from scenarios.contract import Scenario

QUESTION_WORDS = ("say", "is", "order", "yes", "no", "known", "do")
ORDERS = ("give", "bring", "asker", "take", "item", "ask", "unseen", "drop", "wait")
LONGEST_ORDER = 4


class Lesson(msgspec.Struct, frozen=True):
    """A text, and (question, answer) pairs that each stand right behind it."""

    text: str
    questions: tuple[tuple[str, str], ...]


def visited(scenario: Scenario, dice: random.Random) -> Iterator[Observation]:
    """Observations of wandering play on train seeds: half of the steps are random, half follow the oracle."""
    seeds = scenario.splits["train"]
    while True:
        options = {"difficulty": dice.choice("12345")}
        state = scenario.build(dice.randrange(len(seeds)), options)
        wander = dice.choice((0.2, 0.5, 0.8))
        while scenario.ended(state) is None:
            yield parse_observation(scenario.observation(state))
            stray = dice.random() < wander
            scenario.apply(state, dice.choice(scenario.legal(state)) if stray else scenario.oracle(state))


def imagined(dice: random.Random) -> Observation:
    """An observation in which every field is drawn by itself: what is seldom seen together is seen too."""
    place = dice.choice((*PLACES, ROAD))
    near = dice.sample(tuple(CHARACTERS), dice.choice((0, 0, 1, 1, 2, 3)))
    near.sort(key=tuple(CHARACTERS).index)
    asked = [name for name in near if dice.random() < 0.4]
    goal = dice.choice(ITEMS)
    hold = dice.choice((NOTHING, NOTHING, goal, dice.choice(ITEMS)))
    here = sorted(dice.sample(ITEMS, dice.choice((0, 0, 1, 1, 2)))) if place != ROAD else []
    here = [item for item in here if item != hold]
    elsewhere = [name for name in PLACES if name != place]
    item = "hand" if hold == goal else dice.choice((UNKNOWN, dice.choice(elsewhere), *near[:1]))
    if hold != goal and goal in here:
        item = place
    asker = dice.choice((UNKNOWN, dice.choice(elsewhere), dice.choice(elsewhere)))
    person = dice.choice(tuple(CHARACTERS))
    if person in near and place != ROAD:
        asker = place
    missing = (asker if hold == goal else item) == UNKNOWN
    unseen = dice.sample(elsewhere, dice.randint(1, len(elsewhere))) if missing else []
    return Observation(
        left=dice.randint(1, 20), last=dice.choice(OUTCOME_KINDS), goal_item=goal, goal_person=person,
        unseen=tuple(unseen), asker=asker, item=item, place=place, hold=hold, items=tuple(here),
        asked=tuple(asked), people=tuple(name for name in near if name not in asked),
    )  # fmt: skip


def reading_questions(seen: Observation) -> list[tuple[str, str]]:
    """What can be read off an observation."""
    near = (*seen.people, *seen.asked)
    return [
        ("say item", seen.item), ("say asker", seen.asker), ("say hold", seen.hold), ("say at", seen.place),
        ("say goal", f"{seen.goal_item} {seen.goal_person}"), ("say last", seen.last),
        ("is goal here", _yes(seen.goal_item in seen.items)), ("is goal hold", _yes(seen.hold == seen.goal_item)),
        ("is goal with", _yes(seen.goal_person in near)), ("is item with", _yes(seen.item in near)),
        ("is item known", _yes(seen.item != UNKNOWN)), ("is asker known", _yes(seen.asker != UNKNOWN)),
        ("is hold none", _yes(seen.hold == NOTHING)), ("is item at", _yes(seen.item == seen.place)),
        ("is asker at", _yes(seen.asker == seen.place)),
        ("say with", seen.people[0] if seen.people else NOTHING),
        ("say unseen", seen.unseen[0] if seen.unseen else NOTHING),
    ]  # fmt: skip


def steps(seen: Observation) -> dict[str, Action]:
    """The steps that can be done now, by the words that order them."""
    near = (*seen.people, *seen.asked)
    found = {"wait": Action("wait")}
    if seen.hold == seen.goal_item and seen.goal_person in near:
        found["give"] = Action("give", item=seen.hold, person=seen.goal_person)
    if seen.asker in PLACES and seen.asker != seen.place:
        found["asker"] = Action("go", place=seen.asker)
        if seen.hold == seen.goal_item:
            found["bring"] = found["asker"]
    if seen.hold == NOTHING and seen.goal_item in seen.items:
        found["take"] = Action("take", item=seen.goal_item)
    if seen.item in near:
        found["item"] = Action("ask", person=seen.item)
    elif seen.item in PLACES and seen.item != seen.place:
        found["item"] = Action("go", place=seen.item)
    if seen.people:
        found["ask"] = Action("ask", person=seen.people[0])
    if seen.unseen:
        found["unseen"] = Action("go", place=seen.unseen[0])
    if seen.hold not in (NOTHING, seen.goal_item) and seen.place != ROAD:
        found["drop"] = Action("drop", item=seen.hold)
    return found


def order(seen: Observation, dice: random.Random) -> tuple[str, str]:
    """A random order that can be followed now, and the phrase that follows it."""
    can = steps(seen)
    while True:
        names = dice.sample(ORDERS, dice.randint(1, LONGEST_ORDER))
        first = next((name for name in names if name in can), None)
        if first is not None:
            return " ".join(names), can[first].phrase()


def named_step(seen: Observation, dice: random.Random) -> tuple[str, str]:
    """An order that names its place, person or item: "order mill do" → "go to the mill"."""
    action = dice.choice([action for action in legal_actions(seen) if action.verb in ("go", "take", "ask")])
    return action.place or action.item or action.person, action.phrase()


def lesson(seen: Observation, dice: random.Random, count: int, wander: float = 0.5) -> Lesson:
    """`count` questions about an observation: half reading, half orders, and one behind the bare cue, whose answer is
    any legal phrase in a share `wander` of lessons, and what a random order brings about in the others."""
    reading = count // 2
    questions = dice.sample(reading_questions(seen), reading)
    for _ in range(count - reading - 2):
        names, phrase = order(seen, dice)
        questions.append((f"order {names} do", phrase))
    name, phrase = named_step(seen, dice)
    questions.append((f"order {name} do", phrase))
    astray = dice.random() < wander
    questions.append(("do", dice.choice(legal_actions(seen)).phrase() if astray else order(seen, dice)[1]))
    return Lesson(seen.text(), tuple(questions))


def recall_row(words: tuple[str, ...], dice: random.Random, pairs: int) -> list[tuple[str, str]]:
    """Distinct names with values, then the same pairs in another order: the second half is what can be recalled."""
    names = dice.sample(words, pairs)
    row = [(name, dice.choice(words)) for name in names]
    return row + dice.sample(row, pairs)


def _yes(so: bool) -> str:
    return "yes" if so else "no"
