"""trade_chain: somebody wants a thing that nobody gives for nothing; the errand-runner swaps its way to it.

Mission
    Start with one thing in hand, swap it with the right people one after the other, and bring what was asked for to
    the villager who asked, within 30 turns. It is the village of fetch_item, and another craft: to plan from the end.
What is seen
    Turns left, how the last action went, the places not looked at yet, every deal that was heard of ("trade Tom rope
    fish dock": Tom, last seen at the dock, gives a fish for a rope), where the asker is thought to be, the place, the
    goal, what is in hand, and who is near.
Actions
    Of the village's action table: go, give, ask, wait.
What goes wrong
    Deals are unknown until somebody tells of them; some lead nowhere (the trader gives it back for what it got);
    people go about their day, and Ada may call the asker away.
Reward
    `hear` 0.1 for the deals of the chain that are known, `swap` 0.4 for how far along the chain the thing in hand is
    (a difference of a potential: swapping to and fro earns nothing), `deliver` 0.5, `time` -0.005 a turn.
Ending
    "success" when the asker has it, "turn_cap" after 30 turns.
Difficulty
    1 to 3: so many swaps, and one deal that leads nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import pairwise

import msgspec

from game.sim import actions, cast, observation, people, rng, trading, turn, world
from game.sim.cast import ASKERS, CHARACTERS, ITEMS, PLACES, ROUTINES
from game.sim.observation import UNKNOWN
from game.sim.people import FOREVER
from game.sim.rng import below, chance, shuffled
from game.sim.trading import Deal, Market, Sight, Trade, parse_sight, play_trade, trade_actions, way_to
from game.sim.world import Errand, Person, Rules, Runner, State, World
from scenarios import telling
from scenarios.contract import Option, Outcome, RewardTerm, Scenario, ScenarioError, check_seed, hash_source
from scenarios.village_map import load_village

LINKS = {"1": (1, 1), "2": (2, 1), "3": (3, 1)}  # difficulty -> swaps, and deals that lead nowhere
HEAR, SWAP, DELIVER, TIME = 0.1, 0.4, 0.5, -0.005
TRADERS = ("Mara", "Tom", "Nell", "Ada", "Bram")  # who keeps in hand what it carries
TOLD = 50  # of 100 starts, the asker says whom to see first
SUMMON = 20


class TradeChain(Scenario):
    __doc__ = __doc__

    name = "trade_chain"
    version = 1
    engine_version = world.ENGINE_VERSION
    turn_cap = 30
    reward_terms = (
        RewardTerm("hear", "deals of the chain that are known", 0.0, HEAR),
        RewardTerm("swap", "how far along the chain the thing in hand is", 0.0, SWAP),
        RewardTerm("deliver", "the asker has it", 0.0, DELIVER),
        RewardTerm("time", "every turn costs a little", 30 * TIME, TIME),
    )
    options = (Option("difficulty", "2", tuple(LINKS), "how many swaps it takes"),)
    splits = {  # noqa: RUF012
        "train": range(1_000_000),
        "validation": range(1_000_000, 1_010_000),
        "test": range(2_000_000, 2_000_500),
    }
    prefix = "You trade in a village : give what is wanted , get what is given , bring the item to who is asker ."

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys((*observation.vocabulary(), "trade", "go", "give", "to", "the", "ask", "wait",
                                    *self.prefix.split())))  # fmt: skip

    @cached_property
    def source_hash(self) -> str:
        rules = (actions, cast, observation, people, rng, trading, turn, world)
        return hash_source(*rules, sys.modules[__name__])

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Market:
        check_seed(seed)
        links, astray = LINKS[self.resolve_options(options)["difficulty"]]
        village = load_village()
        asker = shuffled(ASKERS, seed, "asker")[0]
        asker_at = PLACES[below(len(PLACES), seed, "asker at")]
        items = shuffled(ITEMS, seed, "items")
        chain, others = items[: links + 1], items[links + 1 :]
        traders = shuffled(tuple(name for name in TRADERS if name != asker), seed, "traders")[: links + astray]
        deals = [Deal(traders[n], chain[n], chain[n + 1]) for n in range(links)]
        for n, name in enumerate(traders[links:]):
            deals.append(Deal(name, chain[below(links, seed, "astray", 0, name)], others[n]))
        carries = {deal.person: deal.gives for deal in deals}

        everyone = []
        for name in CHARACTERS:
            if name == asker:
                home = asker_at
            elif name in ROUTINES:
                home = ROUTINES[name][0]
            else:
                home = PLACES[below(len(PLACES), seed, "home", 0, name)]
            spot = village.place(home)
            until = FOREVER if name == asker else below(30, seed, "first stay", 0, name)
            everyone.append(Person(name, spot.x, spot.y, home, until, carries.get(name, "")))

        start = village.place(asker_at)
        summoned = chance(SUMMON, seed, "summon")
        state = State(
            seed=seed, rules=Rules(pilfer=0, snatch=0, snatches=0), errand=Errand(chain[-1], asker),
            runner=Runner(start.x, start.y, chain[0], item_unseen=list(PLACES), asker_unseen=list(PLACES)),
            people=everyone, lying={}, turn_cap=self.turn_cap,
            summon_at=8 + below(40, seed, "summon at") if summoned else -1,
        )  # fmt: skip
        deals.sort(key=lambda deal: tuple(CHARACTERS).index(deal.person))
        built = Market(World(village, state), Trade(deals, chain))
        built.remember()
        built.notice()
        if chance(TOLD, seed, "told"):
            first = built.person(traders[0])
            assert first is not None
            built.trade.heard.append(first.name)
            built.trade.seen_at[first.name] = first.dest
        return built

    def clone(self, state: Market) -> Market:
        return state.clone()

    def digest(self, state: Market) -> dict[str, str]:
        return state.digest()

    def dump(self, state: Market) -> bytes:
        return msgspec.msgpack.encode((state.state, state.trade))

    def load(self, data: bytes) -> Market:
        try:
            state, trade = msgspec.msgpack.decode(data, type=tuple[State, Trade])
        except msgspec.MsgspecError as error:
            raise ScenarioError(f"trade_chain: not a state of this scenario ({error})") from error
        return Market(World(load_village(), state), trade)

    def observation(self, state: Market) -> str:
        return state.look().text()

    def retell(self, observation: str) -> str:
        return parse_sight(observation).text()

    def situation(self, observation: str) -> str:
        return telling.trade(parse_sight(observation))

    def mission(self, observation: str) -> str:
        return telling.errand(parse_sight(observation))

    def legal(self, state: Market) -> tuple[str, ...]:
        return tuple(action.phrase() for action in trade_actions(state.look()))

    def apply(self, state: Market, phrase: str, on_tick: Callable[[World], None] | None = None) -> Outcome:
        before = _potential(state)
        result = play_trade(state, phrase, on_tick)
        terms = {"time": TIME}
        for term, value in _potential(state).items():
            if value != before[term]:
                terms[term] = value - before[term]
        return Outcome(result.kind, result.text, result.ticks, terms, self.ended(state))

    def ended(self, state: Market) -> str | None:
        if state.state.delivered:
            return "success"
        return "turn_cap" if state.state.turn >= state.state.turn_cap else None

    def credit_key(self, observation: str) -> tuple[str, ...]:
        seen = parse_sight(observation)
        way = way_to(seen.goal_item, seen.hold, seen.offers)
        near = (*seen.people, *seen.asked)
        steps = "unknown" if way is None else str(len(way))
        whom, where = _next(seen, way)
        at_hand = "here" if whom in near else "unknown" if where == UNKNOWN else "known"
        return steps, at_hand, f"{seen.left // 4}"

    def oracle(self, state: Market) -> str:
        """Knows every deal and where everybody is."""
        s, seen = state.state, state.look()
        way = way_to(s.errand.item, seen.hold, state.trade.deals)
        assert way is not None
        whom = way[0] if way else s.errand.asker
        person = state.person(whom)
        assert person is not None
        if whom in (*seen.people, *seen.asked):
            return f"give the {seen.hold} to {whom}"
        return "wait" if person.dest == seen.place else f"go to the {person.dest}"

    def teacher(self, memory: object, observation: str) -> tuple[str, object]:
        """Follows the way that it knows of; without one it asks who is here, and looks around."""
        seen = parse_sight(observation)
        way = way_to(seen.goal_item, seen.hold, seen.offers)
        whom, where = _next(seen, way)
        if whom and whom in (*seen.people, *seen.asked):
            return f"give the {seen.hold} to {whom}", memory
        if where in PLACES and where != seen.place:
            return f"go to the {where}", memory
        if seen.people:
            return f"ask {seen.people[0]}", memory
        return (f"go to the {seen.unseen[0]}" if seen.unseen else "wait"), memory


def _next(seen: Sight, way: list[str] | None) -> tuple[str, str]:
    """(whom to see next, where that one is thought to be); ("", "unknown") while no way is known."""
    if way is None:
        return "", UNKNOWN
    if not way:
        return seen.goal_person, seen.asker
    return way[0], next(offer.place for offer in seen.offers if offer.person == way[0])


def _potential(state: Market) -> dict[str, float]:
    """What has been reached: computed from the state alone."""
    chain, trade = state.trade.chain, state.trade
    links = len(chain) - 1
    if state.state.delivered:
        return {"hear": HEAR, "swap": SWAP, "deliver": DELIVER}
    hold = state.state.runner.hold
    far = chain.index(hold) if hold in chain else 0
    # a deal of the chain stands between two neighbours of it, whichever way round it is now
    pairs = {frozenset(pair) for pair in pairwise(chain)}
    known = sum(deal.person in trade.heard and frozenset((deal.wants, deal.gives)) in pairs for deal in trade.deals)
    return {"hear": HEAR * known / links, "swap": SWAP * far / links, "deliver": 0.0}
