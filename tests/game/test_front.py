"""`python -m game` without a window: what it prints, what it writes, and how it turns bad input away."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pygame
import pytest

from game.__main__ import main
from game.view.answers import fallback, split_of, uniform
from game.view.facts import choices_of, describe, entropy, facts_of
from game.view.journal import Journal
from game.view.picture import Picture, state_line, view_of
from game.view.remarks import spoken
from game.view.snapshot import snapshot
from game.view.stage import Stage
from recorder import Reader, SyncFailedError, Turn, WriteFailedError, Writer
from recorder.__main__ import main as recorder_main
from tests.game.fronts import FETCH, make_session, play_turn, play_turns, stage_turns

HEADLESS = ["--headless", "--turns", "30"]


def test_the_teacher_plays_headless_and_its_log_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "play.b22"
    assert main(["--brain", "teacher", *HEADLESS, "--record", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"episode 0, seed 0: success after \d+ turns, reward 0\.9\d+", lines[0])
    assert re.fullmatch(r"30 turns, \d+ episodes ended, \d+ of them in success", lines[-1])
    assert recorder_main(["verify", "--resim", "--json", str(log)]) == 0
    replay = json.loads(capsys.readouterr().out)["resim"]
    assert (replay["compared"], replay["unrecorded"], replay["differences"]) == (30, 0, [])
    with Reader(log) as read:
        episodes = list(read.episodes())
        assert read.prefix(episodes[0].begin.prefix_hash).text == FETCH.prefix
    assert [episode.begin.seed for episode in episodes] == list(range(len(episodes)))
    assert all(episode.whole and episode.end and episode.end.success for episode in episodes[:-1])
    assert episodes[-1].end is None, "an episode that is cut off has no end, so that nobody learns from it"
    begin, first = episodes[0].begin, episodes[0].turns[0]
    assert (begin.policy, begin.split, begin.purpose, begin.model) == ("teacher", "train", "play", "")
    assert begin.digest_start == FETCH.digest(FETCH.build(0))
    assert first.observation == FETCH.observation(FETCH.build(0)), "an action is logged with what was seen before it"
    assert episodes[0].end and episodes[0].end.total_reward == pytest.approx(sum(t.reward for t in episodes[0].turns))


def test_a_second_session_is_appended_to_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "play.b22"
    for seed in ("3", "4"):
        assert main(["--brain", "random", "--headless", "--turns", "4", "--seed", seed, "--record", str(log)]) == 0
    with Reader(log) as read:
        assert [(episode.begin.episode, episode.begin.seed) for episode in read.episodes()] == [(0, 3), (1, 4)]
    assert recorder_main(["verify", "--resim", str(log)]) == 0


def test_json_gives_one_object_an_episode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--brain", "oracle", *HEADLESS, "--json", "--option", "difficulty=1"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(result["turns"] for result in results) == 30
    assert all(result["ended"] == "success" for result in results[:-1])
    assert set(results[0]["digest"]) == {"map", "characters", "npc", "clock"}


def test_rules_play_without_model_picture_or_sound() -> None:
    code = (
        "import sys; from game.__main__ import main; code = main(sys.argv[1:]);"
        "loaded = [name for name in ('mlx', 'mlx.core', 'pygame', 'mlx_lm') if name in sys.modules];"
        "sys.exit(f'loaded {loaded}' if loaded else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--brain", "random", "--headless", "--turns", "5"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_screenshot_shows_village_and_panel(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "shot.png"
    env = {name: value for name, value in os.environ.items() if name not in ("SDL_VIDEODRIVER", "DISPLAY")}
    command = [sys.executable, "-m", "game", "--brain", "teacher", *HEADLESS, "--screenshot", str(picture), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(json.loads(line) for line in done.stdout.splitlines()), "nothing but JSON on standard output"
    shot = pygame.image.load(str(picture))
    assert shot.get_size() == (1320, 686)
    assert colours(shot, pygame.Rect(0, 0, 960, 640)) > 100
    for part in (pygame.Rect(960, 0, 360, 340), pygame.Rect(960, 340, 360, 346), pygame.Rect(0, 640, 960, 46)):
        assert colours(shot, part) > 20, f"nothing is written in {part}"


def colours(picture: pygame.Surface, part: pygame.Rect) -> int:
    places = ((x, y) for x in range(part.left, part.right, 2) for y in range(part.top, part.bottom, 2))
    return len({tuple(picture.get_at(place)) for place in places})


@pytest.mark.parametrize("brain", ["teacher", "random"])
def test_neither_speed_nor_drawing_changes_the_play(brain: str) -> None:
    plain = play_turns(make_session(brain, traced=False), 5, 25)
    assert play_turns(make_session(brain, traced=True), 5, 25) == plain
    picture = Picture()
    for speed, frame_s in ((1, 0.2), (4, 0.12), (16, 0.1)):
        stage = Stage(make_session(brain))
        stage.speed = speed

        def draw(stage: Stage = stage) -> None:
            picture.draw(view_of(stage.session, stage))

        assert stage_turns(stage, 5, 25, frame_s, draw if speed == 4 else None) == plain
    assert play_turns(make_session(brain), 6, 25) != plain


def test_the_same_seed_again_is_the_same_play() -> None:
    session = make_session("random")
    assert play_turns(session, 11, 12) == play_turns(session, 11, 12)
    draws = [uniform(seed, turn) for seed in range(40) for turn in range(40)]
    assert len(set(draws)) == 1600 and all(0 <= draw < 1 for draw in draws)
    assert sum(draws) / 1600 == pytest.approx(0.5, abs=0.03)


def test_the_next_seed_stays_in_its_split() -> None:
    session = make_session("teacher")
    for seed, following in ((0, 1), (999_999, 0), (1_000_005, 1_000_006), (2_000_499, 2_000_000), (2**63 - 1, 0)):
        session.start(seed)
        assert session.next_seed() == following
    assert split_of(FETCH, 2_000_499) == "test" and split_of(FETCH, 5_000_000) == ""


BAD = {
    "--scenario fetch_itm": "did you mean 'fetch_item'",
    "--option difficulty=9": "difficulty='9': choose one of 1, 2, 3, 4, 5",
    "--option dificulty=1": "did you mean 'difficulty'",
    "--option difficulty": "not of the form KEY=VALUE",
    "--brain nope": "policy 'nope': no player, model, run or model folder of that name",
    "--brain nano:nope": "adapter 'nope'",
    "--brain nope@3": "not a run folder",
    "--brain human": "--brain human needs a window",
    "--sound": "--sound needs a window",
    "--size 20x20": "from 640x360 to",
    "--size big": "not of the form WIDTHxHEIGHT",
    "--seed -1": "a seed is a whole number from 0",
    "--seed 9223372036854775808": "a seed is a whole number from 0",
    "--seed x": "--seed",
    "--turns 0": "'0' is not a whole number from 1",
    "--deadline 0": "'0' is not a number of seconds above 0",
    "--record {tmp}/none/x.b22": "none/x.b22: can't be opened",
    "--record {tmp}/x.log": "a log's name ends in .b22",
    "--record {tmp}/text.b22": "text.b22: not a .b22 log",
    "--screenshot {tmp}/none/x.png": "there is no folder",
    "--screenshot {tmp}/x.gif": "ends in .png",
    "replay x.b22": "unrecognized arguments",
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_one_line_and_loses_nothing(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.b22").write_text("a diary, no log\n")
    words = bad.format(tmp=tmp_path).split(" ")
    brain = [] if "--brain" in words else ["--brain", "teacher"]
    try:
        code = main([*brain, "--headless", "--turns", "3", *words])
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert code == 2 and said.out == ""
    assert said.err.count("\n") == 1 and BAD[bad] in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["text.b22"]
    assert (tmp_path / "text.b22").read_text() == "a diary, no log\n"


def test_headless_needs_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--headless", "--brain", "teacher"]) == 2
    assert "give --turns N" in capsys.readouterr().err


def test_a_full_disk_stops_no_play_and_loses_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal(tmp_path / "log.b22", "1")
    session = make_session(journal=journal)
    write, full = Writer.turn, True

    def refuse(self: Writer, turn: Turn) -> None:
        if full:
            raise WriteFailedError("log.b22: No space left on device")
        write(self, turn)

    monkeypatch.setattr(Writer, "turn", refuse)
    play_turns(session, 1, 3)
    assert state_line(session) == ("not recording: log.b22: No space left on device", True)
    assert capsys.readouterr().err == "recording: log.b22: No space left on device\n", "said once"
    full = False
    play_turn(session)
    assert state_line(session)[1] is False
    journal.close()
    with Reader(tmp_path / "log.b22") as read:
        assert [turn.turn for turn in read.turns()] == [0, 1, 2, 3]


def test_a_lost_recording_is_said_in_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: Writer, turn: Turn) -> None:
        raise SyncFailedError("records could not be made durable")

    monkeypatch.setattr(Writer, "turn", broken)
    assert main(["--brain", "teacher", *HEADLESS, "--record", str(tmp_path / "log.b22")]) == 1
    said = capsys.readouterr()
    assert "30 turns" in said.out and said.err.startswith("recording: records could not be made durable\n")


def test_the_panel_says_what_the_record_says() -> None:
    session = make_session("teacher")
    stage = Stage(session)
    session.start(0)
    waiting = facts_of(session, stage.revealed)
    assert waiting.request == "Tom wants the rope" and waiting.turns_left == 20 and waiting.how == "thinking …"
    assert [choice.phrase for choice in waiting.choices] == session.turn.legal
    assert not any(choice.chosen or choice.prob for choice in waiting.choices)
    play_turn(session)
    hidden, (turn,) = facts_of(session, revealed=False), session.turns
    assert hidden.outcome == "Doing it …" and hidden.total == 0, "an outcome is not told before it is shown"
    shown = facts_of(session, revealed=True)
    assert shown.outcome.lower() == turn.outcome_text.lower() and shown.total == turn.reward
    assert [choice.phrase for choice in shown.choices if choice.chosen] == [turn.executed] == [shown.choices[0].phrase]
    assert shown.turns_left == 19 and shown.how.startswith("greedy")
    while session.ended is None:
        play_turn(session)
    assert facts_of(session, revealed=False).tally == "first episode"
    ended = facts_of(session, revealed=True)
    assert (ended.good, ended.tally) == (True, "1 of 1 succeeded")
    assert ended.total == pytest.approx(sum(term[2] for term in ended.terms))


def test_words_of_the_panel() -> None:
    text = (
        "left 9 last robbed unseen well asker unknown at road asked Tom "
        "goal hammer Bram hold none item Pip here with Pip"
    )
    request, seen, memory = describe(text)
    assert request == "Bram wants the hammer"
    assert seen == ("On the road, hands free", "Lying here: nothing", "Here too: Pip, Tom (asked)")
    assert memory == ("hammer: Pip has it", "Bram: no idea where", "Not looked yet: well")
    assert describe("a board of 2048") == ("", ("a board of 2048",), ())
    people = snapshot(FETCH.build(0))
    told = Turn(episode=0, turn=0, observation="", proposed="", executed="", outcome_text="Mara: no idea")
    assert people is not None and spoken(told, people) == ("Mara", "No idea")
    assert entropy([0.5, 0.5, 0.0]) == pytest.approx(0.6931472)
    assert fallback(["go north", "wait", "wait a day"]) == "wait" and fallback(["up", "down"]) == "down"
    undecided = Turn(episode=0, turn=0, observation="", proposed="", executed="", legal=["b", "a"])
    assert [choice.phrase for choice in choices_of(undecided, False)] == ["b", "a"]


def test_a_person_is_not_asked_where_a_turn_is_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--brain", "human", "--scenario", "sudoku_code"]) == 2
    said = capsys.readouterr().err
    assert "can't play sudoku_code" in said and said.count("\n") == 1
