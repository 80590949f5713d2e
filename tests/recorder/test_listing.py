"""`ls`, `show` and `tail`: which episodes, and what a person reads of them."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recorder import Amend, Reader, Writer
from recorder.listing import RangeError, Wanted, parse_range, rows
from tests.recorder.calling import call
from tests.recorder.making import a_begin, a_log, a_turn, an_end, write_episodes
from tests.signals import heed_ctrl_c

TEXTS = Path(__file__).parent / "golden"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Episodes 0 to 5: two policies, a success and a failure each, one amended, one open."""
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        write_episodes(log, range(2), 2, policy="nano:before", run="r1", purpose="test", split="test")
        write_episodes(log, range(2, 4), 4, policy="nano:after", run="r2", update=3, split="train")
        log.begin_episode(a_begin(4, policy="teacher", scenario="other"))
        log.turn(a_turn(4, 0))
        log.end_episode(an_end(4, 1, success=False, ended="turn_cap", total_reward=-0.25))
        log.begin_episode(a_begin(5, policy="teacher"))
        log.turn(a_turn(5, 0))
        log.amend(Amend(episode=0, turn=1, terms={"found": 2.0}))
    return path


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], [0, 1, 2, 3, 4, 5]), (["--policy", "nano:*"], [0, 1, 2, 3]), (["--policy", "teacher", "--success"], []),
        (["--failure"], [4]), (["--success"], [0, 1, 2, 3]), (["--scenario", "other"], [4]),
        (["--group", "g1"], [2, 3]),
        (["--run", "r2", "--seed", "103"], [3]), (["--return=-1..0"], [4]), (["--return", "1.."], [0]),
        (["--return", "..0.3"], [1, 4, 5]), (["--attempt", "1"], []), (["--split", "test"], [0, 1]),
        (["--purpose", "t?st"], [0, 1]), (["--update", "3"], [2, 3]),
    ],
)  # fmt: skip
def test_ls_filters(asked: list[str], found: list[int], mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, said = call(capsys, "ls", mixed, "--json", *asked)
    assert (code, said, [json.loads(line)["episode"] for line in out.splitlines()]) == (0, "", found)


def test_ls_says_what_an_episode_came_to(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in call(capsys, "ls", mixed, "--json")[1].splitlines()]
    assert lines[0]["reward"] == pytest.approx(2.1)  # the AMEND applied
    assert lines[1]["reward"] == pytest.approx(0.2) and lines[1]["turns"] == 2
    assert lines[5]["ended"] is None and lines[5]["success"] is None and lines[5]["turns"] == 1
    out = call(capsys, "ls", mixed)[1].splitlines()
    assert out[0].split() == ["episode", "turns", "return", "success", "ended", "seed", "policy", "scenario", "group"]
    assert out[5].split() == [
        "4", "1", "-0.250", "no", "turn_cap", "104", "teacher", "other", "1", "difficulty=easy", "g2",
    ]
    assert out[6].split()[2:5] == ["+0.100", "-", "open"]


def test_ls_of_attempts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        write_episodes(log, range(2), 1, run="r", update=3)
        write_episodes(log, range(2, 3), 1, run="r", update=3, attempt=1)
    for asked, found in (([], [2]), (["--attempts", "all"], [0, 1, 2]), (["--attempt", "0"], [0, 1])):
        out = call(capsys, "ls", path, "--json", *asked)[1]
        assert [json.loads(line)["episode"] for line in out.splitlines()] == found


def test_ls_finds_nothing_aloud(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "ls", mixed, "--policy", "nobody")
    assert code == 0 and out.endswith("a.b22: no such episode\n")


@pytest.mark.parametrize("text", ["", "a..b", "..", "2..1", "nan", "1...2"])
def test_a_range_that_is_none(text: str, mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RangeError, match="write it as LOW"):
        parse_range(text)
    code, _, said = call(capsys, "ls", mixed, f"--return={text}")
    assert code == 2 and said.count("\n") == 1


def test_ranges() -> None:
    assert parse_range("0.5..") == (0.5, math.inf) and parse_range("..-1") == (-math.inf, -1.0)
    assert parse_range("1") == (1.0, 1.0) and parse_range("-1..1e3") == (-1.0, 1000.0)


def test_rows_are_what_the_episodes_say(mixed: Path) -> None:
    """The short way (begins and ends alone) against whole episodes."""
    with Reader(mixed) as reader:
        short = {row.episode: row for row in rows(reader)}
        for episode in reader.episodes():
            row = short.pop(episode.begin.episode)
            assert (row.turns, row.seed, row.policy) == (len(episode.turns), episode.begin.seed, episode.begin.policy)
            assert row.reward == pytest.approx(episode.total() if episode.amends or not episode.end
                                               else episode.end.total_reward)  # fmt: skip
        assert not short
        assert [row.episode for row in rows(reader, Wanted(success=False))] == [4]


# ---------------------------------------------------------------- show


def test_show_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the log that never changes: golden/format-1.b22."""
    log = TEXTS / "format-1.b22"
    assert call(capsys, "show", log, 0)[1] == (TEXTS / "show.txt").read_text()
    assert call(capsys, "show", log, 0, "--turn", 2)[1] == (TEXTS / "show-turn.txt").read_text()
    assert call(capsys, "ls", log)[1] == (TEXTS / "ls.txt").read_text()


def test_show_json(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "show", mixed, 0, "--json")[1])
    assert found["begin"]["seed"] == 100 and found["end"]["success"] and found["whole"]
    assert [turn["turn"] for turn in found["turns"]] == [0, 1]
    assert found["turns"][1]["terms"]["found"] == 2.0 and found["turns"][1]["reward"] == 2.0
    assert found["return"] == pytest.approx(2.1) and found["amends"][0]["turn"] == 1
    one = json.loads(call(capsys, "show", mixed, 2, "--turn", 3, "--json")[1])
    assert [turn["turn"] for turn in one["turns"]] == [3]


def test_show_of_an_open_episode(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, said = call(capsys, "show", mixed, 5)
    assert (code, said) == (0, "") and "never (open after 1 turns)" in out


def test_show_turns_that_were_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0, proposed="fly", executed="wait", fallback=True, outcome_text="a\nb\x1b[31m", probs=b""))
    out = call(capsys, "show", path, 0)[1]
    assert "did         fly -> wait (fallback) -> arrived: a\\nb\\x1b[31m" in out and "\x1b" not in out
    assert "could       go to the dock, go to the inn," in out  # no probabilities, no order but the log's
    assert "  proposed    fly" in call(capsys, "show", path, 0, "--turn", 0)[1]


@pytest.mark.parametrize(
    ("asked", "says"),
    [(["99"], "no episode 99 in the log"), (["x"], "argument EPISODE: invalid int value: 'x'"),
     (["0", "--turn", "7"], "episode 0 has no turn 7; it has 2, 0 to 1"), (["-1"], "no episode -1 in the log")],
)  # fmt: skip
def test_show_what_is_not_there(
    asked: list[str], says: str, mixed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = call(capsys, "show", mixed, *asked)
    assert code == 2 and out == "" and says in said and said.count("\n") == 1


# ---------------------------------------------------------------- tail


def test_tail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    a_log(path, episodes=3, turns=3)
    everything = call(capsys, "cat", path)[1].splitlines()
    assert call(capsys, "tail", path)[1].splitlines() == everything
    assert call(capsys, "tail", "-n", "2", path)[1].splitlines() == everything[-2:]
    assert call(capsys, "tail", "-n", "0", path)[1] == ""
    out = call(capsys, "tail", "-n", "1", path, "--json", "--fields", "episode,turn,seed")[1]
    assert json.loads(out) == {"episode": 2, "turn": 2, "seed": 102}
    assert call(capsys, "tail", path, "--fields", "end.success")[0] == 2
    assert call(capsys, "tail", path, "-n", "-1")[0] == 2


def test_tail_follows_until_ctrl_c(tmp_path: Path) -> None:
    """A log that grows while it is watched: the last turns at once, each new one when it is written."""
    path = tmp_path / "a.b22"
    command = [sys.executable, "-m", "recorder", "tail", "-f", "-n", "1", "--json", "--fields", "turn,seed", str(path)]
    with Writer(path, dictionary=None, sync="none") as log:
        log.begin_episode(a_begin(3))
        for at in range(2):
            log.turn(a_turn(3, at))
        child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True,
                                 preexec_fn=heed_ctrl_c)  # fmt: skip
        try:
            assert child.stdout is not None
            assert json.loads(child.stdout.readline()) == {"turn": 1, "seed": 103}
            for at in range(2, 5):
                log.turn(a_turn(3, at))
                assert json.loads(child.stdout.readline()) == {"turn": at, "seed": 103}
            child.send_signal(signal.SIGINT)
            assert child.wait(120) == 0 and child.stdout.read() == ""
        finally:
            child.kill()
            child.wait()
