"""Trackers get every update's numbers; one that is missing is named first, one that fails ends no training."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rl.trackers import TrackerError, Trackers, check_installed

LINE = {"update": 3, "attempt": 0, "success": 0.5, "kl": None, "dead_groups": 2, "note": "words", "done": True}


def trackers(names: list[str], run: Path, said: list[str]) -> Trackers:
    return Trackers(names, run, "abc", {"rate": 0.1, "options": {"difficulty": "3"}}, said.append)


def test_tensorboard_has_every_number_at_its_update(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    said: list[str] = []
    opened = trackers(["tensorboard"], tmp_path, said)
    opened.log(LINE)
    opened.log({**LINE, "update": 4, "success": 0.75})
    opened.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors("success")]
    assert found == [(3, 0.5), (4, 0.75)]
    assert set(events.Tags()["tensors"]) == {"success", "dead_groups", "done"}
    assert not said


class Fake(SimpleNamespace):
    """A tracker's module that keeps what it was given. It is its own run, as wandb's `init` gives one back."""

    def __init__(self) -> None:
        super().__init__(begun=[], logged=[], ended=0)

    def init(self, **how: Any) -> Fake:
        self.begun.append(how)
        return self

    def log(self, numbers: dict, step: int) -> None:
        self.logged.append((step, numbers))

    def finish(self) -> None:
        self.ended += 1


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_the_others_get_the_numbers_and_the_settings(name: str, tmp_path: Path, monkeypatch) -> None:
    fake = Fake()
    monkeypatch.setitem(sys.modules, name, fake)
    run = tmp_path / "demo"
    opened = trackers([name, name], run, [])
    opened.log(LINE)
    opened.close()
    (begun,) = fake.begun
    assert begun["project"] == "errand" and begun["config"]["rate"] == 0.1 and begun["resume"] == "allow"
    assert "demo" in begun["name"] and "abc" in (begun.get("id") or begun["name"])
    assert fake.logged == [(3, {"success": 0.5, "dead_groups": 2.0, "done": 1.0})]
    assert fake.ended == 1


def test_one_that_is_not_installed_is_named_with_what_installs_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackerError, match=r"--log-to wandb: wandb is not installed; pip install 'errand\[wandb\]'"):
        check_installed(["wandb"])
    fake = Fake()
    monkeypatch.setitem(sys.modules, "trackio", fake)
    with pytest.raises(TrackerError, match="wandb is not installed"):
        trackers(["trackio", "wandb"], tmp_path, [])
    assert fake.ended == 1  # what was begun is ended


def test_one_that_fails_later_is_said_once_and_left_alone(tmp_path: Path, monkeypatch) -> None:
    class Broken(Fake):
        def log(self, numbers: dict, step: int) -> None:
            raise OSError("no space left\nsecond line")

    fake, broken, said = Fake(), Broken(), []  # type: ignore[var-annotated]
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.setitem(sys.modules, "wandb", broken)
    opened = trackers(["wandb", "trackio"], tmp_path, said)
    opened.log(LINE)
    opened.log(LINE)
    opened.close()
    assert said == ["wandb took nothing more (no space left); metrics.jsonl has everything"]
    assert len(fake.logged) == 2


def test_one_that_would_not_begin_is_told_in_one_line(tmp_path: Path, monkeypatch) -> None:
    class Closed(Fake):
        def init(self, **how: Any) -> Fake:
            raise RuntimeError("no account")

    monkeypatch.setitem(sys.modules, "wandb", Closed())
    with pytest.raises(TrackerError, match=r"--log-to wandb: it would not begin \(no account\)"):
        trackers(["wandb"], tmp_path, [])
