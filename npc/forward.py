"""The forward of a Llama model over explicit positions and an explicit mask.

mlx-lm's forward takes neither, and both are what evaluates a whole tree of continuations in one row: every
token names its own position (its depth in the tree) and sees the prompt and its own ancestors only. A prefix
that all rows share is computed once and read by all of them.

Shapes: B rows, T tokens a row, N = B*T, Q of a row's tokens asked for, P prefix tokens, D hidden size, H
heads, G key-value heads, K head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npc import kernels, stack
from npc.mlx import mx
from npc.weights import Layer, Weights, weights_of

# each layer's keys and values of the shared prefix, both of shape (G, 1, P, K)
PrefixKV = list[tuple[mx.array, mx.array]]

MASKED = -1e9


def hidden_states(
    model: Any,
    tokens_B_T: mx.array,
    positions_B_T: mx.array,
    mask_B_T_T: mx.array,
    prefix: PrefixKV | None = None,
    asked_B_Q: mx.array | None = None,
) -> mx.array:
    """Hidden states after the final norm: of the tokens at places ``asked_B_Q`` of each row, (B, Q, D), or of
    all.

    Asking for few saves most of the last layer. ``positions_B_T`` counts from the prefix's end: a prefix of P
    tokens is added to it. A token at position -1 is a pad, of which nothing is computed where that saves something.
    ``mask_B_T_T`` is additive (0 where row token i may see row token j, ``MASKED`` where it may not); the whole
    prefix is seen by all.
    """
    weights = weights_of(model)
    prefix = prefix or None
    rows, length = tokens_B_T.shape
    before_row = prefix[0][0].shape[2] if prefix else 0
    if kernels.USE_NUMPY and stack.usable(weights):
        real_N = np.flatnonzero(np.asarray(positions_B_T) >= 0)
        tokens_N, positions_N = (value.reshape(-1)[mx.array(real_N)] for value in (tokens_B_T, positions_B_T))
        x, cos, sin = _embed(weights, tokens_N, positions_N + before_row)
        full = len(real_N) == rows * length
        states = stack.Run(weights, x, cos, sin, mask_B_T_T, prefix, asked_B_Q, None if full else real_N).states()
        return (states * weights.norm).reshape(rows, -1, states.shape[-1])
    x, cos, sin = _embed(weights, tokens_B_T, positions_B_T + before_row)
    *before, last = weights.layers
    for place, layer in enumerate(before):
        x, _ = _layer(weights, layer, x, cos, sin, mask_B_T_T, prefix[place] if prefix else None)
    seen = prefix[-1] if prefix else None
    if asked_B_Q is None:
        x, _ = _layer(weights, last, x, cos, sin, mask_B_T_T, seen)
        return (kernels.rms_norm(x, weights.eps) * weights.norm).reshape(rows, length, -1)
    asked = (asked_B_Q + mx.arange(rows)[:, None] * length).reshape(-1)
    normed = kernels.rms_norm(x, weights.eps)
    k, v = kernels.split_heads(last.kv(normed), cos, sin, (weights.kv_heads,), weights.kv_heads)
    (q,) = kernels.split_heads(last.q(normed[asked]), cos[asked], sin[asked], (weights.heads,), 0)
    mask_B_Q_T = mx.take_along_axis(mask_B_T_T, asked_B_Q[:, :, None], axis=1)
    x = _after_heads(last, x[asked], q, k, v, mask_B_Q_T, seen, weights.eps)
    return (kernels.rms_norm(x, weights.eps) * weights.norm).reshape(rows, asked_B_Q.shape[1], -1)


def prefix_kv(model: Any, ids: Sequence[int]) -> PrefixKV:
    """Keys and values of a prefix, to be shared by every row. Gradients flow through them where they are
    computed inside the loss. Empty ``ids`` give an empty list: no prefix.
    """
    if not len(ids):
        return []
    weights = weights_of(model)
    length = len(ids)
    x, cos, sin = _embed(weights, mx.array(list(ids), dtype=mx.int32)[None], mx.arange(length)[None])
    mask = causal_mask(length)[None]
    if kernels.USE_NUMPY and stack.usable(weights):
        return stack.Run(weights, x, cos, sin, mask).keys_values()
    *before, last = weights.layers
    found: PrefixKV = []
    for layer in before:
        x, kv = _layer(weights, layer, x, cos, sin, mask, None)
        found.append(kv)
    normed = kernels.rms_norm(x, weights.eps)
    k, v = kernels.split_heads(last.kv(normed), cos, sin, (weights.kv_heads,), weights.kv_heads)
    return [*found, (k[:, None], v[:, None])]


def output_rows(model: Any) -> mx.array:
    """The output embedding (V, D): the rows whose dot products with a hidden state are the logits."""
    return weights_of(model).output


def causal_mask(length: int) -> mx.array:
    """An additive mask (T, T) by which each token sees itself and what came before."""
    places = mx.arange(length)
    return mx.where(places[:, None] >= places[None], 0.0, MASKED).astype(mx.float32)


def _embed(weights: Weights, tokens_B_T: mx.array, positions_B_T: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """Embeddings (N, D), and cosines and sines (N, K/2) of the rotary embedding at explicit positions."""
    x = weights.embedding[tokens_B_T.reshape(-1)]
    half = weights.head_dim // 2
    frequencies = mx.power(weights.theta, -mx.arange(half, dtype=mx.float32) / half)
    angles = positions_B_T.reshape(-1, 1).astype(mx.float32) * frequencies
    return x, mx.cos(angles).astype(x.dtype), mx.sin(angles).astype(x.dtype)


def _layer(
    weights: Weights,
    layer: Layer,
    x: mx.array,
    cos: mx.array,
    sin: mx.array,
    mask_B_T_T: mx.array,
    prefix: tuple[mx.array, mx.array] | None,
) -> tuple[mx.array, tuple[mx.array, mx.array]]:
    """One layer over all tokens (N, D), and its keys and values (G, B, T, K)."""
    normed = kernels.rms_norm(x, weights.eps)
    kinds = (weights.heads, weights.kv_heads)
    q, k, v = kernels.split_heads(layer.qkv(normed), cos, sin, kinds, weights.kv_heads)
    x = _after_heads(layer, x, q, k, v, mask_B_T_T, prefix, weights.eps)
    rows, length, _ = mask_B_T_T.shape
    shape = (weights.kv_heads, rows, length, -1)
    return x, (k.reshape(shape), v.reshape(shape))


def _after_heads(
    layer: Layer,
    x: mx.array,
    q: mx.array,
    k: mx.array,
    v: mx.array,
    mask_B_Q_T: mx.array,
    prefix: tuple[mx.array, mx.array] | None,
    eps: float,
) -> mx.array:
    """What follows the heads, for the asking tokens ``x`` (B*Q, D): attention, feed-forward, both
    residual.
    """
    rows, asking, length = mask_B_Q_T.shape
    q = q.reshape(q.shape[0], rows, asking, -1)
    k, v = (part.reshape(part.shape[0], rows, length, -1) for part in (k, v))
    x = x + layer.out(_attend(q, k, v, mask_B_Q_T, prefix))
    return x + layer.down(kernels.swiglu(layer.gate_up(kernels.rms_norm(x, eps))))


def _attend(
    q: mx.array, k: mx.array, v: mx.array, mask_B_Q_T: mx.array, prefix: tuple[mx.array, mx.array] | None
) -> mx.array:
    """Attention of scaled (H, B, Q, K) queries over (G, B, T, K) of their rows and over the prefix; (B*Q,
    H*K).
    """
    heads, rows, asking, dim = q.shape
    kv_heads = k.shape[0]
    grouped = q.reshape(kv_heads, heads // kv_heads, rows, asking, dim)
    scores = (grouped @ k[:, None].swapaxes(-1, -2)).reshape(heads, rows, asking, -1)
    prefix_scores = None
    if prefix is not None:
        # one matmul a head for all rows, since the prefix (G, 1, P, K) is the same for each
        flat = q.reshape(kv_heads, heads // kv_heads, rows * asking, dim)
        prefix_scores = (flat @ prefix[0].swapaxes(-1, -2)).reshape(heads, rows, asking, -1)
    own, seen = kernels.attention_weights(scores, mask_B_Q_T, prefix_scores)
    out = own.reshape(*grouped.shape[:-1], -1).astype(v.dtype) @ v[:, None]
    if prefix is not None and seen is not None:
        seen = seen.reshape(kv_heads, heads // kv_heads, rows * asking, -1).astype(v.dtype)
        out = out + (seen @ prefix[1]).reshape(out.shape)
    return out.reshape(heads, rows * asking, dim).transpose(1, 0, 2).reshape(rows * asking, heads * dim)
