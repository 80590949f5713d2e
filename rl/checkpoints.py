"""The tree of a run's checkpoints: every node holds adapter, optimizer, random state, metrics and its parent.

    RUN/run.toml                     what was run
    RUN/checkpoints/NODE/            adapters.safetensors adapter_config.json provenance.json
                                     optimizer.safetensors node.json
    RUN/checkpoints/head             the name of the node that plays

A node is written beside its place and renamed into it, so that a kill leaves the tree as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any


class CheckpointError(ValueError):
    """A run folder or node that can't be used; one line that names the file."""


class Tree:
    """The nodes under one `checkpoints` folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder

    def folder(self, name: str) -> Path:
        return self.root / name

    def has(self, name: str) -> bool:
        return (self.root / name / "node.json").is_file()

    def names(self) -> list[str]:
        """The nodes, in the order of their updates."""
        found = [path.parent.name for path in self.root.glob("*/node.json") if not path.parent.name.startswith(".")]
        return sorted(found, key=lambda name: (self.read(name)["update"], name))

    def read(self, name: str) -> dict[str, Any]:
        """A node's facts: update, parent, metrics, random state."""
        path = self.root / name / "node.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: not a readable checkpoint ({error})") from error

    def head(self) -> str:
        """The node that plays."""
        path = self.root / "head"
        if not path.is_file():
            raise CheckpointError(f"{path}: missing, so no checkpoint is chosen yet; let the run make its first update")
        return path.read_text(encoding="utf-8").strip()

    def set_head(self, name: str) -> None:
        if not self.has(name):
            raise CheckpointError(f"{self.root}: no checkpoint {name!r}")
        write_atomically(self.root / "head", name + "\n")

    def add(self, name: str, facts: dict[str, Any], write: Any) -> Path:
        """Makes node `name`: `write(folder)` puts its files down, `facts` becomes node.json."""
        self.root.mkdir(parents=True, exist_ok=True)
        unfinished = self.root / f".{name}.unfinished"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir()
        write(unfinished)
        (unfinished / "node.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        place = self.root / name
        replaced = self.root / f".{name}.replaced"
        if place.exists():  # moved aside, since a folder can't be renamed over one that isn't empty
            os.replace(place, replaced)
        os.replace(unfinished, place)
        if replaced.exists():
            shutil.rmtree(replaced)
        return place


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's."""
    return (folder / "run.toml").is_file()


def read_run(folder: Path) -> dict[str, Any]:
    """run.toml of a run folder."""
    path = folder / "run.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a readable run.toml ({error})") from error


def write_run(folder: Path, values: dict[str, Any]) -> None:
    """Writes run.toml: words, numbers, flags and lists of them."""
    write_atomically(folder / "run.toml", "".join(f"{key} = {_toml(value)}\n" for key, value in values.items()))


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the place and renames into it."""
    beside = path.with_name(f".{path.name}.unfinished")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    # JSON's strings, numbers and flags are TOML's too
    return json.dumps(value)
