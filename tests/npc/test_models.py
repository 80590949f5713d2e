"""Models and adapters on disk: what is saved is what acts, and whatever doesn't match is refused by name."""

import json
import shutil

import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest

from npc import adapters
from npc.errors import AdapterError, ModelError
from npc.forward import prefix_kv
from npc.mlx import flat, mx
from npc.models import base_weights, create, hash_arrays, load, save_model
from npc.policy import ClosedPolicy, action_logps
from tests.npc.making import brain, config, tokenizer, with_adapter

LEGAL = ("go to the dock", "go to the inn", "take the rope", "wait")


def probs(made):
    return ClosedPolicy(made, " mara").decide(["rope dock"], [LEGAL])[0].probs


@pytest.fixture
def saved(tmp_path):
    """A model folder and an adapter folder that belong together, and the brain they came from."""
    made = with_adapter(brain(1))
    made.base_hash = hash_arrays(base_weights(made))
    save_model(made, tmp_path / "model")
    adapters.save_adapter(made, tmp_path / "adapter", {"scenario": "fetch_item"})
    return made, tmp_path / "model", tmp_path / "adapter"


def test_equal_seeds_make_equal_models():
    one, same, other = (create(config(), tokenizer(), seed) for seed in (0, 0, 1))
    assert one.base_hash == same.base_hash != other.base_hash


def test_a_saved_model_with_its_adapter_acts_alike(saved):
    made, model, adapter = saved
    again = load(model)
    assert (again.base_hash, again.tokenizer_hash) == (made.base_hash, made.tokenizer_hash)
    provenance = adapters.load_adapter(again, adapter)
    assert provenance["scenario"] == "fetch_item"
    assert provenance["weights_hash"] == adapters.weights_hash(again) == adapters.weights_hash(made)
    assert probs(again) == probs(made)


def test_mlx_lm_loads_both_and_computes_the_same(saved):
    import mlx_lm

    made, model, adapter = saved
    theirs, _ = mlx_lm.load(str(model), adapter_path=str(adapter))
    ours = ClosedPolicy(made, "").decide(["rope dock mara"], [("ask", "wait")])[0]
    ids = [made.tokenizer.encode(f" {word}")[0] for word in ("ask", "wait")]
    logits = np.array(theirs(mx.array([ours.prompt_ids]))[0, -1])[ids]
    expected = np.exp(logits - logits.max())
    np.testing.assert_allclose(ours.probs, expected / expected.sum(), atol=1e-5)


def test_weights_hash_is_of_the_weights_in_memory(saved):
    made, _, _ = saved
    before = adapters.weights_hash(made)
    tensors = adapters.get_adapter(made)
    name = sorted(tensors)[0]
    adapters.set_adapter(made, tensors | {name: tensors[name] + 1e-6})
    assert adapters.weights_hash(made) != before
    adapters.detach(made)
    assert adapters.weights_hash(made) == hash_arrays(base_weights(made)) == made.base_hash


def test_a_fresh_adapter_changes_nothing_and_detaching_takes_it_off():
    made = brain(2)
    before = probs(made)
    adapters.attach(made, 4, 2.0, 0)
    np.testing.assert_allclose(probs(made), before, atol=1e-6)
    with_adapter(made)
    assert np.abs(np.subtract(probs(made), before)).max() > 1e-3
    adapters.detach(made)
    assert probs(made) == before and made.adapter is None


