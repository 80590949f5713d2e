"""python -m scenarios: what it lists, shows, checks and writes; scenarios of other packages, and of one's own."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import scenarios
from scenarios import ScenarioError
from scenarios.__main__ import main

LAMP = "tests.scenarios.broken:Lamp"


def test_every_scenario_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert tuple(line["name"] for line in lines) == scenarios.names()
    assert all(line["what"] and line["options"] for line in lines)
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in scenarios.names())


@pytest.mark.parametrize("name", [*scenarios.names(), LAMP])
def test_what_is_shown_is_what_the_scenario_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = scenarios.get(name)
    assert main(["show", name, "--seed", "3", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    state = scenario.build(3)
    assert (facts["observation"], facts["legal"]) == (scenario.observation(state), list(scenario.legal(state)))
    assert facts["splits"]["test"] == [scenario.splits["test"].start, scenario.splits["test"].stop]
    assert main(["show", name]) == 0
    out = capsys.readouterr().out
    for word in (scenario.prefix, *(o.name for o in scenario.options), *(t.name for t in scenario.reward_terms)):
        assert word in out


def test_a_sound_scenario_checks_with_exit_code_0_and_a_broken_one_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", LAMP, "--seeds", "3", "--no-model"]) == 0
    out = capsys.readouterr().out
    assert "FAIL" not in out and "check_env passes" in out and "oracle" in out
    assert out.splitlines()[-1] == f"{LAMP}: sound; 1 skipped: spread"
    assert main(["check", "tests.scenarios.broken:Unordered", "--seeds", "3", "--no-model", "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [finding["name"] for finding in found if finding["ok"] is False] == ["same in every process"]
    assert main(["check", "tests.scenarios.broken:Unordered", "--seeds", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == ("tests.scenarios.broken:Unordered: 1 of 12 checks failed; "
                         "3 skipped: gymnasium environment, baselines, spread")  # fmt: skip
    assert all("skipped: not before the checks above pass" in line for line in lines[-4:-1])


def test_a_new_scenario_works_as_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It and its test, in a process that finds it as its author's will: from the folder that it lies in."""
    assert main(["new", "ring_bell", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "python -m scenarios check ring_bell:RingBell" in out
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *(path or "." for path in sys.path)])}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ring_bell.py"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout
    before = (tmp_path / "ring_bell.py").read_text(encoding="utf-8")
    assert main(["new", "ring_bell", "--out", str(tmp_path)]) == 2  # nothing is written over
    assert (tmp_path / "ring_bell.py").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "tile"], "no scenario 'tile'; did you mean 'tile_2048'"),
        (["check", "nowhere.at_all:Game"], "'nowhere.at_all' can't be imported"),
        (["check", "tests.scenarios.broken:Lump"], "no scenario 'Lump'; did you mean 'Lamp'"),
        (["check", "tests.scenarios.record_versions:main"], "it has no subclass of Scenario"),
        (["check", "scenarios.plain:PlainScenario"], "PlainScenario lacks apply, build"),
        (["check", LAMP, "--seeds", "0"], "--seeds 0: 1 or more"),
        (["check", LAMP, "--no-model", "--policy", "nano"], "give one of them"),
        (["show", LAMP, "--option", "wide=7"], "wide='7': choose one of 5, 6"),
        (["show", LAMP, "--seed", "-1"], "a seed is a whole number"),
        (["new", "Bell"], "small letters"),
        (["new", "class"], "a word or a module of that name"),
        (["new", "json"], "a word or a module of that name"),
        (["new", "sudoku"], "there is a scenario of that name"),
        (["new", "bell", "--out", "/no/such/folder"], "no such folder"),
    ],
)
def test_bad_use_gets_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_another_packages_scenario_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = (
        EntryPoint("their_lamp", LAMP, scenarios.GROUP),
        EntryPoint("fetch_item", LAMP, scenarios.GROUP),  # nobody takes a name of ours
        EntryPoint("gone", "not_there:Game", scenarios.GROUP),
    )
    monkeypatch.setattr(scenarios, "entry_points", lambda group: points if group == scenarios.GROUP else ())
    monkeypatch.setattr(scenarios, "_loaded", {})
    assert scenarios.names()[-2:] == ("gone", "their_lamp")
    found = scenarios.get("their_lamp")
    assert (type(found).__name__, found.name) == ("Lamp", "their_lamp")
    assert type(scenarios.get("fetch_item")).__name__ == "FetchItem"
    with pytest.raises(ScenarioError, match="scenario 'gone' of the package"):
        scenarios.get("gone")


def test_a_scenario_of_ones_own_is_known_by_what_it_was_got_by() -> None:
    """So that a worker, a log and a run folder find it again by the one string they keep."""
    lamp = scenarios.get(LAMP)
    assert lamp.name == LAMP and scenarios.get(lamp.name) is lamp
