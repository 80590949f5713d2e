"""Every scenario tells its turns in plain words: where the character stands, and what it is all about."""

from __future__ import annotations

import random
from typing import Any

import pytest

import scenarios
from scenarios.conformance import choices

FETCH, TRADE = scenarios.get("fetch_item"), scenarios.get("trade_chain")
SLAB, TABLET, CODE = scenarios.get("tile_2048"), scenarios.get("sudoku"), scenarios.get("sudoku_code")


def text_of(scenario: scenarios.Scenario, seed: int, phrases: int = 0, **options: str) -> str:
    """The observation after so many turns of the oracle."""
    state: Any = scenario.build(seed, options)
    for _ in range(phrases):
        scenario.apply(state, scenario.oracle(state))
    return scenario.observation(state)


def test_a_search_in_the_village() -> None:
    text = text_of(FETCH, 2_000_003)
    assert FETCH.mission(text) == "bring the rope to Tom"
    assert FETCH.situation(text) == "at the bakery, looking for the rope"
    held = text.replace("hold none item unknown", "hold rope item hand")
    assert FETCH.situation(held) == "at the bakery, with the rope for Tom"
    assert FETCH.situation(held.replace("at bakery", "at road").replace("asker bakery", "asker unknown").replace(
        " with Tom", " with")) == "on the road, with the rope for Tom, looking for Tom"  # fmt: skip


def sight(**changed: str) -> str:
    parts = {"left": "30", "last": "start", "unseen": "inn", "offers": "", "asker": "mill", "at": "dock",
             "goal": "book Nell", "hold": "rope", "asked": "", "with": "Olin"} | changed  # fmt: skip
    offers = parts.pop("offers")
    words = []
    for key, value in parts.items():
        words += [offers] if key == "asker" and offers else []
        words.append(f"{key} {value}".strip())
    return " ".join(words)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "at the dock, with the rope in hand, knowing no deal"),
        ({"offers": "trade Tom fish book inn"},
         "at the dock, with the rope in hand, knowing 1 deal, and no way to the book"),
        ({"offers": "trade Tom rope book inn"},
         "at the dock, with the rope in hand, 1 swap from the book, next with Tom, last seen at the inn"),
        ({"offers": "trade Olin rope fish dock trade Tom fish book inn"},
         "at the dock, with the rope in hand, 2 swaps from the book, next with Olin, who is here"),
        ({"hold": "book", "at": "road", "asker": "unknown"}, "on the road, with the book for Nell, looking for Nell"),
    ],
)  # fmt: skip
def test_a_chain_of_swaps(changed: dict[str, str], told: str) -> None:
    text = sight(**changed)
    assert TRADE.retell(text) == text, "an observation as the scenario writes it"
    assert TRADE.mission(text) == "bring the book to Nell"
    assert TRADE.situation(text) == told


def test_runes_on_a_slab() -> None:
    text = "target 64 row 0 2 4 8 row 0 0 0 0 row 0 0 0 32 row 2 0 0 0"
    assert (SLAB.mission(text), SLAB.situation(text)) == (
        "bring a rune to 64", "the best rune is 32, 11 fields are empty")  # fmt: skip


def test_a_tablet() -> None:
    text = "board 1 2 3 0 then 3 4 1 2 then 2 1 4 3 then 4 3 0 0"
    assert (TABLET.mission(text), TABLET.situation(text)) == (
        "fill the tablet of 4 by 4", "3 of 16 fields are empty, 3 of them allow one digit alone")  # fmt: skip
    assert TABLET.situation(f"failed {text}") == "3 of 16 fields are empty, and one holds a wrong digit"
    named, large = text_of(TABLET, 5, difficulty="easy"), text_of(TABLET, 5, 1, difficulty="easy", size="9")
    assert TABLET.situation(named).startswith("4 of 16 fields are empty, ")
    assert TABLET.situation(large).startswith("19 of 81 fields are empty, ")


def test_a_program_for_a_tablet() -> None:
    assert CODE.mission("size 9") == "write a program that fills tablets of 9 by 9"
    assert [CODE.situation(text) for text in ("size 9", "size 9 done")] == ["no program yet", "the program was tried"]


@pytest.mark.parametrize("name", scenarios.names())
def test_whatever_happens_is_told_and_differs_from_the_observation(name: str) -> None:
    scenario, dice = scenarios.get(name), random.Random(1)
    for seed in range(3):
        state = scenario.build(seed)
        while scenario.ended(state) is None:
            text = scenario.observation(state)
            assert scenario.mission(text) and scenario.situation(text) != text
            scenario.apply(state, dice.choice(choices(scenario, state)))
        assert scenario.situation(scenario.observation(state))


def test_words_are_not_needed() -> None:
    lamp = scenarios.get("tests.scenarios.broken:Lamp")
    assert (lamp.situation("lamp 1 2"), lamp.mission("lamp 1 2")) == ("lamp 1 2", "")
