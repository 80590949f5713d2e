"""Where long work stands, for those who read a pipe: a line now and then on stderr, and nothing else."""

from __future__ import annotations

import io
import json
import re
import time

import pytest
from rich.console import Console

from rl import distill, evaluate, learner, progress, train
from rl.live import View
from rl.progress import Progress


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.02)


def until(text: str, file: io.StringIO) -> str:
    """What `file` holds, once `text` stands in it."""
    for _ in range(500):
        if text in file.getvalue():
            return file.getvalue()
        time.sleep(0.01)
    pytest.fail(f"{text!r} was never said, but {file.getvalue()!r}")


def test_a_line_comes_though_the_work_says_nothing(often: None) -> None:
    file = io.StringIO()
    with Progress(Console(file=file, width=20)) as told:
        told.now("the first half of [all] that there is to do")
        until("s: the first half of [all] that there is to do\n", file)
        told.now("the second half")
        until("s: the second half\n", file)
    said = file.getvalue()
    assert all(re.fullmatch(r"\d+ s: the .* (half|do)", line) for line in said.splitlines())
    time.sleep(0.06)
    assert file.getvalue() == said, "nothing is said once the work is done"


def test_no_line_comes_while_others_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "EVERY_S", 20.0)
    file = io.StringIO()
    told = Progress(Console(file=file))
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        """Time goes by, with another line at second 15."""
        waits.append(seconds)
        clock[0] = 15.0 if len(waits) == 1 else clock[0] + seconds
        if len(waits) == 1:
            told.heard()
        return len(waits) > 4

    monkeypatch.setattr(told._over, "wait", wait)
    told.now("some work")
    told._tell()
    assert waits == [20, 20, 20, 20, 20]
    assert file.getvalue().splitlines() == [f"{second} s: some work" for second in (35, 55, 75)]


def test_a_terminal_gets_one_line_that_stays_in_its_place(often: None) -> None:
    file = io.StringIO()
    with Progress(Console(file=file, force_terminal=True, width=80)) as told:
        told.now("some work")
        until("some work", file)
    assert " s: some work" not in file.getvalue()


def test_a_training_that_nobody_watches_tells_on_stderr(often: None, capsys: pytest.CaptureFixture[str]) -> None:
    with View(Console(file=io.StringIO()), "title", 16) as view:
        view.show("update 3", 2, 16)
        time.sleep(0.3)
    out, err = capsys.readouterr()
    assert out == "" and "s: update 3; 2 of 16 updates made\n" in err


SLOW = {
    "evaluate": (evaluate.main, ["--policy", "random", "--episodes", "2", "--workers", "1"], "random: 2 test episodes"),
    "distill": (distill.main, ["--teacher", "teacher", "--episodes", "2", "--held-out", "2", "--validation", "4",
                               "--max-epochs", "1"], "nano as it comes: 4 validation episodes"),
    "train": (train.main, ["--smoke", "--updates", "1", "--groups", "2", "--workers", "1", "--validation-episodes", "4",
                           "--no-eval"], "validation seeds; 0 of 1 updates made"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_a_command_in_a_pipe_is_not_silent_and_its_answer_stays_clean(
    name: str, often: None, monkeypatch: pytest.MonkeyPatch, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (evaluate, distill, learner):
        play = module.play
        monkeypatch.setattr(module, "play", lambda *how, play=play, **more: (time.sleep(0.1), play(*how, **more))[1])
    main, words, line = SLOW[name]
    out = ["--out", str(tmp_path / "out")] if name != "evaluate" else []
    assert main(["--scenario", "fetch_item", "--json", *words, *out]) == 0
    printed, said = capsys.readouterr()
    assert json.loads(printed)
    assert f" s: {line}\n" in said
