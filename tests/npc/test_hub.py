"""Models by an id of the hub: out of its cache without a network, and one line where they can't be had."""

import shutil

import pytest

from npc import catalog, hub
from npc.errors import ModelError
from npc.models import load
from tests.npc.foreign_making import folder

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The hub's cache with one model, and no way to the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "hub" / "models--some-org--tiny"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(REVISION)
    return folder(model / "snapshots" / REVISION, "qwen3")


def test_a_model_that_was_fetched_before_needs_no_network(cache):
    made = load("some-org/tiny")
    assert made.name == "some-org/tiny" and made.base_hash == load(cache).base_hash
    assert catalog.need("some-org/tiny") == cache


def test_what_cant_be_had_is_said_in_one_line(cache):
    with pytest.raises(ModelError, match=r"^some-org/huge: not on this machine, and the hub can't be") as caught:
        load("some-org/huge")
    assert "\n" not in str(caught.value)
    (cache / "model.safetensors").unlink()  # a download that was stopped
    with pytest.raises(ModelError, match=r"^some-org/tiny: "):
        load("some-org/tiny")


def test_half_a_model_is_fetched_again(cache, tmp_path, monkeypatch):
    shutil.copytree(cache, tmp_path / "elsewhere")
    (cache / "model.safetensors").unlink()
    asked = []

    def download(name, allow_patterns, local_files_only=False):
        asked.append((name, local_files_only))
        return str(cache if local_files_only else tmp_path / "elsewhere")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load("some-org/tiny").name == "some-org/tiny"
    assert asked == [("some-org/tiny", True), ("some-org/tiny", False)]


def test_shards_must_all_be_there(cache):
    (cache / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model.safetensors", "b": "model-2.st"}}')
    assert not hub.is_whole(cache)
    (cache / "model-2.st").write_bytes(b"")
    assert hub.is_whole(cache)


@pytest.mark.parametrize(("name", "may"), [("org/name", True), ("Qwen/Qwen3-0.6B-4bit", True), ("nano", False),
                                           ("./name", False), ("a/b/c", False), ("hub/missing", False)])  # fmt: skip
def test_what_may_be_an_id_of_the_hub(name, may, cache):
    assert hub.is_hub_id(name) == may
