"""The forward of a Llama model over explicit positions and an explicit mask.

mlx-lm's forward takes neither, and both are what evaluates a whole tree of continuations in one row: every
token names its own position (its depth in the tree) and sees the prompt and its own ancestors only. A prefix
that all rows share is computed once and read by all of them.

Shapes: B rows, T tokens a row, P prefix tokens, D hidden size, H heads, G key-value heads, K head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npc import fastops
from npc.mlx import mx

# each layer's keys and values of the shared prefix, both of shape (G, 1, P, K)
PrefixKV = list[tuple[mx.array, mx.array]]

MASKED = -1e9


def hidden_states(
    model: Any,
    tokens_B_T: mx.array,
    positions_B_T: mx.array,
    mask_B_T_T: mx.array,
    prefix: PrefixKV | None = None,
) -> mx.array:
    """Hidden states (B, T, D) after the final norm.

    ``positions_B_T`` counts from the prefix's end: a prefix of P tokens is added to it. ``mask_B_T_T`` is
    additive (0 where row token i may see row token j, ``MASKED`` where it may not); the whole prefix is seen
    by all.
    """
    shift = prefix[0][0].shape[2] if prefix else 0
    states, _ = _run(model, tokens_B_T, positions_B_T + shift, mask_B_T_T, prefix)
    return states


def prefix_kv(model: Any, ids: Sequence[int]) -> PrefixKV:
    """Keys and values of a prefix, to be shared by every row. Gradients flow through them where they are
    computed inside the loss. Empty ``ids`` give an empty list: no prefix.
    """
    if not ids:
        return []
    tokens = mx.array(list(ids), dtype=mx.int32)[None]
    positions = mx.arange(len(ids), dtype=mx.int32)[None]
    _, kv = _run(model, tokens, positions, causal_mask(len(ids))[None], None, last_kv_only=True)
    return kv


def causal_mask(length: int) -> mx.array:
    """An additive mask (T, T) by which each token sees itself and what came before."""
    places = mx.arange(length)
    return mx.where(places[:, None] >= places[None], 0.0, MASKED).astype(mx.float32)


def output_rows(model: Any) -> mx.array:
    """The output embedding (V, D): the rows whose dot products with a hidden state are the logits."""
    return model.lm_head.weight if "lm_head" in model else model.model.embed_tokens.weight


def _run(
    model: Any,
    tokens: mx.array,
    positions: mx.array,
    mask: mx.array,
    prefix: PrefixKV | None,
    last_kv_only: bool = False,
) -> tuple[mx.array, PrefixKV]:
    args = model.args
    x = model.model.embed_tokens(tokens)
    cos, sin = rotations(
        positions, args.head_dim or args.hidden_size // args.num_attention_heads, args.rope_theta
    )
    cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)
    kv: PrefixKV = []
    for place, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        normed = layer.input_layernorm(x)
        k = _rotate(
            _heads(attention.k_proj(normed), args.num_key_value_heads), cos, sin, args.rope_traditional
        )
        v = _heads(attention.v_proj(normed), args.num_key_value_heads)
        kv.append((k, v))
        if last_kv_only and place == len(model.model.layers) - 1:
            return x, kv
        q = _rotate(
            _heads(attention.q_proj(normed), args.num_attention_heads), cos, sin, args.rope_traditional
        )
        x = x + attention.o_proj(_attend(q, k, v, mask, prefix[place] if prefix else None))
        normed = layer.post_attention_layernorm(x)
        x = x + layer.mlp.down_proj(fastops.swiglu(layer.mlp.gate_proj(normed), layer.mlp.up_proj(normed)))
    return model.model.norm(x), kv


def rotations(positions_B_T: mx.array, head_dim: int, theta: float) -> tuple[mx.array, mx.array]:
    """Cosines and sines (1, B, T, K/2) of the rotary embedding at explicit positions."""
    half = head_dim // 2
    frequencies = mx.power(theta, -mx.arange(half, dtype=mx.float32) / half)
    angles = positions_B_T[None, :, :, None].astype(mx.float32) * frequencies
    return mx.cos(angles), mx.sin(angles)


def _heads(x_B_T_E: mx.array, heads: int) -> mx.array:
    """(B, T, heads*K) as (heads, B, T, K)."""
    rows, length, _ = x_B_T_E.shape
    return x_B_T_E.reshape(rows, length, heads, -1).transpose(2, 0, 1, 3)


def _rotate(x: mx.array, cos: mx.array, sin: mx.array, traditional: bool) -> mx.array:
    if traditional:
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return mx.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return mx.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _attend(
    q: mx.array, k: mx.array, v: mx.array, mask_B_T_T: mx.array, prefix: tuple[mx.array, mx.array] | None
) -> mx.array:
    """Attention of (H, B, T, K) queries over the row's own keys and the shared prefix's; (B, T, H*K)."""
    heads, rows, length, dim = q.shape
    group = heads // k.shape[0]
    q = (q * dim**-0.5).reshape(-1, group, rows, length, dim)
    k, v = k[:, None], v[:, None]
    scores = q @ k.swapaxes(-1, -2)
    mask = mask_B_T_T
    if prefix is None:
        out = fastops.softmax(scores, mask) @ v
    else:
        prefix_k, prefix_v = prefix  # (G, 1, P, K): the row axis serves as the axis of grouped heads
        seen = prefix_k.shape[2]
        # one matmul a head for all rows: the prefix is the same for each
        flat = q.reshape(-1, group, rows * length, dim)
        prefix_scores = (flat @ prefix_k.swapaxes(-1, -2)).reshape(-1, group, rows, length, seen)
        mask = mx.concatenate([mx.zeros((rows, length, seen), dtype=mask.dtype), mask], axis=-1)
        probs = fastops.softmax(mx.concatenate([prefix_scores, scores], axis=-1), mask)
        on_prefix = probs[..., :seen].reshape(-1, group, rows * length, seen) @ prefix_v
        out = probs[..., seen:] @ v + on_prefix.reshape(-1, group, rows, length, dim)
    return out.reshape(heads, rows, length, dim).transpose(1, 2, 0, 3).reshape(rows, length, heads * dim)
