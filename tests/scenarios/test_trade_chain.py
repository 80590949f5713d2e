"""trade_chain: swaps, what people tell, what is remembered, and that it is another craft than fetch_item's."""

import random
from statistics import mean

import pytest

import scenarios
from game.sim.observation import UNKNOWN, ObservationError
from game.sim.trading import Deal, Market, parse_sight, trade_actions, way_to
from scenarios.trade_chain import LINKS

GAME = scenarios.get("trade_chain")


def beside(market: Market, name: str) -> Market:
    """The market with the runner beside somebody, who stays."""
    person = market.person(name)
    assert person is not None
    place = market.map.place(person.dest)
    person.x, person.y, person.until = place.x, place.y, 10_000
    market.state.runner.x, market.state.runner.y = place.x, place.y
    market.notice()
    return market


def trader(market: Market) -> Deal:
    """The deal that takes what is in hand and leads on."""
    chain = market.trade.chain
    return next(deal for deal in market.trade.deals if (deal.wants, deal.gives) == (chain[0], chain[1]))


@pytest.mark.parametrize("seed", range(12))
def test_a_swap_changes_hands_and_turns_the_deal_round(seed: int) -> None:
    market = GAME.build(seed)
    deal = trader(market)
    beside(market, deal.person)
    outcome = GAME.apply(market, f"give the {deal.wants} to {deal.person}")
    assert (outcome.kind, market.state.runner.hold) == ("handed", deal.gives)
    assert market.person(deal.person).carries == deal.wants
    assert market.deal_of(deal.person) == Deal(deal.person, deal.gives, deal.wants)
    assert outcome.terms["swap"] == pytest.approx(0.2)
    beside(market, deal.person)
    back = GAME.apply(market, f"give the {deal.gives} to {deal.person}")
    assert (market.state.runner.hold, back.terms["swap"]) == (deal.wants, pytest.approx(-0.2))


def test_nobody_takes_what_it_has_no_use_for() -> None:
    market = beside(GAME.build(3), "Pip")
    hold = market.state.runner.hold
    outcome = GAME.apply(market, f"give the {hold} to Pip")
    assert (outcome.kind, market.state.runner.hold) == ("refused", hold)


def test_who_is_asked_tells_its_deal_and_then_it_is_remembered() -> None:
    market = GAME.build(4)
    deal = trader(market)
    market.trade.heard.clear()
    beside(market, deal.person)
    outcome = GAME.apply(market, f"ask {deal.person}")
    assert outcome.kind == "told" and deal.gives in outcome.text and outcome.terms["hear"] == pytest.approx(0.05)
    seen = parse_sight(GAME.observation(market))
    assert [(o.person, o.wants, o.gives) for o in seen.offers] == [(deal.person, deal.wants, deal.gives)]
    assert seen.offers[0].place == market.person(deal.person).dest
    again = GAME.apply(market, f"ask {deal.person}")
    assert "hear" not in again.terms or again.kind == "told"  # of its own deal nothing more


def test_who_is_missed_is_looked_for_anew() -> None:
    market = GAME.build(5)
    deal = trader(market)
    beside(market, deal.person)
    here = market.place_of_runner()
    market.person(deal.person).x += 3
    market.notice()
    assert market.trade.seen_at[deal.person] == UNKNOWN
    assert here not in market.trade.unseen and len(market.trade.unseen) == 9


def test_the_way_is_planned_from_what_is_known() -> None:
    deals = [Deal("Tom", "rope", "fish"), Deal("Nell", "fish", "bread"), Deal("Ada", "rope", "book")]
    assert way_to("bread", "rope", deals) == ["Tom", "Nell"]
    assert way_to("book", "rope", deals) == ["Ada"]
    assert way_to("rope", "rope", deals) == []
    assert way_to("flute", "rope", deals) is None
    assert way_to("fish", "book", deals) is None


@pytest.mark.parametrize("difficulty", LINKS)
def test_every_chain_is_as_long_as_its_difficulty_says_and_has_one_way(difficulty: str) -> None:
    for seed in range(60):
        market = GAME.build(seed, {"difficulty": difficulty})
        s, trade = market.state, market.trade
        way = way_to(s.errand.item, s.runner.hold, trade.deals)
        assert way is not None and len(way) == int(difficulty) == len(set(way))
        assert s.errand.asker not in [deal.person for deal in trade.deals]
        assert sorted(deal.gives for deal in trade.deals) == sorted(p.carries for p in s.people if p.carries)


def test_the_text_reads_back_and_nonsense_is_refused() -> None:
    dice = random.Random(1)
    for seed in range(40):
        market = GAME.build(seed, {"difficulty": dice.choice("123")})
        while GAME.ended(market) is None:
            text = GAME.observation(market)
            seen = parse_sight(text)
            assert seen.text() == text
            assert tuple(action.phrase() for action in trade_actions(seen)) == GAME.legal(market)
            GAME.apply(market, dice.choice(GAME.legal(market)))
    for broken in (text.replace("asker", "asks"), text.replace("left ", "left x"), text + " dragon",
                   text.replace("goal ", "goal goal ")):  # fmt: skip
        with pytest.raises(ObservationError):
            parse_sight(broken)


def test_the_teacher_plans_and_asking_pays() -> None:
    def success(difficulty: str, ask: bool) -> float:
        won = []
        for seed in GAME.splits["validation"][:60]:
            market = GAME.build(seed, {"difficulty": difficulty})
            while GAME.ended(market) is None:
                phrase = GAME.teacher(None, GAME.observation(market))[0]
                if phrase.startswith("ask") and not ask:
                    phrase = GAME.legal(market)[market.state.turn % 9]
                GAME.apply(market, phrase)
            won.append(GAME.ended(market) == "success")
        return mean(won)

    assert success("1", True) >= 0.9
    assert success("2", True) >= 0.7
    assert success("2", False) < success("2", True) - 0.2


def test_fetch_items_village_is_the_same_as_ever() -> None:
    """The rules that they share were not touched for it: swaps are not there."""
    fetch = scenarios.get("fetch_item")
    assert fetch.engine_version == GAME.engine_version
    assert not isinstance(fetch.build(1), Market)
