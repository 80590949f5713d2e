"""New files and folders that are there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import LogExistsError, OpenError, RecorderError


@contextlib.contextmanager
def fresh(target: Path) -> Iterator[Path]:
    """A name beside `target` to write a file or make a folder at; it becomes `target` when the block ends well.

    Never takes the place of what is there: raises LogExistsError, before the block where that is already so, and
    OpenError where there is no folder to write into, or none that takes a file. What a failed block has written is
    removed, and an OSError or RecorderError of its names `target`, the place that people know.
    """
    if target.is_symlink() or target.exists():
        raise LogExistsError(f"{target}: already there; give another name")
    if not target.parent.is_dir():
        raise OpenError(f"{target}: can't be written: {target.parent} is not a folder")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.touch()
        part.unlink()
    except OSError as error:
        raise OpenError(f"{target}: can't be written: {error.strerror}; give another place") from error
    try:
        yield part
        if part.is_dir():
            part.rename(target)  # fails where a file or a folder with something in it came meanwhile
        else:
            _link(part, target)
    except OSError as error:
        if str(error.filename).startswith(str(part)):
            error.filename = str(target)
        raise
    except RecorderError as error:
        error.args = tuple(arg.replace(str(part), str(target)) if isinstance(arg, str) else arg for arg in error.args)
        raise
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _link(part: Path, target: Path) -> None:
    try:
        os.link(part, target)  # unlike a rename it never takes the place of a file that came meanwhile
    except FileExistsError as error:
        raise LogExistsError(f"{target}: already there; give another name") from error
    except OSError:
        part.rename(target)  # a file system without links
