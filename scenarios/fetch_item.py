"""fetch_item: somebody in the village wants a thing, and the errand-runner is to find it and bring it.

Mission
    Bring the item to the villager who asked for it, within 20 turns.
What is seen
    Turns left, how the last action went, the goal, what is in hand, the place, the items and people there, where item
    and asker are thought to be, and, when one of them is missing, the places not looked at yet, nearest first.
Actions
    The village's action table (`game.sim.actions`): go, take, drop, give, ask, wait.
What goes wrong
    The item may lie somewhere unseen, be carried about by Olin, be taken by Pip before or out of the runner's hands;
    the asker may be called away by Ada; what people say may be out of date.
Reward
    `find` 0.2 while it is known where the item is, `hold` 0.2 while it is in hand (both are differences of a
    potential, so that taking and dropping earns nothing), `deliver` 0.6 for the delivery, `time` -0.005 a turn.
Ending
    "success" when the asker has the item, "turn_cap" after 20 turns.
Difficulty
    1 (the item is near and the asker says where) to 5 (far, hidden, many distractions, two thefts).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property

import msgspec

from game.sim import actions, cast, observation, people, rng, turn, world
from game.sim.cast import ASKERS, CHARACTERS, ITEMS, PLACES, ROUTINES
from game.sim.observation import NOTHING, UNKNOWN, Observation, parse_observation
from game.sim.people import FOREVER, look_around
from game.sim.rng import below, chance, shuffled
from game.sim.turn import play_turn
from game.sim.world import Errand, Person, Rules, Runner, State, World
from scenarios import telling
from scenarios.contract import Option, Outcome, RewardTerm, Scenario, check_seed, hash_source
from scenarios.village_map import load_village

LADDER = {
    "1": Rules(items=4, know=60, hint=90, carried=0, theft=0, pilfer=5, snatch=0, snatches=0, summon=0),
    "2": Rules(items=6, know=45, hint=40, carried=5, theft=15, pilfer=15, snatch=2, snatches=1, summon=20),
    "3": Rules(items=8, know=30, hint=15, carried=15, theft=35, pilfer=30, snatch=4, snatches=1, summon=45),
    "4": Rules(items=10, know=20, hint=5, carried=25, theft=50, pilfer=40, snatch=6, snatches=1, summon=60, far=8),
    "5": Rules(items=12, know=10, hint=0, carried=35, theft=60, pilfer=50, snatch=8, snatches=2, summon=80, far=12),
}
FIND, HOLD, DELIVER, TIME = 0.2, 0.2, 0.6, -0.005


class FetchItem(Scenario):
    __doc__ = __doc__

    name = "fetch_item"
    version = 1
    engine_version = world.ENGINE_VERSION
    turn_cap = 20
    reward_terms = (
        RewardTerm("find", "it is known where the item is (taken back when that is lost)", -FIND, FIND),
        RewardTerm("hold", "the item is in hand (taken back when it is lost)", 0.0, HOLD),
        RewardTerm("deliver", "the asker has the item", 0.0, DELIVER),
        RewardTerm("time", "every turn costs a little", 20 * TIME, TIME),
    )
    options = (
        Option("difficulty", "3", tuple(LADDER), "how far, how hidden, how many thieves and distractions"),
        Option("without", "nobody", ("nobody", *CHARACTERS), "leaves one character out of the village"),
    )
    splits = {  # noqa: RUF012
        "train": range(1_000_000),
        "validation": range(1_000_000, 1_010_000),
        "test": range(2_000_000, 2_000_500),
    }
    prefix = f"You run errands in a village . Find the item and bring it . You can {actions.table_text()} ."

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:  # type: ignore[override]
        words = observation.vocabulary() + tuple(self.prefix.replace(",", "").split())
        return tuple(dict.fromkeys(words))

    @cached_property
    def source_hash(self) -> str:
        rules = (actions, cast, observation, people, rng, turn, world)
        return hash_source(*rules, sys.modules[__name__])

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> World:
        check_seed(seed)
        chosen = self.resolve_options(options)
        rules = LADDER[chosen["difficulty"]]
        village = load_village()
        names = [name for name in CHARACTERS if name != chosen["without"]]

        asker = next(name for name in shuffled(ASKERS, seed, "asker") if name in names)
        asker_at = PLACES[below(len(PLACES), seed, "asker at")]
        places = [
            place for place in PLACES
            if place != asker_at
            and village.distance(village.place(place).x, village.place(place).y, asker_at) >= rules.far
        ]  # fmt: skip
        present = shuffled(ITEMS, seed, "items")[: rules.items]
        wanted = present[0]
        lying = {}
        for item in sorted(present):
            spots = places if item == wanted else PLACES
            lying[item] = spots[below(len(spots), seed, "lies", 0, item)]

        everyone = []
        for name in names:
            if name == asker:
                home = asker_at
            elif name in ROUTINES:
                home = ROUTINES[name][0]
            else:
                home = PLACES[below(len(PLACES), seed, "home", 0, name)]
            spot = village.place(home)
            knows = {item: place for item, place in lying.items() if chance(rules.know, seed, "knows", 0, name + item)}
            until = FOREVER if name == asker else below(30, seed, "first stay", 0, name)
            everyone.append(Person(name, spot.x, spot.y, home, until, "", knows))

        start = village.place(asker_at)
        state = State(
            seed=seed, rules=rules, errand=Errand(wanted, asker),
            runner=Runner(start.x, start.y, item_unseen=list(PLACES), asker_unseen=list(PLACES)),
            people=everyone, lying=lying, turn_cap=self.turn_cap,
            summon_at=8 + below(40, seed, "summon at") if chance(rules.summon, seed, "summon") else -1,
        )  # fmt: skip
        built = World(village, state)
        _trouble(built)
        for person in everyone:
            look_around(built, person)
        if chance(rules.hint, seed, "hint"):
            state.runner.item_at = state.lying.get(wanted, UNKNOWN)
        built.remember()
        return built

    def clone(self, state: World) -> World:
        return state.clone()

    def digest(self, state: World) -> dict[str, str]:
        return state.digest()

    def dump(self, state: World) -> bytes:
        return msgspec.msgpack.encode(state.state)

    def load(self, data: bytes) -> World:
        return World(load_village(), msgspec.msgpack.decode(data, type=State))

    def observation(self, state: World) -> str:
        return state.observe().text()

    def situation(self, observation: str) -> str:
        return telling.search(parse_observation(observation))

    def mission(self, observation: str) -> str:
        return telling.errand(parse_observation(observation))

    def legal(self, state: World) -> tuple[str, ...]:
        return state.legal()

    def apply(self, state: World, phrase: str, on_tick: Callable[[World], None] | None = None) -> Outcome:
        before = _potential(state)
        result = play_turn(state, phrase, on_tick)
        after = _potential(state)
        terms = {"time": TIME}
        for term, value in after.items():
            if value != before[term]:
                terms[term] = value - before[term]
        return Outcome(result.kind, result.text, result.ticks, terms, self.ended(state))

    def ended(self, state: World) -> str | None:
        if state.state.delivered:
            return "success"
        return "turn_cap" if state.state.turn >= state.state.turn_cap else None

    def credit_key(self, observation: str) -> tuple[str, ...]:
        return _stage(parse_observation(observation))

    def oracle(self, state: World) -> str:
        return _oracle(state)

    def teacher(self, memory: object, observation: str) -> tuple[str, object]:
        return _teacher(parse_observation(observation)), memory


def _trouble(built: World) -> None:
    """What goes wrong from the start: Olin has the item, or Pip is on his way to it."""
    state = built.state
    wanted = state.errand.item
    olin = built.person("Olin")
    if olin is not None and olin.name != state.errand.asker and chance(state.rules.carried, state.seed, "carried"):
        del state.lying[wanted]
        olin.carries = wanted
        return
    pip = built.person("Pip")
    if pip is not None and chance(state.rules.theft, state.seed, "tempted"):
        pip.dest = state.lying[wanted]


def _potential(state: World) -> dict[str, float]:
    """What has been reached: computed from the state alone."""
    s = state.state
    if s.delivered:
        return {"find": FIND, "hold": HOLD, "deliver": DELIVER}
    held = s.runner.hold == s.errand.item
    where = s.lying.get(s.errand.item)
    known = held or (where is not None and s.runner.item_at == where) or _carried_by(state, s.runner.item_at)
    return {"find": FIND if known else 0.0, "hold": HOLD if held else 0.0, "deliver": 0.0}


def _carried_by(state: World, name: str) -> bool:
    person = state.person(name)
    return person is not None and person.carries == state.state.errand.item


def _stage(seen: Observation) -> tuple[str, ...]:
    """How far the errand is: what is in hand, what is known of the item and the asker, how much time is left."""
    near = (*seen.people, *seen.asked)
    hand = "it" if seen.hold == seen.goal_item else "free" if seen.hold == NOTHING else "wrong"
    asker = "here" if seen.goal_person in near else "unknown" if seen.asker == UNKNOWN else "known"
    item = "unknown" if seen.item == UNKNOWN else "known"
    if seen.goal_item in seen.items or seen.item in near:
        item = "here"
    about = f"asker {asker}" if hand == "it" else f"item {item}"
    search = f"{'someone' if seen.people else 'nobody'} to ask"
    return hand, about, f"{seen.left // 4}", search


def _oracle(state: World) -> str:
    """Sees where everything is; walks there, takes it, brings it."""
    s = state.state
    seen = state.observe()
    near = (*seen.people, *seen.asked)
    asker = state.person(s.errand.asker)
    assert asker is not None
    if seen.hold not in (NOTHING, s.errand.item):
        return f"drop the {seen.hold}" if seen.place in PLACES else f"go to the {asker.dest}"
    if seen.hold == s.errand.item:
        if asker.name in near:
            return f"give the {s.errand.item} to {asker.name}"
        return "wait" if asker.dest == seen.place else f"go to the {asker.dest}"
    holder = next((p for p in s.people if p.carries == s.errand.item), None)
    if holder is not None:
        if holder.name in near:
            return f"ask {holder.name}"
        return "wait" if holder.dest == seen.place else f"go to the {holder.dest}"
    where = s.lying[s.errand.item]
    return f"take the {s.errand.item}" if where == seen.place else f"go to the {where}"


def _teacher(seen: Observation) -> str:
    """Sees what the runner sees: bring it if held, fetch it if known, else ask whoever is here, else look around."""
    near = (*seen.people, *seen.asked)
    if seen.hold == seen.goal_item:
        if seen.goal_person in near:
            return f"give the {seen.hold} to {seen.goal_person}"
        if seen.asker != UNKNOWN and seen.asker != seen.place:
            return f"go to the {seen.asker}"
    else:
        if seen.hold != NOTHING and seen.place in PLACES:
            return f"drop the {seen.hold}"
        if seen.hold == NOTHING and seen.goal_item in seen.items:
            return f"take the {seen.goal_item}"
        if seen.item in near:
            return f"ask {seen.item}"
        if seen.item in PLACES and seen.item != seen.place:
            return f"go to the {seen.item}"
    if seen.people:
        return f"ask {seen.people[0]}"
    return f"go to the {seen.unseen[0]}" if seen.unseen else "wait"
