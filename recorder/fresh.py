"""New files and folders that are there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import LogExistsError, OpenError


@contextlib.contextmanager
def fresh(target: Path) -> Iterator[Path]:
    """A name beside `target` to write a file or make a folder at; it becomes `target` when the block ends well.

    Never takes the place of what is there: raises LogExistsError, before the block where that is already so, and
    OpenError where there is no folder to write into. What a failed block has written is removed.
    """
    if target.is_symlink() or target.exists():
        raise LogExistsError(f"{target}: already there; give another name")
    if not target.parent.is_dir():
        raise OpenError(f"{target}: can't be written: {target.parent} is not a folder")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        if part.is_dir():
            part.rename(target)  # fails where a file or a folder with something in it came meanwhile
        else:
            _link(part, target)
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
