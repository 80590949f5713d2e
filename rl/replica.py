"""What the other ranks of a launch need of a run folder that lies with the first: its files, as one message."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rl.config import TrainConfig
from rl.tree import Tree

FILES = ("run.toml", "attempt", "baseline.json", "checkpoints/head", "checkpoints/branches.json")


class Task(msgspec.Struct, frozen=True):
    """A run that all ranks do: where the first one has it (`out`), and the `files` that it goes on from, by their path
    in there; none for a new run."""

    config: TrainConfig
    out: str
    files: dict[str, bytes] = {}


def files_of(out: Path) -> dict[str, bytes]:
    """What a run is taken up from: all but the log, and of the checkpoints that nothing goes on from only the facts."""
    tree = Tree(out / "checkpoints")
    whole = tree.needed() if tree.tip() else set()
    nodes = [path for name in tree.names() for path in sorted(tree.folder(name).iterdir())
             if name in whole or path.name == "node.json"]  # fmt: skip
    paths = [path for name in FILES if (path := out / name).is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in [*paths, *nodes]}


def put(files: dict[str, bytes], out: Path) -> None:
    """Writes `files` into the folder `out`."""
    for name, data in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
