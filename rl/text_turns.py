"""Turns of free text as the objective takes them: a row is a token, at the temperature it was drawn with.

KL to the reference is estimated from the sampled tokens: k2 in the loss, whose gradient is that of the true KL where
the policy samples, k3 for the metric (`rl.kl`). The entropy of each token's distribution is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npc.forward import PrefixKV
from npc.generate import completion_logps
from npc.gradient import Run
from npc.mlx import mx
from npc.reading import Reading
from recorder.records import Turn
from rl.kl import k2, k3
from rl.losses import Rows
from rl.objective import Goal, objective
from rl.policies import ModelPolicy

TOKENS_KEPT = 2048  # of prompts and completions that one forward and backward keeps, about


@dataclass(frozen=True)
class TextBatch:
    """M turns, C tokens at most in one, N in all. `at_N` is where each row lies in (M, C), laid out flat."""

    at_N: mx.array  # int32
    turn_N: np.ndarray  # int: 0 … M-1
    behaviour_logp_N: mx.array
    advantage_N: mx.array
    mask_N: mx.array
    episode_N: mx.array
    length_N: mx.array  # float32: tokens of its episode that count
    imitated_N: mx.array
    reference_logp_N: mx.array | None


def is_text(turn: Turn) -> bool:
    """Whether a turn is a free text: tokens were drawn, and there was no list to choose from."""
    return not turn.legal and bool(turn.sampled_ids)


def text_batch(turns: Sequence[Turn], advantage: Sequence[float], imitated: Sequence[bool], episode: Sequence[int],
               length: Sequence[int], reference_N: np.ndarray | None) -> TextBatch:  # fmt: skip
    """Recorded turns with what is known of each. The behaviour log-probabilities are the recorded float32 ones."""
    counts = [len(turn.sampled_ids) for turn in turns]
    longest = max(counts)
    turn_N = np.repeat(np.arange(len(turns)), counts)
    at_N = np.concatenate([row * longest + np.arange(count) for row, count in enumerate(counts)])

    def rows(values: Sequence[float], kind: mx.Dtype = mx.float32) -> mx.array:
        return mx.array(np.asarray(values)[turn_N]).astype(kind)

    behaviour = [np.zeros(count, np.float32) if own else turn.logp_values
                 for turn, own, count in zip(turns, imitated, counts, strict=True)]  # fmt: skip
    return TextBatch(
        mx.array(at_N.astype(np.int32)), turn_N, mx.array(np.concatenate(behaviour)), rows(advantage),
        mx.ones(len(turn_N)), rows(episode, mx.int32), rows(length), rows([float(own) for own in imitated]),
        None if reference_N is None else mx.array(reference_N),
    )  # fmt: skip


def text_logps(policy: ModelPolicy, turns: Sequence[Turn], tau: float) -> np.ndarray:
    """Log-probabilities (N,) of the turns' tokens under the weights that are set now."""
    weights, prefix = policy.closed.present()
    logps_M_C, _, there_M_C = _scored(weights, prefix, turns, tau)
    return np.array(logps_M_C)[there_M_C]


def text_run(turns: Sequence[Turn], batch: TextBatch, goal: Goal, tau: float) -> Run:
    """The objective of a batch; keeps (KL by k3, entropy, clipped, log-probabilities (N,))."""

    def run(weights: Reading, prefix: PrefixKV) -> tuple[mx.array, tuple[mx.array, ...]]:
        logps_M_C, entropy_M_C, _ = _scored(weights, prefix, turns, tau)
        logp_N, entropy_N = (value.reshape(-1)[batch.at_N] for value in (logps_M_C, entropy_M_C))
        behaviour_N = mx.where(batch.imitated_N > 0, mx.stop_gradient(logp_N), batch.behaviour_logp_N)
        rows = Rows(logp_N, behaviour_N, batch.advantage_N, batch.mask_N, batch.episode_N, batch.length_N)
        reference_N = mx.stop_gradient(logp_N) if batch.reference_logp_N is None else batch.reference_logp_N
        parts = objective(rows, k2(logp_N, reference_N), entropy_N, batch.imitated_N, goal)
        each_N = batch.mask_N / mx.maximum(batch.length_N, 1)
        return parts.loss, (mx.sum(each_N * k3(logp_N, reference_N)), parts.entropy, parts.clipped, logp_N)

    return run


def text_rows(turns: Sequence[Turn], most: int) -> int:
    """How many of these turns one forward and backward can keep, `most` at most."""
    longest = max((len(turn.prompt_ids) + len(turn.sampled_ids) for turn in turns), default=1)
    return max(1, min(most, TOKENS_KEPT // longest))


def _scored(weights: Reading, prefix: PrefixKV, turns: Sequence[Turn], tau: float) -> tuple:
    return completion_logps(weights, prefix, [t.prompt_ids for t in turns], [t.sampled_ids for t in turns], tau)