def test_equal_seeds_make_equal_adapters():
    hashes = []
    for seed in (0, 0, 1):
        made = brain(2)
        adapters.attach(made, 4, 2.0, seed)
        hashes.append(adapters.weights_hash(made))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_training_step_leaves_the_base_bit_identical():
    made = brain(3, loud=3.0)
    base = hash_arrays(base_weights(made))
    adapters.attach(made, 4, 2.0, 0)
    assert hash_arrays(base_weights(made)) == base
    acting = ClosedPolicy(made, " mara")
    packed = acting.pack([acting.encode("rope")], [LEGAL])
    optimizer = optim.AdamW(learning_rate=1e-3)

    def loss():
        return -action_logps(made.model, packed, prefix_kv(made.model, acting.prefix_ids))[0, 2]

    before, first = adapters.weights_hash(made), acting.decide(["rope"], [LEGAL])[0].probs[2]
    for _ in range(3):
        _, grads = nn.value_and_grad(made.model, loss)()
        assert all(name.endswith((".lora_a", ".lora_b")) for name in flat(grads))
        optimizer.update(made.model, grads)
        mx.eval(made.model.parameters())
        made.bump()
    assert hash_arrays(base_weights(made)) == base
    assert adapters.weights_hash(made) != before
    assert acting.decide(["rope"], [LEGAL])[0].probs[2] > first


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def edit_tensors(folder, change):
    path = folder / "adapters.safetensors"
    tensors = dict(mx.load(str(path)))
    mx.eval(tensors)
    change(tensors)
    mx.save_safetensors(str(path), tensors)
    edit(folder / "provenance.json", lambda p: p.pop("weights_hash"))


