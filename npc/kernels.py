"""The operations between the matmuls, one by one: RMS norm, rotary split into heads, attention weights, SwiGLU.

On a Linux CPU, where MLX's own are slow, these four leave MLX for :mod:`npc.arrays` and come back; that serves what
:mod:`npc.stack` doesn't compute whole (texts written token by token, quantised models). Everywhere else they are plain
MLX. Both forms agree to float32 rounding (a test), and gradients pass through either.

Shapes: N tokens (B rows of T), Q asking tokens a row, D hidden size, F feed-forward size, H heads, G
key-value heads, K head dimension, P prefix tokens.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, cast

import numpy as np

from npc import arrays, attention
from npc.arrays import Array
from npc.mlx import ON_CPU, mx

USE_NUMPY = ON_CPU and sys.platform.startswith("linux")


def rms_norm(x_N_D: mx.array, eps: float) -> mx.array:
    """x / sqrt(mean(x²) + eps). The norm's weight is left to what follows, which can take it into its own."""
    if USE_NUMPY and x_N_D.dtype == mx.float32:
        return cast(mx.array, _rms_norm(eps)(x_N_D))
    return mx.fast.rms_norm(x_N_D, None, eps)


def swiglu(gate_up_N_2F: mx.array) -> mx.array:
    """silu(gate) * up, (N, F), of gates that come halved and ups (N, 2F), the gates first.

    silu(gate) = gate * sigmoid(gate) = half * (1 + tanh(half)) with half = gate / 2: the halving costs
    nothing in the weights.
    """
    if USE_NUMPY and gate_up_N_2F.dtype == mx.float32:
        return cast(mx.array, _swiglu(gate_up_N_2F))
    half, up = mx.split(gate_up_N_2F, 2, axis=-1)
    return half * (1 + mx.tanh(half)) * up


