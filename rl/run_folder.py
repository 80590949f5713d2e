"""A run folder as one value: what was asked, what was measured, what was played on the test seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from recorder import Episode, Header, Reader
from rl.config import TrainConfig, from_run
from rl.files import CheckpointError, is_run, read_run
from rl.tree import Tree

PLAYED = ("random", "teacher", "oracle", "before", "before greedy", "after", "after greedy")
"""Who plays the test seeds in a run."""


class Run(msgspec.Struct, frozen=True):
    """What a run folder holds. A run that is still going, or was stopped, has no `summary`; one that was stopped before
    its first update has no `baseline` either. `played` holds the whole episodes on test seeds, by who played them
    (`PLAYED`) and by seed."""

    folder: Path
    config: TrainConfig
    baseline: dict[str, Any] | None
    summary: dict[str, Any] | None
    metrics: list[dict[str, Any]]
    header: Header | None
    played: dict[str, dict[int, Episode]]
    head_update: int | None
    """The update that made the checkpoint which the summary is about; None before the run is finished."""


def read_run_folder(folder: Path, log: bool = True) -> Run:
    """Reads `folder`; without `log`, leaves episodes.b22 alone. Raises CheckpointError, ConfigError or RecorderError,
    in one line that names the file."""
    if not is_run(folder):
        raise CheckpointError(f"{folder}: no run.toml in it, so it is no run folder")
    config = from_run(read_run(folder), str(folder / "run.toml"))
    played: dict[str, dict[int, Episode]] = {name: {} for name in PLAYED}
    header = None
    path = folder / "episodes.b22"
    if log and path.is_file():
        with Reader(path) as reader:
            header = reader.header
            for episode in reader.episodes():
                who = player_of(episode)
                if who in played and episode.whole:
                    played[who][episode.begin.seed] = episode
    # a run that left the test seeds alone has measured nothing that could be told
    summary = None if config.no_eval else _object(folder / "summary.json")
    head_update = None if summary is None else Tree(folder / "checkpoints").read(summary["head"])["update"]
    baseline = None if config.no_eval else _object(folder / "baseline.json")
    return Run(folder, config, baseline, summary, _lines(folder / "metrics.jsonl"), header,
               played, head_update)  # fmt: skip


def player_of(episode: Episode) -> str:
    """Who played an episode of a run's log, as `PLAYED` names it; empty for all but the test seeds."""
    begin = episode.begin
    if begin.purpose == "test":
        return begin.policy
    if begin.purpose in ("test before", "test after") and episode.turns:
        return begin.purpose.removeprefix("test ") + (" greedy" if episode.turns[0].greedy else "")
    return ""


def wins(episodes: dict[int, Episode], seeds: Sequence[int]) -> list[bool]:
    """Which of `seeds` were solved, in their order."""
    return [solved(episodes[seed]) for seed in seeds]


def solved(episode: Episode) -> bool:
    return episode.end is not None and episode.end.success


def _object(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not readable JSON ({error})") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    """One object a line. A last line without its end is what a kill left behind; `--resume` writes it again."""
    if not path.is_file():
        return []
    found = []
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            break
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise CheckpointError(f"{path}: line {number} is not JSON ({error})") from error
    return found
