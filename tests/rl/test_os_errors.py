"""What the operating system refuses is one line: the place as it was given, why, and what to do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from game.__main__ import main as game
from npc.adapters.__main__ import main as adapters
from recorder.__main__ import main as recorder
from rl import checkpoints, distill, evaluate, report
from rl.command import fail, in_words
from rl.files import beside, write_atomically
from scenarios.__main__ import main as scenarios
from tests.rl.making import fake_run, tiny_model

PROC = Path("/proc")  # takes no file from anybody, root included
FETCH = ["--scenario", "fetch_item"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose only whole node is `start`."""
    folder = tmp_path_factory.mktemp("run")
    made = fake_run(folder / "run", episodes=1, updates=1)
    _, adapter = tiny_model(folder)
    for file in adapter.iterdir():
        (made / "checkpoints/start" / file.name).write_bytes(file.read_bytes())
    return made


def commands(run: Path) -> dict:
    log = str(run / "episodes.b22")
    return {
        "export": (checkpoints.main, [str(run), "export", "--node", "start", "--out", "/proc/x"], "/proc/x"),
        "curve": (report.main, [str(run), "--curve", "/proc/x.svg"], "/proc/x.svg"),
        "distill": (distill.main, [*FETCH, "--out", "/proc/x"], "/proc/x"),
        "evaluate": (evaluate.main, [*FETCH, "--policy", "random", "--record", "/proc/x.b22"], "/proc/x.b22"),
        "new": (scenarios, ["new", "some_errand", "--out", "/proc"], "/proc/some_errand.py"),
        "film": (game, ["compare", "--seed", "0", "--left", "random", "--right", "random", "--save", "/proc/x.webp"],
                 "/proc/x.webp"),
        "fuse": (adapters, ["fuse", "nano:fetch_item", "--out", "/proc/x"], "/proc/x"),
        "merge": (recorder, ["merge", log, "--out", "/proc/x.b22"], "/proc/x.b22"),
        "jsonl": (recorder, ["export", log, "--format", "jsonl", "--out", "/proc/x.jsonl"], "/proc/x.jsonl"),
    }  # fmt: skip


NAMES = ["export", "curve", "distill", "evaluate", "new", "film", "fuse", "merge", "jsonl"]


@pytest.mark.skipif(not (PROC / "self").is_dir(), reason="there is no /proc here")
@pytest.mark.parametrize("name", NAMES)
def test_a_place_that_takes_no_file(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main, words, place = commands(run)[name]
    assert main(words) == 2
    out, said = capsys.readouterr()
    assert out == "" and said.count("\n") == 1 and f"{place}: " in said
    assert "No such file or directory" in said and "another" in said
    for hidden in ("Errno", "unfinished", ".part"):
        assert hidden not in said


def test_a_folder_in_the_place_of_a_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "curve.svg").mkdir()
    assert report.main([str(run), "--curve", str(tmp_path / "curve.svg")]) == 2
    said = capsys.readouterr().err
    assert said == (f"python -m rl.report: {tmp_path / 'curve.svg'}: Is a directory; check the path, or give another\n")
    assert [path.name for path in tmp_path.iterdir()] == ["curve.svg"]


def test_what_can_not_be_written_leaves_nothing_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "some"
    for make in (lambda path: path.write_text("half"), lambda path: path.mkdir()):
        with pytest.raises(OSError) as told, beside(place) as unfinished:
            make(unfinished)
            raise OSError(errno.ENOSPC, "No space left on device", str(unfinished / "part"))
        assert told.value.filename == str(place) and told.value.errno == errno.ENOSPC
        assert not list(tmp_path.iterdir())
    with pytest.raises(OSError) as told, beside(place):
        (tmp_path / "other").read_text()
    assert told.value.filename == str(tmp_path / "other"), "what is wrong with another file stays that"
    with pytest.raises(OSError) as told:
        write_atomically(tmp_path / "none" / "text", "some")
    assert told.value.filename == str(tmp_path / "none" / "text")


PRINTING = {
    "scenarios": "scenarios list", "rl.checkpoints": "rl.checkpoints {run} show start", "npc.models": "npc.models list",
    "rl.play": "rl.play --scenario fetch_item --policy random --episodes 2",
}  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("program", PRINTING)
def test_an_output_that_takes_nothing(
    program: str, unbuffered: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    command = [sys.executable, "-m", *PRINTING[program].format(run=run).split()]
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        said = f"python -m {program}: output: No space left on device; make room there\n"
        assert (done.returncode, done.stderr) == (2, said)
    reading, writing = os.pipe()
    os.close(reading)  # whoever read has seen enough
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.stderr == "" and done.returncode == (1 if program == "rl.play" else 0)  # 1 is what rich ends with


def test_the_line_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert in_words(OSError(errno.ENOSPC, "No space left", "a")) == "a: No space left; make room there"
    assert in_words(OSError("timed out")) == "timed out", "one that names no file is told as it is"
    assert fail("rl.some", PermissionError(errno.EACCES, "Permission denied", "a\nb")) == 2
    assert capsys.readouterr().err == (
        "python -m rl.some: a b: Permission denied; check the path, or give another\n"
    )
