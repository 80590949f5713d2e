"""AdamW on NumPy arrays in place, with the gradient's norm clipped; its state is saved and read back exactly.

The weights live in worker processes and travel as NumPy arrays, so the step is taken on those. It is
`mlx.optimizers.AdamW` that computes it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npc.mlx import flat, mx, optimizers, tree_unflatten
from npc.models import read_safetensors
from rl.files import CheckpointError

Arrays = dict[str, np.ndarray]


class Optimizer:
    """AdamW over named arrays. `max_norm` bounds the gradient's global norm."""

    def __init__(self, betas: tuple[float, float] = (0.9, 0.98), decay: float = 0.0, max_norm: float = 1.0) -> None:
        self._adam = optimizers.AdamW(
            learning_rate=1.0, betas=list(betas), eps=1e-8, weight_decay=decay, bias_correction=True
        )
        self._max_norm = max_norm

    def step(self, weights: Arrays, gradient: Arrays, rate: float) -> tuple[Arrays, float]:
        """The weights after one step at learning rate `rate`, and the gradient's norm before clipping."""
        self._adam.learning_rate = rate
        clipped, norm = optimizers.clip_grad_norm(_tree(gradient), self._max_norm)
        moved = self._adam.apply_gradients(clipped, _tree(weights))
        mx.eval(moved, self._adam.state)
        return {name: np.array(value) for name, value in flat(moved).items()}, float(norm)

    def save(self, path: Path) -> None:
        """Writes the state as safetensors."""
        mx.save_safetensors(str(path), flat(self._adam.state))

    def load(self, path: Path) -> None:
        """Goes on from a state that `save` wrote. Raises CheckpointError where it can't be read."""
        state = read_safetensors(path, CheckpointError)
        self._adam.state = tree_unflatten(list(state.items()))


def _tree(arrays: Arrays) -> dict:
    return tree_unflatten([(name, mx.array(value)) for name, value in arrays.items()])  # type: ignore[return-value]
