"""Proofs that take minutes: a kill changes nothing, and the two hundredth update costs what the first did."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recorder import Reader
from rl.config import TrainConfig
from rl.trainer import Trainer
from tests.rl.making import tiny_model
from tests.rl.test_trainer import adapter_of, metrics_of

ARGS = ["--scenario", "fetch_item", "--updates", "4", "--groups", "2", "--validate-every", "1",
        "--validation-episodes", "8", "--test-episodes", "8", "--workers", "2"]  # fmt: skip


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "rl.train", *more]


def played(out: Path) -> list:
    """The training episodes of a log, but for names and times that are each run's own."""
    found = []
    with Reader(out / "episodes.b22") as log:
        for episode in log.episodes():
            if episode.begin.purpose == "train":
                begin = episode.begin
                turns = [(t.observation, t.executed, t.prompt_ids, t.sampled_ids, t.logps, t.probs, t.terms,
                          t.digest_after) for t in episode.turns]  # fmt: skip
                found.append((begin.update, begin.seed, begin.weights_hash, begin.digest_start, turns))
    return found


@pytest.mark.slow
def test_four_updates_equal_two_a_kill_and_two_more(tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    subprocess.run(command(*ARGS, "--out", str(straight)), check=True, capture_output=True)
    process = subprocess.Popen(command(*ARGS, "--out", str(killed)), start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    while not (killed / "checkpoints/u0002/node.json").is_file():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "summary.json").exists()
    subprocess.run(command("--resume", str(killed)), check=True, capture_output=True)
    for node in ("start", "u0001", "u0002", "u0003", "u0004"):
        assert adapter_of(killed, node) == adapter_of(straight, node)
    assert metrics_of(killed) == metrics_of(straight)
    assert played(killed) == played(straight)
    one, other = (json.loads((out / "summary.json").read_text()) for out in (straight, killed))
    for name in ("trained", "trained_greedy", "baseline", "rise", "head", "kl_final", "episodes"):
        assert one[name] == other[name]


def long_run(folder: Path, updates: int) -> tuple[list[float], list[float]]:
    """(resident MiB after each update, processor seconds of each update) of a run on a tiny model."""
    model, adapter = tiny_model(folder)
    config = TrainConfig(
        scenario="fetch_item", model=str(model), adapter=str(adapter), updates=updates, groups=2, group_size=4,
        validate_every=updates, validation_episodes=4, test_episodes=4, workers=1, rate=1e-4, run_id="test",
    )  # fmt: skip
    (folder / "run").mkdir()
    trainer = Trainer(folder / "run", config, lambda line: None, resume=False)
    trainer.baselines()
    memory, seconds = [], []
    for _ in range(updates):
        began = time.process_time()
        trainer.one_update()
        seconds.append(time.process_time() - began)
        memory.append(resident())
    trainer.close()
    return memory, seconds


def resident() -> float:
    """Resident memory of this process in MiB."""
    status = Path("/proc/self/statm")
    if status.is_file():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # the peak, where there is no other figure


@pytest.mark.slow
def test_two_hundred_updates_keep_memory_flat(tmp_path, capsys):
    memory, seconds = long_run(tmp_path, 200)
    early, late = sum(seconds[20:60]) / 40, sum(seconds[160:]) / 40
    with capsys.disabled():
        print(f"\nresident MiB after update 20: {memory[19]:.0f}, 100: {memory[99]:.0f}, 200: {memory[-1]:.0f}; "
              f"processor seconds an update 21 to 60: {early:.2f}, 161 to 200: {late:.2f}")  # fmt: skip
    # by the hundredth update the caches are full (layouts of legal sets, MLX's buffers)
    assert memory[-1] < memory[99] * 1.05 + 10


def test_a_dozen_updates_keep_memory_flat(tmp_path):
    memory, _ = long_run(tmp_path, 12)
    assert memory[-1] < memory[5] * 1.1 + 20
