"""`python -m game replay` and `compare` in the real event loop under SDL's dummy driver, and as pictures and films."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pygame
import pytest
from PIL import Image

from game.__main__ import main
from game.view.compare import Comparison
from game.view.compare_show import SETTLES_S, CompareShow
from game.view.replay import Replay
from game.view.replay_show import ReplayShow
from game.view.rerun import LogBook
from game.view.strip import slider_of
from game.view.window import Window
from recorder import Op, Reader
from tests.game.fronts import FETCH
from tests.game.test_rerun import one_turn, played, rewritten, write_log

FRAME = 1 / 30
GREEN, RED = (128, 200, 120), (240, 112, 96)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes: one in which nothing goes wrong, one with a theft, one that was broken off."""
    path = tmp_path_factory.mktemp("logs") / "log.b22"
    return write_log(path, played(0), played(2), played(5, "random", turns=4))


@pytest.fixture
def window(log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    opened = Window(ReplayShow(Replay(LogBook(log))))
    yield opened
    opened.close()


def replay_in(window: Window) -> Replay:
    assert isinstance(window.show, ReplayShow)
    return window.show.replay


def press(window: Window, *keys: int) -> None:
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, unicode="", mod=0))
    window.frame(FRAME)


def mouse(window: Window, kind: int, at: tuple[int, int], button: int = 1) -> None:
    values = {"pos": at, "rel": (0, 0)}
    values |= {"button": button} if kind != pygame.MOUSEMOTION else {"buttons": (button, 0, 0)}
    pygame.event.post(pygame.event.Event(kind, values))
    window.frame(FRAME)


def test_it_runs_by_itself_and_space_stops_it(window: Window) -> None:
    replay = replay_in(window)
    for _ in range(30):
        window.frame(FRAME)
    assert replay.place > 0
    press(window, pygame.K_SPACE)
    stopped = replay.place
    for _ in range(10):
        window.frame(FRAME)
    assert replay.place == stopped and window.open
    press(window, pygame.K_SPACE)
    assert replay.place > stopped


def test_keys_go_back_and_forth(window: Window) -> None:
    replay = replay_in(window)
    press(window, pygame.K_RIGHT, pygame.K_RIGHT, pygame.K_RIGHT)
    assert (replay.turn, replay.revealed) == (2, True)
    press(window, pygame.K_LEFT)
    assert (replay.turn, replay.revealed) == (1, True)
    press(window, pygame.K_END)
    assert replay.at_end and replay.shown.ended == "success"
    press(window, pygame.K_HOME)
    assert replay.place == 0
    press(window, pygame.K_PLUS, pygame.K_EQUALS)
    assert replay.speed == 16
    press(window, pygame.K_MINUS)
    assert replay.speed == 4


def test_the_first_failure_and_the_next_episode(window: Window) -> None:
    replay = replay_in(window)
    press(window, pygame.K_f)
    assert replay.note == "nothing went wrong in this episode"
    press(window, pygame.K_TAB)
    assert (replay.number, replay.note) == (1, "")
    press(window, pygame.K_f)
    assert replay.shown.turn.outcome_kind == "robbed" and replay.paused
    press(window, pygame.K_b)
    assert replay.number == 0


@pytest.mark.parametrize("size", [(1320, 712), (800, 520)])
def test_the_timeline_is_dragged_with_the_mouse(window: Window, size: tuple[int, int]) -> None:
    replay, show = replay_in(window), window.show
    assert isinstance(show, ReplayShow)
    window.screen = pygame.display.set_mode(size, pygame.RESIZABLE)
    show.resize(size)
    strip = show.picture.layout.extra
    seen = []
    mouse(window, pygame.MOUSEBUTTONDOWN, (strip.centerx, strip.centery))
    seen.append(replay.place)
    for x in (strip.left + 2, strip.right - 2, strip.centerx - 40, strip.right + 300):
        mouse(window, pygame.MOUSEMOTION, (x, strip.centery - 60))
        seen.append(replay.place)
    assert seen[0] == pytest.approx(replay.length / 2, abs=0.02)
    assert seen[1] == 0.0 and seen[2] == seen[4] == replay.length and 0 < seen[3] < seen[0]
    mouse(window, pygame.MOUSEMOTION, (strip.centerx, strip.centery), button=0)  # let go
    mouse(window, pygame.MOUSEMOTION, (strip.centerx, strip.centery))
    assert replay.place == replay.length and replay.paused
    mouse(window, pygame.MOUSEBUTTONDOWN, (10, 10))
    assert replay.place == replay.length, "the village is no timeline"
    mouse(window, pygame.MOUSEBUTTONDOWN, (10, 10), button=4)
    assert (replay.turn, replay.revealed) == (replay.length - 2, True), "the wheel goes by a turn"


