"""Two plays of the same start, side by side: the first turn where they part, and what made them part."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from recorder.episode import Episode
from recorder.framing import Op
from recorder.listing import Row, Wanted, row_of
from recorder.reader import Reader
from recorder.records import EpisodeBegin, Turn

Start = tuple[str, int, tuple[tuple[str, str], ...]]
"""Scenario, seed and options: what an episode starts from."""


class Pair(msgspec.Struct, frozen=True):
    """Two episodes of one start, and where they part. `turn` is None where they never do."""

    left: Row
    right: Row
    turn: int | None
    why: str
    """`action`: they did otherwise. `observation`, `digest`: after the same actions they saw otherwise, or the
    state was another one, so that not the players but the rules differ. `end`: one went on where the other had
    ended. `lost`: the turn is missing from one of the logs. `start`: they began in different states. Empty where
    they are alike."""
    left_turn: Turn | None
    right_turn: Turn | None


class Pairing(msgspec.Struct):
    """What two sides have in common."""

    pairs: int = 0
    alike: int = 0
    only_left: int = 0
    """Episodes that found no partner on the other side."""
    only_right: int = 0


def part(left: Episode, right: Episode) -> Pair:
    """Where two episodes of one start part."""
    turn, why, a, b = _first_difference(left, right)
    return Pair(row_of(left), row_of(right), turn, why, a, b)


def _first_difference(left: Episode, right: Episode) -> tuple[int | None, str, Turn | None, Turn | None]:
    begins = (left.begin.digest_start, right.begin.digest_start)
    starts_differ = all(begins) and begins[0] != begins[1]
    numbered = [{turn.turn: turn for turn in episode.turns} for episode in (left, right)]
    for at in range(max((turn + 1 for turns in numbered for turn in turns), default=0)):
        a, b = (turns.get(at) for turns in numbered)
        if starts_differ:
            return at, "start", a, b
        if a is None or b is None:
            lost = [turn is None and _goes_on(episode, at) for turn, episode in ((a, left), (b, right))]
            return at, "lost" if any(lost) else "end", a, b
        if a.observation != b.observation:
            return a.turn, "observation", a, b
        if a.executed != b.executed:
            return a.turn, "action", a, b
        if a.digest_after and b.digest_after and a.digest_after != b.digest_after:
            return a.turn, "digest", a, b
    return None, "", None, None


def _goes_on(episode: Episode, at: int) -> bool:
    """Whether an episode had a turn `at`, going by its later turns and by its end."""
    later = any(turn.turn > at for turn in episode.turns)
    return later or (episode.end is not None and episode.end.turns > at)


def pairs(
    left: Reader, right: Reader, wanted_left: Wanted, wanted_right: Wanted, found: Pairing
) -> Iterator[Pair]:
    """Every two episodes of one start, in the order of the left log; counts in `found`.

    Where a side has several of a start (a group), the first goes with the first, and so on. Held in memory are
    the ids of the right side. `left` and `right` may be readers of the same file.
    """
    waiting: dict[Start, list[int]] = {}
    for begin in _begins(right, wanted_right):
        waiting.setdefault(_start(begin), []).append(begin.episode)
        found.only_right += 1
    for begin in _begins(left, wanted_left):
        others = waiting.get(_start(begin))
        if not others:
            found.only_left += 1
            continue
        pair = part(left.episode(begin.episode), right.episode(others.pop(0)))
        found.pairs += 1
        found.only_right -= 1
        found.alike += pair.turn is None
        yield pair


def _begins(reader: Reader, wanted: Wanted) -> Iterator[EpisodeBegin]:
    for _, record in reader.records({Op.EPISODE_BEGIN}):
        if isinstance(record, EpisodeBegin) and wanted.begin(record) and not reader.superseded(record):
            yield record


def _start(begin: EpisodeBegin) -> Start:
    return begin.scenario, begin.seed, tuple(sorted(begin.options.items()))
