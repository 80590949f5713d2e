"""Training and judging with models of several architectures, end to end through the commands."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, normalizers

import rl.learner as learner
from npc import adapters
from npc.adapters.tools import inspect
from npc.models import __main__ as models
from npc.models import base_weights, hash_arrays, load
from rl import evaluate, train
from rl.files import read_run
from rl.learner import Settings, collect, set_up
from rl.optim import Optimizer
from rl.proof import prove
from tests.npc.foreign_making import folder
from tests.rl.test_learner import GOAL, credit_for, plans

FEW = ["--scenario", "fetch_item", "--updates", "1", "--groups", "2", "--group-size", "2", "--no-eval",
       "--validation-episodes", "2"]  # fmt: skip


@pytest.mark.parametrize(("kind", "bits"), [("llama", 4), ("gemma3_text", 0), ("lfm2", 0)])
def test_the_trainer_proves_itself_on_any_model_and_a_step_is_taken_up(kind, bits, tmp_path, monkeypatch):
    monkeypatch.setattr("npc.models.spread.memory_bytes", lambda: 1)  # what is quantised stays so
    model = folder(tmp_path / "model", kind, chat=bits > 0, bits=bits, like=load("nano").tokenizer)
    worker = set_up(Settings("fetch_item", str(model), 4, 2.0, 1.0, GOAL), "")
    brain = worker.policy.brain
    base = hash_arrays(base_weights(brain))
    collect(worker, {"adapter": worker.reference, "plans": plans(2, 2)})
    found = prove(worker, {"adapter": worker.reference, "credit": credit_for(worker.episodes)})
    assert found["worst_log_ratio"] < 5e-4 and found["step_changes_logps_by"] > 0
    job = {"adapter": worker.reference, "credit": credit_for(worker.episodes)}
    moved, _ = Optimizer().step(worker.reference, learner.gradient(worker, job).arrays, 1e-2)
    before = worker.episodes[0].turns[0]
    adapters.set_adapter(brain, moved)
    after = worker.policy.closed.decide([before.observation], [tuple(before.legal)])[0]
    assert abs(np.array(after.probs) - before.prob_values).max() > 1e-3
    assert hash_arrays(base_weights(brain)) == base


def test_training_and_judging_by_the_commands(tmp_path, capsys):
    model = folder(tmp_path / "model", "llama", chat=True, bits=4, like=load("nano").tokenizer)
    out = tmp_path / "run"
    assert train.main([*FEW, "--model", str(model), "--out", str(out)]) == 0
    (line,) = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert line["update"] == 1 and line["episodes"] >= 4
    assert read_run(out)["rate"] == 4e-4  # not the embedded model's
    node = inspect(out / "checkpoints" / "u0001")
    assert node.provenance["prompt"].startswith("chat:") and node.provenance["prompt"] == load(model).form.name
    capsys.readouterr()
    assert evaluate.main(["--scenario", "fetch_item", "--policy", str(out), "--episodes", "2"]) == 0
    assert "success" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "bert", "architectures": ["BertModel"]}, "'bert' (BertModel) is none of mlx-lm's"),
        ({"model_type": "vit", "architectures": ["ViTForImageClassification"]}, "is not a causal language model"),
        ({"architectures": ["LlamaForCausalLM"]}, "field model_type is missing"),
    ],
)
def test_what_cant_act_gets_one_line(config, says, tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert train.main([*FEW, "--model", str(tmp_path / "model"), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert says in said and "config.json" in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("kind", "bits", "whose"), [("qwen3", 0, "mlx-lm's"), ("llama", 4, "our own")])
def test_check_compares_decisions_with_the_plain_forward(kind, bits, whose, tmp_path, capsys, monkeypatch):
    model = folder(tmp_path / "model", kind, chat=True, bits=bits, like=load("nano").tokenizer)
    assert models.main(["check", str(model)]) == 0
    said = capsys.readouterr().out
    assert f"model: {kind}, 3 blocks" in said and f"by {whose} forward" in said and "by its chat template" in said
    assert "from mlx-lm's plain forward (tolerance 0.0001)" in said and said.endswith("model is as it should be\n")
    monkeypatch.setattr("npc.foreign.NEVER" if kind == "qwen3" else "npc.tree.MASKED", 0)  # what no token may see
    assert models.main(["check", str(model)]) == 2
    assert "differs by" in capsys.readouterr().err


def test_a_tokenizer_that_cant_speak_is_refused_before_anything_is_written(tmp_path, capsys):
    model = folder(tmp_path / "model", "qwen3", like=load("nano").tokenizer)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.save(str(model / "tokenizer.json"))
    assert train.main([*FEW, "--model", str(model), "--out", str(tmp_path / "run")]) == 2
    assert evaluate.main(["--scenario", "fetch_item", "--policy", str(model), "--episodes", "2"]) == 2
    assert models.main(["check", str(model)]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("python -m ")]
    assert len(lines) == 3 and all("can't speak the actions: it makes 'mara' of 'Mara'" in line for line in lines)
    assert not (tmp_path / "run").exists()


def test_what_is_in_the_hubs_cache_is_listed_and_pulled(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    assert models.main(["list"]) == 0 and "of the hub" not in capsys.readouterr().out
    model = tmp_path / "hub" / "models--some-org--tiny"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("0" * 40)
    at = folder(model / "snapshots" / ("0" * 40), "qwen3")
    assert models.main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["name"] == "some-org/tiny"
    assert models.main(["pull", "some-org/tiny"]) == 0 and str(at) in capsys.readouterr().out
    assert models.main(["pull", "some-org/other"]) == 2
    assert "the hub can't be reached" in capsys.readouterr().err
