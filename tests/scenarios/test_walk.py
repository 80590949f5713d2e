"""docs/scenarios.md is true: its file is the one that `new` writes, and its commands do what it says, in its order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.template import write_new

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
SMALL = {
    "scenarios check": "--seeds 3",
    "rl.train": "--updates 4 --test-episodes 40 --validation-episodes 40 --workers 1",
    "rl.distill": "--held-out 6 --validation 10 --max-epochs 4",
}


def run(folder: Path, command: str) -> str:
    words = command.split()
    assert words[:2] == ["python", "-m"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
    words[0] = sys.executable
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def walk(folder: Path, small: bool) -> dict:
    """Runs the page's commands in its order; the training's summary."""
    assert [" ".join(command.split()[2:4]).split(" --")[0] for command in COMMANDS] == [
        "scenarios new", "scenarios check", "rl.play", "rl.train", "rl.distill",
    ]  # fmt: skip
    for command in COMMANDS:
        more = next((words for name, words in SMALL.items() if f"-m {name}" in command), "") if small else ""
        run(folder, f"{command} {more}")
    return json.loads((folder / "runs" / "night" / "summary.json").read_text(encoding="utf-8"))


def test_the_pages_file_is_the_one_that_new_writes(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    written, _ = write_new("night_watch", tmp_path)
    assert "".join(blocks) == written.path.read_text(encoding="utf-8")


def test_the_walk_leads_to_a_character_that_learned(tmp_path: Path) -> None:
    summary = walk(tmp_path, small=True)
    assert summary["scenario"] == "night_watch:NightWatch"
    assert summary["baseline"]["ci_high"] < summary["trained"]["ci_low"]


@pytest.mark.slow
def test_the_walk_at_its_full_length(tmp_path: Path) -> None:
    summary = walk(tmp_path, small=False)
    assert summary["baseline"]["ci_high"] < summary["trained"]["ci_low"]
    assert summary["trained"]["success"] > 0.9
