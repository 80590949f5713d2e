"""The window under SDL's dummy driver: keys, sizes, the end of an episode, closing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pygame
import pytest

from game.view.layout import MAP, Layout
from game.view.panel import fitting
from game.view.picture import Picture, view_of
from game.view.play_show import PlayShow
from game.view.session import OVER, PLAYED, THINKING, Session
from game.view.stage import OVER_S, READ_S, THINK_S, Stage
from game.view.text import Fonts, fit, wrap
from game.view.window import Window
from tests.game.fronts import make_session, make_show, play_turn

FRAME = 1 / 30


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    session = make_session("teacher")
    session.start(0)
    opened = Window(make_show(session))
    yield opened
    opened.close()


@pytest.fixture
def show(window: Window) -> PlayShow:
    assert isinstance(window.show, PlayShow)
    return window.show


def press(*keys: int) -> None:
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, unicode="", mod=0))


def frames(window: Window, count: int) -> None:
    for _ in range(count):
        window.frame(FRAME)


def until(window: Window, phase: str, most: int = 2000) -> None:
    for _ in range(most):
        if window.show.session.phase == phase:  # type: ignore[attr-defined]
            return
        window.frame(FRAME)
    raise AssertionError(f"no {phase} after {most} frames")


def test_space_stops_the_world_but_not_the_picture(window: Window, show: PlayShow) -> None:
    until(window, PLAYED)
    frames(window, 10)
    press(pygame.K_SPACE)
    window.frame(FRAME)
    before, turns = show.stage.moment(), show.session.turns_played
    frames(window, 60)
    after = show.stage.moment()
    assert before is not None and after is not None
    assert (before.tick, before.part) == (after.tick, after.part) and show.session.turns_played == turns
    assert after.time_s > before.time_s + 1.9, "marks go on moving"
    press(pygame.K_SPACE)
    show.stage.speed = 16
    frames(window, 60)
    assert show.session.turns_played > turns


def test_n_plays_one_turn_and_pauses(window: Window, show: PlayShow) -> None:
    press(pygame.K_SPACE, pygame.K_n)
    show.stage.speed = 16
    for expected in (1, 2, 3):
        frames(window, 60)
        assert show.stage.paused and show.session.phase == THINKING
        assert show.session.turns_played == expected
        press(pygame.K_n)


def test_speed_goes_up_and_down_between_its_ends(window: Window, show: PlayShow) -> None:
    seen = []
    for key in (pygame.K_PLUS, pygame.K_EQUALS, pygame.K_KP_PLUS, pygame.K_MINUS, pygame.K_KP_MINUS, pygame.K_MINUS):
        press(key)
        window.frame(FRAME)
        seen.append(show.stage.speed)
    assert seen == [4, 16, 16, 4, 1, 1]


def test_r_and_tab_choose_the_seed(window: Window, show: PlayShow) -> None:
    until(window, PLAYED)
    first = show.session.turns[0]
    press(pygame.K_TAB)
    window.frame(0)
    assert (show.session.seed, show.session.turns, show.session.phase) == (1, [], THINKING)
    press(pygame.K_RIGHT)
    window.frame(0)
    assert show.session.seed == 2
    press(pygame.K_r)
    window.frame(0)
    assert show.session.seed == 2
    show.stage.start(0)
    until(window, PLAYED)
    again = show.session.turns[0]
    assert (again.executed, again.digest_after) == (first.executed, first.digest_after)
    assert [result.ended for result in show.session.results] == [None], "only the one with turns counts"


@pytest.mark.parametrize("event", ["quit", "escape"])
def test_quit_ends_the_loop(window: Window, show: PlayShow, event: str) -> None:
    if event == "quit":
        pygame.event.post(pygame.event.Event(pygame.QUIT))
    else:
        press(pygame.K_ESCAPE)
    window.run()
    assert not window.open and show.session.turns_played == 0


def test_the_final_move_is_drawn_before_the_next_seed(window: Window, show: PlayShow) -> None:
    while show.session.ended is None:
        play_turn(show.session)
    show.stage._at = 0.0  # as if it had just been played
    shown: list[tuple[str, int, bool]] = []
    for _ in range(2000):
        window.frame(FRAME)
        moment = show.stage.moment()
        assert moment is not None
        shown.append((show.session.phase, moment.tick, show.stage.revealed))
        if show.session.seed == 1:
            break
    last_tick = len([1 for phase, _, told in shown if phase == PLAYED and told]) * FRAME
    over = len([1 for phase, *_ in shown if phase == OVER]) * FRAME
    assert last_tick == pytest.approx(READ_S, abs=0.1) and over == pytest.approx(OVER_S, abs=0.1)
    assert (show.session.seed, show.session.phase) == (1, THINKING)


def test_thinking_is_visible_and_the_picture_goes_on_without_an_answer(window: Window, show: PlayShow) -> None:
    class Slow:
        person, waking, trouble = False, False, ""
        identity = show.session.player.identity

        def ask(self, number: int, view: object, uniform: object) -> None: ...
        def poll(self) -> None: ...
        def wait(self, seconds: float) -> None: ...
        def forget(self) -> None: ...
        def close(self) -> None: ...

    session = make_session(player=Slow(), deadline_s=3600)
    session.start(0)
    window.show = make_show(session)
    show = window.show
    seen = set()
    for _ in range(60):
        window.frame(FRAME)
        moment = show.stage.moment()
        assert moment is not None and moment.thinking
        seen.add(pygame.image.tobytes(window.screen, "RGB"))
    assert len(seen) > 5 and session.turns_played == 0


def test_thinking_is_shown_a_moment_even_when_the_answer_is_there(window: Window, show: PlayShow) -> None:
    window.frame(THINK_S / 2)
    assert show.session.phase == THINKING and show.session.answer is not None
    window.frame(THINK_S)
    assert show.session.phase == PLAYED


SIZES = ((640, 480), (960, 540), (1280, 720), (1320, 686), (1600, 900), (1920, 1080), (2560, 1440), (3840, 2160))


@pytest.mark.parametrize("size", SIZES)
def test_every_part_has_its_place_at_any_size(size: tuple[int, int]) -> None:
    layout = Layout.of(size)
    whole = pygame.Rect(0, 0, *size)
    for part in (layout.village, layout.panel, layout.foot):
        assert whole.contains(part) and part.width and part.height
    assert layout.village.collidelist([layout.panel, layout.foot]) < 0 and not layout.panel.colliderect(layout.foot)
    assert layout.village.width == pytest.approx(MAP[0] * layout.zoom, abs=1)


@pytest.mark.parametrize(("size", "zoom"), [((1320, 686), 2), ((1280, 720), 2), ((1920, 1080), 3), ((2560, 1440), 4)])
def test_pixels_are_squares_at_a_whole_zoom(size: tuple[int, int], zoom: int) -> None:
    session = make_session("teacher")
    session.start(0)
    picture = Picture(size)
    view = view_of(session, Stage(session))
    assert view.moment is not None
    picture.scene.draw(surface := pygame.Surface(size), picture.layout.village, view.moment)
    left, top = picture.layout.village.topleft
    assert picture.layout.zoom == zoom
    for x in range(0, 480, 7):
        for y in range(0, 320, 11):
            square = {
                tuple(surface.get_at((left + x * zoom + dx, top + y * zoom + dy)))
                for dx in range(zoom)
                for dy in range(zoom)
            }
            assert len(square) == 1, (x, y)


def test_the_window_may_be_resized_at_any_time(window: Window, show: PlayShow) -> None:
    for size in ((2700, 1400), (640, 480), (1920, 1080)):
        pygame.display.set_mode(size, pygame.RESIZABLE)
        pygame.event.post(pygame.event.Event(pygame.VIDEORESIZE, size=size, w=size[0], h=size[1]))
        window.frame(FRAME)
        assert window.screen.get_size() == size == show.picture.size
        assert window.screen.get_at((size[0] // 4, size[1] // 3))[:3] != (0, 0, 0)


def test_no_sound_is_opened(window: Window, show: PlayShow) -> None:
    frames(window, 3)
    assert pygame.mixer.get_init() is None and not pygame.joystick.get_init()


def test_turns_close_the_window(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "game", "--brain", "teacher", "--turns", "1"]
    command += ["--screenshot", str(tmp_path / "s.png")]
    env = {**os.environ, "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "none"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 turns, 0 episodes ended, 0 of them in success"
    assert (tmp_path / "s.png").is_file()


def test_every_text_fits_its_room() -> None:
    fonts = Fonts()
    assert fit(fonts.normal, "wait", 200) == "wait"
    for text in ("Not looked yet: " + ", ".join(["bakery"] * 20), "x" * 300, "/a/long/path" * 20):
        for middle in (False, True):
            assert fonts.normal.size(fit(fonts.normal, text, 180, middle))[0] <= 180
        lines = wrap(fonts.normal, text, 180, 3)
        assert len(lines) <= 3 and all(fonts.normal.size(line)[0] <= 180 for line in lines)
    assert fit(fonts.normal, "/a/long/path" * 20, 180, middle=True).endswith("path")


def test_a_long_list_keeps_the_chosen_one_and_sums_up_the_rest() -> None:
    session = make_session("random", {"difficulty": "5"})
    session.start(2)
    picture, stage, most = Picture(), Stage(session), 0
    for _ in range(60):
        play_turn(session)
        picture.draw(view_of(session, stage))
        most = max(most, len(session.turn.legal))
    assert most >= 15
    many = tuple(choice(f"go {n}", chosen=n == 38) for n in range(40))
    shown, rest = fitting(many, 12)
    assert len(shown) == 11 and len(rest) == 29 and shown[-1].phrase == "go 38"
    assert fitting(many[:12], 12) == (list(many[:12]), [])


def choice(phrase: str, chosen: bool):  # type: ignore[no-untyped-def]
    from game.view.facts import Choice

    return Choice(phrase, 0.025, chosen)


def test_a_scenario_that_is_not_played_in_the_village_shows_its_text(window: Window, show: PlayShow) -> None:
    session: Session = show.session
    session.trace = []
    assert show.stage.moment() is None
    drawn = show.picture.draw(show.view())
    assert len({tuple(drawn.get_at((x, y))) for x in range(0, 900, 3) for y in range(30, 120, 3)}) > 5
