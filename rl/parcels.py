"""Played episodes on their way to the trainer, as the records that a log takes: EPISODE_BEGIN, TURN…, EPISODE_END.

Their begin says what played them: the hashes of weights, base and tokenizer, read from memory there. What a log has no
field for (the error of a failed episode, a fork) travels as labels in an AMEND.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from recorder import Amend, EpisodeBegin, EpisodeEnd, Turn
from recorder.parcel import pack_records, unpack_records
from recorder.records import Record
from rl.logbook import Author, begin_record, end_record
from rl.rollout import Episode, Plan
from scenarios.contract import Scenario


class ParcelError(ValueError):
    """A parcel that doesn't hold the episodes that were asked for; one line that says what differs."""


def pack_episodes(episodes: Sequence[Episode], author: Author, scenario: Scenario) -> bytes:
    """`episodes` as one parcel."""
    return pack_records(_records(episodes, author, scenario))


def unpack_episodes(parcel: bytes, plans: Sequence[Plan], author: Author, scenario: Scenario) -> list[Episode]:
    """The episodes that were played for `plans`, in their order, as they were packed.

    Raises ParcelError where they are others than asked for: of another state, or by other weights or rules than the
    `author` and `scenario` given; and RecorderError where the bytes are damaged.
    """
    episodes: list[Episode] = []
    roots: dict[str, Episode] = {}
    for record in unpack_records(parcel):
        if isinstance(record, EpisodeBegin):
            if len(episodes) == len(plans):
                raise ParcelError(f"more than the {len(plans)} episodes that were asked for came back")
            plan = plans[len(episodes)]
            _check(record, begin_record(Episode(plan, {}), len(episodes), author, scenario, "", 1))
            episodes.append(Episode(plan, record.digest_start))
        elif isinstance(record, Turn):
            episodes[-1].turns.append(record)
        elif isinstance(record, EpisodeEnd):
            if record.turns != len(episodes[-1].turns):
                raise ParcelError(f"{len(episodes[-1].turns)} turns came back of an episode of {record.turns}")
            episodes[-1].ended, episodes[-1].wall_s = record.ended, record.wall_s
        elif isinstance(record, Amend):
            _label(episodes[-1], record.labels, roots)
    if len(episodes) != len(plans) or (episodes and not all(episode.ended for episode in episodes)):
        raise ParcelError(f"{len(episodes)} of {len(plans)} episodes came back")
    return episodes


def _records(episodes: Sequence[Episode], author: Author, scenario: Scenario) -> Iterator[Record]:
    for number, episode in enumerate(episodes):
        yield begin_record(episode, number, author, scenario, "", 1)
        yield from episode.turns
        yield end_record(episode, number)
        labels = {"error": episode.error} if episode.error else {}
        if episode.fork is not None:
            labels |= {"branch" if episode.plan.fork else "root": str(episode.fork[1])}
        if labels:
            yield Amend(episode=number, labels=labels)


def _label(episode: Episode, labels: dict[str, str], roots: dict[str, Episode]) -> None:
    """Gives back what travelled as labels. `roots` holds the forked episode of each group so far."""
    episode.error = labels.get("error", "")
    group = episode.plan.group
    if "root" in labels:
        episode.fork = (group, int(labels["root"]))
        roots[group] = episode
    if "branch" in labels:
        turn = int(labels["branch"])
        episode.plan = replace(episode.plan, opening=tuple(roots[group].turns[:turn]), fork=group)
        episode.fork = (group, turn)


def _check(came: EpisodeBegin, wanted: EpisodeBegin) -> None:
    """Raises ParcelError for the first thing that isn't what was asked for."""
    for name in ("group", "seed", "options", "scenario", "scenario_version", "source_hash", "weights_hash", "base_hash",
                 "tokenizer_hash"):  # fmt: skip
        theirs, ours = getattr(came, name), getattr(wanted, name)
        if theirs != ours:
            raise ParcelError(f"episode {came.episode}: {name} is {theirs!r} where it was played, {ours!r} here")
