"""What holds whatever is played: nothing is lost, nobody walks through walls, rewards can't be farmed."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from game.sim.observation import legal_actions, parse_observation
from game.sim.people import step_people, try_snatch
from game.sim.world import World
from scenarios.contract import MAX_SEED
from tests.game.village import (
    DIFFICULTIES,
    FETCH,
    LANGUAGE,
    SETTINGS,
    TOPS,
    WITHOUT,
    all_items,
    play_picks,
    play_teacher,
    reached,
    spots,
)

seeds = st.integers(0, MAX_SEED)
difficulties = st.sampled_from(DIFFICULTIES)
picks = st.integers(0, 99)


class Village(RuleBasedStateMachine):
    """Any mixture of legal, illegal and senseless proposals, on a world and a clone of it side by side."""

    @initialize(seed=seeds, difficulty=difficulties, without=st.sampled_from(WITHOUT))
    def build(self, seed: int, difficulty: str, without: str) -> None:
        self.world: World = FETCH.build(seed, {"difficulty": difficulty, "without": without})
        self.twin = FETCH.clone(self.world)
        self.items = all_items(self.world)
        self.start = reached(self.world)
        self.earned = dict.fromkeys(TOPS, 0.0)
        self.turns = 0

    def propose(self, phrase: str) -> None:
        legal = phrase in FETCH.legal(self.world)
        watch = each_tick_is_sound(self.world, self.items)
        outcome = FETCH.apply(self.world, phrase, watch)
        assert FETCH.apply(self.twin, phrase) == outcome
        self.turns += 1
        assert (outcome.kind != "illegal") == legal
        assert outcome.ended == FETCH.ended(self.world)
        for name, value in outcome.terms.items():
            self.earned[name] += value

    @precondition(lambda self: not FETCH.ended(self.world))
    @rule(pick=picks)
    def play_something_legal(self, pick: int) -> None:
        legal = FETCH.legal(self.world)
        self.propose(legal[pick % len(legal)])

    @precondition(lambda self: not FETCH.ended(self.world))
    @rule(verb=st.sampled_from(("take", "drop", "give", "ask")), pick=picks)
    def play_with_what_is_here(self, verb: str, pick: int) -> None:
        legal = [phrase for phrase in FETCH.legal(self.world) if phrase.startswith(verb)]
        if legal:
            self.propose(legal[pick % len(legal)])

    @precondition(lambda self: not FETCH.ended(self.world))
    @rule(phrase=st.sampled_from(LANGUAGE) | st.text(max_size=30))
    def propose_anything(self, phrase: str) -> None:
        self.propose(phrase)

    @precondition(lambda self: not FETCH.ended(self.world))
    @rule(solver=st.sampled_from(("oracle", "teacher")))
    def play_well(self, solver: str) -> None:
        if solver == "oracle":
            phrase = FETCH.oracle(self.world)
        else:
            phrase, _ = FETCH.teacher(None, FETCH.observation(self.world))
        assert phrase in FETCH.legal(self.world)
        self.propose(phrase)

    @rule(choices=st.lists(picks, max_size=6))
    def play_a_clone_apart(self, choices: list[int]) -> None:
        before = FETCH.dump(self.world)
        clone = FETCH.clone(self.world)
        assert FETCH.dump(clone) == before
        play_picks(clone, choices)
        assert FETCH.dump(self.world) == before

    @rule()
    def clone_anew(self) -> None:
        self.twin = FETCH.clone(self.world)

    @rule()
    def put_away_and_take_up_again(self) -> None:
        self.world = FETCH.load(FETCH.dump(self.world))

    @invariant()
    def the_clone_stays_equal(self) -> None:
        assert FETCH.dump(self.twin) == FETCH.dump(self.world)
        assert FETCH.digest(self.twin) == FETCH.digest(self.world)

    @invariant()
    def the_text_is_the_observation_and_decides_what_is_legal(self) -> None:
        text = FETCH.observation(self.world)
        seen = parse_observation(text)
        assert seen == self.world.observe()
        assert seen.text() == text
        assert tuple(action.phrase() for action in legal_actions(seen)) == FETCH.legal(self.world)
        assert len(set(FETCH.legal(self.world))) == len(FETCH.legal(self.world))
        assert set(FETCH.legal(self.world)) <= set(LANGUAGE)
        assert seen.left == FETCH.turn_cap - self.turns

    @invariant()
    def the_reward_is_the_difference_of_what_has_been_reached(self) -> None:
        now = reached(self.world)
        for term in FETCH.reward_terms:
            total = self.earned[term.name]
            if term.name == "time":
                assert total == pytest.approx(self.turns * term.top)
            else:
                assert total == pytest.approx(now[term.name] - self.start[term.name], abs=1e-9)
                assert 0.0 <= self.start[term.name] + total <= term.top + 1e-9
            if self.turns:
                assert term.low - 1e-9 <= total <= term.top + 1e-9

    @invariant()
    def an_episode_ends_at_the_delivery_or_at_the_cap(self) -> None:
        ended = "success" if self.world.state.delivered else "turn_cap" if self.turns == 20 else None
        assert FETCH.ended(self.world) == ended


def each_tick_is_sound(world: World, items: list[str]) -> Callable[[World], None]:
    """A callback for every tick: items are conserved, all stand on free tiles, none jumps."""
    last = spots(world)

    def check(now: World) -> None:
        assert all_items(now) == items
        for (x, y), (was_x, was_y) in zip(spots(now), last, strict=True):
            assert now.map.free(x, y)
            assert abs(x - was_x) + abs(y - was_y) <= 1
        last[:] = spots(now)

    return check


Village.TestCase.settings = settings(SETTINGS, max_examples=120, stateful_step_count=30)
TestVillage = Village.TestCase


@settings(SETTINGS, max_examples=100)
@given(seed=seeds, difficulty=difficulties, choices=st.lists(picks, max_size=15))
def test_apply_accepts_exactly_the_legal_phrases(seed: int, difficulty: str, choices: list[int]) -> None:
    world = FETCH.build(seed, {"difficulty": difficulty})
    play_picks(world, choices)
    legal = FETCH.legal(world)
    assert set(legal) <= set(LANGUAGE)
    for phrase in legal:
        assert FETCH.apply(FETCH.clone(world), phrase).kind != "illegal"

    left_alone = FETCH.clone(world)
    left_alone.state.tick += 1
    step_people(left_alone)
    try_snatch(left_alone)
    elsewhere = [phrase for phrase in LANGUAGE if phrase not in legal]
    spoilt = [form for phrase in legal for form in (phrase.upper(), f"{phrase} ", f" {phrase}", phrase[:-1])]
    for phrase in [*elsewhere, *spoilt, "", "sing", "wait wait"]:
        after = FETCH.clone(world)
        outcome = FETCH.apply(after, phrase)
        assert (outcome.kind, outcome.ticks) == ("illegal", 1), phrase
        was, now = world.state.runner, after.state.runner
        assert (now.x, now.y, now.last) == (was.x, was.y, "illegal")
        assert now.hold == left_alone.state.runner.hold
        assert after.state.turn == world.state.turn + 1
        assert (after.state.people, after.state.lying) == (left_alone.state.people, left_alone.state.lying)


@settings(SETTINGS, max_examples=400)
@given(seed=seeds, difficulty=difficulties, warm_up=st.integers(0, 8), choices=st.lists(picks, max_size=20))
def test_taking_dropping_giving_asking_and_waiting_in_circles_earns_nothing(
    seed: int, difficulty: str, warm_up: int, choices: list[int]
) -> None:
    """From wherever the teacher got to: when the same is reached as before, the loop in between paid 0."""
    world = play_teacher(seed, {"difficulty": difficulty}, warm_up)
    earned = 0.0
    paid_at: dict[tuple[float, ...], float] = {tuple(reached(world).values()): 0.0}
    for pick in choices:
        idle = [phrase for phrase in FETCH.legal(world) if not phrase.startswith("go")]
        wanted = f"give the {world.state.errand.item} to {world.state.errand.asker}"
        idle = [phrase for phrase in idle if phrase != wanted]
        terms = dict(FETCH.apply(world, idle[pick % len(idle)]).terms)
        assert terms.pop("time") < 0
        earned += sum(terms.values())
        assert earned <= TOPS["find"] + TOPS["hold"] + 1e-9
        assert earned == pytest.approx(paid_at.setdefault(tuple(reached(world).values()), earned), abs=1e-9)


def test_a_hundred_times_taking_and_dropping_the_wanted_item_pays_nothing() -> None:
    """The plainest farm there is: a take and the drop after it sum to nothing."""
    farmed = 0
    for seed in range(40):
        world = play_teacher(seed, {"difficulty": "1"}, 0)
        item = world.state.errand.item
        while f"take the {item}" not in FETCH.legal(world) and not FETCH.ended(world):
            FETCH.apply(world, FETCH.oracle(world))
        pays = []
        for _ in range(100):
            pair = [FETCH.apply(world, f"{verb} the {item}") for verb in ("take", "drop")]
            if [outcome.kind for outcome in pair] != ["taken", "dropped"]:
                break
            pays.append(sum(value for out in pair for name, value in out.terms.items() if name != "time"))
        assert all(pay == pytest.approx(0, abs=1e-9) for pay in pays), (seed, pays)
        farmed += len(pays)
    assert farmed > 1000


@settings(SETTINGS, max_examples=200)
@given(seed=seeds, without=st.sampled_from(WITHOUT))
def test_a_delivery_pays_what_is_missing_to_the_top(seed: int, without: str) -> None:
    world = FETCH.build(seed, {"without": without})
    total = sum(reached(world).values())
    while not FETCH.ended(world):
        terms = FETCH.apply(world, FETCH.oracle(world)).terms
        total += sum(value for name, value in terms.items() if name != "time")
    assert FETCH.ended(world) == "success"
    assert total == pytest.approx(TOPS["find"] + TOPS["hold"] + TOPS["deliver"])
    asker = world.person(world.state.errand.asker)
    assert asker is not None and asker.carries == world.state.errand.item
