"""Trading: people who part with what they carry for one certain thing. The same village, one more rule.

A trader has a deal: it gives what it carries for what it wants. A swap turns the deal round (it wants back what it
gave), so that no swap is for ever. The errand-runner learns a deal by asking the trader, or somebody who has heard of
it, and remembers where it saw whom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from game.sim.actions import Action, parse
from game.sim.cast import CHARACTERS, ITEMS, PLACES
from game.sim.observation import NOTHING, OUTCOME_KINDS, ROAD, UNKNOWN, ObservationError
from game.sim.people import step_people
from game.sim.rng import chance
from game.sim.turn import OnTick, Result, play_turn
from game.sim.world import World

HEARD = 80  # of 100 pairs, somebody who has no deal to tell has heard of another's


class Deal(msgspec.Struct, frozen=True):
    """What somebody wants, and gives for it."""

    person: str
    wants: str
    gives: str


class Trade(msgspec.Struct):
    """What trading adds to a state. `chain`: the items from the first in hand to the one that was asked for."""

    deals: list[Deal]
    chain: list[str]
    heard: list[str] = []  # whose deal the runner knows
    seen_at: dict[str, str] = {}  # trader -> where the runner last saw or heard of it, or "unknown"
    unseen: list[str] = []  # places not looked at since somebody was missed
    asked: list[str] = []  # who has told all it knew


class Market(World):
    """A village in which some trade."""

    __slots__ = ("trade",)

    def __init__(self, world: World, trade: Trade) -> None:
        super().__init__(world.map, world.state)
        self.trade = trade

    def clone(self) -> Market:
        t = self.trade
        copy = Trade(t.deals.copy(), t.chain.copy(), t.heard.copy(), t.seen_at.copy(), t.unseen.copy(), t.asked.copy())
        return Market(super().clone(), copy)

    def digest(self) -> dict[str, str]:
        t = self.trade
        part = (t.deals, t.chain, t.heard, list(t.seen_at.items()), t.unseen, t.asked)
        return super().digest() | {"trade": blake2b(msgspec.msgpack.encode(part), digest_size=8).hexdigest()}

    def deal_of(self, name: str) -> Deal | None:
        return next((deal for deal in self.trade.deals if deal.person == name), None)

    def notice(self) -> None:
        """Brings the runner's memory of people up to what stands before its eyes."""
        here = self.place_of_runner()
        if not here:
            return
        t, near = self.trade, [person.name for person in self.beside_runner()]
        for name in near:
            t.seen_at[name] = here
        missed = [name for name, place in t.seen_at.items() if place == here and name not in near]
        for name in missed:
            t.seen_at[name] = UNKNOWN
        t.seen_at = dict(sorted(t.seen_at.items()))
        if missed or not t.unseen:
            t.unseen = list(PLACES)
            t.asked = [name for name in t.asked if name in t.heard and not missed]
        if here in t.unseen:
            t.unseen.remove(here)

    def look(self) -> Sight:
        s, t = self.state, self.trade
        here, near = self.place_of_runner(), [person.name for person in self.beside_runner()]
        offers = tuple(
            Offer(deal.person, deal.wants, deal.gives, t.seen_at.get(deal.person, UNKNOWN))
            for deal in t.deals
            if deal.person in t.heard
        )
        return Sight(
            left=s.turn_cap - s.turn, last=s.runner.last, unseen=self.nearest_first(t.unseen),
            offers=offers, asker=t.seen_at.get(s.errand.asker, UNKNOWN), place=here or ROAD,
            goal_item=s.errand.item, goal_person=s.errand.asker, hold=s.runner.hold or NOTHING,
            asked=tuple(name for name in near if name in t.asked),
            people=tuple(name for name in near if name not in t.asked),
        )  # fmt: skip


class Offer(msgspec.Struct, frozen=True):
    """A deal that the runner has heard of, and where it last saw the trader."""

    person: str
    wants: str
    gives: str
    place: str


class Sight(msgspec.Struct, frozen=True):
    """One turn as the errand-runner sees it while it trades. Fields are in the order of the text."""

    left: int
    last: str
    unseen: tuple[str, ...]  # places not looked at, nearest first
    offers: tuple[Offer, ...]
    asker: str
    place: str
    goal_item: str
    goal_person: str
    hold: str
    asked: tuple[str, ...]
    people: tuple[str, ...]

    def text(self) -> str:
        words = ["left", str(self.left), "last", self.last, "unseen", *self.unseen]
        for offer in self.offers:
            words += ["trade", offer.person, offer.wants, offer.gives, offer.place]
        words += ["asker", self.asker, "at", self.place, "goal", self.goal_item, self.goal_person]
        return " ".join([*words, "hold", self.hold, "asked", *self.asked, "with", *self.people])


