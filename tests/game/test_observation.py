"""The observation: its text and its struct are one, and it holds nothing that can't be known."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from game.sim.cast import CHARACTERS, ITEMS, PLACES
from game.sim.observation import (
    NOTHING,
    OUTCOME_KINDS,
    ROAD,
    UNKNOWN,
    Observation,
    ObservationError,
    legal_actions,
    parse_observation,
)
from game.sim.rng import below
from game.sim.world import World
from scenarios.contract import MAX_SEED
from tests.game.village import DIFFICULTIES, FETCH, LANGUAGE, SETTINGS, play_picks, play_teacher

PEOPLE = tuple(CHARACTERS)


def some(words: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(words), max_size=len(words), unique=True).map(tuple)


def one(*words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words)


observations = st.builds(
    Observation,
    left=st.integers(0, 10**9 - 1),
    last=one(*OUTCOME_KINDS),
    goal_item=one(*ITEMS),
    goal_person=one(*PEOPLE),
    unseen=some(PLACES),
    asker=one(*PLACES, UNKNOWN),
    item=one(*PLACES, *PEOPLE, "hand", UNKNOWN),
    place=one(*PLACES, ROAD),
    hold=one(*ITEMS, NOTHING),
    items=some(ITEMS),
    asked=some(PEOPLE),
    people=some(PEOPLE),
)


@settings(SETTINGS, max_examples=300)
@given(observations)
def test_any_observation_goes_through_its_text_and_back(seen: Observation) -> None:
    text = seen.text()
    assert parse_observation(text) == seen
    assert parse_observation(text).text() == text


@settings(SETTINGS, max_examples=300)
@given(observations)
def test_any_observation_allows_only_phrases_of_the_language_each_once(seen: Observation) -> None:
    phrases = [action.phrase() for action in legal_actions(seen)]
    assert "wait" in phrases
    assert len(set(phrases)) == len(phrases)
    assert set(phrases) <= set(LANGUAGE)


@settings(SETTINGS, max_examples=500)
@given(
    seen=observations,
    at=st.integers(0, 60),
    cut=st.integers(0, 3),
    put=st.lists(
        one("left", "unseen", "here", "dock", "Tom", "rope", "none", "hand", "7", "", "x"), max_size=3
    ),
)
def test_a_text_is_either_refused_or_is_its_own_observation(
    seen: Observation, at: int, cut: int, put: list[str]
) -> None:
    words = seen.text().split(" ")
    words[at : at + cut] = put
    text = " ".join(words)
    try:
        parsed = parse_observation(text)
    except ObservationError:
        return
    assert parsed.text() == text


@settings(SETTINGS, max_examples=200)
@given(st.text(max_size=40))
@example("")
@example("left")
def test_no_other_text_is_an_observation(text: str) -> None:
    with pytest.raises(ObservationError):
        parse_observation(text)


@pytest.mark.parametrize("count", ["", "-1", "07", "²", "٣", "1.0", "9" * 5000])
def test_a_count_that_is_not_one_is_refused_as_such(count: str) -> None:
    text = FETCH.observation(FETCH.build(1)).replace("left 20", f"left {count}")
    with pytest.raises(ObservationError, match="left"):
        parse_observation(text)


def shuffle_the_unseen(world: World, salt: int) -> World:
    """Another world that the errand-runner can't tell from this one: only what it doesn't see differs."""
    other = FETCH.clone(world)
    state = other.state
    here = world.place_of_runner()
    beside = [person.name for person in world.beside_runner()]
    away = [place for place in PLACES if place != here]

    def pick(n: int, what: str) -> int:
        return below(n, salt, what)

    state.seed = pick(MAX_SEED, "seed")
    state.tick += pick(50, "tick")
    state.summon_at = pick(100, "summon") - 1
    loose = [item for item, place in state.lying.items() if place != here]
    for item in loose:
        state.lying[item] = away[pick(len(away), item)]
    for person in state.people:
        heard_of = sorted(ITEMS)[: pick(9, "heard of" + person.name)]
        person.knows = {item: PLACES[pick(len(PLACES), person.name + item)] for item in heard_of}
        person.until += pick(20, "until" + person.name)
        person.moves += 1
        if person.name not in beside:
            person.dest = away[pick(len(away), "dest" + person.name)]
            spot = other.map.place(away[pick(len(away), person.name)])
            person.x, person.y = spot.x, spot.y
            if not person.carries and loose and pick(2, "carries" + person.name):
                person.carries = loose.pop()
                del state.lying[person.carries]
    return other


@settings(SETTINGS, max_examples=300)
@given(
    seed=st.integers(0, MAX_SEED),
    difficulty=st.sampled_from(DIFFICULTIES),
    warm_up=st.integers(0, 6),
    choices=st.lists(st.integers(0, 99), max_size=8),
    salt=st.integers(0, 10**6),
)
def test_worlds_that_differ_only_in_the_unseen_look_the_same_and_allow_the_same(
    seed: int, difficulty: str, warm_up: int, choices: list[int], salt: int
) -> None:
    world = play_teacher(seed, {"difficulty": difficulty}, warm_up)
    play_picks(world, choices)
    assume(world.place_of_runner())  # on the road, "beside" reaches one tile further: kept simple here
    other = shuffle_the_unseen(world, salt)
    assert FETCH.digest(other) != FETCH.digest(world)
    assert FETCH.observation(other) == FETCH.observation(world)
    assert FETCH.legal(other) == FETCH.legal(world)
    phrase, _ = FETCH.teacher(None, FETCH.observation(other))
    assert phrase in FETCH.legal(world)


def test_the_legal_set_is_the_same_wherever_the_observation_is_the_same() -> None:
    """Over real plays: one text never comes with two legal sets."""
    allowed: dict[str, tuple[str, ...]] = {}
    for seed in range(400):
        world = FETCH.build(seed, {"difficulty": DIFFICULTIES[seed % 5]})
        while not FETCH.ended(world):
            text, legal = FETCH.observation(world), FETCH.legal(world)
            assert allowed.setdefault(text, legal) == legal
            play_picks(world, [seed + world.state.turn])
    assert len(allowed) > 1000


def test_the_observation_stays_short() -> None:
    """A word is one token of the embedded model; SmolLM2 needs about one and a half for the rarest."""
    longest = max(len(FETCH.observation(play_teacher(seed, None, seed % 9)).split()) for seed in range(500))
    assert longest <= 60
