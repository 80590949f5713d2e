"""The forward of a Llama model over explicit positions and an explicit mask.

mlx-lm's forward takes neither, and both are what evaluates a whole tree of continuations in one row: every
token names its own position (its depth in the tree) and sees the prompt and its own ancestors only. A prefix
that all rows share is computed once and read by all of them.

Shapes: B rows, T tokens a row, N = B*T, P prefix tokens, D hidden size, H heads, G key-value heads, K head
dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from npc import kernels
from npc.mlx import mx

# each layer's keys and values of the shared prefix, both of shape (G, 1, P, K)
PrefixKV = list[tuple[mx.array, mx.array]]

MASKED = -1e9


@dataclass(frozen=True)
class Projection:
    """One or more linear layers side by side. ``weight`` (outputs, inputs) and ``bias`` where they could
    be joined to one matmul, adapters included; else ``modules`` are called one by one and their outputs
    joined in ``order``.
    """

    weight: mx.array | None
    bias: mx.array | None
    modules: tuple[Any, ...] = ()
    order: Any = None

    def __call__(self, x: mx.array) -> mx.array:
        if self.weight is None:
            parts = [module(x) for module in self.modules]
            if self.order is not None:
                parts = self.order(parts, axis=1)
            return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)
        out = x @ self.weight.T
        return out if self.bias is None else out + self.bias


@dataclass(frozen=True)
class Layer:
    qkv: Projection
    out: Projection
    gate_up: Projection
    down: Projection
    norm_in: mx.array
    norm_post: mx.array


@dataclass(frozen=True)
class Weights:
    """A model's weights as the forward reads them: a function of the model's parameters, so gradients pass
    through.

    Valid until the parameters change; make it inside the loss for training, and once a version for rollouts.
    """

    embedding: mx.array
    output: mx.array
    layers: list[Layer]
    norm: mx.array
    heads: int
    kv_heads: int
    head_dim: int
    theta: float
    eps: float


def weights_of(model: Any) -> Weights:
    """Reads a model of :mod:`npc.llama` or ``mlx_lm.models.llama``, with or without LoRA on its linear
    layers. Weights are given back as they are: all functions here take either.
    """
    if isinstance(model, Weights):
        return model
    args = model.args
    heads, kv_heads = args.num_attention_heads, args.num_key_value_heads
    head_dim = args.head_dim or args.hidden_size // heads

    def order(parts: list[mx.array], axis: int) -> list[mx.array]:
        """Rows (or columns) of q, k, v as :func:`npc.kernels.split_heads` wants them, queries scaled by
        1/sqrt(K).
        """
        q, k, v = parts
        q_first, q_second = _halves(q * head_dim**-0.5, heads, args.rope_traditional, axis)
        k_first, k_second = _halves(k, kv_heads, args.rope_traditional, axis)
        return [q_first, k_first, q_second, k_second, v]

    layers = []
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        layers.append(
            Layer(
                qkv=_join((attention.q_proj, attention.k_proj, attention.v_proj), order),
                out=_join((attention.o_proj,)),
                gate_up=_join((mlp.gate_proj, mlp.up_proj)),
                down=_join((mlp.down_proj,)),
                norm_in=layer.input_layernorm.weight,
                norm_post=layer.post_attention_layernorm.weight,
            )
        )
    embedding = model.model.embed_tokens.weight
    return Weights(
        embedding=embedding,
        output=model.lm_head.weight if "lm_head" in model else embedding,
        layers=layers,
        norm=model.model.norm.weight,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        theta=args.rope_theta,
        eps=args.rms_norm_eps,
    )


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
    weights = weights_of(model)
    shift = prefix[0][0].shape[2] if prefix else 0
    states, _ = _run(weights, tokens_B_T, positions_B_T + shift, mask_B_T_T, prefix or None)
    return states.reshape(*tokens_B_T.shape, -1)


def prefix_kv(model: Any, ids: Sequence[int]) -> PrefixKV:
    """Keys and values of a prefix, to be shared by every row. Gradients flow through them where they are
    computed inside the loss. Empty ``ids`` give an empty list: no prefix.
    """
    if not len(ids):
        return []
    tokens = mx.array(list(ids), dtype=mx.int32)[None]
    positions = mx.arange(len(ids), dtype=mx.int32)[None]
    _, kv = _run(weights_of(model), tokens, positions, causal_mask(len(ids))[None], None, kv_only=True)
    return kv


def output_rows(model: Any) -> mx.array:
    """The output embedding (V, D): the rows whose dot products with a hidden state are the logits."""
    return weights_of(model).output


def causal_mask(length: int) -> mx.array:
    """An additive mask (T, T) by which each token sees itself and what came before."""
    places = mx.arange(length)
    return mx.where(places[:, None] >= places[None], 0.0, MASKED).astype(mx.float32)


def _run(
    weights: Weights,
    tokens_B_T: mx.array,
    positions_B_T: mx.array,
    mask_B_T_T: mx.array,
    prefix: PrefixKV | None,
    kv_only: bool = False,
) -> tuple[mx.array, PrefixKV]:
    """Normed states (N, D) and each layer's keys and values (G, B, T, K); ``kv_only`` leaves out what
    these don't need.
    """
    rows, length = tokens_B_T.shape
    x = weights.embedding[tokens_B_T.reshape(-1)]
    cos, sin = _rotations(weights, positions_B_T, x.dtype)
    kv: PrefixKV = []
    for place, layer in enumerate(weights.layers):
        qkv = layer.qkv(kernels.rms_norm(x, layer.norm_in, weights.eps))
        q, k, v = kernels.split_heads(qkv, cos, sin, weights.heads, weights.kv_heads)
        q, k, v = (part.reshape(part.shape[0], rows, length, -1) for part in (q, k, v))
        kv.append((k, v))
        if kv_only and place == len(weights.layers) - 1:
            return x, kv
        x = x + layer.out(_attend(q, k, v, mask_B_T_T, prefix[place] if prefix else None))
        normed = kernels.rms_norm(x, layer.norm_post, weights.eps)
        x = x + layer.down(kernels.swiglu(layer.gate_up(normed)))
    return kernels.rms_norm(x, weights.norm, weights.eps), kv


def _rotations(weights: Weights, positions_B_T: mx.array, dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
    """Cosines and sines (N, (H+G)*K/2) of the rotary embedding: each position's K/2 angles, repeated for
    each head.
    """
    half = weights.head_dim // 2
    frequencies = mx.power(weights.theta, -mx.arange(half, dtype=mx.float32) / half)
    angles = positions_B_T.reshape(-1, 1).astype(mx.float32) * frequencies
    repeats = (1, weights.heads + weights.kv_heads)
    return mx.tile(mx.cos(angles).astype(dtype), repeats), mx.tile(mx.sin(angles).astype(dtype), repeats)


def _attend(
    q: mx.array, k: mx.array, v: mx.array, mask_B_T_T: mx.array, prefix: tuple[mx.array, mx.array] | None
) -> mx.array:
    """Attention of scaled (H, B, T, K) queries over the row's own keys and the shared prefix's; (N, H*K)."""
    heads, rows, length, dim = q.shape
    kv_heads = k.shape[0]
    grouped = q.reshape(kv_heads, heads // kv_heads, rows, length, dim)
    scores = (grouped @ k[:, None].swapaxes(-1, -2)).reshape(heads, rows, length, length)
    if prefix is None:
        own, _, total = kernels.attention_weights(scores, mask_B_T_T, None)
        out = own.reshape(*grouped.shape[:-1], length).astype(v.dtype) @ v[:, None]
    else:
        prefix_k, prefix_v = prefix  # (G, 1, P, K): the axis of rows serves as the axis of grouped heads
        # one matmul a head for all rows: the prefix is the same for each
        flat = q.reshape(kv_heads, heads // kv_heads, rows * length, dim)
        prefix_scores = (flat @ prefix_k.swapaxes(-1, -2)).reshape(heads, rows, length, -1)
        own, seen, total = kernels.attention_weights(scores, mask_B_T_T, prefix_scores)
        assert seen is not None
        out = own.reshape(*grouped.shape[:-1], length).astype(v.dtype) @ v[:, None]
        seen = seen.reshape(kv_heads, heads // kv_heads, rows * length, -1).astype(v.dtype)
        out = out + (seen @ prefix_v).reshape(out.shape)
    out = out.reshape(heads, rows * length, dim) / total.reshape(heads, rows * length, 1).astype(v.dtype)
    return out.transpose(1, 0, 2).reshape(rows * length, heads * dim)


def _halves(rows: mx.array, heads: int, traditional: bool, axis: int) -> tuple[mx.array, mx.array]:
    """The first and the second members of all rotated pairs along ``axis``, head by head. A pair is one
    entry and the one half a head further, or, in the traditional form, two neighbours.
    """
    before, after = rows.shape[:axis], rows.shape[axis + 1 :]
    half = rows.shape[axis] // heads // 2
    shape = (heads, half, 2) if traditional else (heads, 2, half)
    pairs = rows.reshape(*before, *shape, *after)
    member = axis + (2 if traditional else 1)
    first, second = (mx.take(pairs, index, axis=member) for index in (0, 1))
    return first.reshape(*before, heads * half, *after), second.reshape(*before, heads * half, *after)


def _join(modules: tuple[Any, ...], order: Any = None) -> Projection:
    weights = [_effective_weight(module) for module in modules]
    if any(weight is None for weight in weights):
        return Projection(None, None, modules, order)
    biases = [_bias(module) for module in modules]
    if order is not None:
        weights = order(weights, axis=0)
        biases = order(biases, axis=0) if biases[0] is not None else [None]
    return Projection(_concatenate(weights), _concatenate(biases))


def _concatenate(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 or parts[0] is None else mx.concatenate(parts, axis=0)


def _bias(module: Any) -> mx.array | None:
    linear = module.linear if "lora_a" in module else module
    return linear.bias if "bias" in linear else None


def _effective_weight(module: Any) -> mx.array | None:
    """The weight with its adapter added to it, None where applying the two one after the other is cheaper.

    Adding costs the gradient of a full weight, which for a small layer is less than the four thin matmuls of
    a low-rank one, which run at a third of the speed.
    """
    if "lora_a" not in module:
        return module.weight if "scales" not in module else None
    linear, rank = module.linear, module.lora_a.shape[1]
    outputs, inputs = linear.weight.shape
    if "scales" in linear or outputs * inputs > 10 * rank * (outputs + inputs):
        return None
    return linear.weight + ((module.scale * module.lora_b.T) @ module.lora_a.T).astype(linear.weight.dtype)
