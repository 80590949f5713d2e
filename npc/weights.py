"""A Llama model's parameters as the forward reads them.

Layers that read the same input become one matmul, adapters are added to the weights they adapt where that is
cheaper, and what scales an input or an output (norm weights, the queries' 1/sqrt(K), the halved gate) is
taken into the weights. All of it is a function of the parameters that costs little and lets gradients
through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npc.mlx import mx

# arranges outputs: rows of weights (axis 0) or columns of results (axis 1)
Arrange = Callable[[mx.array, int], mx.array]


@dataclass(frozen=True)
class Projection:
    """One or more linear layers side by side over one normed input.

    ``weight`` (outputs, inputs) and ``bias`` where they could be joined to one matmul. Where ``weight`` is
    None, ``modules`` are called one by one on the input times ``scale_in``, and their results arranged.
    """

    weight: mx.array | None
    bias: mx.array | None
    modules: tuple[Any, ...] = ()
    arrange: tuple[Arrange | None, ...] = ()
    scale_in: mx.array | None = None

    def __call__(self, x_N_D: mx.array) -> mx.array:
        if self.weight is not None:
            out = x_N_D @ self.weight.T
            return out if self.bias is None else out + self.bias
        if self.scale_in is not None:
            x_N_D = x_N_D * self.scale_in
        parts = [_arranged(module(x_N_D), how, 1) for module, how in zip(self.modules, self.arrange, strict=True)]
        return _concatenate(parts, axis=1)


@dataclass(frozen=True)
class Layer:
    """``qkv`` is ``q`` and ``kv`` in one: the last layer needs keys and values of all tokens, and few
    queries.
    """

    qkv: Projection
    q: Projection
    kv: Projection
    out: Projection
    gate_up: Projection
    down: Projection


@dataclass(frozen=True)
class Weights:
    """All weights of a model. Valid until its parameters change; make it inside the loss for training, and
    once a version of the parameters for rollouts.
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

    def arrays(self) -> list[mx.array]:
        """Everything that was computed from the parameters, to be evaluated once."""
        joined = [
            p for layer in self.layers for p in (layer.qkv, layer.q, layer.kv, layer.out, layer.gate_up, layer.down)
        ]
        return [array for p in joined for array in (p.weight, p.bias) if array is not None]


def weights_of(model: Any) -> Weights:
    """Reads a model of :mod:`npc.llama` or ``mlx_lm.models.llama``, with or without LoRA on its linear
    layers.

    Weights are given back as they are, so that what takes a model takes either.
    """
    if isinstance(model, Weights):
        return model
    args = model.args
    heads, kv_heads = args.num_attention_heads, args.num_key_value_heads
    head_dim = args.head_dim or args.hidden_size // heads

    def queries(part: mx.array, axis: int) -> mx.array:
        return _neighbours(part, heads, args.rope_traditional, axis) * head_dim**-0.5

    def keys(part: mx.array, axis: int) -> mx.array:
        return _neighbours(part, kv_heads, args.rope_traditional, axis)

    def halved(part: mx.array, _axis: int) -> mx.array:
        return part * 0.5

    layers = []
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        norm_in, norm_post = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        q = _join((attention.q_proj,), (queries,), norm_in)
        kv = _join((attention.k_proj, attention.v_proj), (keys, None), norm_in)
        layers.append(
            Layer(
                qkv=_beside(q, kv),
                q=q,
                kv=kv,
                out=_join((attention.o_proj,), (None,)),
                gate_up=_join((mlp.gate_proj, mlp.up_proj), (halved, None), norm_post),
                down=_join((mlp.down_proj,), (None,)),
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


def _neighbours(part: mx.array, heads: int, traditional: bool, axis: int) -> mx.array:
    """Makes neighbours of the members of each rotated pair, head by head. In the traditional form they are
    so; else the second is half a head further. Queries and keys alike, so that their products are
    unchanged.
    """
    if traditional:
        return part
    before, after = part.shape[:axis], part.shape[axis + 1 :]
    pairs = part.reshape(*before, heads, 2, -1, *after)
    return pairs.swapaxes(axis + 1, axis + 2).reshape(part.shape)


def _join(
    modules: tuple[Any, ...], arrange: tuple[Arrange | None, ...], scale_in: mx.array | None = None
) -> Projection:
    weights = [effective_weight(module) for module in modules]
    if any(weight is None for weight in weights):
        return Projection(None, None, modules, arrange, scale_in)
    weight = _concatenate([_arranged(w, how, 0) for w, how in zip(weights, arrange, strict=True)], axis=0)
    if scale_in is not None:
        weight = weight * scale_in
    biases = [_bias(module) for module in modules]
    if biases[0] is None:
        return Projection(weight, None, modules, arrange, scale_in)
    bias = _concatenate([_arranged(b, how, 0) for b, how in zip(biases, arrange, strict=True)], axis=0)
    return Projection(weight, bias, modules, arrange, scale_in)


def _beside(first: Projection, second: Projection) -> Projection:
    """Two projections of one input as one."""
    if first.weight is None or second.weight is None:
        modules, arrange = (*first.modules, *second.modules), (*first.arrange, *second.arrange)
        return Projection(None, None, modules, arrange, first.scale_in)
    weight = mx.concatenate([first.weight, second.weight], axis=0)
    if first.bias is None or second.bias is None:
        return Projection(weight, None)
    return Projection(weight, mx.concatenate([first.bias, second.bias], axis=0))


def _arranged(part: Any, how: Arrange | None, axis: int) -> mx.array:
    return part if how is None else how(part, axis)


def _concatenate(parts: list[mx.array], axis: int) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=axis)


def _bias(module: Any) -> mx.array | None:
    linear = module.linear if "lora_a" in module else module
    return linear.bias if "bias" in linear else None


def effective_weight(module: Any) -> mx.array | None:
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
