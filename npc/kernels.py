"""The operations between the matmuls: RMS norm, rotary split into heads, attention weights, SwiGLU.

On a Linux CPU, MLX's elementwise kernels are scalar: an exp costs 13 ns an element there and 0.6 ns in NumPy,
and every operation walks through memory once. With a small model that is most of the time. So on that device
these four, forward and backward, leave MLX for NumPy and come back, in blocks that fit a core's cache.
Everywhere else they are plain MLX. Both forms agree to float32 rounding (a test), and gradients pass through
either.

Shapes: N tokens (B rows of T), Q asking tokens a row, D hidden size, F feed-forward size, H heads, G
key-value heads, K head dimension, P prefix tokens.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from npc.mlx import ON_CPU, mx

USE_NUMPY = ON_CPU and sys.platform.startswith("linux")
BLOCK = 1 << 16  # elements: 256 KB of float32, a part of one core's second-level cache

Array = np.ndarray[Any, np.dtype[np.float32]]


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
        return list(_split_heads(rotated, plain)(x_N_E, cos_N_R, sin_N_R))
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
) -> tuple[mx.array, mx.array | None, mx.array]:
    """exp(scores - c), with a c that is common to a row, and the rows' sums: divided by them, attention
    weights.

    ``scores`` (H, B, Q, T) are masked by the additive ``mask_B_Q_T`` (no gradient); ``prefix_scores`` (H, B,
    Q, P) are seen whole. Returns weights (H, B, Q, T), prefix weights (H, B, Q, P) or None, and row sums (H,
    B, Q, 1) over both. Every c is near enough to its row's maximum that neither sums nor gradients can
    overflow or vanish.
    """
    if USE_NUMPY and scores.dtype == mx.float32:
        if prefix_scores is None:
            own, total = cast(tuple[mx.array, mx.array], _weights_own(scores, mask_B_Q_T))
            return own, None, total
        return cast(tuple[mx.array, mx.array, mx.array], _weights_both(scores, mask_B_Q_T, prefix_scores))
    scores = scores.astype(mx.float32) + mx.stop_gradient(mask_B_Q_T)
    top = mx.stop_gradient(mx.max(scores, axis=-1, keepdims=True))
    if prefix_scores is None:
        own = mx.exp(scores - top)
        return own, None, mx.sum(own, axis=-1, keepdims=True)
    prefix_scores = prefix_scores.astype(mx.float32)
    top = mx.maximum(top, mx.stop_gradient(mx.max(prefix_scores, axis=-1, keepdims=True)))
    own, prefix = mx.exp(scores - top), mx.exp(prefix_scores - top)
    return own, prefix, mx.sum(own, axis=-1, keepdims=True) + mx.sum(prefix, axis=-1, keepdims=True)


# ---- NumPy forms ----

_buffers: dict[str, Array] = {}


def _scratch(use: str, shape: tuple[int, ...]) -> Array:
    """A buffer kept for ``use``, as large as the largest asked for: fresh memory of this size would be mapped page
    by page at every call. Its content is copied to MLX before the next call, and one thread owns MLX."""
    size = math.prod(shape)
    found = _buffers.get(use)
    if found is None or found.size < size:
        found = _buffers[use] = np.empty(size, dtype=np.float32)
    return found[:size].reshape(shape)


def _blocks(rows: int, row_elements: int) -> Iterator[slice]:
    step = max(1, BLOCK // max(1, row_elements))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


@functools.cache
def _rms_norm(eps: float) -> Any:
    def inverse_rms(x: Array) -> Array:
        mean = np.einsum("nd,nd->n", x, x)
        mean /= np.float32(x.shape[1])
        mean += np.float32(eps)
        np.sqrt(mean, out=mean)
        return np.reciprocal(mean, out=mean)[:, None]

    @mx.custom_function
    def forward(x_mx: mx.array) -> mx.array:
        x = np.asarray(x_mx)
        out = _scratch("norm", x.shape)
        for rows in _blocks(*x.shape):
            np.multiply(x[rows], inverse_rms(x[rows]), out=out[rows])
        return mx.array(out)

    @forward.vjp
    def backward(x_mx: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
        x, grad, normed = np.asarray(x_mx), np.asarray(cotangent), np.asarray(output)
        out = _scratch("norm grad", x.shape)
        for rows in _blocks(*x.shape):
            share = np.einsum("nd,nd->n", grad[rows], normed[rows])[:, None]
            share /= np.float32(x.shape[1])
            part = np.multiply(normed[rows], share, out=out[rows])
            np.subtract(grad[rows], part, out=part)
            part *= inverse_rms(x[rows])
        return mx.array(out)

    return forward


@mx.custom_function
def _swiglu(gate_up_mx: mx.array) -> mx.array:
    gate_up = np.asarray(gate_up_mx)
    tokens, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = _scratch("swiglu", (tokens, size))
    for rows in _blocks(tokens, size):
        half, part = gate_up[rows, :size], out[rows]
        np.tanh(half, out=part)
        part += np.float32(1)
        part *= half
        part *= gate_up[rows, size:]
    return mx.array(out)


@_swiglu.vjp
def _swiglu_vjp(gate_up_mx: mx.array, cotangent: mx.array, _output: mx.array) -> mx.array:
    gate_up, grad_all = np.asarray(gate_up_mx), np.asarray(cotangent)
    tokens, size = grad_all.shape
    out = _scratch("swiglu grad", gate_up.shape)
    for rows in _blocks(tokens, size):
        half, up, grad = gate_up[rows, :size], gate_up[rows, size:], grad_all[rows]
        # with p = 1 + tanh(half): d(half * p) = p + half * p * (2 - p)
        p = np.tanh(half, out=_scratch("p", half.shape))
        p += np.float32(1)
        silu = np.multiply(half, p, out=_scratch("silu", half.shape))
        slope = np.subtract(np.float32(2), p, out=_scratch("slope", half.shape))
        slope *= silu
        slope += p
        slope *= up
        np.multiply(slope, grad, out=out[rows, :size])
        np.multiply(silu, grad, out=out[rows, size:])
    return mx.array(out)


@functools.cache
def _split_heads(rotated: tuple[int, ...], plain: int) -> Any:
    """A pair (a, b) is the complex number a + ib, and turning it is one multiplication."""
    turning = sum(rotated)
    ends = np.cumsum(rotated).tolist()
    kinds = [slice(end - count, end) for end, count in zip(ends, rotated, strict=True)]

    def angles(cos_mx: mx.array, sin_mx: mx.array, sign: int) -> Any:
        out = np.empty(cos_mx.shape, dtype=np.complex64)
        out.real = np.asarray(cos_mx)
        np.multiply(np.asarray(sin_mx), np.float32(sign), out=out.imag)
        return out

    @mx.custom_function
    def forward(x_mx: mx.array, cos_mx: mx.array, sin_mx: mx.array) -> Any:
        x = np.asarray(x_mx)
        tokens, half = cos_mx.shape
        turned = _scratch("turned", (turning, tokens, 2 * half))
        pairs = x[:, : turning * 2 * half].view(np.complex64).reshape(tokens, turning, half).transpose(1, 0, 2)
        np.multiply(pairs, angles(cos_mx, sin_mx, 1), out=turned.view(np.complex64))
        found = [mx.array(turned[kind]) for kind in kinds]
        if plain:
            rest = _scratch("plain", (plain, tokens, 2 * half))
            rest[:] = x[:, turning * 2 * half :].reshape(tokens, plain, 2 * half).transpose(1, 0, 2)
            found.append(mx.array(rest))
        return tuple(found)

    @forward.vjp
    def backward(primals: Any, cotangents: Any, _outputs: Any) -> Any:
        x_mx, cos_mx, sin_mx = primals
        tokens, half = cos_mx.shape
        turn = angles(cos_mx, sin_mx, -1)
        out = _scratch("heads grad", x_mx.shape)
        by_head = out.reshape(tokens, turning + plain, 2 * half).transpose(1, 0, 2)
        for kind, grad_mx in zip(kinds, cotangents, strict=False):
            grad = np.ascontiguousarray(np.asarray(grad_mx))
            np.multiply(grad.view(np.complex64), turn, out=by_head[kind].view(np.complex64))
        if plain:
            by_head[turning:] = np.asarray(cotangents[-1])
        return mx.array(out), mx.zeros_like(cos_mx), mx.zeros_like(sin_mx)

    return forward


# a row sum below this comes of a maximum far below its block's: its square would leave float32 in the backward
SMALLEST_SUM = np.float32(1e-12)


def _weights_np(scores_mx: mx.array, mask_mx: mx.array, prefix_mx: mx.array | None) -> Any:
    scores, mask = np.asarray(scores_mx), np.asarray(mask_mx)
    prefix = None if prefix_mx is None else np.asarray(prefix_mx)
    heads, batch, length, own_keys = scores.shape
    own = _scratch("own", scores.shape)
    seen = None if prefix is None else _scratch("seen", prefix.shape)
    total = _scratch("total", (heads, batch, length, 1))
    size = length * (own_keys + (0 if prefix is None else prefix.shape[-1]))
    for head in range(heads):
        for rows in _blocks(batch, size):
            parts = [(np.add(scores[head, rows], mask[rows], out=own[head, rows]), own[head, rows])]
            if prefix is not None and seen is not None:
                parts.append((prefix[head, rows], seen[head, rows]))
            # one maximum for the block is quicker than one for each row, and nearly always near enough
            _exponentials(parts, max(source.max() for source, _ in parts), total[head, rows])
            if total[head, rows].min() < SMALLEST_SUM:
                np.add(scores[head, rows], mask[rows], out=own[head, rows])
                tops = [source.max(axis=-1, keepdims=True) for source, _ in parts]
                _exponentials(parts, functools.reduce(np.maximum, tops), total[head, rows])
    if seen is None:
        return mx.array(own), mx.array(total)
    return mx.array(own), mx.array(seen), mx.array(total)


def _exponentials(parts: list[tuple[Array, Array]], top: Any, total: Array) -> None:
    total[:] = 0
    for source, target in parts:
        np.subtract(source, top, out=target)
        np.exp(target, out=target)
        total += target.sum(axis=-1, keepdims=True)


def _weights_grad(use: str, weights_mx: mx.array, grad_mx: mx.array, total_grad_mx: mx.array) -> mx.array:
    """weights * (their gradient + the gradient of their row's sum)."""
    weights, grad, total_grad = np.asarray(weights_mx), np.asarray(grad_mx), np.asarray(total_grad_mx)
    out = _scratch(use, weights.shape)
    flat = [array.reshape(-1, *array.shape[2:]) for array in (weights, grad, total_grad, out)]
    for rows in _blocks(flat[0].shape[0], flat[0][0].size):
        part = np.add(flat[1][rows], flat[2][rows], out=flat[3][rows])
        part *= flat[0][rows]
    return mx.array(out)


@mx.custom_function
def _weights_own(scores: mx.array, mask: mx.array) -> Any:
    return _weights_np(scores, mask, None)


@_weights_own.vjp
def _weights_own_vjp(primals: Any, cotangents: Any, outputs: Any) -> Any:
    return _weights_grad("own grad", outputs[0], cotangents[0], cotangents[1]), mx.zeros_like(primals[1])


@mx.custom_function
def _weights_both(scores: mx.array, mask: mx.array, prefix_scores: mx.array) -> Any:
    return _weights_np(scores, mask, prefix_scores)


@_weights_both.vjp
def _weights_both_vjp(primals: Any, cotangents: Any, outputs: Any) -> Any:
    return (
        _weights_grad("own grad", outputs[0], cotangents[0], cotangents[2]),
        mx.zeros_like(primals[1]),
        _weights_grad("seen grad", outputs[1], cotangents[1], cotangents[2]),
    )
