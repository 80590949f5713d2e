"""`python -m recorder`: the words, the lines and the exit codes that other programs rely on."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import scenarios
from recorder import Amend, Op, Writer
from recorder.__main__ import main
from recorder.commands import info
from tests.recorder.calling import call
from tests.recorder.making import a_begin, a_log, a_turn, extra_record, frames_of, write_episodes, zstd
from tests.recorder.test_resim import Count, record

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    path = tmp_path / "a.b22"
    a_log(path)
    return path


def test_cat_fields_one_turn_a_line(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = "episode,turn,executed,terms.found,seed,scenario,options.difficulty,end.success,success,reward,logps"
    code, out, err = call(capsys, "cat", log_path, "--json", "--fields", fields)
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(lines)) == (0, "", 6)
    assert list(lines[0]) == fields.split(",")
    turn = a_turn(1, 2)
    assert lines[5] == {
        "episode": 1, "turn": 2, "executed": turn.executed, "terms.found": 0.1, "seed": 101, "scenario": "count",
        "options.difficulty": "easy", "end.success": True, "success": True, "reward": turn.reward,
        "logps": turn.logp_values.tolist(),
    }


def test_cat_json_prints_every_turn_field(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "cat", log_path, "--json")
    first, turn = json.loads(out.splitlines()[0]), a_turn(0, 0)
    assert first["seed"] == 100 and first["scenario"] == "count"
    given = msgspec.structs.asdict(turn) | {
        "logps": turn.logp_values.tolist(), "probs": turn.prob_values.tolist()
    }
    assert {name: first[name] for name in given} == given


def test_cat_for_people_keeps_to_one_line_a_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(
            a_turn(0, 0, proposed="fly", executed="wait", outcome_text="a\nb\u0085c\x1b[31m", fallback=True)
        )
    code, out, _ = call(capsys, "cat", path)
    assert code == 0 and len(out.splitlines()) == 1
    assert out.startswith("0 0  count seed 100  fly -> wait (fallback)  [arrived: a\\nb\\x85c\\x1b[31m]")
    assert call(capsys, "cat", path, "--json", "--fields", "outcome_text")[1].count("\n") == 1
    assert call(capsys, "cat", path, "--fields", "turn,outcome_text")[1] == "0\ta\\nb\\x85c\\x1b[31m\n"


@pytest.mark.parametrize(
    ("field", "hint"),
    [("exicuted", "did you mean 'executed'?"), ("terms.x.y,observation.z", "observation has no parts"),
     ("zzz", "there are episode"), ("end.seed", "no field 'end.seed'"), ("", "no field ''")],
)
def test_cat_knows_its_fields(
    log_path: Path, capsys: pytest.CaptureFixture[str], field: str, hint: str
) -> None:
    code, out, err = call(capsys, "cat", log_path, "--fields", field)
    assert code == 2 and out == "" and hint in err and err.count("\n") == 1


def test_cat_never_prints_null_for_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of another program may hold NaN; JSON can't. Such a turn counts as damage, aloud."""
    log_path = tmp_path / "a.b22"
    with Writer(log_path, dictionary=None) as log:
        log.begin_episode(a_begin(1))
        for at in range(3):
            log.turn(a_turn(1, at))
    content = {"episode": 1, "turn": 3, "observation": "", "proposed": "", "executed": "", "tau": math.nan}
    extra_record(log_path, Op.TURN, zstd(msgspec.msgpack.encode(content)))
    code, out, err = call(capsys, "cat", log_path, "--json")
    assert code == 1 and len(out.splitlines()) == 3 and "null" not in out and "NaN" not in out
    assert "1 records undecodable (first: offset" in err and "Turn.tau is nan" in err


def test_cat_leaves_out_abandoned_attempts_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        write_episodes(log, range(2), 2, run="r", update=3)
        write_episodes(log, range(2, 3), 2, run="r", update=3, attempt=1)
    code, out, err = call(capsys, "cat", path, "--json", "--fields", "episode")
    assert code == 0 and [json.loads(line)["episode"] for line in out.splitlines()] == [2, 2]
    assert "4 turns of abandoned attempts left out" in err
    assert len(call(capsys, "cat", path, "--attempts", "all")[1].splitlines()) == 6


