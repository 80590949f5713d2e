"""Running figures of a log, so that nobody has to read all of it to know what it holds."""

from __future__ import annotations

from recorder.directory import IdRanges
from recorder.records import Amend, Counts, EpisodeBegin, EpisodeEnd, Gap, Header, Index, Record, Turn

NAMES = 256
"""Most scenarios, policies and runs that are counted by name; the rest of a kind counts as OTHERS."""

OTHERS = "(others)"

RANGES = 4096
"""Most ranges of ids in an INDEX."""


class Tally:
    """Figures of the file so far, record by record, to be stored in an INDEX and taken up from it again."""

    def __init__(self, counts: Counts | None = None) -> None:
        known = counts if counts is not None else Counts()
        self.records, self.turns, self.fallbacks = known.records, known.turns, known.fallbacks
        self.episodes, self.ended, self.successes = known.episodes, known.ended, known.successes
        self.amends, self.gaps = known.amends, known.gaps
        self.sessions, self.indexes = known.sessions, known.indexes
        self.scenarios, self.policies, self.runs = dict(known.scenarios), dict(known.policies), dict(known.runs)
        self.ids = IdRanges()
        """Ids that are taken: of every episode that has a begin, or a GAP in the place of one."""
        for start, end in zip(known.ids[::2], known.ids[1::2], strict=True):
            self.ids.add_range(start, end)

    def note(self, record: Record | None) -> None:
        """Takes in one record; None is one of a later version."""
        self.records += 1
        match record:
            case Turn():
                self.turns += 1
                self.fallbacks += record.fallback
            case EpisodeBegin():
                self.episodes += 1
                self.ids.add(record.episode)
                _count(self.scenarios, f"{record.scenario} {record.scenario_version}")
                _count(self.policies, record.policy)
                _count(self.runs, record.run)
            case EpisodeEnd():
                self.ended += 1
                self.successes += record.success
            case Gap():
                self.gaps += 1
                self.ids.add(record.episode)
            case Amend():
                self.amends += 1
            case Header():
                self.sessions += 1
            case Index():
                self.indexes += 1

    def counts(self) -> Counts:
        """As an INDEX stores them."""
        ids = [edge for pair in self.ids for edge in pair]
        left_out = len(ids) > 2 * RANGES
        return Counts(
            records=self.records, turns=self.turns, fallbacks=self.fallbacks, episodes=self.episodes,
            ended=self.ended, successes=self.successes, amends=self.amends, gaps=self.gaps, sessions=self.sessions,
            indexes=self.indexes, scenarios=dict(self.scenarios), policies=dict(self.policies), runs=dict(self.runs),
            ids=[] if left_out else ids, left_out=left_out,
        )  # fmt: skip


def _count(counts: dict[str, int], name: str) -> None:
    if name not in counts and len(counts) >= NAMES:
        name = OTHERS
    counts[name] = counts.get(name, 0) + 1
