"""Replay of every scenario: a log of another process, of another Python version, and twice in one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import scenarios
from recorder import Op, Reader, Turn
from recorder.resim import resim
from tests.recorder.calling import call
from tests.recorder.making import frames_of

ROOT = Path(__file__).parents[2]
PYTHONS = [f"python3.{minor}" for minor in range(11, 16) if minor != sys.version_info.minor]
NEEDS = "import msgspec, zstandard, numpy, pydantic_monty, scenarios; [scenarios.get(one) for one in scenarios.names()]"


def run(python: str, *arguments: str, hash_seed: str = "1") -> subprocess.CompletedProcess[str]:
    """A Python of its own, with another order of hashes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [python, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def other_python() -> str | None:
    """One of another minor version that has what the scenarios and the recorder import."""
    for name in PYTHONS:
        found = shutil.which(name)
        if found and run(found, "-c", NEEDS).returncode == 0:
            return found
    return None


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every scenario, played by another process."""
    path = tmp_path_factory.mktemp("played") / "played.b22"
    done = run(sys.executable, "-m", "tests.recorder.play_log", str(path))
    assert done.returncode == 0, done.stderr
    return path


def test_every_scenario_agrees_twice_in_one_process(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Reader(log) as reader:
        names = {episode.begin.scenario for episode in reader.episodes()}
        turns = sum(isinstance(record, Turn) for _, record in reader.records())
        first, second = resim(reader, scenarios.get), resim(reader, scenarios.get)
    assert names == set(scenarios.names())
    assert first == second and first.agrees and not first.notes and first.compared == turns
    code, out, _ = call(capsys, "verify", "--resim", log, "--json")
    assert code == 0 and json.loads(out)["resim"]["compared"] == turns


@pytest.mark.parametrize("name", scenarios.names())
def test_a_forged_action_is_found_by_episode_and_turn(
    name: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One executed action of a log replaced by another that was legal: the digest after that turn gives it away."""
    from msgspec.structs import replace

    from recorder.appender import Appender
    from recorder.records import EpisodeBegin, EpisodeEnd, Header

    forged = tmp_path / "forged.b22"
    with Reader(log) as reader:
        episode = next(one for one in reader.episodes() if one.begin.scenario == name)
    at = len(episode.turns) - 1
    last = episode.turns[at]
    scenario = scenarios.get(name)
    state = scenario.build(episode.begin.seed, episode.begin.options)
    for turn in episode.turns[:at]:
        scenario.apply(state, turn.executed)
    for other in (*last.legal, "print(1)"):
        trial = scenario.clone(state)
        scenario.apply(trial, other)
        if scenario.digest(trial) != last.digest_after:
            break
    parts = [part for part, value in scenario.digest(trial).items() if last.digest_after[part] != value]
    log_writer = Appender(
        forged, Header(), append=False, dictionary=None, policy="none", sync_every=1.0, level=3, index_every=1024
    )
    for record in (episode.begin, *episode.turns[:at], replace(last, executed=other), episode.end):
        assert isinstance(record, EpisodeBegin | Turn | EpisodeEnd)
        log_writer.put(record)
    log_writer.close()
    code, out, _ = call(capsys, "verify", "--resim", forged)
    number = episode.begin.episode
    word = "differs" if len(parts) == 1 else "differ"
    assert code == 1 and f"  episode {number}, turn {at}: {', '.join(parts)} {word} (scenario {name} version" in out
    assert f"version {scenario.version} in both; engine {scenario.engine_version} in both)" in out


def test_a_log_of_another_python_version(tmp_path: Path) -> None:
    """Written there and replayed here, and the other way round."""
    python = other_python()
    if python is None:
        pytest.skip(f"none of {', '.join(PYTHONS)} here has msgspec, zstandard, numpy and what scenarios import")
    theirs, ours = tmp_path / "theirs.b22", tmp_path / "ours.b22"
    for one, path in ((python, theirs), (sys.executable, ours)):
        done = run(one, "-m", "tests.recorder.play_log", str(path), hash_seed="2")
        assert done.returncode == 0, done.stderr
    for one, path in ((sys.executable, theirs), (python, ours)):
        done = run(one, "-m", "recorder", "verify", "--resim", str(path), hash_seed="3")
        assert done.returncode == 0 and " 0 episodes differ, 0 turns without a digest, 0 not reached" in done.stdout
    with Reader(theirs) as a, Reader(ours) as b:
        assert a.header and b.header and a.header.python.split(".")[:2] != b.header.python.split(".")[:2]
        assert list(a.turns()) == list(b.turns())
    kinds = [[frame.op for frame in frames_of(path) if frame.op != Op.INDEX] for path in (theirs, ours)]
    assert kinds[0] == kinds[1]
