"""The whole loop, small: steps, dead batches, resuming, bad input, and what a run leaves behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import rl.credit
import scenarios
from npc.mlx import mx
from recorder import Reader
from rl.config import TrainConfig
from rl.files import read_run, write_run
from rl.gathering import Gathering
from rl.policies import find_adapter
from rl.train import main
from rl.train_options import arguments, config_from
from rl.trainer import Trainer
from rl.tree import Tree

TIMES = {"wall_s", "turns_per_s_rollout", "tokens_per_s_rollout", "turns_per_s_train", "tokens_per_s_train", "attempt"}


def small(updates: int = 2, **how) -> TrainConfig:
    return TrainConfig(
        scenario="fetch_item", model="nano", adapter=find_adapter("nano", "fetch_item"), updates=updates, groups=2,
        group_size=4, validate_every=1, validation_episodes=8, test_episodes=8, workers=1, run_id="test", **how,
    )  # fmt: skip


def started(out: Path, config: TrainConfig, resume: bool = False, say=lambda line: None) -> Trainer:
    out.mkdir(exist_ok=True)
    return Trainer(out, config, say, resume)


def run(out: Path, config: TrainConfig, resume: bool = False) -> dict:
    trainer = started(out, config, resume)
    try:
        return trainer.run()
    finally:
        trainer.close()


def adapter_of(out: Path, node: str) -> dict[str, bytes]:
    tensors = mx.load(str(out / "checkpoints" / node / "adapters.safetensors"))
    return {name: np.array(value).tobytes() for name, value in tensors.items()}


def metrics_of(out: Path) -> list[dict]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("straight") / "run"
    return out, run(out, small())


def test_a_run_leaves_what_it_promises(straight):
    out, summary = straight
    for name in ("summary.json", "metrics.jsonl", "episodes.b22", "run.toml", "checkpoints/head"):
        assert (out / name).is_file(), name
    for name in ("baseline", "trained"):
        assert {"success", "ci_low", "ci_high", "n", "mean_reward", "mean_turns"} <= set(summary[name])
    for name in ("scenario", "model", "seed", "random", "teacher", "oracle", "episodes", "updates", "wall_s",
                 "kl_final", "adapter"):  # fmt: skip
        assert name in summary, name
    assert summary["episodes"] == 16
    assert Path(summary["adapter"]).is_dir()
    assert json.loads((out / "summary.json").read_text()) == summary


def test_every_episode_is_in_the_log_and_splits_do_not_mix(straight):
    out, _ = straight
    with Reader(out / "episodes.b22") as log:
        episodes = list(log.episodes())
    count = {}
    for episode in episodes:
        assert episode.end is not None
        count[episode.begin.purpose] = count.get(episode.begin.purpose, 0) + 1
        low, high = {"train": (0, 10**6), "validation": (10**6, 10**6 + 10**4), "test": (2 * 10**6, 2 * 10**6 + 500)}[
            episode.begin.split
        ]
        assert low <= episode.begin.seed < high
    # three rules, and before and after sampled and greedy, on 8 test seeds
    assert count == {"test": 24, "test before": 16, "test after": 16, "validation": 24, "train": 16}
    groups = [e.begin.group for e in episodes if e.begin.purpose == "train"]
    assert len(set(groups)) == 4
    assert all(e.begin.group_size == 4 for e in episodes if e.begin.purpose == "train")


def test_two_updates_straight_equal_one_a_stop_and_another(straight, tmp_path):
    out, summary = straight
    halted = tmp_path / "run"
    trainer = started(halted, small())
    trainer.baselines()
    trainer.one_update()
    trainer.close()
    again = run(halted, small(), resume=True)
    for node in ("u0001", "u0002"):
        assert adapter_of(halted, node) == adapter_of(out, node)
    assert metrics_of(halted) == metrics_of(out)
    assert again["trained"] == summary["trained"]
    assert (halted / "checkpoints/head").read_text() == (out / "checkpoints/head").read_text()


def test_a_kill_between_log_and_checkpoint_is_told_apart_by_attempt(straight, tmp_path):
    """The log keeps what was abandoned; the checkpoints are those of the straight run."""
    out, _ = straight
    halted = tmp_path / "run"
    trainer = started(halted, small())
    trainer.baselines()
    trainer.one_update()
    trainer.one_update()
    trainer.close()
    shutil.rmtree(halted / "checkpoints/u0002")
    run(halted, small(), resume=True)
    assert adapter_of(halted, "u0002") == adapter_of(out, "u0002")
    assert metrics_of(halted) == metrics_of(out)
    with Reader(halted / "episodes.b22") as log:
        groups = {}
        for episode in log.episodes(attempts="all"):
            if episode.begin.purpose == "train" and episode.begin.update == 2:
                groups.setdefault(episode.begin.attempt, set()).add(episode.begin.group)
    assert set(groups) == {0, 1}
    assert not groups[0] & groups[1]


@pytest.mark.parametrize("credit", ["stage", "turn", "episode"])
def test_an_all_dead_batch_makes_no_step(tmp_path, monkeypatch, credit):
    monkeypatch.setattr(rl.credit, "advantages", lambda *_: None)
    said = []
    trainer = started(tmp_path / "run", small(updates=1, credit=credit), say=said.append)
    before = {name: value.tobytes() for name, value in trainer.state.adapter.items()}
    steps = trainer.state.optimizer
    monkeypatch.setattr(steps, "step", lambda *a: pytest.fail("the optimizer stepped on a dead batch"))
    trainer.baselines()
    trainer.one_update()
    trainer.close()
    assert {name: value.tobytes() for name, value in trainer.state.adapter.items()} == before
    assert any("mis-scaled" in line and "difficulty" in line for line in said)
    line = trainer.state.metrics[-1]
    assert line["dead_groups"] == 2
    assert line["kl"] is None
    assert line["loss"] is None


def test_the_head_is_the_best_validated_node(straight):
    out, summary = straight
    scores = {"start": json.loads((out / "baseline.json").read_text())["validation"]}
    scores |= {f"u{line['update']:04d}": line["validation"] for line in metrics_of(out)}
    assert scores[summary["head"]] == max(scores.values())


def test_the_answer_is_of_the_head_and_not_of_the_last_update(tmp_path):
    trainer = started(tmp_path / "run", small(updates=1, rate=0.05))
    before = trainer.baselines()
    trainer.one_update()
    trainer.keeper.tree.set_head("start")
    after = trainer.answer(before)
    trainer.close()
    assert after["trained"] == before["baseline"]
    assert after["trained_greedy"] == before["baseline_greedy"]
    assert after["rise"]["difference"] == 0.0


BAD = [
    (["--scenario", "fetch_itm"], "did you mean 'fetch_item'"),
    (["--scenario", "fetch_item", "--option", "difficulty=9"], "difficulty='9'"),
    (["--scenario", "fetch_item", "--option", "speed=1"], "no option 'speed'"),
    (["--scenario", "fetch_item", "--option", "difficulty"], "KEY=VALUE"),
    (["--scenario", "fetch_item", "--seed", "-1"], "seed -1"),
    (["--scenario", "fetch_item", "--seed", str(2**63)], "a seed is a whole number"),
    (["--scenario", "fetch_item", "--adapter", "nowhere"], "adapter 'nowhere'"),
    (["--scenario", "fetch_item", "--model", "nowhere"], "nowhere"),
    (["--scenario", "fetch_item", "--groups", "0"], "--groups 0"),
    (["--scenario", "fetch_item", "--test-episodes", "501"], "500 seeds"),
    (["--scenario", "fetch_item", "--out", "/proc/run"], "can't write there"),
    (["--scenario", "fetch_item", "--rate", "inf"], "--rate inf"),
    (["--scenario", "fetch_item", "--kl-weight", "nan"], "--kl-weight nan"),
    (["--resume", "nowhere"], "no run.toml"),
    ([], "--scenario is missing"),
]


@pytest.mark.parametrize(("args", "says"), BAD)
def test_bad_input_gets_one_line_and_exit_code_2(args, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(args) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1 and not said.out
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("checkpoints/u0002/optimizer.safetensors", None, "optimizer.safetensors: missing"),
        ("checkpoints/u0002/node.json", '{"update": 2}', "field episodes is missing"),
        ("baseline.json", "{", "not JSON"),
        ("run.toml", "scenario = 3", "run.toml"),
        ("checkpoints/u0002/provenance.json", ('"scenario_version": 1', '"scenario_version": 0'), "have changed since"),
    ],
)
def test_a_damaged_run_gets_one_line_and_exit_code_2(straight, tmp_path, capsys, file, text, says):
    out = tmp_path / "run"
    shutil.copytree(straight[0], out)
    (out / "summary.json").unlink()
    if text is None:
        (out / file).unlink()
    elif isinstance(text, tuple):
        (out / file).write_text((out / file).read_text().replace(*text))
    else:
        (out / file).write_text(text)
    assert main(["--resume", str(out)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_resuming_takes_no_other_settings_and_a_finished_run_is_left_alone(straight, capsys):
    out = straight[0]
    assert main(["--resume", str(out), "--updates", "9", "--seed", "4"]) == 2
    assert "leave out --seed, --updates" in capsys.readouterr().err
    before = (out / "episodes.b22").read_bytes()
    assert main(["--resume", str(out)]) == 0
    assert "already finished" in capsys.readouterr().out
    assert (out / "episodes.b22").read_bytes() == before


def test_a_run_that_is_still_running_is_left_alone(tmp_path, capsys):
    trainer = started(tmp_path / "run", small())
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert main(["--resume", str(tmp_path / "run")]) == 2
    assert "open" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "run/attempt").exists()
    trainer.close()


def test_sigterm_ends_it_with_what_was_learned(straight, tmp_path, monkeypatch, capsys):
    """In the middle of the second update."""
    before = signal.getsignal(signal.SIGTERM)
    gather = Gathering.gather

    def interrupted(self, state, number, *how):
        if number == 2:
            signal.raise_signal(signal.SIGTERM)
        return gather(self, state, number, *how)

    write_run(tmp_path, msgspec.to_builtins(small()))
    out = tmp_path / "run"
    monkeypatch.setattr(Gathering, "gather", interrupted)
    assert main(["--config", str(tmp_path / "run.toml"), "--out", str(out)]) == 143
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == (f"stopped after update 1; what was learned is in {out}; go on with: "
                        f"python -m rl.train --resume {out}")  # fmt: skip
    assert signal.getsignal(signal.SIGTERM) is before
    with Reader(out / "episodes.b22") as log:
        assert log.clean
    assert adapter_of(out, "u0001") == adapter_of(straight[0], "u0001")
    assert Tree(out / "checkpoints").tip() == "u0001"


def broken(folder: Path, how: str) -> Path:
    """A copy of the shipped adapter with one thing wrong."""
    shutil.copytree(find_adapter("nano", "fetch_item"), folder)
    weights = folder / "adapters.safetensors"
    config = json.loads((folder / "adapter_config.json").read_text())
    provenance = json.loads((folder / "provenance.json").read_text())
    if how == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif how == "missing tensor":
        tensors = mx.load(str(weights))
        tensors.pop(sorted(tensors)[0])
        mx.save_safetensors(str(weights), tensors)
    elif how == "wrong rank":
        config["lora_parameters"]["rank"] += 1
        (folder / "adapter_config.json").write_text(json.dumps(config))
    elif how == "wrong base":
        provenance["base_hash"] = "0" * 32
        (folder / "provenance.json").write_text(json.dumps(provenance))
    return folder


@pytest.mark.parametrize(
    ("how", "says"),
    [("truncated", "copy the file again"), ("missing tensor", "is missing"), ("wrong rank", "shape"),
     ("wrong base", "base_hash")],
)  # fmt: skip
def test_a_bad_adapter_gets_one_line_and_exit_code_2(how, says, capsys, tmp_path):
    adapter = broken(tmp_path / "adapter", how)
    code = main(["--scenario", "fetch_item", "--adapter", str(adapter), "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert code == 2
    assert says in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run/run.toml").exists()


def test_a_folder_with_a_run_in_it_is_left_alone(straight, capsys):
    out, _ = straight
    before = (out / "summary.json").read_bytes()
    assert main(["--scenario", "fetch_item", "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert (out / "summary.json").read_bytes() == before


def test_smoke_ends_well_in_a_process_of_its_own(tmp_path):
    """The command as a newcomer types it, workers and all."""
    command = [sys.executable, "-m", "rl.train", "--scenario", "fetch_item", "--smoke", "--json", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["updates"] == 2
    assert (tmp_path / "run/report.html").stat().st_size > 10_000


def settings_of(out: Path) -> dict:
    return {name: value for name, value in read_run(out).items() if name != "run_id"}


def test_a_run_toml_does_the_run_again_bit_for_bit(straight, tmp_path, capsys):
    out, summary = straight
    again = tmp_path / "again"
    assert main(["--config", str(out / "run.toml"), "--out", str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["trained"] == summary["trained"]
    scenario = scenarios.get("fetch_item")
    assert settings_of(again) == settings_of(out) | {"options": scenario.resolve_options({})}
    assert read_run(again)["run_id"] != read_run(out)["run_id"]
    for node in ("u0001", "u0002"):
        assert adapter_of(again, node) == adapter_of(out, node)
    assert metrics_of(again) == metrics_of(out)


def config_of(*words: str) -> TrainConfig:
    return config_from(arguments().parse_args(list(words)))


def test_options_beside_a_run_toml_change_it(tmp_path):
    write_run(tmp_path, msgspec.to_builtins(small(rank=8, warmup=3, options={"difficulty": "2", "without": "Pip"})))
    file = str(tmp_path / "run.toml")
    plain = config_of("--config", file)
    assert (plain.rank, plain.warmup, plain.groups, plain.options["difficulty"]) == (8, 3, 2, "2")
    changed = config_of("--config", file, "--seed", "4", "--rate", "0.5", "--option", "difficulty=5")
    assert (changed.seed, changed.rate) == (4, 0.5)
    assert changed.options == {"difficulty": "5", "without": "Pip"}
    assert msgspec.structs.replace(changed, seed=plain.seed, rate=plain.rate, options=plain.options,
                                   run_id=plain.run_id) == plain  # fmt: skip


def test_a_run_toml_of_another_machine_finds_the_shipped_adapter(tmp_path):
    there = msgspec.to_builtins(small()) | {"adapter": "/home/her/errand/assets/adapters/nano/fetch_item"}
    write_run(tmp_path, there)
    assert config_of("--config", str(tmp_path / "run.toml")).adapter == find_adapter("nano", "fetch_item")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('scenario = "fetch_item"\nrat = 0.1', "run.toml: no setting 'rat'; did you mean 'rate'?"),
        ("scenario = ", "not a readable run.toml"),
        ('scenario = "fetch_item"\nmodel = "nano"\nadapter = "fetch_item"\nrate = "fast"', "rate"),
        ('scenario = "fetch_item"', "required field `model`"),
        (None, "run.toml: can't be read (No such file or directory); give a run.toml"),
    ],
)
def test_a_bad_run_toml_gets_one_line(text, says, tmp_path, capsys):
    file = tmp_path / "run.toml"
    if text is not None:
        file.write_text(text)
    assert main(["--config", str(file), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_tracker_gets_every_update_and_a_missing_one_stops_before_anything_is_made(tmp_path, monkeypatch, capsys):
    logged = []
    fake = SimpleNamespace(init=lambda **how: None, log=lambda numbers, step: logged.append((step, numbers)),
                           finish=lambda: logged.append("end"))  # fmt: skip
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.setitem(sys.modules, "wandb", None)
    write_run(tmp_path, msgspec.to_builtins(small(updates=1)))
    words = ["--config", str(tmp_path / "run.toml"), "--out", str(tmp_path / "run")]
    assert main([*words, "--log-to", "wandb"]) == 2
    assert "wandb is not installed" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main([*words, "--log-to", "trackio"]) == 0
    ((step, numbers), end) = logged
    assert (step, end) == (1, "end")
    assert numbers["success"] == metrics_of(tmp_path / "run")[0]["success"]


def test_help_groups_the_options(capsys):
    with pytest.raises(SystemExit):
        arguments().parse_args(["--help"])
    shown = capsys.readouterr().out
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert len(headings) >= 3 and "learning:" in headings


def test_a_run_that_is_not_evaluated_leaves_the_test_seeds_alone(tmp_path, capsys):
    words = ["--scenario", "fetch_item", "--updates", "1", "--groups", "2", "--validation-episodes", "8",
             "--workers", "1", "--no-eval", "--out", str(tmp_path / "run")]  # fmt: skip
    assert main(words) == 0
    assert "rl.evaluate --scenario fetch_item" in capsys.readouterr().out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["episodes"] == 8 and "trained" not in summary and "baseline" not in summary
    assert read_run(tmp_path / "run")["no_eval"] is True
    with Reader(tmp_path / "run" / "episodes.b22") as log:
        splits = {episode.begin.split for episode in log.episodes()}
    assert splits == {"train", "validation"}
    assert main(["--resume", str(tmp_path / "run")]) == 0
    assert "was not evaluated" in capsys.readouterr().out


def test_a_larger_model_has_settings_of_its_own_and_the_command_line_wins():
    def config(*more):
        return config_from(arguments().parse_args(["--scenario", "fetch_item", *more]))

    ours, plain = config("--model", "smollm2-135m"), config()
    assert (ours.model, plain.model) == ("smollm2-135m", "nano")
    assert ours.rate < plain.rate and ours.test_episodes == 200 and ours.groups == plain.groups
    assert ours.adapter.endswith("smollm2-135m/fetch_item")
    given = config("--model", "smollm2-135m", "--rate", "0.002", "--updates", "3")
    assert (given.rate, given.updates, given.test_episodes) == (0.002, 3, 200)
