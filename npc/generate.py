"""Free text: tokens drawn one by one with their log-probabilities, and the same log-probabilities for a loss.

What is reported is what was sampled from: log-softmax over the whole vocabulary of logits / τ. Ids are kept as drawn
and never made anew from text. Shapes: B rows, P prompt tokens, C completion tokens, V vocabulary, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from npc import kernels
from npc.errors import PolicyError
from npc.foreign import Foreign
from npc.foreign_text import Writer, text_logits
from npc.forward import MASKED, PrefixKV, _after_heads, _embed, _layer, hidden_states
from npc.mlx import mx
from npc.reading import reading_of
from npc.weights import Weights

Draw = Callable[[int, int], float]  # (row, step) -> a number in [0, 1)
Going = Callable[[], bool]  # asked before each step: whether to go on


@dataclass(frozen=True)
class Completion:
    """What was drawn. `ids` end with the stop token where `finished`; else the limit cut it off. `logps`: one an id, at
    the temperature it was drawn with (greedy: at 1)."""

    ids: list[int]
    logps: list[float]
    finished: bool


def generate(model: object, prefix: PrefixKV, prompts: Sequence[Sequence[int]], stop_ids: Sequence[int],
             max_tokens: int, tau: float = 1.0, draw: Draw | None = None, top_p: float = 1.0,
             going: Going = lambda: True) -> list[Completion]:  # fmt: skip
    """Goes on from each prompt until a stop token or `max_tokens`. Without `draw`, the most probable token each time.

    `top_p` below 1 draws from the fewest tokens that hold that much probability; their log-probabilities are of that
    distribution. Rows of any lengths; a row's result doesn't depend on its neighbours but for rounding. Ends early,
    with what there is, when `going` says so. Raises PolicyError for an empty prompt and numbers out of range.
    """
    if not tau > 0 or not 0 < top_p <= 1 or max_tokens < 1:
        raise PolicyError(f"tau {tau} must be above 0, top_p {top_p} in (0, 1], max_tokens {max_tokens} 1 or more")
    if not prompts or not all(len(prompt) for prompt in prompts):
        raise PolicyError("a prompt to go on from needs a token at least")
    reading = reading_of(model)
    reach = Writer(reading, prefix) if isinstance(reading, Foreign) else _Reach(reading, prefix, prompts)
    logits = reach.read_prompts(prompts)
    stops = set(stop_ids)
    rows = list(range(len(prompts)))
    ids: list[list[int]] = [[] for _ in rows]
    logps: list[list[float]] = [[] for _ in rows]
    finished = [False] * len(rows)
    for step in range(max_tokens):
        if all(finished) or not going():
            break
        logits_B_V = np.array(logits.astype(mx.float32)).astype(np.float64)
        for row in rows:
            if not finished[row]:
                uniform = None if draw is None else draw(row, step)
                token, logp = _pick(logits_B_V[row], tau if draw else 1.0, top_p if draw else 1.0, uniform)
                ids[row].append(token)
                logps[row].append(logp)
                finished[row] = token in stops
        if step + 1 < max_tokens and not all(finished):
            logits = reach.read_next([said[-1] for said in ids])
    return [Completion(*row) for row in zip(ids, logps, finished, strict=True)]


def completion_logps(model: object, prefix: PrefixKV, prompts: Sequence[Sequence[int]],
                     completions: Sequence[Sequence[int]], tau: float = 1.0,
                     ) -> tuple[mx.array, mx.array, np.ndarray]:  # fmt: skip
    """Log-probabilities (B, C) of completions' tokens at `tau`, the entropy (B, C) of the distribution each was drawn
    from, both 0 beyond a row's end, and where there are tokens (B, C) bool.

    Differentiable; make `prefix` inside the loss. Only the tokens that are predicted get logits.
    """
    reading = reading_of(model)
    rows = [[*prompt, *completion[:-1]] for prompt, completion in zip(prompts, completions, strict=True)]
    width, longest = max(map(len, rows)), max(len(completion) for completion in completions)
    tokens_B_T = np.zeros((len(rows), width), dtype=np.int32)
    asked_B_C = np.zeros((len(rows), longest), dtype=np.int32)
    chosen_B_C = np.zeros((len(rows), longest), dtype=np.int32)
    there_B_C = np.zeros((len(rows), longest), dtype=bool)
    for row, (ids, prompt, completion) in enumerate(zip(rows, prompts, completions, strict=True)):
        tokens_B_T[row, : len(ids)] = ids
        asked_B_C[row, : len(completion)] = np.arange(len(prompt) - 1, len(prompt) - 1 + len(completion))
        chosen_B_C[row, : len(completion)] = completion
        there_B_C[row, : len(completion)] = True
    if isinstance(reading, Foreign):
        logits_B_C_V = text_logits(reading, rows, asked_B_C, prefix)
    else:
        lengths_B, places_T = np.array([len(ids) for ids in rows]), np.arange(width, dtype=np.int32)
        mask_B_T_T = _causal(lengths_B, width)
        places_B_T = mx.array(np.where(places_T < lengths_B[:, None], places_T, -1))  # pads cost nothing
        asked = mx.array(asked_B_C)
        states_B_C_D = hidden_states(reading, mx.array(tokens_B_T), places_B_T, mask_B_T_T, prefix, asked)
        logits_B_C_V = states_B_C_D @ reading.output.T
    logits_B_C_V = logits_B_C_V.astype(mx.float32) / tau
    logps_B_C_V = logits_B_C_V - mx.logsumexp(logits_B_C_V, axis=-1, keepdims=True)
    logps_B_C = mx.take_along_axis(logps_B_C_V, mx.array(chosen_B_C)[:, :, None], axis=-1).squeeze(-1)
    entropy_B_C = -(mx.exp(logps_B_C_V) * logps_B_C_V).sum(axis=-1)
    there = mx.array(there_B_C)
    return mx.where(there, logps_B_C, 0.0), mx.where(there, entropy_B_C, 0.0), there_B_C


class _Reach:
    """The keys and values of all that the rows have read so far."""

    def __init__(self, weights: Weights, prefix: PrefixKV, prompts: Sequence[Sequence[int]]) -> None:
        self._weights = weights
        self._prefix = prefix
        self._lengths_B = np.array([len(prompt) for prompt in prompts], dtype=np.int32)
        self._width = int(self._lengths_B.max())
        self._cache: PrefixKV = []
        self._seen_B_S = np.arange(self._width)[None] < self._lengths_B[:, None]

    def read_prompts(self, prompts: Sequence[Sequence[int]]) -> mx.array:
        """Logits (B, V) after the prompts' last tokens."""
        weights, rows = self._weights, len(prompts)
        tokens_B_T = np.zeros((rows, self._width), dtype=np.int32)
        for row, prompt in enumerate(prompts):
            tokens_B_T[row, : len(prompt)] = prompt
        positions = mx.array(np.tile(np.arange(self._width, dtype=np.int32), (rows, 1)))
        mask = _causal(self._lengths_B, self._width)
        x, cos, sin = _embed(weights, mx.array(tokens_B_T), positions + self._before())
        for place, layer in enumerate(weights.layers):
            x, kv = _layer(weights, layer, x, cos, sin, mask, self._prefix[place] if self._prefix else None)
            self._cache.append(kv)
        last = mx.array(np.arange(rows) * self._width + self._lengths_B - 1)
        return self._out(x[last])

    def read_next(self, tokens: Sequence[int]) -> mx.array:
        """Logits (B, V) after one more token in each row."""
        weights, rows = self._weights, len(tokens)
        self._seen_B_S = np.concatenate([self._seen_B_S, np.ones((rows, 1), dtype=bool)], axis=1)
        mask_B_1_S = mx.array(np.where(self._seen_B_S, 0.0, MASKED).astype(np.float32))[:, None]
        column = mx.array(np.array(tokens, dtype=np.int32))[:, None]
        x, cos, sin = _embed(weights, column, mx.array(self._lengths_B)[:, None] + self._before())
        self._lengths_B = self._lengths_B + 1
        kinds = (weights.heads, weights.kv_heads)
        for place, layer in enumerate(weights.layers):
            normed = kernels.rms_norm(x, weights.eps)
            q, k, v = kernels.split_heads(layer.qkv(normed), cos, sin, kinds, weights.kv_heads)
            # a new array each time: whoever holds the older one keeps what it saw
            k, v = (
                mx.concatenate([past, new.reshape(weights.kv_heads, rows, 1, -1)], axis=2)
                for past, new in zip(self._cache[place], (k, v), strict=True)
            )
            self._cache[place] = (k, v)
            seen = self._prefix[place] if self._prefix else None
            x = _after_heads(layer, x, q, k, v, mask_B_1_S, seen, weights.eps)
        return self._out(x)

    def _before(self) -> int:
        return self._prefix[0][0].shape[2] if self._prefix else 0

    def _out(self, x: mx.array) -> mx.array:
        states = kernels.rms_norm(x, self._weights.eps) * self._weights.norm
        mx.eval(states, self._cache)
        return states @ self._weights.output.T


