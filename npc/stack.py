"""All layers of a Llama model as one function of MLX arrays, computed in NumPy, forward and backward.

That is how a Linux CPU runs a model in float32: between two matmuls nothing is copied, and nothing is mapped afresh
that can be kept. :mod:`npc.forward` computes the same of MLX's own operations elsewhere; a test holds the two together,
gradients too.

Shapes: B rows, T tokens a row, N = B*T, Q of a row's tokens asked for, P prefix tokens, S = P+T keys that a token may
see, D hidden size, F feed-forward size, G key-value heads of R queries each, K head dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from npc import arrays
from npc.arrays import Array, scratch
from npc.attention import NOTHING, attend, attend_back, join, split
from npc.mlx import mx
from npc.weights import Projection, Weights


class _Linear:
    """A projection as NumPy reads it. What it learns (two factors, or else its whole weight, and its bias) is a part of
    the run's inputs, from place ``first`` on."""

    def __init__(self, projection: Projection, inputs: list[mx.array]) -> None:
        assert projection.weight is not None
        self.first = len(inputs)
        self.fixed = None if projection.low_rank is None else np.asarray(projection.weight)
        inputs += projection.low_rank or (projection.weight,)
        self.bias = None if projection.bias is None else len(inputs)
        inputs += () if projection.bias is None else (projection.bias,)

    def __call__(self, given: Sequence[Array], x_N_D: Array, use: str, fresh: bool = False) -> Array:
        """The results (N, E), in a buffer for ``use`` or a fresh one."""
        weight = given[self.first] if self.fixed is None else self.fixed
        shape = (len(x_N_D), len(weight))
        out = np.matmul(x_N_D, weight.T, out=np.empty(shape, dtype=np.float32) if fresh else scratch(use, shape))
        if self.bias is not None:
            out += given[self.bias]
        return out

    def back(self, given: Sequence[Array], x_N_D: Array, grad_N_E: Array, grads: list[Any]) -> None:
        """Puts the gradients of what is learned into ``grads``."""
        if self.fixed is None:
            grads[self.first] = grad_N_E.T @ x_N_D
        else:
            a, b = given[self.first : self.first + 2]
            grads[self.first] = x_N_D.T @ (grad_N_E @ b.T)
            grads[self.first + 1] = (x_N_D @ a).T @ grad_N_E
        if self.bias is not None:
            grads[self.bias] = grad_N_E.sum(axis=0)

    def through(self, given: Sequence[Array], grad_N_E: Array, use: str) -> Array:
        """The gradient (N, D) for what went in."""
        weight = given[self.first] if self.fixed is None else self.fixed
        return np.matmul(grad_N_E, weight, out=scratch(use, (len(grad_N_E), weight.shape[1])))


@dataclass
class _Kept:
    """What a layer keeps for its backward."""

    normed: Array = field(default_factory=lambda: NOTHING)  # (N, D)
    factor: Array = field(default_factory=lambda: NOTHING)  # (N, 1)
    q: Array = field(default_factory=lambda: NOTHING)  # (G, B, R, Q, K)
    k: Array = field(default_factory=lambda: NOTHING)  # (G, B, T, K)
    v: Array = field(default_factory=lambda: NOTHING)
    weights: Array = field(default_factory=lambda: NOTHING)  # (G, B, R, Q, S)
    attended: Array = field(default_factory=lambda: NOTHING)  # (B*Q, H*K)
    normed_again: Array = field(default_factory=lambda: NOTHING)  # (B*Q, D)
    factor_again: Array = field(default_factory=lambda: NOTHING)
    gate_up: Array = field(default_factory=lambda: NOTHING)  # (B*Q, 2F)


def usable(weights: Weights) -> bool:
    """Whether this can compute the model: all of it in float32, each layer's projections joined to matrices."""
    every = [p.weight for layer in weights.layers for p in (layer.q, layer.kv, layer.out, layer.gate_up, layer.down)]
    return all(weight is not None and weight.dtype == mx.float32 for weight in (weights.embedding, *every))


