"""The whole state of the village: everything that decides the next tick, as integers, words and ordered lists."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

import msgspec

from game.sim.actions import Action
from game.sim.cast import PLACES
from game.sim.observation import NOTHING, ROAD, UNKNOWN, Observation, by_phrase, phrases
from game.sim.village_map import VillageMap, ways_of

ENGINE_VERSION = "1"


class Rules(msgspec.Struct, frozen=True):
    """The numbers that a difficulty sets. Percentages are chances of 100."""

    items: int = 8  # how many items are in the village
    know: int = 25  # a character knows where a given item lies at the start
    hint: int = 15  # the asker knows it and says so at once
    carried: int = 15  # Olin starts with the item in hand
    theft: int = 35  # Pip has heard of the item and goes for it first
    pilfer: int = 30  # Pip, beside unwatched things, takes one
    snatch: int = 4  # Pip, beside the runner, takes what it holds (a tick)
    snatches: int = 1  # how often at most
    summon: int = 45  # Ada calls the asker away
    far: int = 0  # the item lies at least this many steps from the asker


class Person(msgspec.Struct):
    """A character. `dest` is the place it stands at or walks to; it stays until `until`."""

    name: str
    x: int
    y: int
    dest: str
    until: int = 0
    carries: str = ""
    knows: dict[str, str] = {}  # item -> place where it was last seen lying, in the order learned
    moves: int = 0  # how many destinations it has chosen: the counter of its dice


class Runner(msgspec.Struct):
    """The errand-runner's body and memory."""

    x: int
    y: int
    hold: str = ""
    item_at: str = UNKNOWN
    asker_at: str = UNKNOWN
    item_unseen: list[str] = []
    asker_unseen: list[str] = []
    asked: list[str] = []
    last: str = "start"


class Errand(msgspec.Struct, frozen=True):
    """Who wants what."""

    item: str
    asker: str


class State(msgspec.Struct):
    """What is written down of a world; the map is the same for all and is left out."""

    seed: int
    rules: Rules
    errand: Errand
    runner: Runner
    people: list[Person]
    lying: dict[str, str]  # item -> place, for the items that lie somewhere; kept in alphabetical order
    tick: int = 0
    turn: int = 0
    turn_cap: int = 20
    snatched: int = 0
    summon_at: int = -1  # the tick from which Ada seeks the asker; -1: never, or done
    delivered: bool = False