A0 = "model.layers.0.mlp.down_proj.lora_a"
FAULTS = {
    "missing folder": (shutil.rmtree, "no such adapter folder"),
    "missing weights": (lambda f: (f / "adapters.safetensors").unlink(), r"adapters\.safetensors: missing"),
    "missing config": (lambda f: (f / "adapter_config.json").unlink(), r"adapter_config\.json: missing"),
    "missing provenance": (lambda f: (f / "provenance.json").unlink(), r"provenance\.json: missing"),
    "config not JSON": (lambda f: (f / "adapter_config.json").write_text("{"), r"adapter_config\.json: not JSON"),
    "truncated": (
        lambda f: (f / "adapters.safetensors").write_bytes((f / "adapters.safetensors").read_bytes()[:-100]),
        r"adapters\.safetensors: \d+ bytes, its header says \d+",
    ),
    "truncated in its header": (
        lambda f: (f / "adapters.safetensors").write_bytes((f / "adapters.safetensors").read_bytes()[:50]),
        r"adapters\.safetensors: truncated",
    ),
    "empty": (lambda f: (f / "adapters.safetensors").write_bytes(b""), r"adapters\.safetensors: truncated"),
    "not safetensors": (
        lambda f: (f / "adapters.safetensors").write_bytes(b"\x05\0\0\0\0\0\0\0hello"),
        r"adapters\.safetensors: not a readable safetensors file",
    ),
    "tensor missing": (lambda f: edit_tensors(f, lambda t: t.pop(A0)), f"tensor {A0} is missing"),
    "tensor unknown": (lambda f: edit_tensors(f, lambda t: t.update(x=t[A0])), "tensor x is not a part of the model"),
    "tensor of another shape": (
        lambda f: edit_tensors(f, lambda t: t.update({A0: t[A0][:-1]})),
        rf"tensor {A0} has shape \(47, 4\), the model needs \(48, 4\)",
    ),
    "NaN": (lambda f: edit_tensors(f, lambda t: t.update({A0: t[A0] * float("nan")})), f"tensor {A0} holds NaN"),
    "another rank": (
        lambda f: edit(f / "adapter_config.json", lambda c: c["lora_parameters"].update(rank=8)),
        r"has shape \(48, 4\), the model needs \(48, 8\)",
    ),
    "rank no number": (
        lambda f: edit(f / "adapter_config.json", lambda c: c["lora_parameters"].update(rank="4")),
        r"lora_parameters\.rank is '4'",
    ),
    "scale missing": (
        lambda f: edit(f / "adapter_config.json", lambda c: c["lora_parameters"].pop("scale")),
        r"lora_parameters\.scale is None",
    ),
    "fewer layers": (
        lambda f: edit(f / "adapter_config.json", lambda c: c.update(num_layers=2)),
        "num_layers is 2, the model has 3",
    ),
    "dropout": (
        lambda f: edit(f / "adapter_config.json", lambda c: c["lora_parameters"].update(dropout=0.1)),
        "dropout is 0.1, must be 0",
    ),
    "another base": (lambda f: edit(f / "provenance.json", lambda p: p.update(base_hash="00")), "base_hash is '00'"),
    "another tokenizer": (
        lambda f: edit(f / "provenance.json", lambda p: p.update(tokenizer_hash="00")),
        "tokenizer_hash is '00'",
    ),
    "other tensors than named": (
        lambda f: edit(f / "provenance.json", lambda p: p.update(weights_hash="00")),
        "weights_hash differs",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_adapter_is_refused_in_one_line_and_changes_nothing(saved, fault):
    _, model, folder = saved
    made = with_adapter(load(model), seed=9)
    before = adapters.weights_hash(made)
    break_it, message = FAULTS[fault]
    break_it(folder)
    with pytest.raises(AdapterError, match=message) as caught:
        adapters.load_adapter(made, folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    assert adapters.weights_hash(made) == before


MODEL_FAULTS = {
    "missing folder": (shutil.rmtree, "no such model"),
    "no config": (lambda f: (f / "config.json").unlink(), r"config\.json: missing"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), r"model\.safetensors: missing"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), r"tokenizer\.json: missing"),
    "truncated": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-4]),
        r"model\.safetensors: \d+ bytes, its header says \d+",
    ),
    "another architecture": (
        lambda f: edit(f / "config.json", lambda c: c.update(model_type="gpt2")),
        r"mlx-lm can't load this model \(TypeError: .*n_ctx",
    ),
    "other weights than its architecture's": (
        lambda f: edit(f / "config.json", lambda c: c.update(model_type="qwen2")),
        r"mlx-lm can't load this model \(ValueError: Missing \d+ parameters",
    ),
    "unknown architecture": (
        lambda f: edit(f / "config.json", lambda c: c.update(model_type="abacus")),
        "'abacus' .LlamaForCausalLM. is none of mlx-lm's",
    ),
    "an encoder": (
        lambda f: edit(f / "config.json", lambda c: c.update(model_type="bert", architectures=["BertForMaskedLM"])),
        "BertForMaskedLM is not a causal language model",
    ),
    "an encoder and a decoder": (
        lambda f: edit(f / "config.json", lambda c: c.update(model_type="t5", is_encoder_decoder=True)),
        "t5 with an encoder is not a causal language model",
    ),
    "a classifier": (
        lambda f: edit(f / "config.json", lambda c: c.update(architectures=["LlamaForSequenceClassification"])),
        "LlamaForSequenceClassification is not a causal language model",
    ),
    "code of its own": (
        lambda f: edit(f / "config.json", lambda c: c.update(model_type="qwen2", model_file="model.py")),
        "requires importing and running a custom module",
    ),
    "another shape": (lambda f: edit(f / "config.json", lambda c: c.update(intermediate_size=50)), "has shape"),
    "another depth": (lambda f: edit(f / "config.json", lambda c: c.update(num_hidden_layers=4)), "is missing"),
    "scaled positions": (
        lambda f: edit(f / "config.json", lambda c: c.update(rope_scaling={"rope_type": "llama3"})),
        r"mlx-lm can't load this model \(KeyError: 'factor'",
    ),
    "field missing": (
        lambda f: edit(f / "config.json", lambda c: c.pop("hidden_size")),
        "field hidden_size is missing",
    ),
}


@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_a_wrong_model_folder_is_refused_in_one_line(saved, fault):
    _, folder, _ = saved
    break_it, message = MODEL_FAULTS[fault]
    break_it(folder)
    with pytest.raises(ModelError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_impossible_adapters_are_refused():
    for rank, scale, message in [(0, 1.0, "rank must be 1 or more"), (4, float("nan"), "scale must be above 0")]:
        with pytest.raises(AdapterError, match=message):
            adapters.attach(brain(0), rank, scale)
    with pytest.raises(AdapterError, match="has no adapter"):
        adapters.save_adapter(brain(0), "nowhere")
