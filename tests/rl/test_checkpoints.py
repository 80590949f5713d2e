"""The checkpoint tree survives a kill at any moment, and says which file is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rl.files import CheckpointError, is_run, read_run, write_atomically, write_run
from rl.tree import Branch, Tree


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


def test_no_node_is_ever_written_over(tree: Tree) -> None:
    tree.add("u0001", facts(1, "start"), weights("mine"))
    with pytest.raises(CheckpointError, match="never written over"):
        tree.add("u0001", facts(1, "start"), weights("another"))
    assert (tree.folder("u0001") / "adapters.safetensors").read_text() == "mine"


def grown(tree: Tree, updates: int = 4) -> Tree:
    """start - u0001 - … with validation success 0.1, 0.2, 0.3, 0.2."""
    for update in range(1, updates + 1):
        metrics = {"validation": (0.1, 0.2, 0.3, 0.2)[update - 1], "success": 0.5, "kl": 0.1, "entropy": 1.0}
        parent = f"u{update - 1:04d}" if update > 1 else "start"
        tree.add(f"u{update:04d}", facts(update, parent) | {"metrics": metrics}, weights(f"of {update}"))
    return tree


def test_a_run_goes_on_from_its_last_node_and_a_branch_from_where_it_begins(tree: Tree) -> None:
    assert tree.tip() == "start"
    grown(tree)
    assert (tree.tip(), tree.name_for(5)) == ("u0004", "u0005")
    assert tree.start_branch("u0002", {"rate": 0.1}) == Branch(1, "u0002", {"rate": 0.1})
    assert (tree.tip(), tree.name_for(3)) == ("u0002", "u0003b1")
    assert tree.line().settings == {"rate": 0.1}
    tree.add("u0003b1", facts(3, "u0002"), weights(""))
    assert (tree.tip(), tree.name_for(4)) == ("u0003b1", "u0004b1")
    assert tree.path("u0003b1") == ["start", "u0001", "u0002", "u0003b1"]
    assert tree.names() == ["start", "u0001", "u0002", "u0003", "u0003b1", "u0004"]


def test_branches_are_numbered_in_their_order_and_one_that_was_not_trained_is_replaced(tree: Tree) -> None:
    grown(tree)
    assert tree.start_branch("u0003").branch == tree.start_branch("u0002").branch == 1
    assert tree.branches() == [Branch(1, "u0002")]
    tree.add("u0003b1", facts(3, "u0002"), weights(""))
    assert tree.start_branch("u0003b1").branch == 2  # a branch of a branch
    assert (tree.tip(), tree.name_for(4)) == ("u0003b1", "u0004b2")
    tree.add("u0004b2", facts(4, "u0003b1"), weights(""))
    assert [branch.branch for branch in tree.branches()] == [1, 2]
    assert tree.tip() == "u0004b2"


def test_a_branch_at_the_start_is_a_line_of_its_own(tree: Tree) -> None:
    grown(tree)
    tree.start_branch("start")
    assert (tree.tip(), tree.name_for(1)) == ("start", "u0001b1")


def test_the_best_is_the_earliest_of_the_best_validated(tree: Tree) -> None:
    assert tree.best() is None
    grown(tree)
    assert tree.best() == "u0003"
    (tree.root.parent / "baseline.json").write_text('{"validation": 0.3}')
    assert tree.best() == "start"


def test_a_head_that_a_person_chose_stays_until_the_person_gives_it_back(tree: Tree) -> None:
    grown(tree)
    tree.set_head("u0001", by_hand=True)
    tree.set_head("u0003")  # the trainer found a better one
    assert tree.head() == "u0001" and tree.head_by_hand()
    assert tree.release_head() == tree.head() == "u0003"
    tree.set_head("u0004")
    assert tree.head() == "u0004" and not tree.head_by_hand()


def test_pruning_keeps_what_something_needs_and_the_whole_tree(tree: Tree) -> None:
    grown(tree)
    tree.set_head("u0001")
    assert tree.needed() == {"start", "u0001", "u0003", "u0004"}  # and head, best, tip
    assert tree.prune([]) == (["u0002"], len("of 2"))
    assert tree.names() == ["start", "u0001", "u0002", "u0003", "u0004"]
    assert tree.path("u0004") == ["start", "u0001", "u0002", "u0003", "u0004"]
    assert tree.read("u0002")["metrics"]["validation"] == 0.2
    with pytest.raises(CheckpointError, match="u0002: its weights were pruned; choose start, u0001, u0003, u0004"):
        tree.weights("u0002")
    with pytest.raises(CheckpointError, match="pruned"):
        tree.start_branch("u0002")
    with pytest.raises(CheckpointError, match="pruned"):
        tree.set_head("u0002", by_hand=True)
    assert tree.prune([]) == ([], 0)


def test_pruning_keeps_what_a_collapsed_training_goes_back_to(tree: Tree) -> None:
    grown(tree)
    tree.add("u0005", facts(5, "u0004") | {"rolled_back_to": "u0002"}, weights(""))
    assert tree.prune([])[0] == ["u0001", "u0004"]


def test_pruning_keeps_what_is_asked_for_and_where_branches_begin(tree: Tree) -> None:
    grown(tree)
    tree.start_branch("u0001")
    tree.add("u0002b1", facts(2, "u0001"), weights(""))
    assert tree.prune(["u0004"])[0] == ["u0002"]


def test_a_tree_is_usable_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    """Every change to a tree, in a process that dies at its first, second, … touch of the file system."""
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    deaths = json.loads(done.stdout)
    assert set(deaths) == {"add", "head", "branch", "prune", "export"}
    assert all(count >= 3 for count in deaths.values()), deaths


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
