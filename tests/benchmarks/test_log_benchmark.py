"""`python -m benchmarks.recorder`: every recorder keeps what it is given, and the shape that others rely on."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from benchmarks import log_peers, recorder
from benchmarks.log_peers import PEERS, Peer, missing
from recorder import Reader
from tests.recorder.making import a_log

KEYS = {"bytes_per_turn", "caller_us_p50", "caller_us_p99", "turns_lost_at_kill", "read_episode_ms"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "turns.b22"
    a_log(path, episodes=5, turns=4)
    return path


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_recorder_gives_back_what_it_took(peer: type[Peer], log: Path, tmp_path: Path) -> None:
    if missing(peer):
        pytest.skip(f"{missing(peer)} isn't installed")
    with Reader(log) as reader:
        episodes = list(reader.episodes())
    folder = tmp_path / "out"
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        took = recorder.write(peer, folder, episodes)
        assert len(took) == 20 and min(took) > 0
        assert peer.readable(folder) == 20
        read = peer.opened(folder)
        assert [read(number) for number in (3, 0, 4)] == [4, 4, 4]
    assert recorder.size_of(folder) > 1000


def test_the_object_that_others_rely_on(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the kill, in which this log loses nothing."""
    code = recorder.main(
        ["--json", "--log", str(log), "--episodes", "3", "--many", "6", "--kills", "1", "--only", "b22,jsonl+gzip"]
    )
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert code == 0 and [one["name"] for one in found["recorders"]] == ["b22", "jsonl+gzip"]
    assert all(set(one) >= KEYS for one in found["recorders"]) and found["turns"] == 12
    assert found["recorders"][0]["turns_lost_at_kill"] == 0
    assert any(line.startswith("b22 ") and "0*" in line for line in lines)


def test_a_recorder_that_is_not_installed_is_left_out_aloud(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "missing", lambda peer: "mcap" if peer is log_peers.Mcap else "")
    recorder.main(["--json", "--log", str(log), "--episodes", "1", "--many", "1", "--kills", "1", "--only", "mcap"])
    printed = capsys.readouterr()
    assert "mcap: left out, mcap isn't installed: pip install 'errand[bench]'" in printed.err
    assert json.loads(printed.out.splitlines()[-1])["recorders"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--only", "nobody"], "there are b22, mcap"), (["--kills", "0"], "at least 1"),
     (["--log", "none.b22", "--only", "b22"], "none.b22: can't be opened")],
)  # fmt: skip
def test_bad_use(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = recorder.main(arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    said = capsys.readouterr().err
    assert code == 2 and says in said and said.count("\n") == 1


def test_the_best_of_each_column_has_a_star() -> None:
    one = dict.fromkeys(recorder.COLUMNS, 2.0) | {"name": "a"}
    other = dict.fromkeys(recorder.COLUMNS, 3.0) | {"name": "b", "bytes_per_turn": 1.0}
    lines = recorder.table([one, other])
    assert lines[1].count("*") == len(recorder.COLUMNS) - 1 and lines[2].count("*") == 1
