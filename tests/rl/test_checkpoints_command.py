"""`python -m rl.checkpoints`: what it shows, what it changes, and that a training goes on from any node bit for bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from npc.adapters import load_adapter
from npc.mlx import mx
from npc.models import load
from rl.checkpoints import main
from rl.keeping import resume_config
from rl.policies import parse_policy
from rl.trainer import Trainer
from rl.tree import Tree
from tests.rl.making import fake_run
from tests.rl.test_trainer import adapter_of, metrics_of, run, small


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three updates, as the trainer leaves it."""
    out = tmp_path_factory.mktemp("made") / "run"
    run(out, small(updates=3))
    return out


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def moments_of(out: Path, node: str) -> dict[str, bytes]:
    state = mx.load(str(out / "checkpoints" / node / "optimizer.safetensors"))
    return {name: np.array(value).tobytes() for name, value in state.items()}


@pytest.mark.parametrize("node", ["start", "u0001", pytest.param("u0002", marks=pytest.mark.slow)])
def test_training_goes_on_from_any_node_bit_for_bit(made: Path, copy: Path, node: str, capsys) -> None:
    begun = ask(capsys, str(copy), "branch", node)
    assert (begun["branch"], begun["from"]) == (1, node)
    assert not (copy / "summary.json").exists() and (copy / "summary-trunk.json").is_file()
    again = run(copy, resume_config(copy), resume=True)
    for update in range(Tree(made / "checkpoints").read(node)["update"] + 1, 4):
        assert adapter_of(copy, f"u{update:04d}b1") == adapter_of(made, f"u{update:04d}")
        assert moments_of(copy, f"u{update:04d}b1") == moments_of(made, f"u{update:04d}")
    assert metrics_of(copy) == metrics_of(made)
    assert again["trained"] == json.loads((made / "summary.json").read_text())["trained"]
    assert Tree(copy / "checkpoints").tip() == "u0003b1"


def test_a_branch_may_learn_otherwise_and_goes_its_own_way(made: Path, copy: Path, capsys) -> None:
    ask(capsys, str(copy), "branch", "u0002", "--set", "rate=1e-5", "--set", "passes=1")
    config = resume_config(copy)
    assert (config.rate, config.passes, config.kl_weight) == (1e-5, 1, small().kl_weight)
    run(copy, config, resume=True)
    assert adapter_of(copy, "u0003b1") != adapter_of(made, "u0003")
    assert adapter_of(copy, "u0003") == adapter_of(made, "u0003")  # what was there stays
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [1, 2, 3]
    assert lines[-1]["learning_rate"] < 1e-5
    found = ask(capsys, str(copy), "tree")
    assert found["branches"] == [{"branch": 1, "from": "u0002", "settings": {"rate": 1e-5, "passes": 1}}]


def test_a_head_set_by_hand_outlives_a_resumed_training_and_is_what_is_measured(copy: Path, capsys) -> None:
    ask(capsys, str(copy), "head", "--set", "start")
    ask(capsys, str(copy), "branch", "u0002")
    summary = run(copy, resume_config(copy), resume=True)
    assert summary["head"] == "start"
    assert summary["rise"]["difference"] == 0.0


