"""A worker's share of an update as the loss takes it: the turns that count, with their credit, cut into batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from npc.mlx import mx
from npc.policy import even_chunks
from recorder.records import Turn
from rl.credit import Credited
from rl.losses import Counts
from rl.objective import TurnBatch
from rl.rollout import SHARED, TRUNCATED, Episode
from rl.text_turns import TextBatch, is_text, text_batch

NONE = Counts(0, 0)


@dataclass
class Share:
    """Turns with advantage, in batches. `length` is how many rows of its episode count (a row is a turn, or a token of
    a free text); `imitated` marks turns that were not sampled. `reference` holds the reference's log-probabilities of
    each batch, (N, A), or (N,) for free text. `counts` and `length` include what was left out as idle; `shown` is the
    part of the counted episodes' weight that is there, by which a mean over them is to be divided."""

    turns: list[Turn] = field(default_factory=list)
    advantage: list[float] = field(default_factory=list)
    imitated: list[bool] = field(default_factory=list)
    episode: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    batches: list[slice] = field(default_factory=list)
    reference: list[np.ndarray] = field(default_factory=list)
    counts: Counts = NONE
    shown: float = 1.0

    def batch(self, at: slice, reference_N_A: np.ndarray | None) -> TurnBatch | TextBatch:
        """The turns at `at` for the loss. The behaviour log-probability is the recorded float32 one."""
        turns, imitated = self.turns[at], self.imitated[at]
        if is_text(turns[0]):
            episode = _from_zero(self.episode[at])
            return text_batch(turns, self.advantage[at], imitated, episode, self.length[at], reference_N_A)
        return TurnBatch(
            chosen_N=mx.array([turn.legal.index(turn.executed) for turn in turns], dtype=mx.int32),
            behaviour_logp_N=mx.array([0.0 if own else turn.logprob for turn, own in zip(turns, imitated, strict=True)],
                                      dtype=mx.float32),
            advantage_N=mx.array(self.advantage[at], dtype=mx.float32),
            mask_N=mx.ones(len(turns)),
            episode_N=mx.array(_from_zero(self.episode[at]), dtype=mx.int32),
            length_N=mx.array(self.length[at], dtype=mx.float32),
            imitated_N=mx.array(imitated).astype(mx.float32),
            reference_logp_N_A=None if reference_N_A is None else mx.array(reference_N_A),
        )  # fmt: skip


def rows_of(turn: Turn) -> int:
    """How many decisions a turn is: one, or a free text's tokens."""
    return len(turn.sampled_ids) if is_text(turn) else 1


def trains(turn: Turn) -> bool:
    """Whether the loss may take a turn at all: a legal action, or a free text that no limit cut off."""
    if is_text(turn):
        return turn.policy_note != TRUNCATED
    return turn.executed in turn.legal and turn.policy_note != SHARED


def sampled(turn: Turn) -> bool:
    """Whether the turn was drawn from a model's recorded probabilities, so that a ratio means something. Greedy,
    fallback and human turns were not, nor one that another than the episode's policy decided (`player`), nor one whose
    proposal was replaced, nor one without finite log-probabilities."""
    return (
        not turn.greedy
        and not turn.fallback
        and not turn.player
        and len(turn.logps) > 0
        and bool(np.isfinite(turn.logp_values).all())
        and turn.proposed == turn.executed
    )


def make_share(episodes: Sequence[Episode], credit: Sequence[Credited | None], rows: int, whole_episodes: bool = False,
               imitate: bool = False, tokens: int = 0, cost: Callable[[Turn], int] = lambda turn: len(turn.prompt_ids),
               idle: bool = True) -> Share:  # fmt: skip
    """The turns that count of the episodes that have credit (None: their group is dead or failed), in batches of about
    `rows` turns of like length; with `whole_episodes`, no episode is cut. With `tokens`, a batch of legal actions
    has about so many at most: each turn its `cost`, what several turns ask alike counted once.

    Without `idle`, sampled turns whose advantage is 0 are counted and left out: they need no forward where the loss has
    no other term. Turns that were not sampled are imitated with `imitate` and left out without. An illegal proposal has
    no probability and is always left out, and so is a turn that a branch shares with its root, and a text cut off.
    """
    kept: list[tuple[Turn, float, int, int]] = []
    for number, (episode, given) in enumerate(zip(episodes, credit, strict=True)):
        if given is None:
            continue
        counts = np.ones(len(episode.turns), dtype=bool) if given.counts is None else given.counts
        own = [
            (turn, advantage)
            for turn, advantage, counted in zip(episode.turns, given.advantage.tolist(), counts, strict=True)
            if counted and trains(turn) and (imitate or sampled(turn))
        ]
        length = sum(rows_of(turn) for turn, _ in own)
        kept += [(turn, advantage, number, length) for turn, advantage in own]
    counted = Counts(len({number for _, _, number, _ in kept}), sum(rows_of(turn) for turn, *_ in kept))
    whole = math.fsum(rows_of(turn) / length for turn, _, _, length in kept)
    if not idle and not whole_episodes:
        kept = [row for row in kept if row[1] != 0 or not sampled(row[0])]
    if not whole_episodes:
        # what goes through one forward together is of like length, and equal questions stand side by side
        kept.sort(key=lambda row: (_length(row[0], cost), row[0].prompt_ids))
    share = Share(
        [row[0] for row in kept], [row[1] for row in kept], [not sampled(row[0]) for row in kept],
        [row[2] for row in kept], [row[3] for row in kept], counts=counted,
        shown=math.fsum(rows_of(turn) / length for turn, _, _, length in kept) / whole if kept else 1.0,
    )  # fmt: skip
    if whole_episodes:
        share.batches = _cut(share.episode, rows)
    elif tokens and not any(is_text(turn) for turn in share.turns):
        share.batches = _by_tokens(share.turns, rows, tokens, cost)
    else:
        share.batches = even_chunks(len(kept), rows)
    return share


def _length(turn: Turn, cost: Callable[[Turn], int]) -> int:
    return len(turn.prompt_ids) + len(turn.sampled_ids) if is_text(turn) else cost(turn)


def _by_tokens(turns: Sequence[Turn], rows: int, tokens: int, cost: Callable[[Turn], int]) -> list[slice]:
    """Sorted turns in batches of at most `rows`, each about equally far below `tokens`, the next alike left out."""
    costs, before = [], None
    for turn in turns:
        question = (turn.prompt_ids, turn.legal)
        costs.append(0 if question == before else cost(turn))
        before = question
    ends = np.cumsum(costs)
    if not len(ends):
        return []
    share = ends[-1] / math.ceil(ends[-1] / tokens)
    found: list[slice] = []
    start = 0
    for at in range(1, len(turns) + 1):
        full = at - start == rows or (at < len(turns) and costs[at] and ends[at - 1] >= share * (len(found) + 1))
        if full or at == len(turns):
            found.append(slice(start, at))
            start = at
    return found


def _cut(episode: Sequence[int], rows: int) -> list[slice]:
    """Batches of whole episodes: as many as fit into `rows`, and never less than one."""
    ends = [i for i in range(1, len(episode)) if episode[i] != episode[i - 1]] + [len(episode)]
    found: list[slice] = []
    start = before = 0
    for end in ends:
        if end - start > rows and before > start:
            found.append(slice(start, before))
            start = before
        before = end
    if before > start:
        found.append(slice(start, before))
    return found


def _from_zero(numbers: Sequence[int]) -> list[int]:
    order = {number: i for i, number in enumerate(dict.fromkeys(numbers))}
    return [order[number] for number in numbers]
