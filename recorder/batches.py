"""Turns as the arrays that training takes.

Letters in shapes: B rows (turns), P prompt ids, S sampled ids, N sampled steps, L legal phrases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from recorder.episode import Episode
from recorder.errors import RecordError
from recorder.records import EpisodeBegin, Turn


class Row(msgspec.Struct, frozen=True):
    """One turn with what its episode says about it."""

    turn: Turn
    begin: EpisodeBegin
    source: int
    group: int
    reward: float
    return_to_go: float
    episode_return: float
    terms: dict[str, float]
    success: bool
    last: bool


class Batch(msgspec.Struct, frozen=True):
    """Turns, one a row. Rows of ids and numbers are padded with 0 on the right; their lengths stand beside them."""

    turns: list[Turn]
    """B: the turns themselves, for whatever isn't an array here."""
    begins: list[EpisodeBegin]
    """B: the begin of each turn's episode (prefix_hash, weights_hash, scenario_version, …)."""
    observations: list[str]
    legal: list[list[str]]
    executed: list[str]
    prompt_ids: np.ndarray
    """int32 (B, P): the part behind the static prefix of `begins[b].prefix_hash`."""
    prompt_len: np.ndarray
    """int32 (B,)"""
    sampled_ids: np.ndarray
    """int32 (B, S)"""
    sampled_len: np.ndarray
    """int32 (B,)"""
    logps: np.ndarray
    """float32 (B, N): the log-probabilities as they were recorded, one for each sampled step, at `tau`."""
    logps_len: np.ndarray
    """int32 (B,): N of each row. 0 where nothing was sampled: such a turn has no behaviour probability."""
    logprob: np.ndarray
    """float32 (B,): of the whole action, the sum of `logps`."""
    tau: np.ndarray
    """float32 (B,)"""
    probs: np.ndarray
    """float32 (B, L): of each legal phrase."""
    legal_len: np.ndarray
    """int32 (B,): how many phrases were legal."""
    action: np.ndarray
    """int32 (B,): the place of `executed` among the legal phrases; -1 where it is none of them."""
    reward: np.ndarray
    """float32 (B,)"""
    return_to_go: np.ndarray
    """float32 (B,): this reward and all later ones of the episode, not discounted."""
    episode_return: np.ndarray
    """float32 (B,)"""
    terms: dict[str, np.ndarray]
    """float32 (B,) for each reward term; 0 where a turn doesn't have it."""
    success: np.ndarray
    """bool (B,): whether the episode's mission was done."""
    turn: np.ndarray
    """int64 (B,): the turn's number in its episode."""
    last: np.ndarray
    """bool (B,): the last turn of its episode that is in the log."""
    greedy: np.ndarray
    """bool (B,)"""
    fallback: np.ndarray
    """bool (B,)"""
    episode: np.ndarray
    """int64 (B,): the id in its log."""
    source: np.ndarray
    """int32 (B,): which of the dataset's paths that is."""
    group: np.ndarray
    """int64 (B,): equal for turns of one group; a number of this pass."""

    def __len__(self) -> int:
        return len(self.turns)


def rows_of(source: int, episode: Episode, group: int, rewards: str) -> Iterator[Row]:
    """An episode's turns. Raises RewardVersionError."""
    earned = episode.rewards(rewards)
    to_go = np.cumsum(earned[::-1])[::-1]
    total = float(to_go[0]) if len(to_go) else 0.0
    table = episode.turn_terms(rewards)
    for at, turn in enumerate(episode.turns):
        yield Row(
            turn, episode.begin, source, group, float(earned[at]), float(to_go[at]), total, table[at],
            episode.success, at == len(episode.turns) - 1,
        )  # fmt: skip


def batch_of(rows: Sequence[Row]) -> Batch:
    """The rows as one batch. Raises RecordError where a token id is no int32."""
    turns = [row.turn for row in rows]
    prompt_ids, prompt_len = _padded([turn.prompt_ids for turn in turns], np.int32)
    sampled_ids, sampled_len = _padded([turn.sampled_ids for turn in turns], np.int32)
    logps, logps_len = _padded([turn.logp_values for turn in turns], np.float32)
    probs, _ = _padded([turn.prob_values for turn in turns], np.float32)
    names = dict.fromkeys(name for row in rows for name in row.terms)

    def column(values: Sequence[float], kind: type) -> np.ndarray:
        return np.array(values, dtype=kind)

    return Batch(
        turns=turns,
        begins=[row.begin for row in rows],
        observations=[turn.observation for turn in turns],
        legal=[turn.legal for turn in turns],
        executed=[turn.executed for turn in turns],
        prompt_ids=prompt_ids, prompt_len=prompt_len, sampled_ids=sampled_ids, sampled_len=sampled_len,
        logps=logps, logps_len=logps_len,
        logprob=column([turn.logprob for turn in turns], np.float32),
        tau=column([turn.tau for turn in turns], np.float32),
        probs=probs,
        legal_len=column([len(turn.legal) for turn in turns], np.int32),
        action=column([_place(turn) for turn in turns], np.int32),
        reward=column([row.reward for row in rows], np.float32),
        return_to_go=column([row.return_to_go for row in rows], np.float32),
        episode_return=column([row.episode_return for row in rows], np.float32),
        terms={name: column([row.terms.get(name, 0.0) for row in rows], np.float32) for name in names},
        success=column([row.success for row in rows], np.bool_),
        turn=column([turn.turn for turn in turns], np.int64),
        last=column([row.last for row in rows], np.bool_),
        greedy=column([turn.greedy for turn in turns], np.bool_),
        fallback=column([turn.fallback for turn in turns], np.bool_),
        episode=column([turn.episode for turn in turns], np.int64),
        source=column([row.source for row in rows], np.int32),
        group=column([row.group for row in rows], np.int64),
    )  # fmt: skip


def _place(turn: Turn) -> int:
    return turn.legal.index(turn.executed) if turn.executed in turn.legal else -1


def _padded(rows: Sequence[Sequence[int] | np.ndarray], kind: type) -> tuple[np.ndarray, np.ndarray]:
    """(B, longest) with 0 behind each row, and (B,) int32 lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    table: np.ndarray = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=kind)
    for at, row in enumerate(rows):
        if len(row):
            try:
                table[at, : len(row)] = row
            except OverflowError as error:
                raise RecordError(f"a token id is no {np.dtype(kind).name}: {error}") from error
    return table, lengths
