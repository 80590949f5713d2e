"""The window under SDL's dummy driver: keys, sizes, the end of an episode, closing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pygame
import pytest

from game.view.panel import fitting
from game.view.picture import Picture
from game.view.session import OVER, PLAYED, THINKING, Session
from game.view.stage import OVER_S, READ_S, THINK_S, Stage
from game.view.text import Fonts, fit, wrap
from game.view.window import Window, placed
from tests.game.fronts import make_session, play_turn

FRAME = 1 / 30


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    session = make_session("teacher")
    session.start(0)
    opened = Window(session, Stage(session))
    yield opened
    opened.close()


def press(*keys: int) -> None:
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, unicode="", mod=0))


def frames(window: Window, count: int) -> None:
    for _ in range(count):
        window.frame(FRAME)


def until(window: Window, phase: str, most: int = 2000) -> None:
    for _ in range(most):
        if window.session.phase == phase:
            return
        window.frame(FRAME)
    raise AssertionError(f"no {phase} after {most} frames")


def test_space_stops_the_world_but_not_the_picture(window: Window) -> None:
    until(window, PLAYED)
    frames(window, 10)
    press(pygame.K_SPACE)
    window.frame(FRAME)
    before, turns = window.stage.moment(), window.session.turns_played
    frames(window, 60)
    after = window.stage.moment()
    assert before is not None and after is not None
    assert (before.tick, before.part) == (after.tick, after.part) and window.session.turns_played == turns
    assert after.time_s > before.time_s + 1.9, "marks go on moving"
    press(pygame.K_SPACE)
    window.stage.speed = 16
    frames(window, 60)
    assert window.session.turns_played > turns


def test_n_plays_one_turn_and_pauses(window: Window) -> None:
    press(pygame.K_SPACE, pygame.K_n)
    window.stage.speed = 16
    for expected in (1, 2, 3):
        frames(window, 60)
        assert window.stage.paused and window.session.phase == THINKING
        assert window.session.turns_played == expected
        press(pygame.K_n)


def test_speed_goes_up_and_down_between_its_ends(window: Window) -> None:
    seen = []
    for key in (pygame.K_PLUS, pygame.K_EQUALS, pygame.K_KP_PLUS, pygame.K_MINUS, pygame.K_KP_MINUS, pygame.K_MINUS):
        press(key)
        window.frame(FRAME)
        seen.append(window.stage.speed)
    assert seen == [4, 16, 16, 4, 1, 1]


def test_r_and_tab_choose_the_seed(window: Window) -> None:
    until(window, PLAYED)
    first = window.session.turns[0]
    press(pygame.K_TAB)
    window.frame(0)
    assert (window.session.seed, window.session.turns, window.session.phase) == (1, [], THINKING)
    press(pygame.K_RIGHT)
    window.frame(0)
    assert window.session.seed == 2
    press(pygame.K_r)
    window.frame(0)
    assert window.session.seed == 2
    window.stage.start(0)
    until(window, PLAYED)
    again = window.session.turns[0]
    assert (again.executed, again.digest_after) == (first.executed, first.digest_after)
    assert [result.ended for result in window.session.results] == [None], "only the one with turns counts"


@pytest.mark.parametrize("event", ["quit", "escape"])
def test_quit_ends_the_loop(window: Window, event: str) -> None:
    if event == "quit":
        pygame.event.post(pygame.event.Event(pygame.QUIT))
    else:
        press(pygame.K_ESCAPE)
    window.run()
    assert not window.open and window.session.turns_played == 0


def test_the_final_move_is_drawn_before_the_next_seed(window: Window) -> None:
    while window.session.ended is None:
        play_turn(window.session)
    window.stage._at = 0.0  # as if it had just been played
    shown: list[tuple[str, int, bool]] = []
    for _ in range(2000):
        window.frame(FRAME)
        moment = window.stage.moment()
        assert moment is not None
        shown.append((window.session.phase, moment.tick, window.stage.revealed))
        if window.session.seed == 1:
            break
    last_tick = len([1 for phase, _, told in shown if phase == PLAYED and told]) * FRAME
    over = len([1 for phase, *_ in shown if phase == OVER]) * FRAME
    assert last_tick == pytest.approx(READ_S, abs=0.1) and over == pytest.approx(OVER_S, abs=0.1)
    assert (window.session.seed, window.session.phase) == (1, THINKING)


def test_thinking_is_visible_and_the_picture_goes_on_without_an_answer(window: Window) -> None:
    class Slow:
        waking, trouble = False, ""
        identity = window.session.player.identity

        def ask(self, number: int, view: object, uniform: object) -> None: ...
        def poll(self) -> None: ...
        def wait(self, seconds: float) -> None: ...
        def forget(self) -> None: ...
        def close(self) -> None: ...

    session = make_session(player=Slow(), deadline_s=3600)
    session.start(0)
    window.session, window.stage = session, Stage(session)
    seen = set()
    for _ in range(60):
        window.frame(FRAME)
        moment = window.stage.moment()
        assert moment is not None and moment.thinking
        seen.add(pygame.image.tobytes(window.screen, "RGB"))
    assert len(seen) > 5 and session.turns_played == 0


def test_thinking_is_shown_a_moment_even_when_the_answer_is_there(window: Window) -> None:
    window.frame(THINK_S / 2)
    assert window.session.phase == THINKING and window.session.answer is not None
    window.frame(THINK_S)
    assert window.session.phase == PLAYED


def test_the_window_may_have_any_size(window: Window) -> None:
    drawn = window.picture.draw(window.session, window.stage)
    width, height = window.picture.size
    assert placed(drawn, (width, height)) == (drawn, (0, 0))
    double, corner = placed(drawn, (2 * width + 50, 2 * height + 30))
    assert double.get_size() == (2 * width, 2 * height) and corner == (25, 15)
    assert double.get_at((200, 301)) == drawn.get_at((100, 150)), "whole pixels"
    small, corner = placed(drawn, (500, 500))
    assert small.get_width() == 500 and corner[0] == 0 and 0 < small.get_height() < 500
    assert placed(drawn, (1, 1))[0].get_size() == (1, 1)
    for size in ((2700, 1400), (640, 480)):
        window.screen = pygame.display.set_mode(size, pygame.RESIZABLE)
        pygame.event.post(pygame.event.Event(pygame.VIDEORESIZE, size=size, w=size[0], h=size[1]))
        window.frame(FRAME)
        assert window.screen.get_size() == size
        assert window.screen.get_at((size[0] // 4, size[1] // 3))[:3] != (0, 0, 0)


def test_no_sound_is_opened(window: Window) -> None:
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
        picture.draw(session, stage)
        most = max(most, len(session.turn.legal))
    assert most >= 15
    many = tuple(choice(f"go {n}", chosen=n == 38) for n in range(40))
    shown, rest = fitting(many, 12)
    assert len(shown) == 11 and len(rest) == 29 and shown[-1].phrase == "go 38"
    assert fitting(many[:12], 12) == (list(many[:12]), [])


def choice(phrase: str, chosen: bool):  # type: ignore[no-untyped-def]
    from game.view.facts import Choice

    return Choice(phrase, 0.025, chosen)


def test_a_scenario_that_is_not_played_in_the_village_shows_its_text(window: Window) -> None:
    session: Session = window.session
    session.trace = []
    assert window.stage.moment() is None
    drawn = window.picture.draw(session, window.stage)
    assert len({tuple(drawn.get_at((x, y))) for x in range(0, 900, 3) for y in range(30, 120, 3)}) > 5