def _causal(lengths_B: np.ndarray, width: int) -> mx.array:
    """Additive mask (B, T, T): each token sees itself and what came before; pads see themselves alone."""
    places = np.arange(width)
    real_B_T = places[None] < lengths_B[:, None]
    mask = (places[:, None] >= places[None])[None] & real_B_T[:, None, :]
    mask = mask | np.eye(width, dtype=bool)[None]
    return mx.array(np.where(mask, 0.0, MASKED).astype(np.float32))


def _pick(logits_V: np.ndarray, tau: float, top_p: float, uniform: float | None) -> tuple[int, float]:
    """A token and its log-probability, by the inverse of the distribution function; the most probable for None."""
    scaled_V = logits_V / tau
    logps_V = scaled_V - scaled_V.max()
    logps_V -= np.log(np.exp(logps_V).sum())
    if uniform is None:
        best = int(np.argmax(logps_V))
        return best, float(logps_V[best])
    if top_p < 1:
        order = np.argsort(-logps_V, kind="stable")
        kept = order[: int(np.searchsorted(np.cumsum(np.exp(logps_V[order])), top_p)) + 1]
        logps_V = np.where(np.isin(np.arange(len(logps_V)), kept), logps_V, -np.inf)
        logps_V -= np.log(np.exp(logps_V).sum())
    index = min(int(np.searchsorted(np.cumsum(np.exp(logps_V)), uniform, side="right")), len(logps_V) - 1)
    while logps_V[index] == -np.inf:  # the sum's rounding fell short of `uniform`: the last that can be drawn
        index -= 1
    return index, float(logps_V[index])
