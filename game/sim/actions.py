"""The action table: one table that feeds legality, prompt, mask, parser, overlay and docs."""

from __future__ import annotations

import msgspec


class ActionKind(msgspec.Struct, frozen=True):
    """One row of the table. `pattern` holds {place}, {item}, {person} where a word goes."""

    verb: str
    pattern: str
    doc: str


ACTIONS = (
    ActionKind("go", "go to the {place}", "walk there; ends early when something happens on the way"),
    ActionKind("take", "take the {item}", "pick up an item that lies here; hands must be free"),
    ActionKind("drop", "drop the {item}", "put down what you hold"),
    ActionKind("give", "give the {item} to {person}", "offer what you hold to someone beside you"),
    ActionKind("ask", "ask {person}", "ask someone beside you what they know, or for what they carry"),
    ActionKind("wait", "wait", "let a little time pass"),
)
BY_VERB = {kind.verb: kind for kind in ACTIONS}


class Action(msgspec.Struct, frozen=True):
    """A chosen action; unused words are empty."""

    verb: str
    place: str = ""
    item: str = ""
    person: str = ""

    def phrase(self) -> str:
        return BY_VERB[self.verb].pattern.format(place=self.place, item=self.item, person=self.person)


def parse(phrase: str, places: tuple[str, ...], items: tuple[str, ...], people: tuple[str, ...]) -> Action | None:
    """The action that a phrase names exactly, or None. Never a guess from a part of a word."""
    words = phrase.split(" ")
    match words:
        case ["go", "to", "the", place] if place in places:
            return Action("go", place=place)
        case ["take", "the", item] if item in items:
            return Action("take", item=item)
        case ["drop", "the", item] if item in items:
            return Action("drop", item=item)
        case ["give", "the", item, "to", person] if item in items and person in people:
            return Action("give", item=item, person=person)
        case ["ask", person] if person in people:
            return Action("ask", person=person)
        case ["wait"]:
            return Action("wait")
    return None


def table_text() -> str:
    """The table as one line for a prompt: the patterns with their words in capitals."""
    return ", ".join(kind.pattern.format(place="PLACE", item="ITEM", person="PERSON") for kind in ACTIONS)
