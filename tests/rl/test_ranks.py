"""Several processes that learn as one, over MLX's own ring on this machine: the same update as one process takes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from recorder import Reader
from rl.config import TrainConfig
from rl.files import write_run
from rl.keeping import resume_config
from rl.learner import NO_GRADIENT, Gradient, play_plans
from rl.losses import Counts
from rl.optim import Optimizer
from rl.pool import LocalPool
from rl.ranks import RankError, RankPool, Ranks
from rl.replica import files_of, put
from rl.ring import HOSTS, RANK, join, launched_rank
from rl.rollout import Episode, Plan
from rl.train import main
from rl.tree import Tree
from rl.weights import Spread
from tests.rl.ranked import moved_on, reference, update, whoami, workers_own
from tests.signals import heed_ctrl_c

ROOT = Path(__file__).parents[2]
LAUNCHER = Path(sys.executable).with_name("mlx.launch")
SMALL = ("--scenario", "fetch_item", "--groups", "2", "--validation-episodes", "8", "--no-eval", "--out", "run")
NEAR = 2e-6  # of the largest: the sums are the same, in another order, in float32


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def recorded() -> tuple[list[list[Episode]], LocalPool]:
    """Groups played by the adapter that ships, and the worker that played them."""
    pool = workers_own()
    adapter = pool.map(reference, [None])[0]
    plans = [Plan(seed, {}, f"g{seed}", f"{seed}/{member}") for seed in range(4) for member in range(2)]
    episodes = pool.map(play_plans, [{"adapter": adapter, "plans": plans, "greedy": False}])[0]
    return [episodes[at : at + 2] for at in range(0, len(episodes), 2)], pool


@pytest.fixture(scope="module")
def played() -> tuple[list[list[Episode]], LocalPool]:
    return recorded()


@pytest.fixture(scope="module")
def two(tmp_path_factory, played) -> tuple[Path, list[dict[str, Any]]]:
    """What two ranks found (tests.rl.ranked)."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "batch.msgpack").write_bytes(msgspec.msgpack.encode(played[0]))
    (folder / "hosts").write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(2)]))
    processes = []
    for rank in range(2):
        env = os.environ | {RANK: str(rank), HOSTS: str(folder / "hosts"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.rl.ranked", str(folder)]
        processes.append(subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    return folder, [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_what_ranks_give_reaches_all(two):
    _, found = two
    assert [(one["rank"], one["size"], one["here"]) for one in found] == [(0, 2, 2), (1, 2, 2)]
    for one in found:
        assert one["gathered"] == [3, 70_003]  # of unlike length
        assert one["first"] == {"made by": 0}
        # payload i runs on worker i modulo two, and everybody knows all answers
        assert one["map"] == [[0, 0], [1, 1], [0, 2], [1, 3], [0, 4]]


def test_what_fails_on_one_rank_fails_on_all_and_they_go_on_together(two):
    _, found = two
    assert found[0]["failed"] == "ValueError: three is too much"  # payloads 1 and 3 are its own
    assert found[1]["failed"] == "RankError: rank 0: ValueError: three is too much"
    assert found[0]["first failed"].startswith("ZeroDivisionError")
    assert found[1]["first failed"].startswith("RankError: rank 0: ZeroDivisionError")
    assert found[0]["after"] == found[1]["after"] == [[0, 7]]


def test_a_difference_between_the_ranks_is_told_to_both(two):
    _, found = two
    for one in found:
        assert one["agree"] == ""
        assert "RankError: the ranks no longer hold the same thing: rank 0 has" in one["differ"]
        assert "rank 1 has" in one["differ"]


def test_a_rank_that_is_gone_is_told(two):
    assert "RankError: another rank is gone" in two[1][0]["left"]


def test_two_ranks_take_the_update_of_one_process(two, played):
    folder, found = two
    groups, pool = played
    adapter = moved_on(pool.map(reference, [None])[0])
    alone = update(RankPool(Ranks(), pool), groups, adapter)
    assert alone.clipped > 0
    for one in found:
        assert one["counts"] == [alone.counts.episodes, alone.counts.rows] == [6, alone.counts.rows]
        assert one["tokens"] == alone.tokens
        for name in ("loss", "kl", "entropy"):
            assert one[name] == pytest.approx(getattr(alone, name), rel=NEAR, abs=1e-5)
    for rank in range(2):
        theirs = np.load(folder / f"gradient{rank}.npz")
        largest = max(float(np.abs(value).max()) for value in alone.arrays.values())
        for name, value in alone.arrays.items():
            assert np.abs(theirs[name] - value).max() < NEAR * largest, name


def test_the_step_is_bit_identical_on_all_ranks(two, played):
    folder, found = two
    assert [one["agree on the step"] for one in found] == ["", ""]
    first, second = (np.load(folder / f"moved{rank}.npz") for rank in range(2))
    before = moved_on(played[1].map(reference, [None])[0])
    assert set(first) == set(second) == set(before)
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name
        assert not np.array_equal(first[name], before[name]), name
    # and it is the step that the gradient asks for
    summed = np.load(folder / "gradient0.npz")
    mean = {name: summed[name] / np.float32(found[0]["counts"][0]) for name in summed}
    again, _ = Optimizer().step(before, mean, 1e-3)
    assert all(again[name].tobytes() == first[name].tobytes() for name in again)


def test_gradients_add_up():
    def part(value: float, names: str) -> Gradient:
        return Gradient({name: np.full(2, value) for name in names}, value, 2 * value, 3 * value, 4 * value, value,
                        Counts(1, 5), 7, value, Spread((1.0, value, 2)))  # fmt: skip

    total = sum((part(1.0, "ab"), part(2.0, "b")), NO_GRADIENT)
    assert {name: value.tolist() for name, value in total.arrays.items()} == {"a": [1.0, 1.0], "b": [3.0, 3.0]}
    assert (total.loss, total.kl, total.entropy, total.clipped) == (3.0, 6.0, 9.0, 12.0)
    assert (total.worst_ratio, total.train_s) == (2.0, 2.0)  # the worst, and the slowest
    assert total.counts == Counts(2, 10)
    assert (total.tokens, total.spread) == (14, Spread((2.0, 3.0, 4)))


# ------------------------------------------------------------------------------------------------- one process alone


def test_alone_nothing_is_started(monkeypatch):
    monkeypatch.delenv(RANK, raising=False)
    monkeypatch.setattr("rl.ring.mx.distributed", None)
    ranks = join()
    assert (ranks.rank, ranks.size, ranks.here, launched_rank()) == (0, 1, 1, 0)
    assert ranks.gather(b"x") == [b"x"]
    assert ranks.first(lambda: [1], list[int]) == [1]
    assert ranks.workers(7) == 7
    pool = RankPool(ranks, LocalPool(lambda: {"rank": 0}))
    assert pool.workers == 1
    assert pool.map(whoami, [1, 2]) == [[0, 1], [0, 2]]


def test_a_rank_takes_its_share_of_the_cores(monkeypatch):
    ranks = Ranks()
    ranks.size, ranks.here = 4, 2
    for count, most, suits in ((8, 2, 2), (8, 9, 4), (2, 2, 1), (1, 2, 1)):
        monkeypatch.setattr("rl.ranks.cores", lambda count=count: count)
        assert ranks.workers(most) == suits


@pytest.mark.parametrize(
    ("hosts", "says"), [(None, "mlx.launch --backend ring"), ("[[", "not a readable list"), ("3", "not a readable")]
)
def test_a_launch_that_is_no_ring_gets_one_line(hosts, says, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(RANK, "0")
    monkeypatch.delenv(HOSTS, raising=False)
    if hosts is not None:
        (tmp_path / "hosts").write_text(hosts)
        monkeypatch.setenv(HOSTS, str(tmp_path / "hosts"))
    with pytest.raises(RankError, match=says):
        launched_rank()
    assert main(["--scenario", "fetch_item"]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the kernel's list of sockets")
def test_a_rank_that_waits_for_the_others_to_come_can_be_ended(tmp_path):
    port = free_ports(1)[0]
    (tmp_path / "hosts").write_text(json.dumps([[f"127.0.0.1:{port}"], ["127.0.0.1:1"]]))
    env = os.environ | {RANK: "0", HOSTS: str(tmp_path / "hosts")}
    command = [sys.executable, "-m", "rl.train", *SMALL[:-1], str(tmp_path / "run")]
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        listening = f":{port:04X} 00000000:0000 0A"
        while listening not in Path("/proc/net/tcp").read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
    finally:
        process.kill()
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------- whole runs


def launched(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`python -m rl.train` as two ranks."""
    port = str(free_ports(1)[0])
    command = [str(LAUNCHER), "-n", "2", "--backend", "ring", "-p", port, "--", sys.executable, "-m", "rl.train"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    # a session of its own: what a terminal's Ctrl-C reaches
    return subprocess.Popen([*command, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            preexec_fn=heed_ctrl_c)  # fmt: skip


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def check_run(folder: Path, updates: int) -> None:
    """One log, whole, with every episode of every update once; and nothing of the other rank's is left."""
    with Reader(folder / "run/episodes.b22") as log:
        assert log.footer is not None
        episodes = list(log.episodes())
    assert all(episode.whole for episode in episodes)
    trained = [e.begin for e in episodes if e.begin.purpose == "train"]
    assert len(trained) == updates * 2 * 4
    assert len({begin.group for begin in trained}) == updates * 2
    assert len({begin.run for begin in trained}) == 1
    assert not list(folder.glob("errand-rank*"))


def test_two_launched_ranks_are_stopped_and_go_on_as_one_run(tmp_path):
    process = launched(tmp_path, *SMALL, "--updates", "3")  # enough of them that the signal comes before the end
    wait_for(tmp_path / "run/checkpoints/u0001/node.json", process)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    try:
        out, _ = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:  # MLX's launcher sometimes stays; the ranks are ours, and have to be gone
        assert not ranks_of(process.pid)
        process.kill()
        out, _ = process.communicate(timeout=90)
    assert "2 ranks with 2 workers" in out
    assert out.count("update 1/3") <= 1  # one rank speaks
    process = launched(tmp_path, "--resume", "run")
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert out.count("update 3/3") == 1
    check_run(tmp_path, 3)
    # what was learned is what one process learns, but for rounding
    alone = tmp_path / "alone"
    assert main([*SMALL[:-1], str(alone), "--updates", "1", "--workers", "1"]) == 0
    one, many = (json.loads((folder / "metrics.jsonl").read_text().splitlines()[0]) for folder in (
        alone, tmp_path / "run"))  # fmt: skip
    for name in ("success", "reward", "reward_std", "dead_groups", "turns_per_episode"):
        assert one[name] == many[name], name
    assert many["loss"] == pytest.approx(one["loss"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_ends_the_other_and_the_run_goes_on_alone(rank, tmp_path):
    process = launched(tmp_path, *SMALL, "--updates", "3")
    wait_for(tmp_path / "run/checkpoints/u0001/node.json", process)
    os.kill(ranks_of(process.pid)[rank], signal.SIGKILL)
    out, err = process.communicate(timeout=500)
    assert f"rank {rank} exited with code -9" in err
    assert rank == 0 or "go on with: python -m rl.train --resume run" in out
    command = [sys.executable, "-m", "rl.train", "--resume", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    for left in tmp_path.glob("errand-rank1*"):  # a killed process can't clean up
        assert rank == 1
        shutil.rmtree(left)
    check_run(tmp_path, 3)


def ranks_of(session: int) -> dict[int, int]:
    """The process of each rank in a launch."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = (path / "environ").read_bytes().split(b"\0")
            ours = os.getsid(int(path.name)) == session and b"rl.train" in (path / "cmdline").read_bytes()
            named = [word for word in environment if word.startswith(f"{RANK}=".encode())]
            if ours and named:
                found[int(named[0].partition(b"=")[2])] = int(path.name)
        except OSError:
            continue
    return found


def test_of_a_run_that_goes_on_the_other_ranks_get_what_it_goes_on_from(tmp_path):
    run, there = tmp_path / "run", tmp_path / "there"
    run.mkdir()
    config = TrainConfig(scenario="fetch_item", model="nano", adapter="a", run_id="x")
    write_run(run, msgspec.to_builtins(config))
    (run / "baseline.json").write_text('{"validation": 0.1}')
    (run / "episodes.b22").write_bytes(b"long")
    tree = Tree(run / "checkpoints")
    names = ("start", "u0001", "u0002", "u0003")
    for at, (name, parent, validation) in enumerate(zip(names, (None, *names), (None, 0.2, 0.9, 0.5), strict=False)):
        facts = {"update": at, "parent": parent, "metrics": validation and {"validation": validation}}
        tree.add(name, facts, lambda folder, name=name: (folder / "adapters.safetensors").write_text(name))
    tree.set_head("u0002")
    put(files_of(run), there)
    assert resume_config(there) == config
    assert Tree(there / "checkpoints").tip() == "u0003"
    assert Tree(there / "checkpoints").head() == "u0002"
    assert Tree(there / "checkpoints").scores() == tree.scores()
    # the last one, the head and the start with their weights, and of the others the facts
    assert [path.read_text() for path in sorted(there.glob("checkpoints/*/adapters.safetensors"))] == [
        "start", "u0002", "u0003"]  # fmt: skip
    assert not (there / "episodes.b22").exists()
