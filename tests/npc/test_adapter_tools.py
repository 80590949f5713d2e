"""Adapters on disk: what they hold, how far apart they lie, that nothing is called something, and fusing."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from npc import adapters
from npc.adapters.__main__ import main
from npc.adapters.fuse import fuse
from npc.adapters.tools import check_not_nothing, difference, find, inspect
from npc.errors import AdapterError
from npc.mlx import mx
from npc.models import load, save_model
from npc.policy import ClosedPolicy
from tests.npc import making

LAYER = "model.layers.1.mlp.up_proj"


@pytest.fixture
def folder(tmp_path):
    made = making.with_adapter(making.brain())
    adapters.save_adapter(made, tmp_path / "a", {"scenario": "errand"})
    return tmp_path / "a"


def change_of(made, layer):
    """The change of one layer, by the plain product."""
    tensors = adapters.get_adapter(made)
    a, b = (np.array(tensors[f"{layer}.{part}"], dtype=np.float64) for part in ("lora_a", "lora_b"))
    return made.adapter["scale"] * a @ b


def test_the_norm_of_each_change_is_that_of_the_plain_product(folder):
    made = making.with_adapter(making.brain())
    facts = inspect(folder)
    for layer, norm in facts.norms.items():
        assert norm == pytest.approx(np.linalg.norm(change_of(made, layer)), rel=1e-9)
    assert len(facts.norms) == 3 * 7 and facts.rank == 4 and facts.dtype == "float32"
    assert facts.weights_hash == adapters.weights_hash(made)


def test_difference_and_cosine_are_those_of_the_plain_products(folder, tmp_path):
    one, other = making.with_adapter(making.brain()), making.with_adapter(making.brain(), rank=2, seed=9)
    adapters.save_adapter(other, tmp_path / "b", {"scenario": "other"})
    found = difference(folder, tmp_path / "b")
    a, b = change_of(one, LAYER), change_of(other, LAYER)
    assert found.relative[LAYER] == pytest.approx(np.linalg.norm(a - b) / max(np.linalg.norm(a), np.linalg.norm(b)))
    assert found.cosine[LAYER] == pytest.approx((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))
    assert not found.equal and found.provenance["scenario"] == ("errand", "other")
    same = difference(folder, folder)
    assert same.equal and same.total_relative == pytest.approx(0, abs=1e-6) and same.total_cosine == pytest.approx(1)


def test_a_fresh_adapter_is_called_nothing_and_so_is_one_dead_layer(tmp_path, capsys):
    made = making.brain()
    adapters.attach(made, 2)
    adapters.save_adapter(made, tmp_path / "fresh")
    with pytest.raises(AdapterError, match="changes nothing"):
        check_not_nothing(inspect(tmp_path / "fresh"))
    assert main(["verify", str(tmp_path / "fresh")]) == 1
    making.with_adapter(made, rank=2)
    tensors = adapters.get_adapter(made)
    adapters.set_adapter(made, tensors | {f"{LAYER}.lora_b": mx.zeros(tensors[f"{LAYER}.lora_b"].shape)})
    adapters.save_adapter(made, tmp_path / "partly")
    with pytest.raises(AdapterError, match=f"left unchanged.*{LAYER}"):
        check_not_nothing(inspect(tmp_path / "partly"))
    assert "lora_b" in capsys.readouterr().err


def test_a_fused_model_answers_as_the_adapted_one_and_mlx_lm_loads_it(tmp_path):
    made = making.with_adapter(making.brain())
    policy = ClosedPolicy(made, "the lantern")
    packed = policy.pack([policy.encode("rope dock")], [("go to the dock", "take the rope", "wait")])
    before = policy.logps(packed)
    report = fuse(made, tmp_path / "fused")
    assert report.lost < 1e-6 and made.adapter is None
    again = ClosedPolicy(load(tmp_path / "fused"), "the lantern")
    np.testing.assert_allclose(again.logps(packed), before, atol=2e-4)
    from mlx_lm import load as mlx_lm_load

    model, _ = mlx_lm_load(str(tmp_path / "fused"))
    ours = making.mlx_lm_model(making.with_adapter(making.brain()))
    row = mx.array([[5, 6, 7, 8]])
    np.testing.assert_allclose(np.array(model(row)), np.array(ours(row)), atol=2e-3)


def test_a_fuse_that_would_round_the_adapter_away_is_refused_and_writes_nothing(tmp_path):
    made = making.with_adapter(making.brain())
    loud = adapters.get_adapter(made)
    faint = {name: value * (1e-3 if name.endswith("lora_b") else 1) for name, value in loud.items()}
    adapters.set_adapter(made, faint)
    before = adapters.weights_hash(made)
    with pytest.raises(AdapterError, match="round away"):
        fuse(made, tmp_path / "fused", "bfloat16")
    assert not (tmp_path / "fused").exists() and adapters.weights_hash(made) == before
    assert fuse(made, tmp_path / "fused", "float32").lost < 0.05


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: (f / "adapters.safetensors").unlink(), "missing"),
        (lambda f: (f / "adapter_config.json").write_text("{"), "not JSON"),
        (lambda f: (f / "adapters.safetensors").write_bytes(b"\x00" * 30), "safetensors"),
        (lambda f: mx.save_safetensors(str(f / "adapters.safetensors"), {"x.lora_a": mx.ones((2, 2))}), "needs lora_a"),
        (
            lambda f: mx.save_safetensors(
                str(f / "adapters.safetensors"),
                {"x.lora_a": mx.ones((2, 2)), "x.lora_b": mx.full((2, 2), float("nan"))},
            ),
            "NaN",
        ),
    ],
)
def test_a_damaged_folder_gets_one_line_and_exit_code_2(folder, spoil, says, capsys):
    spoil(folder)
    assert main(["show", str(folder)]) == 2
    err = capsys.readouterr().err
    assert says in err and str(folder) in err and err.count("\n") == 1


def test_the_commands(folder, tmp_path, capsys):
    save_model(making.brain(), tmp_path / "base")
    adapters.save_adapter(making.with_adapter(load(tmp_path / "base")), folder, {"scenario": "errand"})
    assert main(["list", str(tmp_path)]) == 0
    assert str(folder) in capsys.readouterr().out
    assert main(["show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["scenario"] == "errand"
    assert main(["diff", str(folder), str(folder)]) == 0
    assert "bit for bit" in capsys.readouterr().out
    assert main(["verify", str(folder), "--model", str(tmp_path / "base")]) == 0
    assert "good" in capsys.readouterr().out
    assert main(["fuse", str(folder), "--model", str(tmp_path / "base"), "--out", str(tmp_path / "f")]) == 0
    assert main(["fuse", str(folder), "--model", str(tmp_path / "base"), "--out", str(tmp_path / "f")]) == 2
    assert "already" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "nowhere")]) == 2
    assert [path.name for path in find(tmp_path)] == ["a"]


def test_what_ships_is_good():
    assert main(["verify", "nano:fetch_item"]) == 0


def test_an_adapter_goes_by_the_name_that_policies_have(folder, capsys):
    shipped = str(resources.files("assets") / "adapters" / "nano" / "fetch_item")
    for name in ("nano:fetch_item", shipped):
        assert main(["show", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["folder"] == shipped
    assert main(["diff", "nano:fetch_item", shipped]) == 0
    capsys.readouterr()
    for name, why in (("fetch_item", "what ships goes by its model and name: nano:fetch_item, "),
                      ("nano:fetch", "there is fetch_item, sudoku"), ("http://127.0.0.1:1/v1", "names no adapter")):
        assert main(["show", name]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and name.rpartition(":")[2] in said and why in said


def test_an_adapter_stored_by_halves_is_the_one_in_memory(tmp_path):
    made = making.with_adapter(making.brain())
    with pytest.raises(AdapterError, match="round them first"):
        adapters.save_adapter(made, tmp_path / "a", half=True)
    assert not (tmp_path / "a").exists()
    adapters.save_adapter(made, tmp_path / "whole")
    adapters.round_to_half(made)
    adapters.save_adapter(made, tmp_path / "a", half=True)
    sizes = [(tmp_path / name / "adapters.safetensors").stat().st_size for name in ("whole", "a")]
    assert sizes[1] < 0.65 * sizes[0]
    again = making.brain()
    adapters.load_adapter(again, tmp_path / "a")
    assert adapters.weights_hash(again) == adapters.weights_hash(made) == inspect(tmp_path / "a").weights_hash
    assert inspect(tmp_path / "a").dtype == "float16"
    assert {value.dtype for value in adapters.get_adapter(again).values()} == {mx.float32}