def test_marks_stand_on_the_timeline_where_rewards_were_earned(window: Window) -> None:
    replay, show = replay_in(window), window.show
    assert isinstance(show, ReplayShow)
    press(window, pygame.K_SPACE, pygame.K_TAB)
    show.resize((1320, 712))
    drawn = show.draw()
    strip = show.picture.layout.extra
    wide = strip.width / replay.length
    for at, turn in enumerate(replay.rerun.turns):
        cell = [
            drawn.get_at((x, y))[:3]
            for x in range(strip.left + round(wide * at) + 24, strip.left + round(wide * (at + 1)) - 24)
            for y in range(strip.top + 3, strip.bottom - 3)
        ]
        assert (GREEN in cell, RED in cell) == (turn.reward > 0, turn.reward < 0 or replay.rerun.failed(at)), at


def test_the_page_of_keys_opens_and_closes(window: Window) -> None:
    show = window.show
    assert isinstance(show, ReplayShow)
    press(window, pygame.K_SPACE)
    before = show.draw().copy()
    press(window, pygame.K_h)
    covered = show.draw()
    dim = [before.get_at((x, 300))[:3] != covered.get_at((x, 300))[:3] for x in range(40, 600, 20)]
    assert show.helped and sum(dim) > 20, "it lies over the village"
    press(window, pygame.K_ESCAPE)
    assert window.open and not show.helped
    press(window, pygame.K_ESCAPE)
    assert not window.open


