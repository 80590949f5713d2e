"""SwiGLU and masked softmax; on a Linux CPU their exponentials are computed by NumPy.

MLX's CPU kernels for exp and its kin are scalar there: about 13 ns an element, against 0.5 ns for NumPy's.
With a small model that is more than half of all time. So on that device these two operations, forward and
backward, leave MLX for NumPy and come back; everywhere else they are plain MLX. Both forms agree to float32
rounding (a test).
"""

from __future__ import annotations

import sys
from typing import cast

import numpy as np

from npc.mlx import ON_CPU, mx, nn

USE_NUMPY = ON_CPU and sys.platform.startswith("linux")


def swiglu(gate: mx.array, up: mx.array) -> mx.array:
    """silu(gate) * up, elementwise."""
    if USE_NUMPY and gate.dtype == mx.float32:
        return cast(mx.array, _swiglu(gate, up))
    return nn.silu(gate) * up


def softmax(scores: mx.array, mask: mx.array) -> mx.array:
    """Softmax over the last axis of ``scores + mask``; ``mask`` (0 or a large negative number) gets no
    gradient.
    """
    if USE_NUMPY and scores.dtype == mx.float32:
        return cast(mx.array, _softmax(scores, mask))
    return mx.softmax(scores + mx.stop_gradient(mask), axis=-1, precise=True)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    out = x * np.float32(0.5)
    np.tanh(out, out=out)
    out *= np.float32(0.5)
    out += np.float32(0.5)
    return out


@mx.custom_function
def _swiglu(gate: mx.array, up: mx.array) -> mx.array:
    gate_np = np.asarray(gate)
    out = _sigmoid(gate_np)
    out *= gate_np
    out *= np.asarray(up)
    return mx.array(out)


@_swiglu.vjp
def _swiglu_vjp(primals, cotangent, _output):
    gate, up = np.asarray(primals[0]), np.asarray(primals[1])
    grad = np.asarray(cotangent)
    sigmoid = _sigmoid(gate)
    silu = gate * sigmoid
    # d silu = sigmoid + silu * (1 - sigmoid)
    slope = np.subtract(np.float32(1), sigmoid)
    slope *= silu
    slope += sigmoid
    slope *= up
    slope *= grad
    silu *= grad
    return mx.array(slope), mx.array(silu)


@mx.custom_function
def _softmax(scores: mx.array, mask: mx.array) -> mx.array:
    out = np.asarray(scores) + np.asarray(mask)
    out -= out.max(axis=-1, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=-1, keepdims=True)
    return mx.array(out)


@_softmax.vjp
def _softmax_vjp(primals, cotangent, output):
    probs, grad = np.asarray(output), np.asarray(cotangent)
    inner = np.einsum("...k,...k->...", probs, grad)[..., None]
    out = grad - inner
    out *= probs
    return mx.array(out), mx.zeros_like(primals[1])