def test_info(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "info", log_path, log_path, "--json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert code == 0 and first == second and first["good"] and first["clean"] and not first["damaged"]
    assert (first["episodes"], first["turns"], first["successes"]) == (2, 6, 2)
    assert first["scenarios"] == {"count 1": 2} and first["header"]["format"] == 1
    code, out, _ = call(capsys, "info", log_path)
    assert code == 0 and "good; closed" in out and "count 1 (2)" in out


def test_info_of_a_long_log_believes_its_index(
    log_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(call(capsys, "info", log_path, "--json")[1])
    monkeypatch.setattr(info, "READ_WHOLE", 0)
    code, out, _ = call(capsys, "info", log_path)
    assert code == 0 and "a.b22: not checked (verify reads every record); closed" in out
    quick = json.loads(call(capsys, "info", log_path, "--json")[1])
    assert whole["checked"] and not quick["checked"]
    assert {**quick, "checked": True, "indexes": whole["indexes"], "damage": whole["damage"]} == whole


def test_verify_says_good_unclean_and_damaged_apart(
    log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, frames = log_path.read_bytes(), frames_of(log_path)
    code, out, _ = call(capsys, "verify", log_path)
    assert code == 0 and "good; closed" in out and "2 episodes, 6 turns" in out
    log_path.write_bytes(data[: frames[-1].offset - 4])
    code, out, _ = call(capsys, "verify", log_path)
    assert code == 0 and "good; unclean end" in out and "bytes of an unfinished record (readable)" in out
    turn = next(frame for frame in frames if frame.op == Op.TURN)
    log_path.write_bytes(data[: turn.offset + 20] + b"?" + data[turn.offset + 21 :])
    code, out, _ = call(capsys, "verify", log_path)
    assert code == 1 and f"first at offset {turn.offset}" in out and "1 records missing" in out
    assert "1 episodes with lost turns" in out
    code, out, _ = call(capsys, "verify", log_path, "--json")
    found = json.loads(out)
    assert code == 1 and not found["good"] and found["damage"]["missing"] == 1
    code, out, err = call(capsys, "cat", log_path)
    assert code == 1 and len(out.splitlines()) == 5 and "damaged: " in err


def test_bad_use(log_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each bad file, the good ones done all the same, exit code 2."""
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")
    for command in ("info", "cat", "verify"):
        code, out, err = call(capsys, command, tmp_path / "none.b22", other, log_path)
        assert code == 2 and out
        first, second = err.splitlines()
        assert "none.b22: can't be opened: No such file" in first and "notes.txt: not a .b22 log" in second


@pytest.mark.parametrize("arguments", [[], ["recover", "x"], ["fix", "x"], ["cat"], ["info", "x", "--resim"]])
def test_what_is_not_offered(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1 and "--help" in said


def test_verify_resim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    games: dict[str, Any] = {"count": Count()}
    monkeypatch.setattr(scenarios, "get", games.__getitem__)
    path = tmp_path / "a.b22"
    record(path)
    code, out, _ = call(capsys, "verify", "--resim", path)
    assert code == 0 and "2 episodes, 6 turns compared, 0 episodes differ" in out
    path.unlink()
    record(path, {(12, 2): {"total": "00"}}, scenario_version=3)
    code, out, _ = call(capsys, "verify", "--resim", path)
    assert code == 1 and "episode 12, turn 2: total differs (scenario count version 3 in the log, version 1" in out
    assert "note: scenario count: version 3 in the log, version 1 in this program" in out
    found = json.loads(call(capsys, "verify", "--resim", "--json", path)[1])
    assert not found["good"] and not found["damaged"]
    assert found["resim"]["differences"][0]["turn"] == 2


def test_a_pipe_that_closes_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path, episodes=400)
    command = f"{sys.executable} -m recorder cat --json {path} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["turn"] == 0


def test_labels_of_amends_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None) as log:
        log.begin_episode(a_begin(0))
        log.turn(a_turn(0, 0, logps=struct.pack("<f", -0.5)))
        log.amend(Amend(episode=0, labels={"quality": "good"}))
    assert json.loads(call(capsys, "info", path, "--json")[1])["amends"] == 1
