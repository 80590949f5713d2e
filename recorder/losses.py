"""What a writer could not write, so that it can go on in the same file and say there what is missing."""

from __future__ import annotations

import time
from collections import OrderedDict

import msgspec

from recorder.records import EpisodeBegin, Gap, Prefix

BEGINS = 1024
"""Most episodes whose begin could not be written that are remembered."""


class Status(msgspec.Struct, frozen=True):
    """How a recording stands, for a status line: `str(status)`."""

    path: str
    turns: int
    """Turns in the file, earlier sessions included."""
    episodes: int
    bytes: int
    lost_turns: int
    """Turns of this session that could not be written, and were not tried again with success."""
    error: str
    """What is wrong now, in one line; "" while records are written and synced."""

    def __str__(self) -> str:
        lost = f"; {self.lost_turns:,} turns lost" if self.lost_turns else ""
        if self.error:
            return f"not recording: {self.error}{lost}"
        return f"recording to {self.path}, {self.turns:,} turns{lost}"


class Losses:
    """Failed writes of episodes that are open, until the caller tries again or goes on without them."""

    def __init__(self) -> None:
        self.error = ""
        """The last write's error; "" after one that went well."""
        self.lost = 0
        """Turns that are missing for good, and were marked by a GAP."""
        self.begins: OrderedDict[int, EpisodeBegin] = OrderedDict()
        """Begins that could not be written; each goes before what is recorded of its episode next."""
        self.prefixes: dict[str, Prefix] = {}
        """Prefixes that could not be written; each goes before the first episode that names it."""
        self._next: dict[int, int] = {}
        """Episodes with turns that could not be written, each with the number after the last of them."""
        self._reasons: dict[int, str] = {}

    def begin_failed(self, begin: EpisodeBegin) -> None:
        self.begins[begin.episode] = begin
        if len(self.begins) > BEGINS:
            forgotten, _ = self.begins.popitem(last=False)
            self.done(forgotten)

    def turn_failed(self, episode: int, turn: int, error: str) -> None:
        self._next[episode] = max(turn + 1, self._next.get(episode, 0))
        self._reasons[episode] = error

    def may_go_on_at(self, episode: int, expected: int, turn: int) -> bool:
        """Whether the turns from `expected` up to `turn` are missing because they could not be written."""
        return expected < turn <= self._next.get(episode, 0)

    def gap(self, episode: int, expected: int, turn: int) -> Gap:
        """The mark that stands for turns `expected` … `turn` - 1."""
        reason = self._reasons.get(episode, "")
        return Gap(episode=episode, turn=expected, lost=turn - expected, reason=reason, created_unix=time.time())

    def unmarked(self, running: dict[int, int]) -> list[Gap]:
        """Marks for everything that is missing now, where `running` gives the next turn of open episodes."""
        return [
            self.gap(episode, running[episode], following)
            for episode, following in self._next.items()
            if running.get(episode, following) < following
        ]

    def pending(self, running: dict[int, int]) -> int:
        """Turns that are missing now and have no mark yet. For any thread: it looks at a copy."""
        return sum(max(0, following - running.get(one, 0)) for one, following in list(self._next.items()))

    def done(self, episode: int) -> None:
        """Forgets an episode: it ended, or what failed was written after all."""
        self._next.pop(episode, None)
        self._reasons.pop(episode, None)
