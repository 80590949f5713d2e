"""Every asset is credited, with the digest of what is there now."""

import hashlib
import re

from assets.make_credits import CREDITS, FOLDER, asset_files

ROW = re.compile(r"^\| (\S+) \| ([^|]+) \| ([^|]+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
REMEDY = "run `python -m assets.make_credits`"


def listed() -> dict[str, tuple[str, str, str]]:
    rows = ROW.findall(CREDITS.read_text(encoding="utf-8"))
    return {name: (author, licence, digest) for name, author, licence, digest in rows}


def test_every_file_is_listed_with_its_digest() -> None:
    names = listed()
    for path in asset_files():
        name = path.relative_to(FOLDER).as_posix()
        assert name in names, f"{name} is not in CREDITS.md: {REMEDY}"
        author, licence, digest = names[name]
        assert author and licence
        assert digest == hashlib.sha256(path.read_bytes()).hexdigest(), f"{name} has changed: {REMEDY}"


def test_nothing_is_listed_that_is_gone() -> None:
    gone = [name for name in listed() if not (FOLDER / name).is_file()]
    assert not gone, f"{gone} are in CREDITS.md but not there: {REMEDY}"