def parse_sight(text: str) -> Sight:
    """The struct that `text` is the text form of. Raises ObservationError where it is none."""
    keys = ("left", "last", "unseen", "trade", "asker", "at", "goal", "hold", "asked", "with")
    allowed = {
        "unseen": PLACES, "last": OUTCOME_KINDS, "at": (*PLACES, ROAD), "asker": (*PLACES, UNKNOWN),
        "hold": (*ITEMS, NOTHING), "asked": tuple(CHARACTERS), "with": tuple(CHARACTERS),
    }  # fmt: skip
    found: dict[str, list[list[str]]] = {key: [] for key in keys}
    key = ""
    for word in text.split(" "):
        if word in keys and not (key == "last" and not found["last"][-1]):
            key = word
            found[key].append([])
        elif not key or (key in allowed and word not in allowed[key]):
            raise ObservationError(f"{key or 'the beginning'!r}: {word!r} does not belong here")
        else:
            found[key][-1].append(word)
    many = {"unseen", "asked", "with"}
    for name in keys:
        if name != "trade" and (len(found[name]) != 1 or (name not in many and not found[name][0])):
            raise ObservationError(f"{name!r} must be there once, with a value")
    if any(len(offer) != 4 for offer in found["trade"]) or len(found["goal"][0]) != 2:
        raise ObservationError("an offer takes 4 words, the goal 2")
    one = {name: found[name][0][0] for name in ("left", "last", "asker", "at", "hold")}
    (item, person), (unseen,), (asked,), (near,) = found["goal"][0], found["unseen"], found["asked"], found["with"]
    sight = Sight(
        left=int(one["left"]) if one["left"].isdigit() else -1, last=one["last"], unseen=tuple(unseen),
        offers=tuple(Offer(*offer) for offer in found["trade"]), asker=one["asker"], place=one["at"],
        goal_item=item, goal_person=person, hold=one["hold"], asked=tuple(asked), people=tuple(near),
    )  # fmt: skip
    if sight.text() != text:
        raise ObservationError("words are out of order")
    return sight


def trade_actions(seen: Sight) -> tuple[Action, ...]:
    """The legal actions while trading: a function of the sight alone, in the order of the action table."""
    near = [name for name in CHARACTERS if name in seen.people or name in seen.asked]
    actions = [Action("go", place=place) for place in PLACES if place != seen.place]
    if seen.hold != NOTHING:
        actions += [Action("give", item=seen.hold, person=name) for name in near]
    actions += [Action("ask", person=name) for name in near]
    return (*actions, Action("wait"))


def way_to(goal: str, hold: str, deals: Iterable[Deal | Offer]) -> list[str] | None:
    """Whom to swap with, one after the other, so that what is held becomes `goal`; the shortest way, or None."""
    deals = list(deals)
    ways: dict[str, list[str]] = {hold: []}
    queue = deque([hold])
    while queue:
        item = queue.popleft()
        if item == goal:
            return ways[item]
        for deal in deals:
            if deal.wants == item and deal.gives not in ways:
                ways[deal.gives] = [*ways[item], deal.person]
                queue.append(deal.gives)
    return None


def play_trade(market: Market, phrase: str, on_tick: OnTick | None = None) -> Result:
    """Plays one intent of the errand-runner. Walking and waiting are as ever; giving and asking are a trader's."""
    state, before = market.state, market.state.tick
    action = parse(phrase, PLACES, ITEMS, tuple(CHARACTERS))
    if action is not None and action in trade_actions(market.look()):
        if action.verb in ("go", "wait") or _delivers(market, action):
            result = play_turn(market, phrase, on_tick)
            market.notice()
            return result
        kind, text = _swap(market, action) if action.verb == "give" else _hear(market, action)
    else:
        kind, text = "illegal", f"{phrase!r} is not something that can be done now"
    state.tick += 1
    step_people(market)
    if on_tick is not None:
        on_tick(market)
    state.turn += 1
    state.runner.last = kind
    market.remember()
    market.notice()
    return Result(kind, text, state.tick - before)


def _delivers(market: Market, action: Action) -> bool:
    errand = market.state.errand
    return action.verb == "give" and (action.item, action.person) == (errand.item, errand.asker)


def _swap(market: Market, action: Action) -> tuple[str, str]:
    deal = market.deal_of(action.person)
    if deal is None or deal.wants != action.item:
        return "refused", f"{action.person}: a {action.item}? Not from me"
    person = market.person(action.person)
    assert person is not None
    person.carries, market.state.runner.hold = deal.wants, deal.gives
    turned = Deal(deal.person, deal.gives, deal.wants)
    market.trade.deals = [turned if one is deal else one for one in market.trade.deals]
    _learn(market, deal.person)
    return "handed", f"{action.person} took the {deal.wants} and gave the {deal.gives}"


def _hear(market: Market, action: Action) -> tuple[str, str]:
    """The deal of the one who is asked; else of a trader that it has heard of, and where that one is."""
    t, name = market.trade, action.person
    own = market.deal_of(name)
    if own is not None and name not in t.heard:
        _learn(market, name)
        return "told", f"{name}: I give the {own.gives} for a {own.wants}"
    if name not in t.asked:
        t.asked.append(name)
    for person in market.state.people:
        lost = t.seen_at.get(person.name, UNKNOWN) == UNKNOWN
        deal = market.deal_of(person.name)
        matters = deal is not None or person.name == market.state.errand.asker
        if person.name == name or not matters or not (lost or (deal and person.name not in t.heard)):
            continue
        if name == "Ada" or chance(HEARD, market.state.seed, "heard of", 0, name + person.name):
            t.seen_at[person.name] = person.dest
            t.seen_at = dict(sorted(t.seen_at.items()))
            if deal is None:
                return "told", f"{name}: {person.name} is at the {person.dest}"
            _learn(market, person.name)
            return "told", f"{name}: {person.name}, at the {person.dest}, gives the {deal.gives} for a {deal.wants}"
    return "nothing", f"{name}: no idea"


def _learn(market: Market, name: str) -> None:
    if name not in market.trade.heard:
        market.trade.heard.append(name)
