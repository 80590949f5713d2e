"""What a log holds and what state it is in, in one pass."""

from __future__ import annotations

from typing import Any

import msgspec

from recorder.reader import Reader
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Gap, Header, Index, Prefix, Record, Turn, as_plain
from recorder.scan import Damage


class Summary(msgspec.Struct):
    """One log in figures."""

    file: str
    bytes: int
    header: Header | None
    clean: bool
    """Closed by its writer. An unclean log is fully readable."""
    sessions: int = 0
    """Times that a writer opened it."""
    episodes: int = 0
    ended: int = 0
    successes: int = 0
    incomplete: int = 0
    """Episodes that ended and miss turns that were recorded, with no GAP that says so."""
    gaps: int = 0
    """GAP records: places where turns are known to be missing (the disk was full, or the log was recovered)."""
    turns: int = 0
    amends: int = 0
    indexes: int = 0
    abandoned: int = 0
    """Episodes that a resumed run went back behind and recorded again."""
    fallbacks: int = 0
    scenarios: dict[str, int] = {}
    """Episodes by "name version"."""
    policies: dict[str, int] = {}
    """Episodes by policy."""
    runs: dict[str, int] = {}
    """Episodes by run."""
    checked: bool = True
    """Whether every record was read. Without, the figures are what INDEX records say, `damage` is of the stretch after
    the last of them alone, and `incomplete` is not known."""
    prefixes: dict[str, int] = {}
    """Static prefixes: characters of text by hash."""
    damage: Damage = msgspec.field(default_factory=Damage)

    @property
    def good(self) -> bool:
        """Whether there is a record and none is lost. An unclean end alone is good, and so is a marked gap."""
        return not self.damage.damaged and not self.incomplete and not self.empty

    @property
    def empty(self) -> bool:
        """Whether the file holds no record at all: nothing was ever written whole."""
        return not self.damage.records

    def plain(self) -> dict[str, Any]:
        """As JSON-ready values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        values["header"] = None if self.header is None else as_plain(self.header)
        return {**values, "damaged": self.damage.damaged, "empty": self.empty, "good": self.good}


def summarize(reader: Reader) -> Summary:
    """Reads and decodes the whole log. Raises UnsupportedFormatError or ReadError."""
    summary = Summary(file=str(reader.path), bytes=reader.size, header=reader.header, clean=reader.clean)
    following: dict[int, int | None] = {}
    for _, record in reader.records():
        if isinstance(record, EpisodeBegin) and reader.superseded(record):
            summary.abandoned += 1
        _count(summary, record, following)
    summary.damage = reader.damage
    return summary


def overview(reader: Reader) -> Summary:
    """What `summarize` tells, from the last INDEX and what was written after it: in no time, however long the log is.

    A log without a usable INDEX is read whole. Raises UnsupportedFormatError or ReadError.
    """
    catalog = reader.catalog
    if not catalog.partial:
        return summarize(reader)
    tally, damage = catalog.tally, msgspec.structs.replace(catalog.damage, records=catalog.tally.records)
    summary = Summary(
        file=str(reader.path), bytes=reader.size, header=reader.header, clean=reader.clean, checked=False,
        sessions=tally.sessions, episodes=tally.episodes, ended=tally.ended, successes=tally.successes,
        turns=tally.turns, amends=tally.amends, gaps=tally.gaps, indexes=tally.indexes, fallbacks=tally.fallbacks,
        scenarios=dict(tally.scenarios), policies=dict(tally.policies), runs=dict(tally.runs), damage=damage,
    )  # fmt: skip
    summary.prefixes = {prefix.hash: len(prefix.text) for prefix in reader.prefixes()}
    attempts = catalog.survey.attempts
    if len(attempts) > len({run for run, _ in attempts}):  # only a resumed run has abandoned anything
        summary.abandoned = sum(reader.superseded(begin) for begin in reader.begins())
    return summary


def _count(summary: Summary, record: Record, following: dict[int, int | None]) -> None:
    """Adds one record. `following` maps an open episode to its next turn, or to None after a gap."""
    match record:
        case Turn():
            summary.turns += 1
            summary.fallbacks += record.fallback
            if record.episode in following:
                whole = following[record.episode] == record.turn
                following[record.episode] = record.turn + 1 if whole else None
        case EpisodeBegin():
            following[record.episode] = 0
            summary.episodes += 1
            _tally(summary.scenarios, f"{record.scenario} {record.scenario_version}")
            _tally(summary.policies, record.policy)
            _tally(summary.runs, record.run)
        case EpisodeEnd():
            summary.ended += 1
            summary.successes += record.success
            if following.pop(record.episode, None) != record.turns:
                summary.incomplete += 1
        case Amend():
            summary.amends += 1
        case Gap():
            summary.gaps += 1
            if following.get(record.episode, 0) == (record.turn or 0):
                following[record.episode] = (record.turn or 0) + record.lost
        case Header():
            summary.sessions += 1
            following.clear()
        case Prefix():
            summary.prefixes[record.hash] = len(record.text)
        case Index():
            summary.indexes += 1


def _tally(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
