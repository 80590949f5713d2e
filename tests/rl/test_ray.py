"""Ray itself: the same run as by processes, actors that are killed and that hang in the middle of it, Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from recorder import Reader
from rl.actors import Actors
from rl.config import TrainConfig
from rl.policies import find_adapter
from rl.train import main
from rl.trainer import Trainer
from tests.rl.test_trainer import adapter_of, metrics_of

ray = pytest.importorskip("ray")


def small(**how: Any) -> TrainConfig:
    return TrainConfig(
        scenario="fetch_item", model="nano", adapter=find_adapter("nano", "fetch_item"), updates=2, groups=4,
        group_size=4, validate_every=2, validation_episodes=8, no_eval=True, run_id="test", **how,
    )  # fmt: skip


def train(out: Path, config: TrainConfig, said: list[str], meddle: Any = lambda trainer: None) -> Trainer:
    out.mkdir()
    trainer = Trainer(out, config, said.append, resume=False)
    try:
        meddle(trainer)
        trainer.run()
    finally:
        trainer.close()
    return trainer


def episodes(out: Path) -> list[tuple[Any, ...]]:
    """What was played for training: who from where, and every turn but for the time that it took."""
    with Reader(out / "episodes.b22") as log:
        return [
            (e.begin.group, e.begin.seed, e.begin.weights_hash, e.end and e.end.ended,
             [(t.observation, t.executed, t.prompt_ids, t.sampled_ids, t.logps, t.probs, t.terms) for t in e.turns])
            for e in log.episodes() if e.begin.purpose == "train"
        ]  # fmt: skip


@pytest.fixture(scope="module")
def by_processes(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("process") / "run"
    train(out, small(), [])
    return out


def test_a_killed_and_a_hanging_actor_cost_their_groups_and_the_run_is_the_same(by_processes, tmp_path) -> None:
    """An actor is killed while it plays update 1, another stopped (so that it hangs) while it plays update 2. Their
    groups are sampled again, and what is learned is, bit for bit, what worker processes learn."""
    signals = [signal.SIGKILL, signal.SIGSTOP]
    met: list[int] = []

    def meddle(trainer: Trainer) -> None:
        runtime = trainer.runtime
        assert isinstance(runtime, Actors)
        send = runtime.backend.send

        def send_and_strike(player: Any, work: Any) -> Any:
            answer = send(player, work)
            if work[1].training and len(met) == trainer.state.update:
                (pid,) = [one.facts.pid for one in runtime.crew._members if one.player is player]
                os.kill(pid, signals[len(met)])
                met.append(pid)
            return answer

        runtime.backend.send = send_and_strike  # type: ignore[method-assign]

    said: list[str] = []
    out = tmp_path / "run"
    trainer = train(out, small(runtime="ray", actor_timeout=6.0), said, meddle)
    assert len(set(met)) == 2 and not ray.is_initialized()
    for pid in met:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert [(line["restarts"], line["resampled_groups"]) for line in trainer.state.metrics] == [(1, 2), (1, 2)]
    told = [line for line in said if line.startswith("actor ")]
    assert len(told) == 2 and "died" in told[0] and "gave no answer for 6 s" in told[1]
    assert episodes(out) == episodes(by_processes)
    for node in ("u0001", "u0002"):
        assert adapter_of(out, node) == adapter_of(by_processes, node)
    different = {"restarts", "resampled_groups"}
    assert [{k: v for k, v in line.items() if k not in different} for line in metrics_of(out)] == [
        {k: v for k, v in line.items() if k not in different} for line in metrics_of(by_processes)
    ]


def test_one_process_alone_plays_the_same_too(by_processes, tmp_path) -> None:
    """Other batches round otherwise, so the log-probabilities are equal but for that; of the first update, since what
    is learned from them is as well."""
    out = tmp_path / "run"
    train(out, replace(small(runtime="local"), updates=1), [])
    ours, theirs = ({e[0]: e for e in episodes(run) if e[0].startswith("test/u1")} for run in (out, by_processes))
    assert len(ours) == len(theirs) == 4
    first = [sorted(e[:4] for e in episodes(run) if e[0].startswith("test/u1")) for run in (out, by_processes)]
    assert first[0] == first[1]
    for group, (*_, turns) in ours.items():
        for mine, other in zip(turns, theirs[group][-1], strict=True):
            assert mine[:4] == other[:4]
            assert np.allclose(np.frombuffer(mine[4], "<f4"), np.frombuffer(other[4], "<f4"), atol=1e-4)


def started(tmp_path: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rl.train", "--scenario", "fetch_item", "--smoke", "--no-eval", *more]
    return subprocess.Popen(command, cwd=tmp_path, env=os.environ | environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip


def left_of(session: int) -> list[str]:
    """The processes of a session that still run."""
    found = subprocess.run(["ps", "-eo", "sid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if int(line.split()[0]) == session and line.split()[1][0] != "Z"]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_running_and_the_run_goes_on_from_there(tmp_path) -> None:
    process = started(tmp_path, "--runtime", "ray", "--updates", "50", "--out", "run")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("update 1/"):
            break
    assert any("raylet" in line for line in left_of(process.pid))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, wrong = process.communicate(timeout=60)
    assert process.returncode == 130, wrong
    assert "go on with: python -m rl.train --resume run" in said
    assert all("updates made" in line for line in wrong.splitlines())  # where it stands, and nothing of Ray's
    for _ in range(100):  # the system may still be at the last one's memory
        if not left_of(process.pid):
            break
        time.sleep(0.2)
    assert not left_of(process.pid)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert lines and lines[0]["lag_max"] == 0


def node(*how: str) -> subprocess.Popen[str]:
    """A node of a cluster, in a session of its own. On this machine alone, so without Ray's tokens."""
    command = [Path(sys.executable).with_name("ray"), "start", "--block", "--num-cpus=1", *how]
    return subprocess.Popen(command, env=os.environ | {"RAY_AUTH_MODE": "disabled"}, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_plays_on(tmp_path) -> None:
    """Two nodes with a CPU each, an actor on each; the second node is killed after the first update."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    place = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short, for the names of sockets; and no cluster for `auto`
    nodes = [node("--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--include-dashboard=false",
                  "--disable-usage-stats", f"--temp-dir={place}")]  # fmt: skip
    try:
        for _ in range(300):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        nodes.append(node(f"--address={address}"))
        process = started(tmp_path, "--runtime", "ray", "--ray-address", address, "--updates", "4", "--out", "run",
                          RAY_AUTH_MODE="disabled")  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("update 1/"):
                break
        os.killpg(nodes[1].pid, signal.SIGKILL)
        said, wrong = process.communicate(timeout=200)
    finally:
        for one in nodes:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        shutil.rmtree(place)
    assert process.returncode == 0, wrong
    assert "another is started in its place" in said and "update 4/4" in said
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert sum(line["restarts"] for line in lines) == 1 and sum(line["failed_groups"] for line in lines) == 0


@pytest.mark.parametrize(
    ("address", "says"),
    [("127.0.0.1:1", "no Ray answers there"), ("here:x", "no Ray answers there")],
)
def test_an_address_without_a_cluster_is_one_line_and_leaves_no_folder(address, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--scenario", "fetch_item", "--runtime", "ray", "--ray-address", address, "--smoke"]) == 2
    said = capsys.readouterr()
    assert says in said.err and said.err.count("\n") == 1
    assert not list(tmp_path.glob("runs/*"))
