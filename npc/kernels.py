"""The operations between the matmuls: RMS norm, rotary split into heads, attention weights, SwiGLU.

On a Linux CPU, MLX's elementwise kernels are scalar: an exp costs 13 ns an element there and 0.6 ns in NumPy,
and every operation walks through memory once. With a small model that is most of the time. So on that device
these four, forward and backward, leave MLX for NumPy and come back, in blocks that fit a core's cache.
Everywhere else they are plain MLX. Both forms agree to float32 rounding (a test), and gradients pass through
either.

Shapes: N = B*T tokens, D hidden size, F feed-forward size, H heads, G key-value heads, K head dimension, P
prefix tokens.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from npc.mlx import ON_CPU, mx, nn

USE_NUMPY = ON_CPU and sys.platform.startswith("linux")
BLOCK = 1 << 16  # elements: 256 KB of float32, a part of one core's second-level cache

Array = np.ndarray[Any, np.dtype[np.float32]]


def rms_norm(x_N_D: mx.array, weight_D: mx.array, eps: float) -> mx.array:
    """x / sqrt(mean(x²) + eps) * weight."""
    if USE_NUMPY and x_N_D.dtype == mx.float32:
        return cast(mx.array, _rms_norm(eps)(x_N_D, weight_D))
    return mx.fast.rms_norm(x_N_D, weight_D, eps)


def swiglu(gate_up_N_2F: mx.array) -> mx.array:
    """silu(gate) * up of (N, 2F), the gate first; (N, F)."""
    if USE_NUMPY and gate_up_N_2F.dtype == mx.float32:
        return cast(mx.array, _swiglu(gate_up_N_2F))
    gate, up = mx.split(gate_up_N_2F, 2, axis=-1)
    return nn.silu(gate) * up


def split_heads(
    qkv_N_E: mx.array, cos_N_R: mx.array, sin_N_R: mx.array, heads: int, kv_heads: int
) -> tuple[mx.array, mx.array, mx.array]:
    """Rotates and splits projections into (H, N, K) queries and (G, N, K) keys and values.

    The columns of ``qkv_N_E`` are: the first half of each rotated pair for all H query and then all G key
    heads, the second halves likewise, the values. ``cos`` and ``sin`` (R = (H+G)*K/2 columns) repeat each
    position's K/2 angles for every head, so that all is one multiplication; they get no gradient.
    """
    if USE_NUMPY and qkv_N_E.dtype == mx.float32:
        return cast(
            tuple[mx.array, mx.array, mx.array], _split_heads(heads, kv_heads)(qkv_N_E, cos_N_R, sin_N_R)
        )
    rotated = cos_N_R.shape[-1]
    a, b, v = qkv_N_E[:, :rotated], qkv_N_E[:, rotated : 2 * rotated], qkv_N_E[:, 2 * rotated :]
    tokens = qkv_N_E.shape[0]
    first = (a * cos_N_R - b * sin_N_R).reshape(tokens, heads + kv_heads, -1)
    second = (a * sin_N_R + b * cos_N_R).reshape(tokens, heads + kv_heads, -1)
    qk = mx.concatenate([first, second], axis=-1).transpose(1, 0, 2)
    return qk[:heads], qk[heads:], v.reshape(tokens, kv_heads, -1).transpose(1, 0, 2)


def attention_weights(
    scores: mx.array, mask_B_T_T: mx.array, prefix_scores: mx.array | None
) -> tuple[mx.array, mx.array | None, mx.array]:
    """exp(scores - their row's maximum), not yet divided by the row sums, which come third.

    ``scores`` (H, B, T, T) are masked by the additive ``mask_B_T_T`` (no gradient); ``prefix_scores`` (H, B,
    T, P) are seen whole. Returns weights (H, B, T, T), prefix weights (H, B, T, P) or None, and row sums (H,
    B, T, 1) over both.
    """
    if USE_NUMPY and scores.dtype == mx.float32:
        if prefix_scores is None:
            own, total = _weights_own(scores, mask_B_T_T)
            return own, None, total
        return cast(tuple[mx.array, mx.array, mx.array], _weights_both(scores, mask_B_T_T, prefix_scores))
    scores = scores.astype(mx.float32) + mx.stop_gradient(mask_B_T_T)
    top = mx.stop_gradient(mx.max(scores, axis=-1, keepdims=True))
    if prefix_scores is None:
        own = mx.exp(scores - top)
        return own, None, mx.sum(own, axis=-1, keepdims=True)
    prefix_scores = prefix_scores.astype(mx.float32)
    top = mx.maximum(top, mx.stop_gradient(mx.max(prefix_scores, axis=-1, keepdims=True)))
    own, prefix = mx.exp(scores - top), mx.exp(prefix_scores - top)
    return own, prefix, mx.sum(own, axis=-1, keepdims=True) + mx.sum(prefix, axis=-1, keepdims=True)


# ---- NumPy forms ----

_buffers: dict[tuple[str, tuple[int, ...]], Array] = {}


def _scratch(use: str, shape: tuple[int, ...]) -> Array:
    """A buffer kept for ``use``: fresh memory of this size would be mapped page by page at every call. Its
    content is copied to MLX before the next call, and one thread owns MLX.
    """
    found = _buffers.get((use, shape))
    if found is None:
        if len(_buffers) >= 256:
            _buffers.clear()
        found = _buffers[(use, shape)] = np.empty(shape, dtype=np.float32)
    return found


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
    def forward(x_mx: mx.array, weight_mx: mx.array) -> mx.array:
        x, weight = np.asarray(x_mx), np.asarray(weight_mx)
        out = _scratch("norm", x.shape)
        for rows in _blocks(*x.shape):
            np.multiply(x[rows], inverse_rms(x[rows]), out=out[rows])
            out[rows] *= weight
        return mx.array(out)

    @forward.vjp
    def backward(primals: Any, cotangent: mx.array, _output: mx.array) -> Any:
        x, weight, grad = np.asarray(primals[0]), np.asarray(primals[1]), np.asarray(cotangent)
        out = _scratch("norm", x.shape)
        weight_grad = np.zeros_like(weight)
        for rows in _blocks(*x.shape):
            scale = inverse_rms(x[rows])
            normed = x[rows] * scale
            weight_grad += np.einsum("nd,nd->d", normed, grad[rows])
            inner = grad[rows] * weight
            share = np.einsum("nd,nd->n", inner, normed)[:, None] / np.float32(x.shape[1])
            normed *= share
            inner -= normed
            np.multiply(inner, scale, out=out[rows])
        return mx.array(out), mx.array(weight_grad)

    return forward


def _sigmoid(x: Array, out: Array) -> Array:
    np.multiply(x, np.float32(0.5), out=out)
    np.tanh(out, out=out)
    out *= np.float32(0.5)
    out += np.float32(0.5)
    return out


@mx.custom_function
def _swiglu(gate_up_mx: mx.array) -> mx.array:
    gate_up = np.asarray(gate_up_mx)
    tokens, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = _scratch("swiglu", (tokens, size))
    for rows in _blocks(tokens, size):
        gate = gate_up[rows, :size]
        _sigmoid(gate, out[rows])
        out[rows] *= gate
        out[rows] *= gate_up[rows, size:]
    return mx.array(out)


@_swiglu.vjp
def _swiglu_vjp(primals: Any, cotangent: mx.array, _output: mx.array) -> Any:
    gate_up, grad_all = np.asarray(primals), np.asarray(cotangent)
    tokens, size = grad_all.shape
    out = _scratch("swiglu grad", gate_up.shape)
    for rows in _blocks(tokens, size):
        gate, up, grad = gate_up[rows, :size], gate_up[rows, size:], grad_all[rows]
        sigmoid = _sigmoid(gate, _scratch("sigmoid", gate.shape))
        silu = np.multiply(gate, sigmoid, out=_scratch("silu", gate.shape))
        # d silu = sigmoid + silu * (1 - sigmoid) = sigmoid + silu - silu * sigmoid
        slope = np.multiply(silu, sigmoid, out=_scratch("slope", gate.shape))
        np.subtract(silu, slope, out=slope)
        slope += sigmoid
        slope *= up
        np.multiply(slope, grad, out=out[rows, :size])
        np.multiply(silu, grad, out=out[rows, size:])
    return mx.array(out)


@functools.cache
def _split_heads(heads: int, kv_heads: int) -> Any:
    both = heads + kv_heads

    @mx.custom_function
    def forward(qkv_mx: mx.array, cos_mx: mx.array, sin_mx: mx.array) -> Any:
        qkv, cos, sin = np.asarray(qkv_mx), np.asarray(cos_mx), np.asarray(sin_mx)
        tokens, rotated = cos.shape
        half = rotated // both
        qk = _scratch("qk", (both, tokens, 2 * half))
        v = _scratch("v", (kv_heads, tokens, 2 * half))
        for rows in _blocks(tokens, qkv.shape[1]):
            a, b = qkv[rows, :rotated], qkv[rows, rotated : 2 * rotated]
            c, s = cos[rows], sin[rows]
            first, second = a * c, a * s
            first -= b * s
            second += b * c
            qk[:, rows, :half] = first.reshape(-1, both, half).transpose(1, 0, 2)
            qk[:, rows, half:] = second.reshape(-1, both, half).transpose(1, 0, 2)
            v[:, rows] = qkv[rows, 2 * rotated :].reshape(-1, kv_heads, 2 * half).transpose(1, 0, 2)
        return mx.array(qk[:heads]), mx.array(qk[heads:]), mx.array(v)

    @forward.vjp
    def backward(primals: Any, cotangents: Any, _outputs: Any) -> Any:
        cos, sin = np.asarray(primals[1]), np.asarray(primals[2])
        grad_q, grad_k, grad_v = (np.asarray(cotangent) for cotangent in cotangents)
        tokens, rotated = cos.shape
        half = rotated // both
        out = _scratch("qkv grad", primals[0].shape)
        for rows in _blocks(tokens, out.shape[1]):
            count = rows.stop - rows.start
            first, second = np.empty((2, count, both, half), dtype=np.float32)
            for grad, place in ((grad_q, slice(0, heads)), (grad_k, slice(heads, both))):
                first[:, place] = grad[:, rows, :half].transpose(1, 0, 2)
                second[:, place] = grad[:, rows, half:].transpose(1, 0, 2)
            first, second = first.reshape(count, rotated), second.reshape(count, rotated)
            c, s = cos[rows], sin[rows]
            a, b = out[rows, :rotated], out[rows, rotated : 2 * rotated]
            np.multiply(first, c, out=a)
            a += second * s
            np.multiply(second, c, out=b)
            b -= first * s
            out[rows, 2 * rotated :].reshape(count, kv_heads, 2 * half)[:] = grad_v[:, rows].transpose(
                1, 0, 2
            )
        return mx.array(out), mx.zeros_like(primals[1]), mx.zeros_like(primals[2])

    return forward


def _weights_np(scores_mx: mx.array, mask_mx: mx.array, prefix_mx: mx.array | None) -> Any:
    scores, mask = np.asarray(scores_mx), np.asarray(mask_mx)
    prefix = None if prefix_mx is None else np.asarray(prefix_mx)
    heads, batch, length, _ = scores.shape
    own = _scratch("own", scores.shape)
    seen = None if prefix is None else _scratch("seen", prefix.shape)
    total = _scratch("total", (heads, batch, length, 1))
    size = length * (length + (0 if prefix is None else prefix.shape[-1]))
    for head in range(heads):
        for rows in _blocks(batch, size):
            part = np.add(scores[head, rows], mask[rows], out=own[head, rows])
            top = part.max(axis=-1, keepdims=True)
            if prefix is not None and seen is not None:
                np.maximum(top, prefix[head, rows].max(axis=-1, keepdims=True), out=top)
            part -= top
            np.exp(part, out=part)
            np.sum(part, axis=-1, keepdims=True, out=total[head, rows])
            if prefix is not None and seen is not None:
                other = np.subtract(prefix[head, rows], top, out=seen[head, rows])
                np.exp(other, out=other)
                total[head, rows] += other.sum(axis=-1, keepdims=True)
    if seen is None:
        return mx.array(own), mx.array(total)
    return mx.array(own), mx.array(seen), mx.array(total)


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
