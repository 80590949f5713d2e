"""One episode as a value: what was recorded of it, and what it earned under one reward version or another."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from recorder.errors import RewardVersionError
from recorder.records import Amend, EpisodeBegin, EpisodeEnd, Gap, Turn

LATEST, RECORDED = "latest", "recorded"
"""Which rewards: with every AMEND applied in the order of the file, or as they were recorded at first. Any other
word is the name of a reward version: the AMENDs of that version alone are applied."""

RESERVED = frozenset({LATEST, RECORDED})
"""Words that no reward version can be named by."""


class Episode(msgspec.Struct, frozen=True):
    """One episode as far as the log holds it. `end` is None where it never ended, or the end is lost.

    `gaps` say what is known to be missing.
    """

    begin: EpisodeBegin
    turns: list[Turn]
    end: EpisodeEnd | None
    amends: list[Amend]
    gaps: list[Gap] = []

    @property
    def whole(self) -> bool:
        """Whether it ended and every turn is there."""
        return (
            self.end is not None
            and len(self.turns) == self.end.turns
            and all(turn.turn == at for at, turn in enumerate(self.turns))
        )

    @property
    def success(self) -> bool:
        """Whether it ended with its mission done."""
        return self.end is not None and self.end.success

    @property
    def reward_version(self) -> str:
        """The version that it was scored again under last; "" where it has the rewards that were recorded."""
        return next((one.reward_version for one in reversed(self.amends) if one.turn_terms), "")

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the episode as a whole, later ones in place of earlier."""
        return {name: text for one in self.amends if one.turn is None for name, text in one.labels.items()}

    def terms(self, turn: int | None = None, rewards: str = LATEST) -> dict[str, float]:
        """Reward terms of the turn numbered `turn`, or of the episode: its end's, with what AMENDs changed.

        Raises RewardVersionError where the episode was not scored under the version `rewards`.
        """
        turns, total, _ = self._scored(rewards)
        return total if turn is None else turns.get(turn, {})

    def turn_terms(self, rewards: str = LATEST) -> list[dict[str, float]]:
        """Reward terms of each of `turns`. Raises RewardVersionError."""
        turns, _, _ = self._scored(rewards)
        return [turns[one.turn] for one in self.turns]

    def rewards(self, rewards: str = LATEST) -> np.ndarray:
        """float64 (turns,): what each of `turns` earned. Raises RewardVersionError.

        What an AMEND gives the episode as a whole counts at its last turn.
        """
        turns, _, late = self._scored(rewards)
        earned = np.array([math.fsum(turns[one.turn].values()) for one in self.turns], dtype=np.float64)
        if late and len(earned):
            earned[-1] += late
        return earned

    def total(self, rewards: str = LATEST) -> float:
        """What the recorded turns earned together. Raises RewardVersionError."""
        return math.fsum(self.rewards(rewards).tolist())

    def _scored(self, rewards: str) -> tuple[dict[int, dict[str, float]], dict[str, float], float]:
        """Terms by turn number, the episode's terms, and how much of these no turn accounts for."""
        turns = {one.turn: dict(one.terms) for one in self.turns}
        total = dict(self.end.terms) if self.end is not None else {}
        late = 0.0
        for amend in self._applied(rewards):
            if amend.turn_terms:
                turns, late = _table(amend, turns), 0.0
                total = {name: math.fsum(numbers) for name, numbers in amend.turn_terms.items()}
            if amend.turn is None:
                for name, number in amend.terms.items():
                    late += number - total.get(name, 0.0)
                    total[name] = number
            elif amend.turn in turns:
                mine = turns[amend.turn]
                for name, number in amend.terms.items():
                    total[name] = total.get(name, 0.0) + number - mine.get(name, 0.0)
                    mine[name] = number
        return turns, total, late

    def _applied(self, rewards: str) -> list[Amend]:
        if rewards == RECORDED or (rewards == LATEST and not self.amends):
            return []
        if rewards == LATEST:
            return self.amends
        chosen = [one for one in self.amends if one.reward_version == rewards]
        if not chosen:
            has = sorted({one.reward_version for one in self.amends if one.reward_version})
            raise RewardVersionError(
                f"episode {self.begin.episode} was not scored under reward version {rewards!r}; "
                f"it has {', '.join(map(repr, has)) or 'none but the recorded one'}"
            )
        return chosen


def _table(amend: Amend, turns: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """Terms of each turn from the columns; a turn behind their end earned nothing."""
    columns = amend.turn_terms.items()
    return {turn: {name: numbers[turn] for name, numbers in columns if turn < len(numbers)} for turn in turns}