def test_the_tree_shows_every_node_and_where_a_branch_left(tmp_path: Path, capsys) -> None:
    folder = fake_run(tmp_path / "run", episodes=1, updates=4)
    tree = Tree(folder / "checkpoints")
    tree.start_branch("u0002")
    tree.add("u0003b1", {"update": 3, "parent": "u0002", "metrics": {}}, lambda place: None)
    found = ask(capsys, str(folder), "tree")
    assert [node["node"] for node in found["nodes"]] == ["start", "u0001", "u0002", "u0003", "u0003b1", "u0004"]
    assert found["head"] == "u0004" and found["goes_on_from"] == "u0003b1"
    assert [node["node"] for node in found["nodes"] if node["head"]] == ["u0004"]
    assert found["nodes"][2]["validation"] == tree.scores()["u0002"]
    assert main([str(folder), "tree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["start", "u0001", "u0002", "└", "u0003b1", "u0003", "u0004"]
    assert lines[4].startswith("  u0003b1") and "training goes on from here" in lines[4]
    assert "head" in lines[-1]


def test_what_was_taken_back_is_set_in_under_the_node_that_training_went_back_to(tmp_path: Path, capsys) -> None:
    folder = fake_run(tmp_path / "run", episodes=1, updates=4)
    tree = Tree(folder / "checkpoints")
    tree.add("u0005", {"update": 5, "parent": "u0002", "metrics": {}}, lambda place: None)
    assert main([str(folder), "tree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["start", "u0001", "u0002", "└", "u0003", "u0004", "u0005"]
    assert lines[3].strip() == "└ taken back" and lines[4].startswith("  u0003") and lines[6].startswith("u0005")


def test_show_says_what_a_node_holds(made: Path, capsys) -> None:
    found = ask(capsys, str(made), "show", "u0002")
    assert found["path"] == ["start", "u0001", "u0002"]
    assert found["parent"] == "u0001"
    assert found["metrics"]["update"] == 2
    assert found["random_state"]["next_update"] == 3
    assert main([str(made), "show", "u0002"]) == 0
    assert "path: start → u0001 → u0002" in capsys.readouterr().out


def test_head_names_who_plays_and_sets_it(copy: Path, capsys) -> None:
    tree = Tree(copy / "checkpoints")
    best = tree.best()
    assert ask(capsys, str(copy), "head") == {"head": best, "head_by_hand": False}
    assert ask(capsys, str(copy), "head", "--set", "u0001") == {"head": "u0001", "head_by_hand": True}
    assert parse_policy(str(copy)).adapter == str(copy / "checkpoints/u0001")
    assert ask(capsys, str(copy), "head", "--set", "best") == {"head": best, "head_by_hand": False}


def test_prune_frees_room_and_says_how_much(tmp_path: Path, capsys) -> None:
    folder = fake_run(tmp_path / "run", episodes=1, updates=3)
    tree = Tree(folder / "checkpoints")
    for name in tree.names():
        (tree.folder(name) / "adapters.safetensors").write_bytes(b"0123456789")
    tree.set_head("start", by_hand=True)
    (folder / "baseline.json").write_text(json.dumps({"validation": 2.0}))  # so that the start is the best, too
    assert ask(capsys, str(folder), "prune", "--dry-run") == {"would_prune": ["u0001", "u0002"]}
    assert ask(capsys, str(folder), "prune", "--keep", "u0001") == {"pruned": ["u0002"], "bytes": 10}
    assert {path.name for path in tree.folder("u0002").iterdir()} == {"node.json"}
    assert main([str(folder), "branch", "u0002"]) == 2
    assert "pruned; choose start, u0001, u0003" in capsys.readouterr().err


def test_an_exported_adapter_loads_and_says_where_it_is_from(made: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "mine"
    assert ask(capsys, str(made), "export", "--out", str(out), "--node", "u0002") == {"node": "u0002", "out": str(out)}
    assert {path.name for path in out.iterdir()} == {"adapters.safetensors", "adapter_config.json", "provenance.json"}
    origin = load_adapter(load("nano"), out)
    assert (origin["node"], origin["parent"], origin["scenario"]) == ("u0002", "u0001", "fetch_item")
    assert origin["settings"]["updates"] == 3
    assert origin["validation"] == Tree(made / "checkpoints").scores()["u0002"]
    assert main([str(made), "export", "--out", str(out)]) == 2
    assert "already there" in capsys.readouterr().err


def test_a_damaged_adapter_is_not_exported(copy: Path, tmp_path: Path, capsys) -> None:
    weights = copy / "checkpoints/u0001/adapters.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert main([str(copy), "export", "--node", "u0001", "--out", str(tmp_path / "mine")]) == 2
    assert "not the tensors that its provenance names" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


BAD = [
    (["nowhere", "tree"], "nowhere: no run.toml"),
    (["RUN", "show", "u0009"], "no checkpoint 'u0009'; there is start, u0001, u0002, u0003"),
    (["RUN", "head", "--set", "u0009"], "no checkpoint 'u0009'"),
    (["RUN", "branch", "u0009"], "no checkpoint 'u0009'"),
    (["RUN", "branch", "u0003"], "has made all 3 updates"),
    (["RUN", "branch", "u0001", "--set", "rat=1"], "did you mean 'rate'?"),
    (["RUN", "branch", "u0001", "--set", "rate=fast"], "rate"),
    (["RUN", "branch", "u0001", "--set", "rate=-1"], "--rate -1.0"),
    (["RUN", "branch", "u0001", "--set", "model=other"], "--set model: stays the same"),
    (["RUN", "branch", "u0001", "--set", "rate"], "--set 'rate': write it as KEY=VALUE"),
    (["RUN", "prune", "--keep", "u0009"], "no checkpoint 'u0009'"),
    (["RUN", "export", "--node", "u0009", "--out", "mine"], "no checkpoint 'u0009'"),
]


@pytest.mark.parametrize(("words", "told"), BAD)
def test_bad_input_gets_one_line_and_changes_nothing(made: Path, words: list[str], told: str, capsys) -> None:
    def all_files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}

    before = all_files()
    assert main([str(made) if word == "RUN" else word for word in words]) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1
    assert all_files() == before


def test_an_unknown_command_gets_one_line(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", "shake"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_training_killed_at_any_moment_goes_on_to_the_same_end(made: Path, tmp_path: Path) -> None:
    """kill -9 of the real process at a dozen moments spread over a run, each followed by --resume to the end."""
    import subprocess
    import sys
    import time

    words = ["--scenario", "fetch_item", "--updates", "3", "--groups", "2", "--group-size", "4", "--workers", "1",
             "--validate-every", "1", "--validation-episodes", "8", "--test-episodes", "8"]  # fmt: skip
    for number in range(12):
        out = tmp_path / f"run{number}"
        command = [sys.executable, "-m", "rl.train"]
        process = subprocess.Popen([*command, *words, "--out", str(out)], stdout=subprocess.DEVNULL)
        while not (out / "run.toml").is_file():
            time.sleep(0.05)
        time.sleep(0.6 * number)
        process.kill()
        process.wait()
        done = subprocess.run([*command, "--resume", str(out)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert metrics_of(out) == metrics_of(made)
        for update in (1, 2, 3):
            assert adapter_of(out, f"u{update:04d}") == adapter_of(made, f"u{update:04d}")


def test_nothing_but_export_loads_mlx() -> None:
    import subprocess
    import sys

    code = "import sys, rl.checkpoints; sys.exit('mlx.core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_an_optimizer_that_is_gone_is_named_when_a_branch_is_taken_up(copy: Path, capsys) -> None:
    ask(capsys, str(copy), "branch", "u0001")
    (copy / "checkpoints/u0001/optimizer.safetensors").unlink()
    with pytest.raises(ValueError, match=r"u0001/optimizer\.safetensors: missing"):
        Trainer(copy, resume_config(copy), lambda line: None, resume=True)
