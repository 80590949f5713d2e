"""A Llama model's parameters as the forward reads them.

Layers that read the same input become one matmul, adapters are added to the weights they adapt, and what scales an
input or an output (norm weights, the queries' 1/sqrt(K), the halved gate) is taken into the weights. Gradients pass
through all of it. Small layers get theirs by way of the gradient of the full weight; for large ones that would cost a
third full matmul, so the sum is held as a constant and the adapter's two factors get theirs from thin matmuls.
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
    ``low_rank`` are the adapters' factors (inputs, R) and (R, outputs), where ``weight`` is a constant that holds
    their product already.
    """

    weight: mx.array | None
    bias: mx.array | None
    modules: tuple[Any, ...] = ()
    arrange: tuple[Arrange | None, ...] = ()
    scale_in: mx.array | None = None
    low_rank: tuple[mx.array, mx.array] | None = None

    def __call__(self, x_N_D: mx.array) -> mx.array:
        if self.weight is not None:
            out = x_N_D @ self.weight.T if self.low_rank is None else _adapted(self.weight)(x_N_D, *self.low_rank)
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


_NOTHING = Projection(None, None)
_NOT_KNOWN = Layer(*[_NOTHING] * 6)  # of a layer that was not read before


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
    learns: bool = True  # whether a gradient may be asked for: else a forward keeps nothing for it

    def arrays(self) -> list[mx.array]:
        """Everything that was computed from the parameters and is used, to be evaluated once."""
        joined = [p for layer in self.layers for p in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        joined += [self.layers[-1].q, self.layers[-1].kv]
        return [array for p in joined for array in (p.weight, p.bias) if array is not None]


def weights_of(model: Any, present: Weights | None = None) -> Weights:
    """Reads a model of :mod:`npc.llama` or ``mlx_lm.models.llama``, with or without LoRA on its linear
    layers.

    Weights are given back as they are, so that what takes a model takes either. ``present`` are the weights of the
    same parameters, read before: the sums of large layers and their adapters are taken from there, so that a loss
    doesn't make them anew.
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
    for place, layer in enumerate(model.model.layers):
        known = present.layers[place] if present is not None else _NOT_KNOWN
        attention, mlp = layer.self_attn, layer.mlp
        norm_in, norm_post = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        q_k_v = (attention.q_proj, attention.k_proj, attention.v_proj)
        large = any(_is_large(module) for module in q_k_v)  # the three are joined in one way
        q = _join(q_k_v[:1], (queries,), norm_in, large, known.q)
        kv = _join(q_k_v[1:], (keys, None), norm_in, large, known.kv)
        gate_up = (mlp.gate_proj, mlp.up_proj)
        layers.append(
            Layer(
                qkv=_beside(q, kv, known.qkv),
                q=q,
                kv=kv,
                out=_join((attention.o_proj,), (None,), None, _is_large(attention.o_proj), known.out),
                gate_up=_join(gate_up, (halved, None), norm_post, _is_large(gate_up[0]), known.gate_up),
                down=_join((mlp.down_proj,), (None,), None, _is_large(mlp.down_proj), known.down),
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
    modules: tuple[Any, ...],
    arrange: tuple[Arrange | None, ...],
    scale_in: mx.array | None,
    large: bool,
    known: Projection,
) -> Projection:
    if any("scales" in _linear(module) for module in modules):  # quantised: each as it is
        return Projection(None, None, modules, arrange, scale_in)
    if large and any(_linear(module).weight.dtype != mx.float32 for module in modules):
        return Projection(None, None, modules, arrange, scale_in)  # a sum in half precision would lose the adapter
    low_rank = _factors(modules, arrange, scale_in) if large else None
    if low_rank is not None and known.weight is not None:
        return Projection(known.weight, known.bias, modules, arrange, scale_in, low_rank)
    weights = [_linear(module).weight if large else effective_weight(module) for module in modules]
    weight = _concatenate([_arranged(w, how, 0) for w, how in zip(weights, arrange, strict=True)], axis=0)
    if scale_in is not None:
        weight = weight * scale_in
    if low_rank is not None:
        # (a @ b).T would be added column by column
        weight = mx.stop_gradient(weight + low_rank[1].T @ low_rank[0].T)
    biases = [_linear(module).bias if "bias" in _linear(module) else None for module in modules]
    if biases[0] is None:
        return Projection(weight, None, modules, arrange, scale_in, low_rank)
    bias = _concatenate([_arranged(b, how, 0) for b, how in zip(biases, arrange, strict=True)], axis=0)
    return Projection(weight, bias, modules, arrange, scale_in, low_rank)


def _beside(first: Projection, second: Projection, known: Projection) -> Projection:
    """Two projections of one input as one."""
    if first.weight is None or second.weight is None:
        modules, arrange = (*first.modules, *second.modules), (*first.arrange, *second.arrange)
        return Projection(None, None, modules, arrange, first.scale_in)
    low_rank = None
    if first.low_rank is not None and second.low_rank is not None:
        low_rank = _diagonal([first.low_rank, second.low_rank])
        if known.weight is not None:
            return Projection(known.weight, known.bias, low_rank=low_rank)
    weight = mx.concatenate([first.weight, second.weight], axis=0)
    bias = None
    if first.bias is not None and second.bias is not None:
        bias = mx.concatenate([first.bias, second.bias], axis=0)
    return Projection(weight, bias, low_rank=low_rank)


def _adapted(weight: mx.array) -> Any:
    """``x @ weight.T``, where ``weight`` = something frozen + (a @ b).T; gradients for x, a and b."""

    @mx.custom_function
    def forward(x_N_D: mx.array, a_D_R: mx.array, b_R_E: mx.array) -> mx.array:
        return x_N_D @ weight.T

    @forward.vjp
    def backward(primals: Any, cotangent_N_E: mx.array, _output: mx.array) -> Any:
        x_N_D, a_D_R, b_R_E = primals
        grad_a = x_N_D.T @ (cotangent_N_E @ b_R_E.T)
        grad_b = (x_N_D @ a_D_R).T @ cotangent_N_E
        return cotangent_N_E @ weight, grad_a, grad_b

    return forward


def _factors(
    modules: tuple[Any, ...], arrange: tuple[Arrange | None, ...], scale_in: mx.array | None
) -> tuple[mx.array, mx.array]:
    """The adapters of layers side by side as one product (inputs, R) @ (R, outputs), arranged and scaled as they
    are."""
    pairs = []
    for module, how in zip(modules, arrange, strict=True):
        a = module.lora_a if scale_in is None else module.lora_a * scale_in[:, None]
        pairs.append((a, _arranged(module.scale * module.lora_b, how, 1)))
    return _diagonal(pairs)


def _diagonal(pairs: list[tuple[mx.array, mx.array]]) -> tuple[mx.array, mx.array]:
    """Factors of products over one input as those of the results side by side: each speaks to its own outputs."""
    if len(pairs) == 1:
        return pairs[0]
    width, rows, start = sum(b.shape[1] for _, b in pairs), [], 0
    for _, b in pairs:
        rows.append(mx.pad(b, [(0, 0), (start, width - start - b.shape[1])]))
        start += b.shape[1]
    return mx.concatenate([a for a, _ in pairs], axis=1), mx.concatenate(rows, axis=0)


def _arranged(part: Any, how: Arrange | None, axis: int) -> mx.array:
    return part if how is None else how(part, axis)


def _concatenate(parts: list[mx.array], axis: int) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=axis)


def _linear(module: Any) -> Any:
    """The layer itself, under its adapter where it has one."""
    return module.linear if "lora_a" in module else module


def _is_large(module: Any) -> bool:
    """Whether the gradient of the full weight would cost more than the thin matmuls of a low-rank one, which run at
    a third of the speed."""
    if "lora_a" not in module:
        return False
    rank = module.lora_a.shape[1]
    inputs, outputs = module.lora_a.shape[0], module.lora_b.shape[1]
    return inputs * outputs > 10 * rank * (inputs + outputs)


def effective_weight(module: Any) -> mx.array:
    """The weight with its adapter added to it, by way of the full gradient."""
    if "lora_a" not in module:
        return module.weight
    weight = module.linear.weight
    return weight + ((module.scale * module.lora_b.T) @ module.lora_a.T).astype(weight.dtype)
