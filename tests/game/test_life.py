"""What the picture adds to the village: the hour, the light, small talk, scenery. None of it touches the world."""

import pygame
import pytest

from game.sim.cast import CHARACTERS
from game.view import daylight, scenery
from game.view.frames import EVERY, FrameTimes
from game.view.ghosts import ghosts_of, way_to
from game.view.picture import Picture, view_of
from game.view.remarks import Remark, idle, remarks, spoken
from game.view.snapshot import Figure, Snapshot
from game.view.stage import Stage, moment_of
from recorder import Turn, pack_floats
from scenarios.village_map import load_village
from tests.game.fronts import FETCH, make_session, play_turn

VILLAGE = load_village()


def crowd(*figures: Figure, lying: tuple[tuple[str, str], ...] = (), tick: int = 0) -> Snapshot:
    """The runner at the well, with nothing in hand, and others; Mara wants the rope."""
    well = VILLAGE.place("well")
    return Snapshot((Figure("runner", well.x, well.y, ""), *figures), lying, "Mara", "rope", tick)


def at(name: str, place: str, carries: str = "", dest: str = "") -> Figure:
    spot = VILLAGE.place(place)
    return Figure(name, spot.x, spot.y, carries, dest or place)


def test_an_errand_goes_from_the_evening_into_the_night() -> None:
    assert daylight.clock_words(0) == "18:00" and daylight.clock_words(10) == "18:15"
    brightness = [sum(daylight.sky(daylight.minute_of(tick))) for tick in range(0, 260, 10)]
    assert brightness == sorted(brightness, reverse=True) and brightness[-1] < 0.55 * brightness[0]
    lit = [daylight.lamps(daylight.minute_of(tick)) for tick in range(0, 160, 10)]
    assert lit == sorted(lit) and lit[0] < 0.2 and lit[-1] == 1.0
    assert daylight.sky(12 * 60)[0] == 255 and daylight.lamps(12 * 60) == 0.0
    for minute in range(daylight.DAY):
        assert all(0 < part <= 255 for part in daylight.sky(minute)) and 0 <= daylight.lamps(minute) <= 1


def test_night_is_darker_than_the_evening_and_lamps_shine_in_it() -> None:
    session = make_session("teacher")
    session.start(0)
    view = view_of(session, Stage(session))
    assert view.moment is not None
    pictures = []
    for tick in (0, 200):
        people = view.moment.before._replace(tick=tick)
        moment = moment_of([people], 0, session.turn, session.phase, 1.0)
        assert moment is not None
        picture = Picture((1320, 686))
        picture.scene.draw(surface := pygame.Surface((960, 640)), surface.get_rect(), moment)
        pictures.append(surface)
    evening, night = (sum(pygame.transform.average_color(surface)[:3]) for surface in pictures)
    assert night < 0.7 * evening
    lamp = pygame.Rect(12 * 32, 5 * 32, 32, 32)
    lawn = pygame.Rect(18 * 32, 3 * 32, 32, 32)
    by_lamp, by_night = (sum(pygame.transform.average_color(pictures[1], area)[:3]) for area in (lamp, lawn))
    assert by_lamp > 1.5 * by_night


def test_thieves_bakers_and_guards_say_what_they_do() -> None:
    lies = (("rope", "dock"),)
    theft = [crowd(at("Pip", "dock"), lying=lies), crowd(at("Pip", "dock", "rope", "mill"), tick=1)]
    assert [who for who, _ in remarks(theft, 1)] == ["Pip"]
    boring = [theft[1], crowd(at("Pip", "mill"), lying=(("rope", "mill"),), tick=9)]
    assert remarks(boring, 1) == (Remark("Pip", "The rope? Boring."),)
    closing = [crowd(at("Nell", "bakery")), crowd(at("Nell", "bakery", dest="mill"), tick=1)]
    ((who, words),) = remarks(closing, 1)
    assert who == "Nell" and words in ("Closed! Off for flour.", "Back soon!")
    pip = at("Pip", "dock")
    caught = [crowd(at("Bram", "mill", dest="dock"), pip), crowd(at("Bram", "dock"), pip, tick=1)]
    assert remarks(caught, 1) == (Remark("Bram", "I watch you, Pip."), Remark("Pip", "I did nothing!"))
    ada = at("Ada", "inn")
    called = [crowd(at("Mara", "inn"), ada), crowd(at("Mara", "inn", dest="forge"), ada, tick=1)]
    assert remarks(called, 1)[0] == Remark("Ada", "Mara, to the forge, please!")
    assert remarks(theft, 0) == () and remarks([], 0) == ()


def test_a_snatch_is_cried_out_by_both() -> None:
    before = crowd(at("Pip", "well"))._replace()
    runner = before.figures[0]._replace(carries="rope")
    before = before._replace(figures=(runner, *before.figures[1:]))
    after = crowd(at("Pip", "well", "rope", "mill"), tick=1)
    assert remarks([before, after], 1) == (Remark("Pip", "Catch me if you can!"),)
    illegal = Turn(episode=0, turn=3, observation="", proposed="x", executed="x", outcome_kind="illegal")
    assert "Pip has my rope" in spoken(illegal, after, before).words, "a snatch in such a turn isn't passed over"
    assert "Pip" not in spoken(illegal, after, after).words + spoken(illegal, before, before).words


