"""Kills a process at every moment of every change to a checkpoint tree, and looks at what is left: `killing.py FOLDER`.

A moment is a touch of the file system that Python announces (open, rename, remove, mkdir, …). The process dies there by
`os._exit`, which runs no clean-up, as a kill -9 does. Prints how many deaths each change had, as JSON. A script of its
own, since only a process without threads can be forked safely.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from rl import checkpoints
from rl.checkpoints import export
from rl.files import write_run
from rl.tree import WEIGHTS, Tree

TOUCHES = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "shutil.copyfile"}
KILLED = 9
os.fsync = os.fdatasync = lambda fd: None  # a kill takes nothing from the system's cache

BYTES = b"tensors"
checkpoints.verify = lambda *_: None  # MLX has threads


def node(tree: Tree, name: str, update: int, parent: str | None, validation: float) -> None:
    def write(folder: Path) -> None:
        for file, content in zip(WEIGHTS, (BYTES, b"{}", b"{}"), strict=True):
            (folder / file).write_bytes(content)
        (folder / "optimizer.safetensors").write_bytes(b"momentum")

    tree.add(name, {"update": update, "parent": parent, "metrics": {"validation": validation}}, write)


def fresh(run: Path) -> Tree:
    run.mkdir()
    write_run(run, {"scenario": "some"})
    tree = Tree(run / "checkpoints")
    node(tree, "start", 0, None, 0.1)
    for update in (1, 2, 3):
        node(tree, f"u{update:04d}", update, f"u{update - 1:04d}" if update > 1 else "start", 0.1 * update)
    tree.set_head("u0001")
    return tree


def look(run: Path, before: dict[str, bytes]) -> None:
    """Everything that a reader does works, every node that is there is whole, and the next change can be made."""
    tree = Tree(run / "checkpoints")
    head, tip = tree.head(), tree.tip()
    assert tip is not None
    for name in tree.names():
        assert tree.path(name)[0] == "start"
        facts = tree.read(name)
        if facts.get("pruned"):
            continue
        folder = tree.weights(name)
        # a file that was being written when the kill came has a dot before its name
        there = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        assert there == {*WEIGHTS, "optimizer.safetensors", "node.json"}, name
        assert (folder / WEIGHTS[0]).read_bytes() == BYTES
    assert not tree.read(head).get("pruned") and not tree.read(tip).get("pruned")
    assert {name: (tree.folder(name) / "node.json").read_bytes() for name in ("start", head, tip)
            if name in before} == {name: before[name] for name in ("start", head, tip) if name in before}  # fmt: skip
    out = run / "out"
    if out.exists():
        assert {path.name for path in out.iterdir()} == set(WEIGHTS)
        assert json.loads((out / WEIGHTS[2]).read_text())["node"] == head
    else:
        export(run, tree, head, out)
    tree.start_branch(tip)
    update = tree.read(tip)["update"] + 1
    node(tree, tree.name_for(update), update, tip, 0.9)
    tree.prune([])
    tree.set_head(tree.names()[-1], by_hand=True)
    assert tree.head() == tree.tip() == tree.names()[-1]


CHANGES: dict[str, Callable[[Path, Tree], object]] = {
    "add": lambda run, tree: node(tree, "u0004", 4, "u0003", 0.5),
    "head": lambda run, tree: tree.set_head("u0003", by_hand=True),
    "branch": lambda run, tree: tree.start_branch("u0002", {"rate": 0.1}),
    "prune": lambda run, tree: tree.prune([]),
    "export": lambda run, tree: export(run, tree, "u0001", run / "out"),
}


def dies(run: Path, tree: Tree, change: Callable[[Path, Tree], object], moment: int) -> bool:
    """Makes the change in a child that dies at its `moment`-th touch; whether it came so far as to die."""
    child = os.fork()
    if child == 0:
        touched = 0

        def touch(event: str, _: object) -> None:
            nonlocal touched
            if event in TOUCHES:
                touched += 1
                if touched == moment:
                    os._exit(KILLED)

        sys.addaudithook(touch)
        code = 1
        try:
            change(run, tree)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), code
    return code == KILLED


def main(folder: Path) -> None:
    deaths = {}
    for name, change in CHANGES.items():
        moment = 1
        while True:
            run = folder / f"{name}{moment}"
            tree = fresh(run)
            before = {one: (tree.folder(one) / "node.json").read_bytes() for one in tree.names()}
            died = dies(run, tree, change, moment)
            try:
                look(run, before)
            except Exception as error:
                raise AssertionError(f"killed at touch {moment} of {name}: {error}") from error
            shutil.rmtree(run)
            if not died:
                break
            moment += 1
        deaths[name] = moment - 1
    assert "mlx.core" not in sys.modules
    print(json.dumps(deaths))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
