"""The small files of a run folder: written whole or not at all, and read with one line for what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tomllib
from collections.abc import Iterator
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
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read ({error.strerror}); give a run.toml, which lies in a run's "
                              "folder") from error  # fmt: skip
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a readable run.toml ({error})") from error


def write_run(folder: Path, values: dict[str, Any]) -> None:
    """Writes run.toml: words, numbers, flags and lists of them."""
    write_atomically(folder / "run.toml", "".join(f"{key} = {_toml(value)}\n" for key, value in values.items()))


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the place, lets the disk have it, and renames into the place."""
    with beside(path) as unfinished:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            flush(file.fileno())
        os.replace(unfinished, path)
        flush_folder(path.parent)


@contextlib.contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Makes the folder `path` for the block. What of it was made here and stays empty is taken away again."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # there is something in it
            for folder in made:
                folder.rmdir()


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A name beside `path`, for what is to be renamed to it once it is whole.

    An OSError in the block names `path`, the place that people know, and leaves nothing beside it.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        with contextlib.suppress(OSError):  # it was a file, or was never made
            unfinished.unlink()
        named = str(error.filename or unfinished)
        raise OSError(error.errno, error.strerror, str(path) if named.startswith(str(unfinished)) else named) from error


def why_not_writable(folder: Path) -> str:
    """Why no file can be made in `folder`, in the system's words; empty where one can."""
    probe = folder / f".{os.getpid()}.writable"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


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
