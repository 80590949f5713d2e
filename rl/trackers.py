"""A training's figures, passed on to a tracker that is installed: `--log-to tensorboard`, `wandb` or `trackio`.

What is passed on is each update's line of metrics.jsonl: numbers under their names, by update. The run folder holds all
of it anyway; a tracker that fails is said once and left alone, since no training should end for a picture of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

PROJECT = "errand"


class TrackerError(ValueError):
    """A tracker that can't be used; one line that says what to install."""


class Tracker(Protocol):
    """Takes numbers by name, one update after the other."""

    def log(self, numbers: Mapping[str, float], update: int) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in RUN/tensorboard; look with `tensorboard --logdir RUN`."""

    def __init__(self, run: Path, run_id: str, settings: Mapping[str, Any]) -> None:
        self._writer = _module("tensorboard.summary", "tensorboard").Writer(str(run / "tensorboard"))

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, update)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A run of Weights & Biases, whose own settings say where to (WANDB_MODE=offline keeps it here)."""

    def __init__(self, run: Path, run_id: str, settings: Mapping[str, Any]) -> None:
        self._run = _module("wandb", "wandb").init(
            project=PROJECT, id=run_id, name=run.name, dir=str(run), config=dict(settings), resume="allow"
        )

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        self._run.log(dict(numbers), step=update)

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """A run of Trackio, which keeps it on this machine unless its own settings say otherwise."""

    def __init__(self, run: Path, run_id: str, settings: Mapping[str, Any]) -> None:
        self._trackio = _module("trackio", "trackio")
        self._trackio.init(project=PROJECT, name=f"{run.name}-{run_id}", config=dict(settings), resume="allow")

    def log(self, numbers: Mapping[str, float], update: int) -> None:
        self._trackio.log(dict(numbers), step=update)

    def close(self) -> None:
        self._trackio.finish()


TRACKERS: dict[str, Callable[[Path, str, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard, "wandb": WandB, "trackio": Trackio,
}  # fmt: skip


class Trackers:
    """All trackers of a run. Raises TrackerError for one that isn't installed or can't begin."""

    def __init__(self, names: Sequence[str], run: Path, run_id: str, settings: Mapping[str, Any],
                 say: Callable[[str], None]) -> None:  # fmt: skip
        self._say = say
        self._open: dict[str, Tracker] = {}
        for name in dict.fromkeys(names):
            try:
                self._open[name] = TRACKERS[name](run, run_id, settings)
            except TrackerError:
                self.close()
                raise
            except Exception as error:  # another project's: no account, no network, a full disk
                self.close()
                raise TrackerError(f"--log-to {name}: it would not begin ({_first_line(error)})") from error

    def log(self, line: Mapping[str, Any]) -> None:
        """Passes on the numbers of one update's line."""
        numbers = {name: float(value) for name, value in line.items()
                   if isinstance(value, int | float) and name not in ("update", "attempt")}  # fmt: skip
        self._each("took nothing more", lambda tracker: tracker.log(numbers, line["update"]))

    def close(self) -> None:
        self._each("would not end", lambda tracker: tracker.close())
        self._open = {}

    def _each(self, trouble: str, work: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._open.items()):
            try:
                work(tracker)
            except Exception as error:  # said, and the training goes on without it
                del self._open[name]
                self._say(f"{name} {trouble} ({_first_line(error)}); metrics.jsonl has everything")


def check_installed(names: Sequence[str]) -> None:
    """Raises TrackerError for a tracker that isn't installed, before anything is begun."""
    for name in names:
        _module({"tensorboard": "tensorboard.summary"}.get(name, name), name)


def _module(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TrackerError(f"--log-to {extra}: {extra} is not installed; pip install 'errand[{extra}]'") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
