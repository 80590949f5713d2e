"""Recorded episodes scored again under new reward rules: one AMEND an episode, and not a byte rewritten."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from recorder.episode import RESERVED, Episode
from recorder.errors import RewardVersionError
from recorder.reader import Attempts, Reader
from recorder.records import Amend, Header
from recorder.writer import Writer

Score = Callable[[Episode], "Sequence[Mapping[str, float]] | None"]
"""Gives the reward terms of each of `episode.turns`, in their order; None leaves the episode as it is."""


class Rescored(msgspec.Struct):
    """What `rescore` did."""

    version: str
    episodes: int = 0
    """Scored again now."""
    turns: int = 0
    """Their turns."""
    present: int = 0
    """Left alone because they had this version already."""
    skipped: int = 0
    """Left alone because the function gave None."""


def rescore(
    path: str | os.PathLike[str],
    score: Score,
    version: str,
    *,
    author: str = "",
    attempts: Attempts = "latest",
) -> Rescored:
    """Appends the rewards of `score` to the log as reward version `version`; readers apply the latest, or a chosen one.

    What is there is not touched. An episode that was scored under this version already is left alone, so that a
    rescoring that was interrupted can be run again. Episodes are read one at a time.

    Raises RewardVersionError for a version that can't be named so or scores of another number than there are turns,
    RecordError for a number that isn't finite, and what Writer and Reader raise; what was appended by then stays.
    """
    if not version or version in RESERVED:
        raise RewardVersionError(f"a reward version can't be named {version!r}; give it a name such as '2'")
    done = Rescored(version)
    # the writer first: it holds the lock and repairs the end, so that what is read is what is there
    with Writer(path, append=True, header=Header.here("rescore")) as log, Reader(path) as reader:
        for episode in reader.episodes(attempts):
            if any(one.reward_version == version for one in episode.amends):
                done.present += 1
                continue
            scores = score(episode)
            if scores is None:
                done.skipped += 1
                continue
            log.amend(
                Amend(
                    episode=episode.begin.episode, turn_terms=columns(episode, scores), reward_version=version,
                    author=author, created_unix=time.time(),
                )
            )  # fmt: skip
            done.episodes += 1
            done.turns += len(episode.turns)
    return done


def columns(episode: Episode, scores: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Scores of an episode's turns as Amend.turn_terms holds them: a column a term, place t for turn number t.

    A term that a turn doesn't have is 0 there, and so are turns that are lost.
    """
    if len(scores) != len(episode.turns):
        raise RewardVersionError(
            f"episode {episode.begin.episode}: {len(scores)} scores for {len(episode.turns)} turns"
        )
    length = 1 + max((turn.turn for turn in episode.turns), default=-1)
    table: dict[str, list[float]] = {name: [0.0] * length for terms in scores for name in terms}
    for turn, terms in zip(episode.turns, scores, strict=True):
        for name, number in terms.items():
            table[name][turn.turn] = number
    return table
