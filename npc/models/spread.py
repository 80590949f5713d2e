"""Quantised weights spread out to floats.

On a CPU a product with packed weights doesn't go through BLAS and takes tens of times as long, so a model is held
spread out there where the machine has the room. What it computes is the same but for rounding.
"""

from __future__ import annotations

import os
from typing import Any

from npc.errors import ModelError
from npc.mlx import flat, mx, nn

SHARE = 0.25  # of the machine's memory that a model may take when spread out


def is_quantised(model: Any) -> bool:
    """Whether any of a model's weights are packed into few bits."""
    return any("scales" in module for _, module in model.named_modules())


def fits(model: Any) -> bool:
    """Whether the model, spread out to float32, leaves most of this machine's memory to others."""
    total = sum(4 * value.size for name, value in flat(model.parameters()).items() if not name.endswith("scales"))
    packed = (module for _, module in model.named_modules() if "scales" in module)
    total += sum(4 * module.scales.size * module.group_size for module in packed)
    return total <= SHARE * memory_bytes()


def memory_bytes() -> int:
    """This machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def wide_layers(model: Any) -> list[tuple[str, nn.Module]]:
    """Float32 layers for the quantised ones, by the names that those have without an adapter. Raises ModelError for one
    of a kind that can't be spread out."""
    found = []
    for name, module in model.named_modules():
        if "scales" in module:
            found.append((name.removesuffix(".linear"), _wide(name, module)))
    return found


def dense(layer: Any) -> mx.array:
    """The weights (…, outputs, inputs) of a layer as float32."""
    if "scales" not in layer:
        return layer.weight.astype(mx.float32)
    biases = layer.biases if "biases" in layer else None
    weight = mx.dequantize(layer.weight, layer.scales, biases, layer.group_size, layer.bits, layer.mode)
    return weight.astype(mx.float32)


def _wide(name: str, module: Any) -> nn.Module:
    if module.get("global_scale") is not None:
        raise ModelError(f"{name}: weights with a scale of their own beside those of groups can't be spread out")
    weight = dense(module)
    made: Any
    if isinstance(module, nn.QuantizedEmbedding):
        made = nn.Embedding(1, 1)
    elif isinstance(module, nn.QuantizedLinear):
        made = nn.Linear(1, 1, bias="bias" in module)
    elif type(module).__name__ == "QuantizedSwitchLinear":
        from mlx_lm.models.switch_layers import SwitchLinear

        made = SwitchLinear(1, 1, 1, bias="bias" in module)
    else:
        raise ModelError(f"{name}: a {type(module).__name__} can't be spread out to floats")
    made.weight = weight
    if "bias" in module:
        made.bias = module.bias
    return made
