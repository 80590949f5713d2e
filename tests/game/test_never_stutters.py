"""The window while the brain wakes up, thinks, or is killed: it goes on, and says what it is waiting for."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pygame
import pytest

from benchmarks import game as benchmark
from game.__main__ import main
from game.view.frames import percentile_ms
from game.view.journal import Journal
from game.view.play_show import PlayShow
from game.view.roster import Roster
from game.view.session import PLAYED, THINKING, Session
from game.view.stage import Stage
from game.view.window import Window
from recorder import Reader
from tests.game.fronts import FETCH, brains, make_session, make_tiny_model

PATIENCE_S = 120.0
FRAME = 1 / 60


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_tiny_model(tmp_path_factory.mktemp("models"))


@pytest.fixture
def played(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Window, Session, Stage]]:
    """A game in its window, just opened, recording to log.b22."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    journal = Journal(tmp_path / "log.b22", "1")
    session = make_session(tiny, journal=journal, deadline_s=PATIENCE_S)
    session.start(0)
    stage = Stage(session)
    window = Window(PlayShow(session, stage, Roster(FETCH)))
    yield window, session, stage
    window.close()
    session.player.close()
    journal.close()
    assert brains() == []


def until(window: Window, true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come"
        window.frame(FRAME)
        window.show.wait(FRAME)


def colours(window: Window, room: pygame.Rect) -> int:
    return len({tuple(window.screen.get_at((x, y))) for x in range(room.left, room.right, 4)
                for y in range(room.top, room.bottom, 4)})  # fmt: skip


def test_the_village_is_there_before_the_brain_is(played: tuple[Window, Session, Stage]) -> None:
    window, session, stage = played
    window.frame(FRAME)
    assert session.player.waking and session.waiting == "waking up …" and session.phase == THINKING
    show = window.show
    assert isinstance(show, PlayShow)
    assert colours(window, show.picture.layout.village) > 60 and colours(window, show.picture.layout.panel) > 10
    first = pygame.image.tobytes(window.screen, "RGB")
    until(window, lambda: session.phase == PLAYED)
    assert pygame.image.tobytes(window.screen, "RGB") != first and not session.turn.fallback
    assert stage.time_s > 0


def test_a_killed_brain_daydreams_in_the_window_and_in_the_log(
    played: tuple[Window, Session, Stage], tmp_path: Path
) -> None:
    window, session, stage = played
    stage.speed = 16
    until(window, lambda: session.turns_played >= 1)
    (first,) = brains()
    os.kill(first, signal.SIGKILL)
    until(window, lambda: any(turn.fallback for turn in session.turns))
    dreamt = next(turn for turn in session.turns if turn.fallback)
    assert dreamt.proposed == "" and dreamt.executed == "wait" and "started again" in dreamt.policy_note
    stage.paused = True
    stage.finish()
    moment = stage.moment()
    assert moment is not None and moment.speech is not None and "daydreaming" in moment.speech.words
    show = window.show
    assert isinstance(show, PlayShow) and show.view().wrong and show.view().status.startswith("daydreaming: ")
    stage.paused = False
    until(window, lambda: session.turns[-1].turn > dreamt.turn and not session.turns[-1].fallback)
    (second,) = brains()
    assert second != first and session.begin.weights_hash
    session.journal.close()  # type: ignore[union-attr]
    with Reader(tmp_path / "log.b22") as log:
        logged = [turn for turn in log.turns() if turn.fallback]
    assert [turn.turn for turn in logged] == [dreamt.turn] and logged[0].executed == "wait"


def test_a_fallback_is_replayed_like_any_turn(
    played: tuple[Window, Session, Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    window, session, stage = played
    stage.speed = 16
    until(window, lambda: session.turns_played >= 1)
    os.kill(brains()[0], signal.SIGKILL)
    until(window, lambda: session.turns_played >= 4)
    session.journal.close()  # type: ignore[union-attr]
    shot = str(tmp_path / "shot.png")
    assert main(["replay", str(tmp_path / "log.b22"), "--turn", "3", "--screenshot", shot]) == 0
    assert capsys.readouterr().err == ""


def test_percentiles_are_by_nearest_rank() -> None:
    seconds = [at / 1000 for at in range(100, 0, -1)]
    assert percentile_ms(seconds, 50) == pytest.approx(50) and percentile_ms(seconds, 99) == pytest.approx(99)
    assert percentile_ms([0.007], 99) == pytest.approx(7) and percentile_ms([], 50) == 0


def test_the_benchmark_keeps_the_brain_busy_and_gives_the_keys(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    assert benchmark.main(["--brain", tiny, "--frames", "40", "--json"]) == 0
    out = capsys.readouterr().out.splitlines()
    found = json.loads(out[-1])
    assert {"frame_ms_p50", "frame_ms_p99", "decision_ms_p50", "decision_ms_p95"} <= set(found)
    assert found["frames"] == 40 and found["decisions"] > 5, "more decisions than there are turns in 40 frames"
    assert 0 < found["frame_ms_p50"] <= found["frame_ms_p99"] <= found["frame_ms_max"]
    assert 0 < found["frame_cpu_ms_p50"] <= found["frame_cpu_ms_p99"]
    assert 0 < found["decision_ms_p50"] <= found["decision_ms_p95"] and brains() == []
    assert "nano:fetch_item" in benchmark.shipped_brains()
    for words, line in ((["--brain", "nope"], "policy 'nope'"), (["--brain", "teacher"], "is no model")):
        assert benchmark.main(words) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and line in said
