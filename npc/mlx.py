"""The one place through which the project imports MLX: ``from npc.mlx import mx, nn``.

The BLAS that makes a CPU fast has to be loaded before ``mlx.core`` (see :mod:`npc.blas`); importing from here
keeps that order. The default device is left as MLX chose it (Metal, CUDA or CPU).
"""

# ruff: noqa: E402
from __future__ import annotations

import sys
from typing import Any

from npc import blas

BLAS = blas.preload()

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
from mlx.utils import tree_flatten, tree_unflatten

ON_CPU = mx.default_device().type == mx.DeviceType.cpu

if ON_CPU and not BLAS.fast:
    print(BLAS.message, file=sys.stderr)


def flat(tree: Any) -> dict[str, mx.array]:
    """A tree of arrays (``model.parameters()``, gradients, optimizer state) by dotted names."""
    return dict(tree_flatten(tree))  # type: ignore[arg-type]


__all__ = ["BLAS", "ON_CPU", "blas", "flat", "mx", "nn", "optimizers", "tree_unflatten"]
