"""fetch_item is worth learning: chance fails, what the runner sees is enough, each seed can be solved."""

import random
from collections.abc import Callable
from itertools import pairwise
from statistics import mean, median

import pytest

import scenarios
from game.sim.world import World
from scenarios import ScenarioError
from tests.game.village import DIFFICULTIES, FETCH

Player = Callable[[World, random.Random], str]
Played = tuple[bool, int]  # solved, turns


def at_random(world: World, rng: random.Random) -> str:
    return rng.choice(FETCH.legal(world))


def teacher(world: World, rng: random.Random) -> str:
    return FETCH.teacher(None, FETCH.observation(world))[0]


def oracle(world: World, rng: random.Random) -> str:
    return FETCH.oracle(world)


def play(player: Player, seeds: range, difficulty: str = "3") -> list[Played]:
    played = []
    for seed in seeds:
        world = FETCH.build(seed, {"difficulty": difficulty})
        rng = random.Random(seed)
        while not FETCH.ended(world):
            outcome = FETCH.apply(world, player(world, rng))
            assert outcome.kind != "illegal"
        played.append((FETCH.ended(world) == "success", world.state.turn))
    return played


def success(played: list[Played]) -> float:
    return mean(solved for solved, _ in played)


def test_chance_hardly_ever_solves_a_test_seed() -> None:
    assert success(play(at_random, FETCH.splits["test"])) < 0.05


def test_the_oracle_solves_every_test_seed() -> None:
    assert success(play(oracle, FETCH.splits["test"])) == 1.0


def test_the_teacher_solves_nearly_every_test_seed_in_a_handful_of_turns() -> None:
    played = play(teacher, FETCH.splits["test"])
    assert success(played) >= 0.95
    assert 5 <= median(turns for solved, turns in played if solved) <= 12


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_every_rung_of_the_ladder_can_be_solved(difficulty: str) -> None:
    assert success(play(oracle, FETCH.splits["validation"][:150], difficulty)) == 1.0


def test_each_rung_of_the_ladder_is_harder_than_the_one_below() -> None:
    rungs = [play(teacher, FETCH.splits["validation"][:300], difficulty) for difficulty in DIFFICULTIES]
    lengths = [mean(turns for _, turns in played) for played in rungs]
    assert lengths == sorted(lengths)
    assert all(above - below > 0.5 for below, above in pairwise(lengths)), lengths
    assert success(rungs[0]) > success(rungs[-1])
    assert success(rungs[-1]) > 0.5


def test_the_oracle_is_the_ceiling() -> None:
    seeds = FETCH.splits["validation"][:150]
    assert mean(turns for _, turns in play(oracle, seeds)) < mean(turns for _, turns in play(teacher, seeds))


def test_the_teacher_needs_no_memory_of_its_own() -> None:
    """Its phrase is a function of the observation, so that it can be imitated turn by turn."""
    for seed in range(30):
        world = FETCH.build(seed)
        memory = None
        while not FETCH.ended(world):
            phrase, memory = FETCH.teacher(memory, FETCH.observation(world))
            assert phrase == FETCH.teacher(None, FETCH.observation(world))[0]
            FETCH.apply(world, phrase)


def test_the_splits_hold_seeds_and_share_none() -> None:
    splits = sorted(FETCH.splits.values(), key=lambda split: split.start)
    assert set(FETCH.splits) == {"train", "validation", "test"}
    assert all(split.step == 1 and len(split) >= 500 and split.start >= 0 for split in splits)
    assert all(low.stop <= high.start for low, high in pairwise(splits))


def test_no_test_errand_is_a_train_errand_under_another_seed() -> None:
    def start(seed: int) -> str:
        return str({part: FETCH.digest(FETCH.build(seed))[part] for part in ("map", "characters", "npc")})

    test = {start(seed) for seed in FETCH.splits["test"]}
    assert len(test) == len(FETCH.splits["test"])
    assert test.isdisjoint(start(seed) for seed in FETCH.splits["train"][:2000])


def test_all_words_of_observations_and_phrases_are_in_the_vocabulary() -> None:
    known = set(FETCH.vocabulary)
    for seed in range(100):
        world = FETCH.build(seed, {"difficulty": DIFFICULTIES[seed % 5]})
        rng = random.Random(seed)
        while not FETCH.ended(world):
            assert known.issuperset(FETCH.observation(world).split())
            assert known.issuperset(word for phrase in FETCH.legal(world) for word in phrase.split())
            FETCH.apply(world, at_random(world, rng))
        assert known.issuperset(FETCH.observation(world).split())


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"dificulty": "3"}, "no option 'dificulty'; did you mean 'difficulty'"),
        ({"difficulty": "6"}, "difficulty='6': choose one of 1, 2, 3, 4, 5"),
        ({"without": "mara"}, "without='mara': choose one of nobody, Mara"),
        ({"zzz": "1"}, "no option 'zzz'; there is difficulty, without"),
    ],
)
def test_a_bad_option_names_the_remedy_in_one_line(options: dict[str, str], remedy: str) -> None:
    for refuse in (lambda: FETCH.build(1, options), lambda: FETCH.resolve_options(options)):
        with pytest.raises(ScenarioError) as caught:
            refuse()
        assert remedy in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_unknown_scenario_names_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="no scenario 'fetchitem'; did you mean 'fetch_item'"):
        scenarios.get("fetchitem")


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert FETCH.resolve_options(None) == {"difficulty": "3", "without": "nobody"}
    assert FETCH.digest(FETCH.build(4)) == FETCH.digest(FETCH.build(4, {"difficulty": "3"}))
    assert FETCH.digest(FETCH.build(4)) != FETCH.digest(FETCH.build(4, {"difficulty": "4"}))


def test_the_terms_that_are_paid_are_the_terms_that_are_listed() -> None:
    listed = {term.name for term in FETCH.reward_terms}
    paid: set[str] = set()
    for seed in range(30):
        world = FETCH.build(seed)
        while not FETCH.ended(world):
            paid.update(FETCH.apply(world, oracle(world, random.Random(0))).terms)
    assert paid == listed
