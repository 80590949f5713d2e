"""The operations between a model's matmuls in NumPy, forward and backward, in blocks that fit a core's cache.

On a Linux CPU, MLX's elementwise kernels are scalar: an exp costs 13 ns an element there and 0.6 ns in NumPy, and
every operation walks through memory once. With a small model that is most of the time. :mod:`npc.stack` computes whole
models of these, and :mod:`npc.kernels` gives them to MLX one by one.

Shapes: N tokens (B rows of T), Q asking tokens a row, D hidden size, F feed-forward size, H heads, K head dimension, S
keys that are seen. All float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

BLOCK = 1 << 16  # elements: 256 KB of float32, a part of one core's second-level cache
ONE, TWO = np.float32(1), np.float32(2)

Array = np.ndarray[Any, np.dtype[np.float32]]
Complex = np.ndarray[Any, np.dtype[np.complex64]]

_buffers: dict[str, Array] = {}


def scratch(use: str, shape: tuple[int, ...]) -> Array:
    """A buffer kept for ``use``, as large as the largest asked for: fresh memory of this size would be mapped page by
    page at every call. Its content lasts until the next call for this use; one thread owns MLX."""
    size = math.prod(shape)
    found = _buffers.get(use)
    if found is None or found.size < size:
        found = _buffers[use] = np.empty(size, dtype=np.float32)
    return found[:size].reshape(shape)


def blocks(rows: int, row_elements: int) -> Iterator[slice]:
    """Rows in slices of about ``BLOCK`` elements."""
    step = max(1, BLOCK // max(1, row_elements))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


# ---- RMS norm ----


def rms_norm(x_N_D: Array, eps: float, out_N_D: Array) -> Array:
    """x / sqrt(mean(x²) + eps) into ``out``; returns the factors (N, 1)."""
    factor_N_1 = np.empty((len(x_N_D), 1), dtype=np.float32)
    for rows in blocks(*x_N_D.shape):
        x, factor = x_N_D[rows], factor_N_1[rows]
        np.einsum("nd,nd->n", x, x, out=factor[:, 0])
        factor /= np.float32(x_N_D.shape[1])
        factor += np.float32(eps)
        np.sqrt(factor, out=factor)
        np.reciprocal(factor, out=factor)
        np.multiply(x, factor, out=out_N_D[rows])
    return factor_N_1


def rms_norm_back(normed_N_D: Array, factor_N_1: Array, grad_N_D: Array, out_N_D: Array) -> None:
    """The norm's input gradient from its output, its factors and the output's gradient, added to ``out``."""
    for rows in blocks(*grad_N_D.shape):
        normed, grad = normed_N_D[rows], grad_N_D[rows]
        share = np.einsum("nd,nd->n", grad, normed)[:, None]
        share /= np.float32(grad_N_D.shape[1])
        part = np.multiply(normed, share, out=scratch("norm part", grad.shape))
        np.subtract(grad, part, out=part)
        part *= factor_N_1[rows]
        out_N_D[rows] += part


# ---- SwiGLU ----


def swiglu(gate_up_N_2F: Array, out_N_F: Array) -> None:
    """silu(gate) * up into ``out``, of gates that come halved and ups, the gates first.

    silu(gate) = gate * sigmoid(gate) = half * (1 + tanh(half)) with half = gate / 2: the halving costs nothing in the
    weights.
    """
    size = out_N_F.shape[1]
    for rows in blocks(*out_N_F.shape):
        half, part = gate_up_N_2F[rows, :size], out_N_F[rows]
        np.tanh(half, out=part)
        part += ONE
        part *= half
        part *= gate_up_N_2F[rows, size:]


def swiglu_back(gate_up_N_2F: Array, grad_N_F: Array, out_N_2F: Array, again_N_F: Array | None = None) -> None:
    """The gradient for gates and ups into ``out``. ``again`` is given the forward's result, which costs little here."""
    size = grad_N_F.shape[1]
    for rows in blocks(len(grad_N_F), 2 * size):  # many arrays side by side: each takes half
        half, up, grad = gate_up_N_2F[rows, :size], gate_up_N_2F[rows, size:], grad_N_F[rows]
        # with p = 1 + tanh(half): d(half * p) = p + half * p * (2 - p)
        p = np.tanh(half, out=scratch("p", half.shape))
        p += ONE
        silu = np.multiply(half, p, out=scratch("silu", half.shape))
        slope = np.subtract(TWO, p, out=scratch("slope", half.shape))
        slope *= silu
        slope += p
        slope *= up
        np.multiply(slope, grad, out=out_N_2F[rows, :size])
        np.multiply(silu, grad, out=out_N_2F[rows, size:])
        if again_N_F is not None:
            np.multiply(silu, up, out=again_N_F[rows])


# ---- rotary embedding ----


def turns(cos_N_R: Array, sin_N_R: Array) -> Complex:
    """Angles as complex numbers: a pair (a, b) is a + ib, and turning it is one multiplication."""
    out = np.empty(cos_N_R.shape, dtype=np.complex64)
    out.real, out.imag = cos_N_R, sin_N_R
    return out


def pairs(x: Array) -> Complex:
    """The last axis as complex numbers, neighbours together; a view."""
    return x.view(np.complex64)


# ---- attention weights ----


def softmax(scores_M_R_S: Array, mask_B_Q_T: Array) -> None:
    """Softmax over the last axis in place, of M matrices of R rows.

    Matrix m is masked by mask m modulo B, additive, (Q, T): for its last T columns, and for each Q of its rows in turn.
    The columns before them are seen by all.
    """
    masks, asking, own = mask_B_Q_T.shape
    matrices, rows, seen = scores_M_R_S.shape
    for first in range(0, matrices, masks):
        for part in blocks(masks, rows * seen):
            scores = scores_M_R_S[first : first + masks][part]
            masked = scores.reshape(len(scores), -1, asking, seen)[..., seen - own :]
            masked += mask_B_Q_T[part, None]
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)


def softmax_back(weights_M_R_S: Array, grad_M_R_S: Array) -> None:
    """The gradient of the softmax's result becomes that of its scores, in place."""
    for part in blocks(len(weights_M_R_S), weights_M_R_S[0].size):
        weights, grad = weights_M_R_S[part], grad_M_R_S[part]
        grad *= weights
        share = grad.sum(axis=-1, keepdims=True)
        grad -= np.multiply(weights, share, out=scratch("softmax part", weights.shape))
