"""Seeds that teach: near one half, none that is always won or lost, and always some of all."""

from __future__ import annotations

import json

import scenarios
from rl.rollout import Episode, Plan
from rl.seeds import SeedBook, best_level, choose_starts, ladder_of, teaching

FETCH = scenarios.get("fetch_item")
LADDER = ladder_of(FETCH)
OPTIONS = FETCH.resolve_options({})


def seen(seed: int, wins: int, of: int, level: str = "3") -> list[Episode]:
    plan = Plan(seed, OPTIONS | {"difficulty": level}, f"g{seed}", "")
    return [Episode(plan, {}, [], "success" if i < wins else "turn_cap") for i in range(of)]


def book(*groups: list[Episode]) -> SeedBook:
    made = SeedBook()
    made.learn([episode for group in groups for episode in group], LADDER)
    return made


def starts(made: SeedBook, curriculum: str, share: float, count: int = 200):
    return choose_starts(made, curriculum, share, FETCH, OPTIONS, count, "draws")


def test_always_won_and_always_lost_are_dropped():
    assert set(teaching(book(seen(1, 0, 4), seen(2, 4, 4), seen(3, 1, 4)))) == {"3/3"}


def test_the_nearer_to_one_half_the_likelier():
    made = book(seen(1, 2, 4), seen(2, 1, 8))
    drawn = [seed for seed, _ in starts(made, "seeds", 1.0)]
    assert drawn.count(1) > drawn.count(2) > 0


def test_some_of_all_stay():
    made = book(seen(1, 2, 4))
    drawn = [seed for seed, _ in starts(made, "seeds", 0.5)]
    fresh = [seed for seed in drawn if seed != 1]
    assert 0.15 < drawn.count(1) / 200 < 0.35
    assert len(set(fresh)) == len(fresh)
    assert all(seed in FETCH.splits["train"] for seed in drawn)


def test_uniform_heeds_nothing_that_was_seen():
    assert starts(book(seen(1, 2, 4)), "uniform", 1.0) == starts(SeedBook(), "uniform", 1.0)
    assert all(options == OPTIONS for _, options in starts(SeedBook(), "uniform", 1.0))


def test_the_ladder_goes_to_the_level_near_one_half_and_keeps_the_one_asked_for():
    tried = [seen(10 + int(level), wins, 10, level) for level, wins in zip("12345", (9, 8, 3, 5, 0), strict=True)]
    made = book(*tried)
    assert best_level(made, LADDER) == "4"
    levels = [options["difficulty"] for _, options in starts(made, "ladder", 0.5)]
    assert set(levels) == {"3", "4"}
    assert 0.3 < levels.count("4") / 200 < 0.7


def test_a_level_that_was_never_tried_is_tried():
    assert best_level(book(seen(1, 0, 10, "1")), LADDER) == "2"


def test_old_news_fades():
    made = book(seen(1, 2, 4))
    for _ in range(6):
        made.learn(seen(1, 4, 4), LADDER)
    assert teaching(made)["1/3"] < 0.05


def test_the_book_reads_back_exactly():
    made = book(seen(1, 2, 4), seen(2, 1, 3))
    again = SeedBook()
    again.restore(json.loads(json.dumps(made.plain())))
    assert again.plain() == made.plain()
    assert starts(again, "seeds", 0.8) == starts(made, "seeds", 0.8)
