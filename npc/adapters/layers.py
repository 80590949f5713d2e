"""Which layers an adapter goes on: every linear layer of every block, quantised ones included.

Mixtures of experts keep their experts in layers of another kind, which are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npc.errors import AdapterError
from npc.mlx import mx, nn, tree_unflatten


class LoRALinear(nn.Module):
    """``linear(x) + scale * (x @ lora_a) @ lora_b``; no dropout, so that a rollout and its loss compute
    the same.
    """

    def __init__(self, linear: nn.Module, rank: int, scale: float) -> None:
        super().__init__()
        outputs, inputs = shape_of(linear)
        self.linear = linear
        self.scale = scale
        self.lora_a = mx.zeros((inputs, rank))
        self.lora_b = mx.zeros((rank, outputs))

    def __call__(self, x: mx.array) -> mx.array:
        return self.linear(x) + (self.scale * ((x @ self.lora_a) @ self.lora_b)).astype(x.dtype)


@dataclass(frozen=True)
class Place:
    """A linear layer. ``block`` holds it under ``key``, the model under ``name``; ``module`` is it, or its adapter."""

    name: str
    key: str
    block: nn.Module
    module: Any

    @property
    def linear(self) -> Any:
        """The layer itself, under its adapter where it has one."""
        return self.module.linear if isinstance(self.module, LoRALinear) else self.module


def places(model: Any) -> list[Place]:
    """The linear layers of all blocks, in the order of blocks. Raises AdapterError for a model without any."""
    names = {id(module): name for name, module in model.named_modules()}
    found = []
    for block in model.layers:
        modules = dict(block.named_modules())
        for key in sorted(modules):
            module = modules[key]
            inner = isinstance(modules.get(key.rpartition(".")[0]), LoRALinear)
            if not inner and isinstance(module, LoRALinear | nn.Linear | nn.QuantizedLinear):
                found.append(Place(f"{names[id(block)]}.{key}", key, block, module))
    if not found:
        raise AdapterError("no block of this model has a linear layer that an adapter could go on")
    return found


def keys_of(found: list[Place]) -> list[str]:
    """The layers' names within a block, as mlx-lm's adapter_config.json lists them."""
    return sorted({place.key for place in found})


def shape_of(linear: Any) -> tuple[int, int]:
    """Outputs and inputs of a linear layer."""
    outputs, inputs = linear.weight.shape
    if isinstance(linear, nn.QuantizedLinear):
        inputs = linear.scales.shape[1] * linear.group_size
    return outputs, inputs


def put(modules: list[tuple[Place, Any]]) -> None:
    """Puts modules in the places of others, block by block."""
    blocks: dict[int, tuple[nn.Module, list[tuple[str, Any]]]] = {}
    for place, module in modules:
        blocks.setdefault(id(place.block), (place.block, []))[1].append((place.key, module))
    for block, found in blocks.values():
        block.update_modules(tree_unflatten(found))
