"""Heads and attention in NumPy, forward and backward, over a prefix that all rows share and over each row's own tokens.

Shapes: B rows, T tokens a row, Q asking tokens a row, P prefix tokens, S = P+T keys that a token may see, G key-value
heads of R queries each, K head dimension, E outputs of a projection. All float32.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npc.arrays import Array, Complex, pairs, scratch, softmax, softmax_back

New = Callable[[str, tuple[int, ...]], Array]  # makes an array for a use
NOTHING: Array = np.empty(0, dtype=np.float32)


def split(z_M_E: Array, queries: int, turns_B_Q_H: Complex, kv_heads: int, dim: int, new: New) -> tuple[
    Array, Array, Array
]:  # fmt: skip
    """Queries (G, B, R, Q, K), where R is ``queries``, then keys and values (G, B, Q, K), where there are any; queries
    and keys turned by their positions' angles (K/2 of them)."""
    rows, asking, half = turns_B_Q_H.shape
    width = kv_heads * queries * dim
    keys = (z_M_E.shape[1] - width) // 2
    q = k = v = NOTHING
    if queries:
        parts = pairs(z_M_E[:, :width]).reshape(rows, asking, kv_heads, queries, half)
        q = new("q", (kv_heads, rows, queries, asking, dim))
        np.multiply(parts.transpose(2, 0, 3, 1, 4), turns_B_Q_H[:, None], out=pairs(q))
    if keys:
        parts = pairs(z_M_E[:, width : width + keys]).reshape(rows, asking, kv_heads, half)
        k, v = (new(use, (kv_heads, rows, asking, dim)) for use in "kv")
        np.multiply(parts.transpose(2, 0, 1, 3), turns_B_Q_H, out=pairs(k))
        v[:] = z_M_E[:, width + keys :].reshape(rows, asking, kv_heads, dim).transpose(2, 0, 1, 3)
    return q, k, v


def join(grad_q: Array, grad_k: Array, grad_v: Array, turns_B_Q_H: Complex) -> Array:
    """The gradient (B*Q, E) of what was split, from those of its parts; ``NOTHING`` for those that were not there."""
    rows, asking, half = turns_B_Q_H.shape
    width, keys = (value.size // (rows * asking) for value in (grad_q, grad_k))
    out = scratch("grad qkv", (rows * asking, width + 2 * keys))
    back = turns_B_Q_H.conj()
    if width:
        kv_heads, _, queries, *_ = grad_q.shape
        parts = pairs(out[:, :width]).reshape(rows, asking, kv_heads, queries, half)
        np.multiply(pairs(grad_q), back[:, None], out=parts.transpose(2, 0, 3, 1, 4))
    if keys:
        kv_heads, _, _, dim = grad_k.shape
        parts = pairs(out[:, width : width + keys]).reshape(rows, asking, kv_heads, half)
        np.multiply(pairs(grad_k), back, out=parts.transpose(2, 0, 1, 3))
        out[:, width + keys :].reshape(rows, asking, kv_heads, dim).transpose(2, 0, 1, 3)[:] = grad_v
    return out


def attend(q: Array, k: Array, v: Array, mask_B_Q_T: Array, prefix: tuple[Array, Array] | None,
           new: New, out_M_E: Array) -> Array:  # fmt: skip
    """What each asking token gathers, (B*Q, G*R*K), into ``out``; the weights (G, B, R, Q, S), the prefix's first.

    ``prefix`` holds keys and values (G, P, K). The R queries of a key-value head go through one matmul, and so do all
    rows' over the prefix.
    """
    kv_heads, rows, queries, asking, dim = q.shape
    seen = k.shape[2] + (0 if prefix is None else prefix[0].shape[1])
    weights = new("weights", (kv_heads, rows, queries, asking, seen))
    own, first = _parts(weights, k.shape[2])
    np.matmul(q.reshape(kv_heads, rows, -1, dim), k.swapaxes(-1, -2), out=own)
    if prefix is not None:
        np.matmul(q.reshape(kv_heads, -1, dim), prefix[0].swapaxes(-1, -2), out=first)
    softmax(weights.reshape(kv_heads * rows, -1, seen), mask_B_Q_T)
    mixed = np.matmul(own, v, out=scratch("mixed", (kv_heads, rows, queries * asking, dim)))
    if prefix is not None:
        more = scratch("mixed too", (kv_heads, rows * queries * asking, dim))
        mixed += np.matmul(first, prefix[1], out=more).reshape(mixed.shape)
    out = out_M_E.reshape(rows, asking, kv_heads, queries, dim)
    out.transpose(2, 0, 3, 1, 4)[:] = mixed.reshape(q.shape)
    return weights


def attend_back(q: Array, k: Array, v: Array, weights: Array, prefix: tuple[Array, Array] | None,
                grad_M_E: Array) -> tuple[Array, Array, Array, tuple[Array, Array] | None]:  # fmt: skip
    """The gradients of queries, keys, values, and the prefix's keys and values, from what was kept and that of what was
    gathered."""
    kv_heads, rows, queries, asking, dim = q.shape
    grad = scratch("grad mixed", (kv_heads, rows, queries * asking, dim))
    by_token = grad_M_E.reshape(rows, asking, kv_heads, queries, dim)
    grad.reshape(q.shape)[:] = by_token.transpose(2, 0, 3, 1, 4)
    grad_weights = scratch("grad weights", weights.shape)
    own, first = _parts(weights, k.shape[2])
    grad_own, grad_first = _parts(grad_weights, k.shape[2])
    np.matmul(grad, v.swapaxes(-1, -2), out=grad_own)
    grad_v = np.matmul(own.swapaxes(-1, -2), grad, out=scratch("grad v", v.shape))
    all_rows = grad.reshape(kv_heads, -1, dim)
    if prefix is not None:
        np.matmul(all_rows, prefix[1].swapaxes(-1, -2), out=grad_first)
        grad_values = np.matmul(first.swapaxes(-1, -2), all_rows)
    each = (kv_heads * rows, queries * asking, -1)
    softmax_back(weights.reshape(each), grad_weights.reshape(each))
    grad_q = np.matmul(grad_own, k, out=scratch("grad q", grad.shape))
    grad_k = np.matmul(grad_own.swapaxes(-1, -2), q.reshape(grad.shape), out=scratch("grad k", k.shape))
    if prefix is None:
        return grad_q.reshape(q.shape), grad_k, grad_v, None
    grad_q += np.matmul(grad_first, prefix[0]).reshape(grad.shape)
    grad_keys = np.matmul(grad_first.swapaxes(-1, -2), q.reshape(all_rows.shape))
    return grad_q.reshape(q.shape), grad_k, grad_v, (grad_keys, grad_values)


def _parts(weights: Array, own: int) -> tuple[Array, Array]:
    """Of (G, B, R, Q, S): the own rows' columns as (G, B, R*Q, T), and the prefix's as (G, B*R*Q, P)."""
    kv_heads, rows, *_, seen = weights.shape
    by_row, together = weights.reshape(kv_heads, rows, -1, seen), weights.reshape(kv_heads, -1, seen)
    return by_row[..., seen - own :], together[..., : seen - own]
