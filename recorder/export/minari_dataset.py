"""A Minari dataset: a folder that `minari.MinariDataset(FOLDER / "data")` opens."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorder.episode import Episode
from recorder.export.rows import ExportError, Row, Rows, library

_INFO_TEXTS = ("proposed", "outcome_kind", "outcome_text", "policy_note")
_INFO_JSON = ("legal", "probs", "prompt_ids", "sampled_ids", "logps", "terms", "digest_after")
_INFO_NUMBERS = ("logprob", "tau")
_OPTIONS = ("scenario", "scenario_version", "policy", "group", "run", "update", "attempt", "weights_hash", "split")

DESCRIPTION = (
    "Turns of .b22 logs. Observations are texts, actions the phrases that were executed. Entry t of an info belongs to "
    "the decision on observation t; lists are JSON texts. What was seen after the last turn isn't recorded: the last "
    "observation of an episode is the empty text."
)


def write(rows: Rows, out: Path, name: str) -> tuple[int, int]:
    """The dataset `name` in the new folder `out`; returns how many episodes had no turn, and how many turns.

    An episode without a turn is left out.

    Goes through the logs twice, for the spaces have to be known before the first episode. Raises ExportError.
    """
    minari, spaces = library("minari"), library("gymnasium.spaces")
    library("h5py")
    storage_of = library("minari.dataset.minari_storage").MinariStorage
    buffer_of = library("minari.data_collector").EpisodeBuffer
    seen, done = _Alphabet(), _Alphabet()
    for _, episode in rows.episodes():
        for turn in episode.turns:
            seen.add(turn.observation)
            done.add(turn.executed)
    if not done.longest:
        raise ExportError("export: no turn to export; Minari can't hold an empty dataset")
    data = out.absolute() / "data"  # Minari joins a relative path to itself
    data.mkdir(parents=True)
    empty = turns = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an environment spec, which a log doesn't have
        storage = storage_of.new(
            data, observation_space=seen.space(spaces.Text), action_space=done.space(spaces.Text), data_format="hdf5"
        )
        storage.update_metadata(
            {"dataset_id": name, "minari_version": minari.__version__, "description": DESCRIPTION}
        )
        for buffers in _chunks(rows, buffer_of):
            storage.update_episodes(one for one in buffers if one is not None)
            empty += buffers.count(None)
            turns += sum(len(one) for one in buffers if one is not None)
    return empty, turns


class _Alphabet:
    """The texts of a space, as far as a Text space has to know them."""

    def __init__(self) -> None:
        self.letters: set[str] = set()
        self.longest = 0

    def add(self, text: str) -> None:
        self.letters.update(text)
        self.longest = max(self.longest, len(text))

    def space(self, kind: Any) -> Any:
        """A Text space that holds them all, and the empty text."""
        return kind(max_length=max(1, self.longest), min_length=0, charset="".join(sorted(self.letters)))


def _chunks(rows: Rows, buffer_of: Any, size: int = 256) -> Iterator[list[Any]]:
    """EpisodeBuffers, `size` at a time; None for an episode without a turn."""
    chunk: list[Any] = []
    for path, episode in rows.episodes():
        turns = list(rows.of(path, episode))
        chunk.append(_buffer(episode, turns, buffer_of) if turns else None)
        if len(chunk) == size:
            yield chunk
            chunk = []
    yield chunk


def _buffer(episode: Episode, turns: list[Row], buffer_of: Any) -> Any:
    end = episode.end
    ended = end is not None and end.ended != "turn_cap"
    return buffer_of(
        seed=episode.begin.seed,
        options={
            **{f"option_{key}": value for key, value in episode.begin.options.items()},
            **{key: getattr(episode.begin, key) for key in _OPTIONS},
            "success": episode.success,
            "ended": "" if end is None else end.ended,
        },
        observations=[row["observation"] for row in turns] + [""],
        actions=[row["executed"] for row in turns],
        rewards=[row["reward"] for row in turns],
        terminations=[False] * (len(turns) - 1) + [ended],
        truncations=[False] * (len(turns) - 1) + [not ended],
        infos={
            **{key: [row[key] for row in turns] + [""] for key in _INFO_TEXTS},
            **{key: [json.dumps(row[key]) for row in turns] + [""] for key in _INFO_JSON},
            **{key: [row[key] for row in turns] + [0.0] for key in _INFO_NUMBERS},
        },
    )
