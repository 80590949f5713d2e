"""The gradient of losses over legal actions, or over free text, for batches that share one prefix.

The prefix is computed once for all batches. Each batch gives a gradient for the prefix's keys and values beside the
one for the weights; what those add up to goes back through the prefix once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from npc.forward import PrefixKV
from npc.mlx import flat, mx, tree_unflatten
from npc.policy import ClosedPolicy, action_logps
from npc.reading import Reading, prefix_of, reading_of
from npc.tree import PackedBatch

# takes log-probabilities (B, A) of the legal actions, gives a scalar and a tuple of arrays to be kept
Loss = Callable[[mx.array], tuple[mx.array, tuple[mx.array, ...]]]
# takes weights and the prefix's keys and values, and gives the same
Run = Callable[[Reading, PrefixKV], tuple[mx.array, tuple[mx.array, ...]]]


def summed_gradient(
    closed: ClosedPolicy, batches: Iterable[tuple[PackedBatch, Loss]], tau: float = 1.0
) -> tuple[dict[str, mx.array], list[tuple[mx.array, tuple[mx.array, ...]]]]:
    """The gradient of the sum of all batches' losses by parameter name, and each batch's (loss, kept arrays).

    The trainable parameters are those that are not frozen: the adapter's, where there is one.
    """

    def over(packed: PackedBatch, loss: Loss) -> Run:
        return lambda weights, prefix: loss(action_logps(weights, packed, prefix, tau))

    return gradient_of_runs(closed, (over(packed, loss) for packed, loss in batches))


def gradient_of_runs(
    closed: ClosedPolicy, runs: Iterable[Run]
) -> tuple[dict[str, mx.array], list[tuple[mx.array, tuple[mx.array, ...]]]]:
    """As :func:`summed_gradient`, for whatever each run computes from weights and prefix."""
    model = closed.brain.model
    present, prefix = closed.present()
    trained = sorted(flat(model.trainable_parameters()).items())
    names, values = [name for name, _ in trained], [value for _, value in trained]
    seen = [part for pair in prefix for part in pair]

    def set_to(arrays: list[mx.array]) -> None:
        model.update(tree_unflatten(list(zip(names, arrays, strict=True))))

    sums: list[mx.array] = []
    found = []
    for run in runs:

        def traced(inputs: list[mx.array], run: Run = run) -> Any:
            set_to(inputs[: len(names)])
            parts = inputs[len(names) :]
            pairs = list(zip(parts[::2], parts[1::2], strict=True))
            return run(reading_of(model, present), pairs or prefix)  # of some models nothing is kept but ids

        (value, kept), grads = mx.value_and_grad(traced)([*values, *seen])
        sums = [total + grad for total, grad in zip(sums, grads, strict=True)] if sums else grads
        mx.eval(value, kept, sums)
        found.append((value, kept))

    def prefix_parts(*inputs: mx.array) -> list[mx.array]:
        set_to(list(inputs))
        return [part for pair in prefix_of(reading_of(model, present), closed.prefix_ids) for part in pair]

    if sums and seen:
        _, through = mx.vjp(prefix_parts, values, sums[len(names) :])
        sums = [total + grad for total, grad in zip(sums, through, strict=False)]
        mx.eval(sums)
    set_to(values)
    return dict(zip(names, sums, strict=False)), found