class World:
    """A village in one moment. Rules that move it on are in `game.sim.people` and `game.sim.turn`."""

    __slots__ = ("map", "state", "ways")

    def __init__(self, village: VillageMap, state: State) -> None:
        self.map = village
        self.state = state
        self.ways = ways_of(village)

    def clone(self) -> World:
        s = self.state
        copy = State(
            s.seed, s.rules, s.errand,
            Runner(s.runner.x, s.runner.y, s.runner.hold, s.runner.item_at, s.runner.asker_at,
                   s.runner.item_unseen.copy(), s.runner.asker_unseen.copy(), s.runner.asked.copy(), s.runner.last),
            [Person(p.name, p.x, p.y, p.dest, p.until, p.carries, p.knows.copy(), p.moves) for p in s.people],
            s.lying.copy(), s.tick, s.turn, s.turn_cap, s.snatched, s.summon_at, s.delivered,
        )  # fmt: skip
        return World(self.map, copy)

    def digest(self) -> dict[str, str]:
        """blake2b-64 of the canonical bytes, by part, so that a difference names where it is."""
        s = self.state
        parts = {
            "map": (self.map.width, self.map.height, self.map.walkable, list(s.lying.items())),
            "characters": [
                (p.name, p.x, p.y, p.dest, p.until, p.carries, list(p.knows.items()), p.moves) for p in s.people
            ],
            "npc": (s.runner, s.errand),
            "clock": (s.seed, s.rules, s.tick, s.turn, s.turn_cap, s.snatched, s.summon_at, s.delivered),
        }
        return {name: blake2b(_canonical(part), digest_size=8).hexdigest() for name, part in parts.items()}

    # -- where things are -------------------------------------------------------------------------------------

    def place_of_runner(self) -> str:
        """The place that the runner stands at, or "" on the road."""
        runner = self.state.runner
        return self.ways.names[runner.y * self.ways.width + runner.x]

    def person(self, name: str) -> Person | None:
        for person in self.state.people:
            if person.name == name:
                return person
        return None

    def arrived(self, person: Person) -> bool:
        return (person.x, person.y) == self.ways.spots[person.dest]

    def beside_runner(self) -> list[Person]:
        """The characters at the runner's place, or on the road those at most one step away."""
        x, y = self.state.runner.x, self.state.runner.y
        if self.ways.names[y * self.ways.width + x]:
            return [p for p in self.state.people if p.x == x and p.y == y]
        return [p for p in self.state.people if abs(p.x - x) + abs(p.y - y) <= 1]

    def is_beside_runner(self, person: Person) -> bool:
        """Whether the character is one of those beside the runner."""
        runner = self.state.runner
        apart = abs(person.x - runner.x) + abs(person.y - runner.y)
        return apart == 0 or (apart == 1 and not self.place_of_runner())

    def items_at(self, place: str) -> list[str]:
        return [item for item, where in self.state.lying.items() if where == place]

    # -- what the runner sees -----------------------------------------------------------------------------------

    def observe(self) -> Observation:
        s = self.state
        runner = s.runner
        here = self.place_of_runner()
        near = [p.name for p in self.beside_runner()]
        has_it = runner.hold == s.errand.item
        if has_it:
            missing = runner.asker_unseen if runner.asker_at == UNKNOWN else []
        else:
            missing = runner.item_unseen if runner.item_at == UNKNOWN else []
        return Observation(
            left=s.turn_cap - s.turn,
            last=runner.last,
            goal_item=s.errand.item,
            goal_person=s.errand.asker,
            unseen=self.nearest_first(missing),
            asker=runner.asker_at,
            item="hand" if has_it else runner.item_at,
            place=here or ROAD,
            hold=runner.hold or NOTHING,
            items=tuple(self.items_at(here)) if here else (),
            asked=tuple(name for name in near if name in runner.asked),
            people=tuple(name for name in near if name not in runner.asked),
        )

    def legal(self) -> tuple[str, ...]:
        """The legal phrases: a function of what `observe` shows."""
        return phrases(*self._before_it())

    def allowed(self, phrase: str) -> Action | None:
        """The action that a legal phrase stands for, or None."""
        return by_phrase(*self._before_it()).get(phrase)

    def _before_it(self) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
        """What legality depends on: the place, what is in hand, the things here and the people beside the runner."""
        here = self.place_of_runner()
        items = tuple(self.items_at(here)) if here else ()
        return here or ROAD, self.state.runner.hold or NOTHING, items, tuple([p.name for p in self.beside_runner()])

    def nearest_first(self, places: Collection[str]) -> tuple[str, ...]:
        """`places` by their distance from the runner."""
        if not places:
            return ()
        runner = self.state.runner
        order = self.ways.nearest[runner.y * self.ways.width + runner.x]
        return tuple([place for place in order if place in places])

    def remember(self) -> None:
        """Brings the runner's memory up to what stands before its eyes."""
        s = self.state
        runner = s.runner
        here = self.place_of_runner()
        near = self.beside_runner()
        names = [p.name for p in near]
        has_it = runner.hold == s.errand.item
        if has_it:
            runner.item_at = UNKNOWN
        else:
            holder = next((p.name for p in near if p.carries == s.errand.item), "")
            if holder:
                runner.item_at = holder
            elif here and s.lying.get(s.errand.item) == here:
                runner.item_at = here
            elif runner.item_at == here or (runner.item_at not in PLACES and runner.item_at != UNKNOWN):
                self.forget_item()  # it isn't here any more, or who had it has gone
        if here in runner.item_unseen:
            runner.item_unseen.remove(here)
        if here in runner.asker_unseen:
            runner.asker_unseen.remove(here)
        if s.errand.asker in names:
            if here:
                runner.asker_at = here
        elif here and runner.asker_at == here:
            runner.asker_at = UNKNOWN
            runner.asker_unseen = [place for place in PLACES if place != here]
            runner.asked = []
        if not runner.item_unseen:
            runner.item_unseen = [place for place in PLACES if place != here]
            runner.asked = []
        if not runner.asker_unseen:
            runner.asker_unseen = [place for place in PLACES if place != here]
            runner.asked = []

    def forget_item(self) -> None:
        """The item is not where it was thought to be: the search begins anew."""
        runner = self.state.runner
        here = self.place_of_runner()
        runner.item_at = UNKNOWN
        runner.item_unseen = [place for place in PLACES if place != here]
        runner.asked = []


_encoder = msgspec.msgpack.Encoder()


def _canonical(part: object) -> bytes:
    """msgpack of structs, lists and words: struct fields in order of definition, dicts already as lists."""
    return _encoder.encode(part)
