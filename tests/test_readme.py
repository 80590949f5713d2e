"""The README's commands are there, and .ci/run runs the very block that it shows."""

import os
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from rl.evaluate import arguments as evaluate_arguments
from rl.train_options import arguments as train_arguments

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]


def block(name: str) -> str:
    found = re.search(rf"<!-- {name}: begin.*?-->\n```sh\n(.*?)\n```\n<!-- {name}: end -->", README, re.DOTALL)
    assert found, name
    return found[1]


def test_the_two_commands_are_one_line_each() -> None:
    start = "python3 -m venv .venv && . .venv/bin/activate && pip install -e"
    assert block("train") == f"{start} . && python -m rl.train --scenario fetch_item --out runs/demo"
    assert block("tests") == f"{start} '.[test]' && python -m pytest"


def test_every_module_that_is_named_can_be_run() -> None:
    named = set(re.findall(r"python3? -m ([\w.]+)", README)) - {"venv", "pytest"}
    assert {"rl.train", "rl.evaluate", "rl.report", "game", "recorder"} <= named
    for name in sorted(named):
        spec = find_spec(name)
        assert spec is not None, name
        if spec.submodule_search_locations:
            assert find_spec(f"{name}.__main__"), name


@pytest.mark.parametrize("module", ["rl.train", "rl.evaluate"])
def test_the_options_that_it_shows_are_known(module: str) -> None:
    parser = {"rl.train": train_arguments, "rl.evaluate": evaluate_arguments}[module]()
    shown = [part for line in COMMANDS for part in re.split(r"&&|;", line) if f"-m {module} " in part]
    assert shown
    for command in shown:
        words = shlex.split(command.replace("$seed", "7"), comments=True)
        parser.parse_args(words[words.index(module) + 1 :])


def test_every_file_that_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link


def test_what_runs_in_ci_is_what_is_shown() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    (extract,) = re.findall(r"command=\$\((.*)\)\n", script)
    done = subprocess.run(["bash", "-c", extract], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == block("tests")