@pytest.mark.parametrize(
    ("kind", "text", "executed", "who", "part"),
    [
        ("delivered", "Mara has the rope. Thank you!", "give the rope to Mara", "Mara", "My rope!"),
        ("handed", "Olin handed over the rope", "ask Olin", "Olin", "take it"),
        ("refused", "Mara: I asked for the rope, not the fish", "give the fish to Mara", "Mara", "not the fish"),
        ("taken", "took the fish", "take the fish", "runner", "Or not?"),
        ("gone", "the rope is gone", "take the rope", "runner", "just now"),
        ("arrived", "reached the bakery", "go to the bakery", "runner", "Closed"),
    ],
)
def test_who_says_what_of_an_outcome(kind: str, text: str, executed: str, who: str, part: str) -> None:
    people = crowd(at("Mara", "inn"), at("Olin", "dock"), at("Nell", "mill"))
    if kind == "taken":
        people = people._replace(figures=(people.figures[0]._replace(carries="fish"), *people.figures[1:]))
    turn = Turn(
        episode=0, turn=1, observation="", proposed=executed, executed=executed, outcome_kind=kind, outcome_text=text
    )
    said = spoken(turn, people)
    assert said.who == who and part in said.words


def test_the_asker_says_its_wish_first_and_grumbles_at_the_end() -> None:
    people = crowd(at("Mara", "inn"), at("Tom", "dock"))
    assert idle(people, 0, 20) == (Remark("Mara", "Bring me the rope, please!"),)
    late = {said for tick in range(60) for said in idle(people._replace(tick=tick), 18, 2)}
    assert Remark("Mara", "I could have gone myself!") in late
    early = {who for tick in range(60) for who, _ in idle(people._replace(tick=tick), 3, 17)}
    assert early == {"Tom"}, "the others mumble"


def test_small_talk_is_the_same_whenever_the_turn_is_shown_and_everybody_talks() -> None:
    heard: set[str] = set()
    session = make_session("random", {"difficulty": "5"})
    session.start(1)
    for _ in range(150):
        play_turn(session)
        for tick in range(0, len(session.trace), 5):
            said = remarks(session.trace, tick)
            assert said == remarks(list(session.trace), tick)
            heard |= {who for who, _ in said}
    assert heard == set(CHARACTERS)


def test_ghosts_are_the_likely_ways_and_the_chosen_one() -> None:
    legal = ["go to the dock", "go to the inn", "go to the mill", "wait"]
    turn = Turn(
        episode=0, turn=0, observation="", proposed="go to the mill", executed="go to the mill", legal=legal,
        probs=pack_floats([0.6, 0.05, 0.02, 0.33]),
    )  # fmt: skip
    runner = at("runner", "well")
    ways = ghosts_of(VILLAGE, runner, turn, decided=True)
    assert [(way.tiles[-1], way.chosen) for way in ways] == [
        ((VILLAGE.place("dock").x, VILLAGE.place("dock").y), False),
        ((VILLAGE.place("mill").x, VILLAGE.place("mill").y), True),
    ]
    assert ghosts_of(VILLAGE, runner, turn, decided=False) == ()
    (pointed,) = ghosts_of(VILLAGE, runner, turn, decided=False, pointed="go to the inn")
    assert pointed.chosen and len(pointed.tiles) == VILLAGE.distance(runner.x, runner.y, "inn") + 1
    assert way_to(VILLAGE, pointed.tiles[-1], "inn") == (pointed.tiles[-1],)


def test_the_cat_walks_its_round_without_jumping() -> None:
    before = scenery.cat_at(0.0)
    assert not before[2]
    walked = 0
    for frame in range(1, 4000):
        now = scenery.cat_at(frame / 30)
        assert abs(now[0] - before[0]) + abs(now[1] - before[1]) <= 2
        walked += now[2]
        before = now
    assert 500 < walked < 3500


def test_scenery_and_small_talk_change_no_digest() -> None:
    state = FETCH.build(3, {})
    plain = FETCH.digest(state)
    session = make_session("teacher")
    session.start(3)
    stage, picture = Stage(session), Picture((640, 480))
    for time_s in (0.1, 5.0, 77.0):
        stage.time_s = time_s
        picture.draw(view_of(session, stage))
    assert session.begin.digest_start == plain == FETCH.digest(session.state())


def test_frame_times_are_percentiles_of_the_last_frames() -> None:
    times = FrameTimes()
    assert times.percentile_ms(99) == 0.0
    for frame in range(1, 101):
        times.add(frame / 1000)
    assert (times.percentile_ms(50), times.percentile_ms(99), times.percentile_ms(100)) == (50.0, 99.0, 100.0)
    assert times.p99_ms == pytest.approx(1000 * (100 - 100 % EVERY) / 1000, abs=1.5)
