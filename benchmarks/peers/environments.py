"""The peers' own environments, made once in the cache folder, and their scripts as processes that answer in JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npc import catalog

HERE = Path(__file__).parent
BLAS = HERE.parents[1] / "npc" / "blas.py"
INSTALLED = "installed.txt"  # written last: an environment with it is whole


class PeerError(RuntimeError):
    """A peer that can't be had or that failed; one line."""


@dataclass(frozen=True)
class Peer:
    """What is installed for a peer, and what it runs. `job` is what its script is told besides what all are."""

    name: str
    script: str
    requirements: tuple[str, ...]
    job: Mapping[str, Any]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("trl", "run_trl.py",
             ("trl==1.16.0", "torch==2.13.0", "transformers==5.24.0", "peft==0.21.2", "accelerate==1.15.0",
              "datasets==5.2.0"), {"batch": 8}),
        Peer("mlx-lm-lora", "run_mlx_lm_lora.py",
             ("mlx-lm-lora==5.10.2", "mlx-lm==0.32.2", "mlx[cpu]==0.32.4; sys_platform == 'linux'",
              "mlx==0.32.4; sys_platform == 'darwin'", "faiss-cpu==1.15.1; sys_platform == 'linux'"),
             {"batch": 10, "blas": str(BLAS)}),
        Peer("minigrid", "run_worlds.py", ("minigrid==3.2.0",),
             {"library": "minigrid", "worlds": ["MiniGrid-Fetch-8x8-N3-v0", "MiniGrid-FourRooms-v0"]}),
        Peer("pettingzoo", "run_worlds.py", ("pettingzoo[classic]==1.27.0",),
             {"library": "pettingzoo", "worlds": ["tictactoe_v3", "connect_four_v3", "chess_v6"]}),
        Peer("textarena", "run_worlds.py", ("textarena==0.7.4",),
             {"library": "textarena", "worlds": ["TicTacToe-v0"]}),
    )
}  # fmt: skip
TRAINERS = ("trl", "mlx-lm-lora")
WORLDS = ("minigrid", "pettingzoo", "textarena")


def home(peer: Peer) -> Path:
    """Where a peer's environment lies, or would lie."""
    return catalog.cache_folder() / "bench" / peer.name


def say(line: str) -> None:
    """A line of progress: on standard error, so that answers stay alone on standard output."""
    print(line, file=sys.stderr, flush=True)


def python_of(peer: Peer) -> Path:
    """The interpreter of a peer's environment, which is made first where it isn't there yet or is of other versions.

    What was begun and not finished is made anew; what pip has fetched it keeps. Raises PeerError, in one line, where
    the package index can't be reached or has no such version for this machine.
    """
    folder, wanted = home(peer), "\n".join(peer.requirements)
    marker, python = folder / INSTALLED, folder / "bin" / "python"
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    say(f"{peer.name}: installing {', '.join(peer.requirements)} into {folder} ...")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    asked = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *peer.requirements]
    done = subprocess.run(asked, capture_output=True, text=True, env=_alone())
    if done.returncode:
        why = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise PeerError(
            f"{peer.name}: pip could not install it: {why[-1] if why else 'no reason given'}; is the package index "
            f"reachable? --peers leaves it out, --python-of {peer.name}=PATH takes one that is there"
        )
    marker.write_text(wanted, encoding="utf-8")
    return python


class Child:
    """A peer's script at work. The first answer, `facts`, comes once it is ready; then one for each question."""

    def __init__(self, peer: Peer, python: Path, job: Mapping[str, Any], folder: Path, threads: int) -> None:
        self.name = peer.name
        path = folder / f"{peer.name}.json"
        path.write_text(json.dumps({**job, "threads": threads, **peer.job}), encoding="utf-8")
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  read when the child fails
        environment = _alone() | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        # threads that wait sleep, as ours do: spinning ones take half of TRL's speed where anything else runs beside
        environment |= {"OMP_WAIT_POLICY": "passive"}
        environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [str(python), str(HERE / peer.script), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True, env=environment,
        )  # fmt: skip
        self.facts = self._answer()

    def ask(self) -> dict[str, Any]:
        """One more round. Raises PeerError where the script has ended instead."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: its last words are read below
        return self._answer()

    def close(self) -> None:
        """Lets the script end, and ends it where it doesn't."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        words = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        self.close()
        raise PeerError(f"{self.name}: its script ended: {words[-1] if words else f'code {self._process.returncode}'}")


def _alone() -> dict[str, str]:
    """The environment without what would lead a peer's interpreter to this project's packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def chosen(names: str) -> list[Peer]:
    """The peers of a comma-separated list; "all" and "none" are words for it. Raises PeerError for another name."""
    if names in ("all", "none"):
        return list(PEERS.values()) if names == "all" else []
    unknown = [name for name in names.split(",") if name not in PEERS]
    if unknown:
        raise PeerError(f"--peers {names}: no peer {unknown[0]!r}; there is all, none, {', '.join(PEERS)}")
    return [PEERS[name] for name in names.split(",")]


def given(pairs: Sequence[str]) -> dict[str, Path]:
    """NAME=PATH pairs: interpreters that are there already. Raises PeerError for what is none."""
    found = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if name not in PEERS or not os.access(path, os.X_OK) or Path(path).is_dir():
            raise PeerError(f"--python-of {pair}: write it as NAME=PATH, NAME one of {', '.join(PEERS)} and PATH a "
                            "Python interpreter")  # fmt: skip
        found[name] = Path(path)
    return found