def test_a_replay_needs_no_model_and_writes_a_picture(log: Path, tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    code = (
        "import sys; from game.__main__ import main; code = main(sys.argv[1:]);"
        "loaded = [name for name in ('mlx', 'mlx.core', 'npc.models', 'mlx_lm') if name in sys.modules];"
        "sys.exit(f'loaded {loaded}' if loaded else code)"
    )
    words = ["replay", str(log), "--episode", "1", "--turn", "2", "--screenshot", str(shot)]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    picture = pygame.image.load(str(shot))
    assert picture.get_size() == (1320, 712)
    replay = Replay(LogBook(log), 1)
    replay.go(2)
    expected = ReplayShow(replay).draw()
    assert pygame.image.tobytes(picture, "RGB") == pygame.image.tobytes(expected, "RGB"), "the picture of the window"


def test_a_replay_as_a_film(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = tmp_path / "film.webp"
    words = ["replay", str(log), "--episode", "2", "--save", str(film), "--speed", "16", "--size", "640x360"]
    assert main(words) == 0
    assert "film.webp: " in capsys.readouterr().out
    with Image.open(film) as frames:
        assert frames.size == (640, 360) and frames.n_frames > 5  # type: ignore[attr-defined]
        frames.seek(frames.n_frames - 1)  # type: ignore[attr-defined]
        last = frames.convert("RGB").tobytes()
    replay = Replay(LogBook(log), 2)
    replay.go(replay.length)
    show = ReplayShow(replay)
    show.resize((640, 360))
    strip = show.picture.layout.extra
    expected = pygame.image.tobytes(show.draw().subsurface(strip), "RGB")
    assert expected == pygame.image.tobytes(pygame.image.frombytes(last, (640, 360), "RGB").subsurface(strip), "RGB")
    assert list(tmp_path.iterdir()) == [film], "nothing unfinished is left"


def with_a_hole(path: Path) -> bytes:
    """The log with a flipped byte in the record of turn 3."""
    with Reader(path) as log:
        frames = [frame for frame, record in log.records({Op.TURN}) if record.turn == 3]  # type: ignore[union-attr]
    data = bytearray(path.read_bytes())
    data[frames[0].offset + 40] ^= 0x5A
    return bytes(data)


def bad_logs(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Words after `replay`, and what the line says."""
    good = write_log(folder / "good.b22", played(0))
    (folder / "text.b22").write_text("a diary")
    (folder / "hole.b22").write_bytes(with_a_hole(good))
    version = write_log(folder / "version.b22", rewritten(played(0), {"scenario_version": 7}))
    other = write_log(folder / "other.b22", rewritten(played(0), {"scenario": "chess"}))
    session = played(0)
    lied = write_log(folder / "lied.b22", rewritten(session, turns=one_turn(session, 1, digest_after={"npc": "00"})))
    return {
        "no such file": ([str(folder / "none.b22")], "none.b22: can't be opened"),
        "no log": ([str(folder / "text.b22")], "text.b22: not a .b22 log"),
        "no episode": ([str(good), "--episode", "5"], "good.b22: no episode 5; there is 0"),
        "no turn": ([str(good), "--turn", "99"], "episode 0 has no turn 99; its last is 7"),
        "another version": ([str(version)], "episode 0 is of fetch_item version 7"),
        "another scenario": ([str(other)], "no scenario 'chess'"),
        "damaged": ([str(folder / "hole.b22")], "episode 0: turn 3 is lost from the damaged log"),
        "other rules": ([str(lied)], "episode 0, turn 1: map, characters, npc, clock differ"),
        "not a number": ([str(good), "--episode", "x"], "'x' is not a whole number from 0"),
        "no place": ([str(good), "--screenshot", str(folder / "none" / "x.png")], "there is no folder"),
        "no film": ([str(good), "--save", str(folder / "x.mp4")], "ends in .webp or .png or .gif"),
    }


def test_what_can_not_be_shown_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, (words, line) in bad_logs(tmp_path).items():
        try:
            code = main(["replay", *words])
        except SystemExit as end:
            code = end.code  # type: ignore[assignment]
        said = capsys.readouterr()
        assert code == 2 and said.out == "", name
        assert said.err.count("\n") == 1 and line in said.err, (name, said.err)


# -- compare ------------------------------------------------------------------------------------------------------


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    comparison = Comparison(FETCH, {}, 0, ("teacher", "random"))
    opened = Window(CompareShow(comparison))
    yield opened
    opened.close()
    comparison.close()


@pytest.mark.parametrize("size", [(966, 482), (700, 420), (1932, 964)])
def test_both_villages_and_both_strips_are_drawn_at_any_size(compared: Window, size: tuple[int, int]) -> None:
    show = compared.show
    assert isinstance(show, CompareShow)
    show.resize(size)
    compared.screen = pygame.display.set_mode(size, pygame.RESIZABLE)
    for _ in range(40):
        compared.frame(FRAME)
    drawn = show.draw()
    assert drawn.get_size() == size
    for room in (*show.places.villages, *show.places.strips, show.places.foot):
        assert drawn.get_rect().contains(room)
        colours = {tuple(drawn.get_at((x, y))) for x in range(room.left, room.right, 3) for y in range(*y_of(room), 2)}
        assert len(colours) > 8, room
    rooms = [*show.places.villages, *show.places.strips, show.places.foot]
    assert all(not a.colliderect(b) for at, a in enumerate(rooms) for b in rooms[:at]), "nothing lies over another"


def y_of(room: pygame.Rect) -> tuple[int, int]:
    return room.top, room.bottom


def test_keys_of_a_comparison(compared: Window) -> None:
    show = compared.show
    assert isinstance(show, CompareShow)
    comparison = show.comparison
    press(compared, pygame.K_SPACE)
    assert comparison.paused
    press(compared, pygame.K_TAB)
    assert comparison.seed == 1
    press(compared, pygame.K_PLUS, pygame.K_r, pygame.K_h)
    assert comparison.speed == 4 and comparison.seed == 1
    press(compared, pygame.K_ESCAPE)
    assert compared.open
    press(compared, pygame.K_ESCAPE)
    assert not compared.open


def test_the_slider_rests_before_a_checkpoint_is_loaded(compared: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer passes over many checkpoints on its way: only the one that it stays on is put to play."""
    from game.view.compare import Node

    comparison = compared.show.comparison  # type: ignore[attr-defined]
    side = comparison.sides[1]
    side.nodes, side.node = tuple(Node(f"u{at}", at / 10) for at in range(10)), 0
    chosen: list[tuple[int, int]] = []
    monkeypatch.setattr(comparison, "choose", lambda side, node: chosen.append((side, node)))
    show = CompareShow(comparison)
    compared.show = show
    slider = slider_of(show.fonts, show.places.strips[1])
    mouse(compared, pygame.MOUSEBUTTONDOWN, (slider.left + 2, slider.centery))
    for x in range(slider.left, slider.right, 15):
        mouse(compared, pygame.MOUSEMOTION, (x, slider.centery))
    assert chosen == []
    mouse(compared, pygame.MOUSEMOTION, (slider.right + 50, slider.centery))
    for _ in range(round(SETTLES_S / FRAME) + 2):
        compared.frame(FRAME)
    assert chosen == [(1, 9)]
    press(compared, pygame.K_LEFT, pygame.K_LEFT)
    for _ in range(round(SETTLES_S / FRAME) + 2):
        compared.frame(FRAME)
    assert chosen == [(1, 9), (1, 0)], "it stands on the checkpoint that plays, two before which there is none"


def test_a_comparison_as_a_film_ends_with_both_at_their_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film, shot = tmp_path / "film.gif", tmp_path / "end.png"
    words = ["compare", "--seed", "5", "--left", "teacher", "--right", "oracle", "--speed", "16", "--size", "640x360"]
    assert main([*words, "--save", str(film), "--screenshot", str(shot)]) == 0
    out = capsys.readouterr().out
    assert "left, teacher: success after 5 turns" in out and "right, oracle: success after" in out
    with Image.open(film) as frames, Image.open(shot) as end:
        assert frames.size == end.size == (640, 360) and frames.n_frames > 8  # type: ignore[attr-defined]
