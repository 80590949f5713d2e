"""A replay shows every turn as it was played, from any place of the timeline, and equals play at every speed."""

from pathlib import Path

import pytest

from game.view.facts import facts_of
from game.view.journal import Journal
from game.view.replay import Replay
from game.view.rerun import LogBook
from game.view.session import PLAYED, THINKING
from game.view.stage import READ_S, THINK_S, TICKS_PER_S, Stage
from tests.game.fronts import make_session, play_turn, play_turns, stage_turns
from tests.game.test_rerun import played, write_log


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """Three episodes: one of the teacher, one that went wrong, one that was broken off."""
    sessions = (played(0), played(4, "random"), played(5, "random", turns=4))
    return Replay(LogBook(write_log(tmp_path / "log.b22", *sessions)))


def test_equal_digests_at_every_turn_however_it_is_played(tmp_path: Path) -> None:
    """At x1, at x16, headless and in a replay of what the headless play recorded."""
    journal = Journal(tmp_path / "log.b22", "1")
    headless = play_turns(make_session("random", journal=journal, traced=False), 4, 45)
    journal.close()
    for speed in (1, 16):
        stage = Stage(make_session("random"))
        stage.speed = speed
        assert stage_turns(stage, 4, 45, 0.1) == headless, f"speed x{speed}"
    replay = Replay(LogBook(tmp_path / "log.b22"))
    shown = []
    for at in range(len(replay.book.numbers)):
        if at:
            replay.open(1)
        for turn in range(replay.length):
            replay.go(turn)
            shown.append(replay.shown.turn.digest_after)
    assert shown == headless and len(replay.book.numbers) > 1


def test_the_panel_and_the_picture_are_those_of_play(tmp_path: Path) -> None:
    session = make_session("random")
    stage = Stage(session)
    session.start(3)
    facts, moments = [], []
    while session.ended is None:
        play_turn(session)
        stage.finish()
        facts.append(facts_of(session, revealed=True))
        moments.append(stage.moment())
    replay = Replay(LogBook(write_log(tmp_path / "log.b22", session)))
    for turn in (*range(replay.length), *reversed(range(replay.length))):
        replay.go(turn)
        assert replay.revealed and replay.moment() == moments[turn]
        shown = facts_of(replay.shown, replay.revealed)
        for name in ("request", "seen", "memory", "choices", "how", "outcome", "good", "terms", "total", "turns_left"):
            assert getattr(shown, name) == getattr(facts[turn], name), name


def test_it_runs_in_the_time_of_play_and_stops_at_the_end(replay: Replay) -> None:
    ticks = [len(trace) - 1 for trace in replay.rerun.traces]
    lasts = sum(THINK_S + tick / TICKS_PER_S + READ_S for tick in ticks)
    passed, phases = 0.0, set()
    while not replay.paused:
        replay.advance(0.05)
        phases.add((replay.shown.phase, replay.revealed))
        passed += 0.05
    assert passed == pytest.approx(lasts, abs=0.06)
    assert phases == {(THINKING, False), (PLAYED, False), (PLAYED, True)}
    assert replay.place == replay.length and replay.shown.ended == replay.rerun.ended
    moment = replay.moment()
    assert moment is not None and moment.after == replay.rerun.traces[-1][-1], "the final move is shown"
    replay.pause()
    assert replay.place == 0 and not replay.paused, "from the start again"
    replay.speed = 16
    replay.advance(1.0)
    assert replay.turn > 2


def test_every_place_can_be_shown_and_read_back(replay: Replay) -> None:
    places = [0.0, 0.1, replay.length / 2, replay.length - 0.01, replay.length, 0.3]
    for place in (*places, *reversed(places)):
        replay.seek(place)
        assert replay.place == pytest.approx(place)
        assert replay.shown.turn.turn == min(int(place), replay.length - 1)
        assert len(replay.shown.turns) == replay.turn + (replay.shown.phase == PLAYED)
        assert replay.moment() is not None
    replay.seek(-3.0)
    assert replay.place == 0.0 and replay.shown.turn.proposed == "" and not replay.shown.turn.probs
    replay.seek(1e9)
    assert replay.at_end


def test_turn_by_turn(replay: Replay) -> None:
    seen = []
    for _ in range(3):
        replay.forward()
        seen.append((replay.turn, replay.revealed, replay.paused))
    assert seen == [(0, True, True), (1, True, True), (2, True, True)]
    replay.back()
    assert (replay.turn, replay.revealed) == (1, True)
    replay.seek(1.5)
    replay.back()
    assert replay.turn == 0
    replay.back()
    assert replay.place == 0.0
    replay.go(10_000)
    assert replay.at_end
    replay.forward()
    assert replay.at_end


def test_the_first_failure_and_the_other_episodes(replay: Replay) -> None:
    replay.to_failure()
    assert replay.note == "nothing went wrong in this episode" and replay.place == 0
    replay.open(1)
    assert (replay.number, replay.note, replay.place) == (1, "", 0)
    replay.to_failure()
    assert replay.turn == replay.rerun.failure is not None and replay.revealed and replay.paused
    replay.open(1)
    replay.go(replay.length)
    assert replay.number == 2 and replay.shown.ended is None, "it was broken off"
    replay.open(1)
    assert replay.number == 2 and replay.note == "this is the last episode of the log"
    for _ in range(3):
        replay.open(-1)
    assert replay.number == 0 and replay.note == "this is the first episode of the log"


def test_an_episode_that_can_not_be_shown_is_said_and_the_one_before_stays(tmp_path: Path) -> None:
    from msgspec.structs import replace

    other = played(4)
    other.begin = replace(other.begin, scenario_version=9)
    replay = Replay(LogBook(write_log(tmp_path / "log.b22", played(3), other)))
    replay.go(1)
    replay.open(1)
    assert "episode 1 is of fetch_item version 9" in replay.note
    assert (replay.number, replay.turn, replay.shown.begin.seed) == (0, 1, 3)
