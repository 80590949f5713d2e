"""Write assets/CREDITS.md, which lists every file of this folder: `python -m assets.make_credits`.

Run it after an asset was added or drawn anew; a test compares the list with the files.
"""

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent
CREDITS = FOLDER / "CREDITS.md"
AUTHOR = "The Errand developers"
LICENCE = "MIT"
HEAD = """# Credits

Every file under `assets/` but this page, which `python -m assets.make_credits` writes, and the scripts that
make the others. All of it was made for this project; nothing was taken from elsewhere.

| file | author | licence | sha256 |
|---|---|---|---|
"""


def asset_files(folder: Path = FOLDER) -> list[Path]:
    """The files to credit, sorted by their path inside the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    return sorted((path for path in files if path != folder / CREDITS.name), key=lambda path: path.as_posix())


def credits(folder: Path = FOLDER) -> str:
    """The text of the page."""
    lines = []
    for path in asset_files(folder):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"| {path.relative_to(folder).as_posix()} | {AUTHOR} | {LICENCE} | `{digest}` |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    CREDITS.write_text(credits(), encoding="utf-8")
