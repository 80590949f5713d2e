"""What lies behind a success rate: what was earned, what was done, and the common ways of failing.

Nothing here knows a scenario: reward terms, outcome kinds and phrases are taken as the episodes hold them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rl.rollout import Episode

EARNED = 1e-9  # a sum above it counts as earned


@dataclass(frozen=True)
class Way:
    """One way of failing: how many episodes went it, and the first one of them (its place among the episodes)."""

    words: str
    count: int
    example: int


def mean_terms(episodes: Sequence[Episode], names: Sequence[str]) -> dict[str, float]:
    """Each reward term's mean sum over an episode; 0 for one that nobody earned."""
    sums = [episode.terms for episode in episodes]
    return {name: sum(one.get(name, 0.0) for one in sums) / max(1, len(episodes)) for name in names}


def action_counts(episodes: Sequence[Episode]) -> dict[str, int]:
    """How often each kind of action was taken, by the first word of its phrase, the most frequent first."""
    words = Counter(_kind(turn.executed) for episode in episodes for turn in episode.turns)
    return dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))


def outcome_counts(episodes: Sequence[Episode]) -> dict[str, int]:
    """How often turns had each kind of outcome, the most frequent first."""
    kinds = Counter(turn.outcome_kind for episode in episodes for turn in episode.turns)
    return dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


def ways_of_failing(episodes: Sequence[Episode]) -> list[Way]:
    """The failed episodes, put together by how they ended, what they had earned till then and what they did most; the
    most common first, then by their first episode."""
    found: dict[str, list[int]] = {}
    for place, episode in enumerate(episodes):
        if not episode.success:
            found.setdefault(_way(episode), []).append(place)
    ways = [Way(words, len(places), places[0]) for words, places in found.items()]
    return sorted(ways, key=lambda way: (-way.count, way.example))


def _way(episode: Episode) -> str:
    if episode.error:
        return f"the scenario raised an error: {episode.error.splitlines()[-1]}"
    earned = [name for name, value in episode.terms.items() if value > EARNED]
    got = f"earned {' and '.join(sorted(earned))}" if earned else "earned nothing"
    kinds = Counter(_kind(turn.executed) for turn in episode.turns)
    most, times = min(kinds.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    did = f", mostly {most!r}" if 2 * times > len(episode.turns) else ""
    return f"{episode.ended}, {got}{did}"


def _kind(phrase: str) -> str:
    return phrase.split(" ", 1)[0]
