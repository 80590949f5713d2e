"""The table that every export is made of: a row a turn, with what is known of its episode beside it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from recorder.episode import Episode
from recorder.errors import RecorderError
from recorder.framing import Op
from recorder.listing import Wanted, row_of
from recorder.reader import Attempts, Reader
from recorder.records import EpisodeBegin, Prefix, Turn, unpack_floats
from recorder.scan import Damage

Row = dict[str, Any]


class ExportError(RecorderError, ValueError):
    """An export that can't be made: a library is missing, or the place is taken."""


def column_types() -> dict[str, Any]:
    """Every column in order with the type of its values, as a type hint.

    The fields of Turn and of EpisodeBegin under their own names; float32 bytes are lists of numbers.
    """
    columns: dict[str, Any] = {"log": str}
    for kind in (Turn, EpisodeBegin):
        hints = get_type_hints(kind)
        for name in kind.__struct_fields__:
            columns.setdefault(name, list[float] if hints[name] is bytes else hints[name])
    return {
        **columns, "logprob": float, "reward": float, "ended": str | None, "success": bool | None,
        "episode_turns": int, "episode_return": float, "reward_version": str, "labels": dict[str, str],
    }  # fmt: skip


_TURN = {name: get_type_hints(Turn)[name] is bytes for name in Turn.__struct_fields__}
_BEGIN = [name for name in EpisodeBegin.__struct_fields__ if name not in _TURN]


class Rows:
    """The turns of several logs as rows, read anew at each iteration, at constant memory."""

    def __init__(
        self,
        paths: Sequence[Path],
        wanted: Wanted | None = None,
        *,
        attempts: Attempts = "latest",
        rewards: str = "latest",
    ) -> None:
        self.paths = paths
        self.wanted = wanted or Wanted()
        self.attempts, self.rewards = attempts, rewards
        self.damage: dict[Path, Damage] = {}
        """What the last pass met in each log."""

    def __iter__(self) -> Iterator[Row]:
        for path, episode in self.episodes():
            yield from self.of(path, episode)

    def episodes(self) -> Iterator[tuple[Path, Episode]]:
        """The episodes that are wanted, each with its log. Raises RewardVersionError, OpenError, NotALogError."""
        for path in self.paths:
            with Reader(path) as reader:
                for episode in reader.episodes(self.attempts):
                    if self.wanted.begin(episode.begin) and self.wanted.row(row_of(episode)):
                        yield path, episode
                self.damage[path] = reader.damage

    def of(self, path: Path, episode: Episode) -> Iterator[Row]:
        """The rows of one episode, keyed as `column_types`."""
        begin, end, rewards = episode.begin, episode.end, self.rewards
        shared = {name: getattr(begin, name) for name in _BEGIN}
        last = {
            "ended": None if end is None else end.ended,
            "success": None if end is None else end.success,
            "episode_turns": len(episode.turns),
            "episode_return": episode.total(rewards),
            "reward_version": episode.reward_version if rewards == "latest" else rewards,
            "labels": episode.labels,
        }
        for turn, reward in zip(episode.turns, episode.rewards(rewards).tolist(), strict=True):
            row: Row = {"log": path.name}
            for name, packed in _TURN.items():
                value = getattr(turn, name)
                row[name] = unpack_floats(value).tolist() if packed else value
            row["terms"] = episode.terms(turn.turn, rewards)
            row |= shared
            row |= {"logprob": turn.logprob, "reward": reward, **last}
            yield row

    def prefixes(self) -> list[Prefix]:
        """The static prefixes of all logs, each once."""
        found: dict[str, Prefix] = {}
        with ExitStack() as stack:
            for path in self.paths:
                reader = stack.enter_context(Reader(path))
                for _, record in reader.records({Op.PREFIX}):
                    if isinstance(record, Prefix):
                        found.setdefault(record.hash, record)
        return list(found.values())


def library(name: str) -> ModuleType:
    """A library that only an export needs. Raises ExportError where it isn't installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExportError(
            f"export: {name.partition('.')[0]} can't be imported ({error}); pip install 'errand[export]' brings it"
        ) from error
