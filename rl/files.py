"""The small files of a run folder: written whole or not at all, and read with one line for what is wrong."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from recorder.sync import flush, flush_folder


class CheckpointError(ValueError):
    """A run folder or node that can't be used; one line that names the file."""


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's."""
    return (folder / "run.toml").is_file()


def read_run(folder: Path) -> dict[str, Any]:
    """run.toml of a run folder."""
    return read_toml(folder / "run.toml")


def read_toml(path: Path) -> dict[str, Any]:
    """A run.toml, wherever it lies."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a readable run.toml ({error})") from error


def write_run(folder: Path, values: dict[str, Any]) -> None:
    """Writes run.toml: words, numbers, flags and lists of them."""
    write_atomically(folder / "run.toml", "".join(f"{key} = {_toml(value)}\n" for key, value in values.items()))


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the place, lets the disk have it, and renames into the place."""
    beside = path.with_name(f".{path.name}.unfinished")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        flush(file.fileno())
    os.replace(beside, path)
    flush_folder(path.parent)


def write_through(folder: Path, inside: bool = True) -> None:
    """Returns when the names in `folder`, and with `inside` its files' contents, will outlast a power cut."""
    if inside:
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    flush_folder(folder)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    # JSON's strings, numbers and flags are TOML's too
    return json.dumps(value)
