"""The tree of a run's checkpoints: every node holds adapter, optimizer, random state, metrics and its parent.

    RUN/run.toml                     what was run
    RUN/checkpoints/NODE/            adapters.safetensors adapter_config.json provenance.json
                                     optimizer.safetensors node.json
    RUN/checkpoints/head             the name of the node that plays; a second line says that a person chose it
    RUN/checkpoints/branches.json    the branches that were begun, the one that is trained last; absent without any

A node is called by its update, `u0005`; on a branch with the branch's number behind it, `u0005b1`. It is written beside
its place and renamed into it, once: no node is ever written over, so a kill at any moment leaves a tree whose nodes are
all whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from rl.files import CheckpointError, beside, write_atomically, write_through

START = "start"  # the node that holds the adapter the run began with
WEIGHTS = ("adapters.safetensors", "adapter_config.json", "provenance.json")  # what a policy is loaded from
BY_HAND = "chosen by hand"
_NAME = re.compile(r"u\d+b(\d+)")


class Branch(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """One line of training: its number, the node that it went on from, and the settings that are its own."""

    branch: int
    start: str
    settings: dict[str, Any] = {}


TRUNK = Branch(0, "")


class Tree:
    """The nodes under one `checkpoints` folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder

    # -- nodes ------------------------------------------------------------------------------------------------

    def folder(self, name: str) -> Path:
        return self.root / name

    def has(self, name: str) -> bool:
        return (self.root / name / "node.json").is_file()

    def names(self) -> list[str]:
        """The nodes, in the order of their updates, branch by branch."""
        found = [path.parent.name for path in self.root.glob("*/node.json") if not path.parent.name.startswith(".")]
        return sorted(found, key=lambda name: (self.read(name)["update"], branch_of(name), name))

    def read(self, name: str) -> dict[str, Any]:
        """A node's facts: update, parent, metrics, random state; `pruned` where its weights were thrown away."""
        path = self.root / name / "node.json"
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: not a readable checkpoint ({error})") from error
        if not isinstance(facts, dict) or "update" not in facts:
            raise CheckpointError(f"{path}: not a readable checkpoint (field update is missing)")
        return facts

    def weights(self, name: str) -> Path:
        """The folder to load a node's adapter from. Raises CheckpointError where there is none (any more)."""
        if not self.has(name):
            raise CheckpointError(f"{self.root}: no checkpoint {name!r}; there is {', '.join(self.names()) or 'none'}")
        if self.read(name).get("pruned"):
            raise CheckpointError(f"{self.folder(name)}: its weights were pruned; choose {self._whole()}")
        return self.folder(name)

    def path(self, name: str) -> list[str]:
        """The nodes from the first one to `name`, each the parent of the next."""
        way = [name]
        while (parent := self.read(way[-1]).get("parent")) is not None:
            if parent in way:
                raise CheckpointError(f"{self.folder(parent) / 'node.json'}: it is its own ancestor")
            way.append(parent)
        return way[::-1]

    def scores(self) -> dict[str, float]:
        """Success on the validation seeds, of the nodes that were validated."""
        found = {}
        measured = self.root.parent / "baseline.json"  # the start is measured before there are metrics
        if measured.is_file() and self.has(START):
            try:
                found[START] = json.loads(measured.read_text(encoding="utf-8"))["validation"]
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(f"{measured}: not JSON with a field validation ({error})") from error
        for name in self.names():
            value = (self.read(name).get("metrics") or {}).get("validation")
            if value is not None:
                found[name] = value
        return found

    def best(self) -> str | None:
        """The node that did best on the validation seeds, the earliest of equals; None where none was validated."""
        scores = self.scores()
        return max(scores, key=lambda name: scores[name]) if scores else None

    def add(self, name: str, facts: dict[str, Any], write: Callable[[Path], Any]) -> Path:
        """Makes node `name`: `write(folder)` puts its files down, `facts` becomes node.json.

        Raises CheckpointError for a name that is taken.
        """
        place = self.root / name
        if place.exists():
            raise CheckpointError(f"{place}: already there, and a checkpoint is never written over")
        self.root.mkdir(parents=True, exist_ok=True)
        with beside(place) as unfinished:
            if unfinished.exists():
                shutil.rmtree(unfinished)
            unfinished.mkdir()
            write(unfinished)
            (unfinished / "node.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            write_through(unfinished)
            os.replace(unfinished, place)
        write_through(self.root, inside=False)
        return place

    # -- the node that plays ----------------------------------------------------------------------------------

    def head(self) -> str:
        """The node that plays; the start, before any was chosen."""
        path = self.root / "head"
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            name = lines[0].strip() if lines else ""
            if not self.has(name):
                raise CheckpointError(f"{path}: names {name!r}, which is no checkpoint; set another with "
                                      f"python -m rl.checkpoints {self.root.parent} head --set NODE")  # fmt: skip
            return name
        if self.has(START):
            return START
        raise CheckpointError(f"{path}: missing, so no checkpoint is chosen yet; let the run make its first update")

    def set_head(self, name: str, by_hand: bool = False) -> None:
        """Makes a node the head. What a person chose (`by_hand`) stays, until a person chooses again."""
        if by_hand:
            self.weights(name)
        elif not self.has(name):
            raise CheckpointError(f"{self.root}: no checkpoint {name!r}")
        elif self.head_by_hand():
            return
        write_atomically(self.root / "head", f"{name}\n{BY_HAND}\n" if by_hand else f"{name}\n")

    def head_by_hand(self) -> bool:
        """Whether a person chose the head."""
        path = self.root / "head"
        return path.is_file() and BY_HAND in path.read_text(encoding="utf-8").splitlines()[1:]

    def release_head(self) -> str:
        """Gives the choice back to the trainer, and makes the best validated node the head."""
        name = self.best() or START
        self.weights(name)
        write_atomically(self.root / "head", f"{name}\n")
        return name

    # -- branches ---------------------------------------------------------------------------------------------

    def branches(self) -> list[Branch]:
        """The branches that were begun, in their order."""
        path = self.root / "branches.json"
        if not path.is_file():
            return []
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[Branch])
        except (OSError, msgspec.DecodeError) as error:
            raise CheckpointError(f"{path}: not a readable list of branches ({error})") from error

    def line(self) -> Branch:
        """The line that is trained: the branch begun last, or the trunk (branch 0)."""
        begun = self.branches()
        return begun[-1] if begun else TRUNK

    def tip(self) -> str | None:
        """The node that training goes on from: the last one of the line, or where the line left; None without any."""
        line = self.line()
        own = [name for name in self.names() if branch_of(name) == line.branch]
        if own and (line is TRUNK or own[-1] != START):
            return own[-1]
        return line.start or None

    def name_for(self, update: int) -> str:
        """What the node of an update on this line is called."""
        branch = self.line().branch
        return f"u{update:04d}b{branch}" if branch else f"u{update:04d}"

    def start_branch(self, node: str, settings: dict[str, Any] | None = None) -> Branch:
        """Lets training go on from `node`, on a line of its own. A branch without any node yet is replaced."""
        self.weights(node)
        numbers = [branch_of(name) for name in self.names()]
        branch = Branch(max(numbers) + 1, node, settings or {})
        kept = [one for one in self.branches() if one.branch in numbers]
        write_atomically(self.root / "branches.json", msgspec.json.encode([*kept, branch]).decode() + "\n")
        return branch

    # -- making room ------------------------------------------------------------------------------------------

    def needed(self) -> set[str]:
        """The nodes whose weights something needs: what plays, what is compared with, what training goes on from."""
        tip = self.tip()
        back_to = self.read(tip).get("rolled_back_to") if tip else None
        found = {START, self.head(), self.best(), tip, back_to, *(branch.start for branch in self.branches())}
        return {name for name in found if name and self.has(name)}

    def prune(self, keep: Iterable[str]) -> tuple[list[str], int]:
        """Throws away the weights of all nodes but `keep` and `needed()`; their facts stay, so the tree stays whole.

        Returns (the nodes pruned now, bytes freed). A node is marked before its files go: one that a kill left half
        pruned is not taken for whole, and the next pruning ends the work.
        """
        stays = self.needed() | set(keep)
        pruned, freed = [], 0
        for name in self.names():
            if name in stays:
                continue
            facts = self.read(name)
            if not facts.get("pruned"):
                write_atomically(self.folder(name) / "node.json", json.dumps(facts | {"pruned": True}, indent=2) + "\n")
                pruned.append(name)
            for path in [path for path in self.folder(name).iterdir() if path.name != "node.json"]:
                freed += path.stat().st_size
                path.unlink()
        return pruned, freed

    def _whole(self) -> str:
        return ", ".join(name for name in self.names() if not self.read(name).get("pruned"))


def branch_of(name: str) -> int:
    """The number of the branch that a node is on; 0 is the trunk."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else 0
