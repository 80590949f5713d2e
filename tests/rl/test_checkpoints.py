"""The checkpoint tree survives a kill at any moment, and says which file is wrong."""

import json
import os
from pathlib import Path

import pytest

from rl.checkpoints import CheckpointError, Tree, is_run, read_run, write_atomically, write_run


def facts(update: int, parent: str | None = None) -> dict[str, object]:
    return {"update": update, "parent": parent, "metrics": {}}


def weights(text: str):  # what a node's files are written by
    return lambda folder: (folder / "adapters.safetensors").write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "checkpoints")
    tree.add("start", facts(0), weights("first"))
    tree.set_head("start")
    return tree


def test_a_node_holds_its_files_and_its_facts(tree: Tree) -> None:
    place = tree.add("u0001", facts(1, "start"), weights("second"))
    assert place == tree.folder("u0001")
    assert (place / "adapters.safetensors").read_text() == "second"
    assert tree.read("u0001") == facts(1, "start")
    assert tree.has("u0001") and not tree.has("u0002")


def test_names_go_by_update_whatever_the_alphabet_says(tree: Tree) -> None:
    for name, update in (("b10", 10), ("a2", 2), ("c1", 1)):
        tree.add(name, facts(update), weights(""))
    assert tree.names() == ["start", "c1", "a2", "b10"]


def test_a_kill_while_files_are_written_leaves_the_tree_as_it_was(tree: Tree) -> None:
    def killed(folder: Path) -> None:
        (folder / "adapters.safetensors").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree.add("u0001", facts(1, "start"), killed)
    assert tree.names() == ["start"]
    assert tree.head() == "start"
    # and what lies about doesn't hinder the next try
    tree.add("u0001", facts(1, "start"), weights("whole"))
    assert (tree.folder("u0001") / "adapters.safetensors").read_text() == "whole"
    assert tree.names() == ["start", "u0001"]


def test_a_kill_before_the_rename_leaves_the_tree_as_it_was(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(source: object, target: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            tree.add("u0001", facts(1, "start"), weights("second"))
        with pytest.raises(KeyboardInterrupt):
            tree.set_head("start")
    assert not tree.has("u0001")
    assert tree.names() == ["start"]
    assert tree.head() == "start"
    tree.add("u0001", facts(1, "start"), weights("second"))
    assert tree.names() == ["start", "u0001"]


def test_no_name_of_a_node_is_an_unfinished_folder(tree: Tree) -> None:
    unfinished = tree.root / ".u0001.unfinished"
    unfinished.mkdir()
    (unfinished / "adapters.safetensors").write_text("half")
    assert tree.names() == ["start"]


def test_a_node_written_again_replaces_the_old_one(tree: Tree) -> None:
    tree.add("u0001", facts(1, "start"), weights("abandoned"))
    tree.add("u0001", facts(1, "start"), weights("taken up"))
    assert (tree.folder("u0001") / "adapters.safetensors").read_text() == "taken up"


def test_the_head_can_be_any_node_but_no_unknown_one(tree: Tree) -> None:
    tree.add("u0001", facts(1, "start"), weights(""))
    tree.set_head("u0001")
    assert tree.head() == "u0001"
    with pytest.raises(CheckpointError, match="no checkpoint 'u0009'"):
        tree.set_head("u0009")
    assert tree.head() == "u0001"


def test_a_tree_without_a_head_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="head: missing"):
        Tree(tmp_path).head()


def test_an_unknown_or_damaged_node_names_its_file(tree: Tree) -> None:
    with pytest.raises(CheckpointError, match=r"u0009/node\.json: not a readable checkpoint"):
        tree.read("u0009")
    (tree.folder("start") / "node.json").write_text("{half")
    with pytest.raises(CheckpointError, match=r"start/node\.json: not a readable checkpoint"):
        tree.read("start")


def test_run_toml_gives_back_what_was_written(tmp_path: Path) -> None:
    values = {
        "scenario": "fetch_item", "seed": 2**63 - 1, "rate": 5e-4, "clip": 0.2, "flag": True, "none": "",
        "options": {"difficulty": "3", "with space": 'quote " and \\ and ü'}, "list": [1, 2],
    }  # fmt: skip
    assert not is_run(tmp_path)
    write_run(tmp_path, values)
    assert is_run(tmp_path)
    assert read_run(tmp_path) == values


def test_a_damaged_run_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("scenario = ")
    with pytest.raises(CheckpointError, match=r"run\.toml: not a readable run\.toml"):
        read_run(tmp_path)


def test_an_interrupted_write_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    write_atomically(path, json.dumps({"old": 1}))

    def killed(source: object, target: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, json.dumps({"new": 2}))
    assert json.loads(path.read_text()) == {"old": 1}