def split_heads(
    x_N_E: mx.array, cos_N_R: mx.array, sin_N_R: mx.array, rotated: tuple[int, ...], plain: int
) -> list[mx.array]:
    """Splits projections into heads, each kind as (heads, N, K), after rotating all but the last kind.

    The columns are those of all heads in turn: ``rotated`` counts the heads of each kind that is rotated,
    ``plain`` those that aren't. The members of a rotated pair are neighbours. ``cos`` and ``sin`` hold each
    token's R = K/2 angles; no gradient.
    """
    if USE_NUMPY and x_N_E.dtype == mx.float32:
        queries = rotated[0] if len(rotated) > 1 or not plain else 0
        return list(_split_heads(queries, plain)(x_N_E, cos_N_R, sin_N_R))
    tokens, turning = x_N_E.shape[0], sum(rotated)
    parts = x_N_E.reshape(tokens, turning + plain, -1).transpose(1, 0, 2)
    pairs = parts[:turning].reshape(turning, tokens, -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    turned = mx.stack([a * cos_N_R - b * sin_N_R, a * sin_N_R + b * cos_N_R], axis=-1)
    ends = np.cumsum(rotated).tolist()
    turned = turned.reshape(turning, tokens, -1)
    found = [turned[end - count : end] for end, count in zip(ends, rotated, strict=True)]
    return [*found, parts[turning:]] if plain else found


def attention_weights(
    scores: mx.array, mask_B_Q_T: mx.array, prefix_scores: mx.array | None
) -> tuple[mx.array, mx.array | None]:
    """The softmax over a row's own tokens and the prefix together: weights (H, B, Q, T), and (H, B, Q, P) or None.

    ``scores`` (H, B, Q, T) are masked by the additive ``mask_B_Q_T`` (no gradient); ``prefix_scores`` (H, B, Q, P) are
    seen whole.
    """
    prefixed = 0 if prefix_scores is None else prefix_scores.shape[-1]
    both = scores if prefix_scores is None else mx.concatenate([prefix_scores, scores], axis=-1)
    if USE_NUMPY and scores.dtype == mx.float32:
        weights = cast(mx.array, _softmax(both, mask_B_Q_T))
    else:
        seen = mx.zeros((*mask_B_Q_T.shape[:2], prefixed), dtype=mx.float32)
        mask = mx.stop_gradient(mx.concatenate([seen, mask_B_Q_T], axis=-1))
        weights = mx.softmax(both.astype(mx.float32) + mask, axis=-1)
    return weights[..., prefixed:], None if prefix_scores is None else weights[..., :prefixed]


# ---- NumPy forms ----


def _new(use: str, shape: tuple[int, ...]) -> Array:
    return arrays.scratch(use, shape)


@functools.cache
def _rms_norm(eps: float) -> Any:
    @mx.custom_function
    def forward(x_mx: mx.array) -> mx.array:
        x = np.asarray(x_mx)
        out = arrays.scratch("norm", x.shape)
        arrays.rms_norm(x, eps, out)
        return mx.array(out)

    @forward.vjp
    def backward(x_mx: mx.array, cotangent: mx.array, _output: mx.array) -> mx.array:
        x = np.asarray(x_mx)
        normed, out = arrays.scratch("norm", x.shape), np.zeros(x.shape, dtype=np.float32)
        arrays.rms_norm_back(normed, arrays.rms_norm(x, eps, normed), np.asarray(cotangent), out)
        return mx.array(out)

    return forward


@mx.custom_function
def _swiglu(gate_up_mx: mx.array) -> mx.array:
    gate_up = np.asarray(gate_up_mx)
    out = arrays.scratch("swiglu", (gate_up.shape[0], gate_up.shape[1] // 2))
    arrays.swiglu(gate_up, out)
    return mx.array(out)


@_swiglu.vjp
def _swiglu_vjp(gate_up_mx: mx.array, cotangent: mx.array, _output: mx.array) -> mx.array:
    gate_up = np.asarray(gate_up_mx)
    out = arrays.scratch("swiglu grad", gate_up.shape)
    arrays.swiglu_back(gate_up, np.asarray(cotangent), out)
    return mx.array(out)


@functools.cache
def _split_heads(queries: int, keys: int) -> Any:
    """Heads of queries and of keys (as many values), either of which may be 0, as (heads, N, K)."""
    groups, each = (keys, queries // keys) if keys else (queries, 1)

    def turns(cos_mx: mx.array, sin_mx: mx.array) -> Any:
        return arrays.turns(np.asarray(cos_mx), np.asarray(sin_mx))[None]

    @mx.custom_function
    def forward(x_mx: mx.array, cos_mx: mx.array, sin_mx: mx.array) -> Any:
        tokens, half = cos_mx.shape
        parts = attention.split(np.asarray(x_mx), each, turns(cos_mx, sin_mx), groups, 2 * half, _new)
        return tuple(mx.array(part.reshape(-1, tokens, 2 * half)) for part in parts if part.size)

    @forward.vjp
    def backward(primals: Any, cotangents: Any, _outputs: Any) -> Any:
        _, cos_mx, sin_mx = primals
        tokens, half = cos_mx.shape
        given = [np.ascontiguousarray(np.asarray(part)) for part in cotangents]
        grad_q = given.pop(0).reshape(groups, 1, each, tokens, 2 * half) if queries else attention.NOTHING
        grad_k, grad_v = (p.reshape(groups, 1, tokens, -1) for p in given) if given else [attention.NOTHING] * 2
        out = attention.join(grad_q, grad_k, grad_v, turns(cos_mx, sin_mx))
        return mx.array(out), mx.zeros_like(cos_mx), mx.zeros_like(sin_mx)

    return forward


@mx.custom_function
def _softmax(scores_mx: mx.array, mask_mx: mx.array) -> mx.array:
    scores = np.array(scores_mx)
    heads, batch, asking, seen = scores.shape
    arrays.softmax(scores.reshape(heads * batch, asking, seen), np.asarray(mask_mx))
    return mx.array(scores)


@_softmax.vjp
def _softmax_vjp(primals: Any, cotangent: mx.array, output: mx.array) -> Any:
    grad = np.array(cotangent)
    flat = (-1, *grad.shape[2:])
    arrays.softmax_back(np.asarray(output).reshape(flat), grad.reshape(flat))
    return mx.array(grad), mx.zeros_like(primals[1])