class Run:
    """One forward over embeddings (N, D), and what its backward needs of it.

    With ``real_N``, the places among B*T that are tokens, ``x``, ``cos`` and ``sin`` hold those only, and no matmul but
    attention's sees a pad.

    Differentiable for the embeddings, the prefix's keys and values (G, 1, P, K), and what the projections learn.
    Without ``weights.learns`` nothing is kept, and there is no backward.
    """

    def __init__(self, weights: Weights, x_N_D: mx.array, cos_N_R: mx.array, sin_N_R: mx.array, mask_B_T_T: mx.array,
                 prefix: Sequence[tuple[mx.array, mx.array]] | None = None,
                 asked_B_Q: mx.array | None = None, real_N: np.ndarray | None = None) -> None:  # fmt: skip
        self._learns, self._eps = weights.learns, weights.eps
        self._rows, self._length = mask_B_T_T.shape[:2]
        self._grouped = (weights.kv_heads, weights.heads // weights.kv_heads, weights.head_dim)  # G, R, K
        self._mask = np.asarray(mask_B_T_T)
        self._real = real_N
        pad = np.ones(self._rows * self._length, dtype=bool)
        pad[slice(None) if real_N is None else real_N] = False
        self._pads = np.flatnonzero(pad)
        cos, sin = (self._padded(np.asarray(part), use) for part, use in ((cos_N_R, "cos"), (sin_N_R, "sin")))
        self._turns = arrays.turns(cos, sin).reshape(self._rows, self._length, -1)
        self._asked = None if asked_B_Q is None else np.asarray(asked_B_Q)
        self._inputs = [x_N_D, *(part for pair in prefix or () for part in pair)]
        self._prefixed = prefix is not None
        every = [(layer.qkv, layer.out, layer.gate_up, layer.down) for layer in weights.layers]
        self._layers = [[_Linear(p, self._inputs) for p in layer] for layer in every[:-1]]
        self._last = weights.layers[-1]
        self._kept = [_Kept() for _ in weights.layers]

    # ---- what can be asked for ----

    def states(self) -> mx.array:
        """Normed states behind the last layer: of the asked tokens (B*Q, D), or of all (B*T, D), pads 0."""
        last = self._last
        if self._asked is None:
            self._layers.append([_Linear(p, self._inputs) for p in (last.qkv, last.out, last.gate_up, last.down)])
        else:
            parts = (last.q, last.kv, last.out, last.gate_up, last.down)
            self._layers.append([_Linear(p, self._inputs) for p in parts])
        final = _Kept()

        def forward(given: list[Array]) -> list[mx.array]:
            x = given[0]
            for place in range(len(self._layers)):
                x = self._layer(given, place, x)
            final.normed = self._new("normed", x.shape)
            final.factor = arrays.rms_norm(x, self._eps, final.normed)
            return [mx.array(final.normed if self._asked is not None else self._padded(final.normed, "states"))]

        def back(given: list[Array], cotangents: Sequence[Array], grads: list[Any]) -> None:
            grad = np.zeros(final.normed.shape, dtype=np.float32)
            cotangent = cotangents[0] if self._asked is not None else self._unpadded(cotangents[0], "grad states")
            arrays.rms_norm_back(final.normed, final.factor, cotangent, grad)
            for place in reversed(range(len(self._layers))):
                grad = self._layer_back(given, place, grad, grads)
            grads[0] = grad

        return self._differentiable(forward, back)[0]

    def keys_values(self) -> list[tuple[mx.array, mx.array]]:
        """Each layer's keys and values (G, B, T, K) of all tokens."""
        self._layers.append([_Linear(self._last.kv, self._inputs)])
        until = len(self._layers) - 1

        def forward(given: list[Array]) -> list[mx.array]:
            x, found = given[0], []
            for place in range(until):
                x = self._layer(given, place, x)
                found += [mx.array(self._kept[place].k), mx.array(self._kept[place].v)]
            kept = self._kept[until]
            kept.normed = self._new("normed", x.shape)
            kept.factor = arrays.rms_norm(x, self._eps, kept.normed)
            _, kept.k, kept.v = self._split(self._layers[until][0](given, kept.normed, "qkv"), self._turns, False)
            return [*found, mx.array(kept.k), mx.array(kept.v)]

        def back(given: list[Array], cotangents: Sequence[Array], grads: list[Any]) -> None:
            kept, linear = self._kept[until], self._layers[until][0]
            grad_kv = join(NOTHING, np.ascontiguousarray(cotangents[-2]), cotangents[-1], self._turns)
            linear.back(given, kept.normed, grad_kv, grads)
            grad = np.zeros(kept.normed.shape, dtype=np.float32)
            arrays.rms_norm_back(kept.normed, kept.factor, linear.through(given, grad_kv, "grad normed"), grad)
            for place in reversed(range(until)):
                grad = self._layer_back(given, place, grad, grads, cotangents[2 * place : 2 * place + 2])
            grads[0] = grad

        found = self._differentiable(forward, back)
        return list(zip(found[::2], found[1::2], strict=True))

    def _differentiable(self, forward: Callable, back: Callable) -> list[mx.array]:
        """``forward`` as a function of the inputs, with ``back`` as its gradient."""

        @mx.custom_function
        def run(*inputs: mx.array) -> Any:
            return forward([np.asarray(value) for value in inputs])

        @run.vjp
        def gradient(primals: Any, cotangents: Any, _outputs: Any) -> Any:
            if not self._learns:
                raise RuntimeError("these weights were read to play (weights.learns is False): nothing was kept")
            grads: list[Any] = [None] * len(primals)
            given = [np.asarray(value) for value in primals]
            back(given, [np.asarray(value) for value in cotangents], grads)
            return tuple(mx.array(value) for value in grads)

        return cast(list[mx.array], run(*self._inputs))

    # ---- one layer ----

    def _layer(self, given: list[Array], place: int, x: Array) -> Array:
        *heads, out, gate_up, down = self._layers[place]
        kept = self._kept[place]
        normed = kept.normed = self._new("normed", x.shape)
        kept.factor = arrays.rms_norm(x, self._eps, normed)
        mask = self._mask
        if len(heads) == 1:
            q, k, v = self._split(self._padded(heads[0](given, normed, "qkv"), "padded"), self._turns)
        else:
            asked, flat = self._places()
            _, k, v = self._split(self._padded(heads[1](given, normed, "qkv"), "padded"), self._turns, False)
            turns = np.take_along_axis(self._turns, asked[:, :, None], axis=1)
            q, _, _ = self._split(heads[0](given, normed[flat], "q"), turns)
            mask = np.take_along_axis(mask, asked[:, :, None], axis=1)
            x = x[flat]
        kept.q, kept.k, kept.v = q, k, v
        padded = self._real is not None and len(heads) == 1
        shape = (mask.shape[0] * mask.shape[1], q[:, 0, :, 0].size)
        attended = scratch("attended", shape) if padded else self._new("attended", shape)
        kept.weights = attend(q, k, v, mask, self._prefix(given, place), self._new, attended)
        kept.attended = self._unpadded(attended, "real attended", self._learns) if padded else attended
        x = np.add(x, out(given, kept.attended, "out"), out=scratch("between", x.shape))
        normed = kept.normed_again = self._new("normed again", x.shape)
        kept.factor_again = arrays.rms_norm(x, self._eps, normed)
        kept.gate_up = gate_up(given, normed, "gate up", fresh=self._learns)
        acted = scratch("acted", (len(x), kept.gate_up.shape[1] // 2))
        arrays.swiglu(kept.gate_up, acted)
        return np.add(x, down(given, acted, "down"), out=scratch("behind", x.shape))

    def _layer_back(self, given: list[Array], place: int, grad: Array, grads: list[Any],
                    grad_kv: Sequence[Array] = ()) -> Array:  # fmt: skip
        """The gradient (N, D) for a layer's input; ``grad``, that of its output, is overwritten. ``grad_kv``: what
        comes to its keys and values from elsewhere."""
        *heads, out, gate_up, down = self._layers[place]
        kept = self._kept[place]
        grad_acted = down.through(given, grad, "grad acted")
        acted, grad_gates = scratch("acted", grad_acted.shape), scratch("grad gates", kept.gate_up.shape)
        arrays.swiglu_back(kept.gate_up, grad_acted, grad_gates, acted)
        down.back(given, acted, grad, grads)
        gate_up.back(given, kept.normed_again, grad_gates, grads)
        grad_normed = gate_up.through(given, grad_gates, "grad normed")
        arrays.rms_norm_back(kept.normed_again, kept.factor_again, grad_normed, grad)
        out.back(given, kept.attended, grad, grads)
        grad_attended = out.through(given, grad, "grad attended")
        if len(heads) == 1:
            grad_attended = self._padded(grad_attended, "padded")
        grad_q, grad_k, grad_v, before = attend_back(kept.q, kept.k, kept.v, kept.weights, self._prefix(given, place),
                                                     grad_attended)  # fmt: skip
        for at, value in enumerate(before or ()):
            grads[1 + 2 * place + at] = value[:, None]
        for total, more in zip((grad_k, grad_v), grad_kv, strict=False):
            total += more
        if len(heads) == 1:
            grad_qkv = self._unpadded(join(grad_q, grad_k, grad_v, self._turns), "real grad")
            heads[0].back(given, kept.normed, grad_qkv, grads)
            grad_normed = heads[0].through(given, grad_qkv, "grad normed")
        else:
            asked, flat = self._places()
            grad_qkv = self._unpadded(join(NOTHING, grad_k, grad_v, self._turns), "real grad")
            heads[1].back(given, kept.normed, grad_qkv, grads)
            grad_normed = heads[1].through(given, grad_qkv, "grad normed")
            turns = np.take_along_axis(self._turns, asked[:, :, None], axis=1)
            grad_asked = join(grad_q, NOTHING, NOTHING, turns)
            heads[0].back(given, kept.normed[flat], grad_asked, grads)
            _add_at(grad_normed, flat, asked.shape, heads[0].through(given, grad_asked, "grad asked"))
            whole = np.zeros(grad_normed.shape, dtype=np.float32)
            _add_at(whole, flat, asked.shape, grad)
            grad = whole
        arrays.rms_norm_back(kept.normed, kept.factor, grad_normed, grad)
        return grad

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """The asked tokens' places in their rows (B, Q), and among all tokens (B*Q,)."""
        assert self._asked is not None
        flat = (self._asked + np.arange(self._rows)[:, None] * self._length).reshape(-1)
        return self._asked, flat if self._real is None else np.searchsorted(self._real, flat)

    def _split(self, z_M_E: Array, turns_B_Q_H: Any, queries: bool = True) -> tuple[Array, Array, Array]:
        kv_heads, each, dim = self._grouped
        return split(z_M_E, each if queries else 0, turns_B_Q_H, kv_heads, dim, self._new)

    def _prefix(self, given: list[Array], place: int) -> tuple[Array, Array] | None:
        """The prefix's keys and values (G, P, K) at a layer."""
        if not self._prefixed:
            return None
        keys, values = given[1 + 2 * place : 3 + 2 * place]
        return keys[:, 0], values[:, 0]

    def _padded(self, value_N_E: Array, use: str) -> Array:
        """(B*T, E) of the tokens' (N, E), with 0 for pads."""
        if self._real is None:
            return value_N_E
        size = self._rows * self._length
        out = scratch(use, (size, value_N_E.shape[1]))
        out[self._pads] = 0
        out[self._real] = value_N_E
        return out

    def _unpadded(self, value_M_E: Array, use: str, fresh: bool = False) -> Array:
        """The tokens' (N, E) of (B*T, E)."""
        if self._real is None:
            return value_M_E
        shape = (len(self._real), value_M_E.shape[1])
        out = np.empty(shape, dtype=np.float32) if fresh else scratch(use, shape)
        return np.take(value_M_E, self._real, axis=0, out=out, mode="clip")

    def _new(self, use: str, shape: tuple[int, ...]) -> Array:
        """What is kept for a backward, or only until the next layer."""
        return np.empty(shape, dtype=np.float32) if self._learns else scratch(use, shape)


def _add_at(out_N_D: Array, flat: np.ndarray, asked: tuple[int, ...], grad_M_D: Array) -> None:
    """Adds rows where they were taken from. One row may ask for a token twice, so each row's are added in turn."""
    for one in range(asked[1]):
        out_N_D[flat[one :: asked[1]]] += grad_M_D[one :: asked[1]]
