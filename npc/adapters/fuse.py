"""Melts an adapter into its base, where the base's number format can hold it.

Weights are stored in a few bits; a change much smaller than the distance between two neighbouring values rounds to
nothing, and the model that was trained is gone without a word. So what is left of the change is measured first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npc.adapters import detach
from npc.adapters.layers import LoRALinear, places
from npc.errors import AdapterError
from npc.mlx import flat, mx, nn, tree_unflatten
from npc.models import Brain, save_model

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
LOST_AT_MOST = 0.05  # of the change's norm


@dataclass(frozen=True)
class Fused:
    """What was written. `lost`: ‖stored − (W + D)‖ / ‖D‖ over all layers, D the adapter's change, both Frobenius;
    `worst` is the layer that lost most, with its share."""

    folder: Path
    dtype: str
    lost: float
    worst: tuple[str, float]


def fuse(brain: Brain, folder: str | Path, dtype: str = "float32") -> Fused:
    """Writes base + adapter as a model folder and leaves `brain` with the fused weights and no adapter.

    A quantised base is spread out to `dtype`: packed into few bits again, it would lose the adapter.

    Raises AdapterError, with nothing written and the brain as it was, without an adapter, for an unknown dtype, for
    quantised layers of a kind that can't be spread out, or where storing as `dtype` loses more than 5 % of the change's
    norm.
    """
    if brain.adapter is None:
        raise AdapterError("nothing to fuse: the model has no adapter")
    if dtype not in DTYPES:
        raise AdapterError(f"dtype {dtype!r}: choose one of {', '.join(DTYPES)}")
    fused: dict[str, mx.array] = {}
    change, loss, worst = 0.0, 0.0, ("", 0.0)
    for place in places(brain.model):
        module = place.module
        assert isinstance(module, LoRALinear)
        moved_O_I = (module.scale * (module.lora_a @ module.lora_b)).T
        whole_O_I = _dense(module.linear) + moved_O_I
        stored_O_I = whole_O_I.astype(DTYPES[dtype])
        squares = [mx.square(moved_O_I).sum(), mx.square(stored_O_I.astype(mx.float32) - whole_O_I).sum()]
        here, gone = (float(np.array(value)) for value in squares)
        change, loss = change + here, loss + gone
        if here > 0 and (gone / here) ** 0.5 > worst[1]:
            worst = (place.name, (gone / here) ** 0.5)
        fused[f"{place.name}.weight"] = stored_O_I
    if change == 0:
        raise AdapterError("nothing to fuse: the adapter changes nothing (lora_b is all zero)")
    lost = (loss / change) ** 0.5
    if lost > LOST_AT_MOST:
        raise AdapterError(
            f"fusing as {dtype} would round away {100 * lost:.0f} % of the adapter's change (most in {worst[0]}, "
            f"{100 * worst[1]:.0f} %); use float32, or keep the adapter as a file of its own"
        )
    wide = _spread(brain.model)
    detach(brain)
    if wide:
        brain.model.update_modules(tree_unflatten(wide))
        brain.source = {key: value for key, value in brain.source.items() if not key.startswith("quantiz")}
    brain.model.update(tree_unflatten(list(fused.items())))
    others = {name: value.astype(DTYPES[dtype]) for name, value in flat(brain.model.parameters()).items()}
    brain.model.update(tree_unflatten(list(others.items())))
    mx.eval(brain.model.parameters())
    brain.bump()
    save_model(brain, folder)
    return Fused(Path(folder), dtype, lost, worst)


def _spread(model: Any) -> list[tuple[str, nn.Module]]:
    """Float layers for the quantised ones, by the names that those have without an adapter. Raises AdapterError."""
    found: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        if "scales" not in module:
            continue
        if not isinstance(module, nn.QuantizedLinear | nn.QuantizedEmbedding):
            raise AdapterError(f"{name} is quantised and no plain layer; keep the adapter as a file of its own")
        weight = _dense(module)
        rows, columns = weight.shape
        wide: nn.Module
        if isinstance(module, nn.QuantizedEmbedding):
            wide = nn.Embedding(rows, columns)
        else:
            wide = nn.Linear(columns, rows, bias="bias" in module)
            if "bias" in module:
                wide.bias = module.bias
        wide.weight = weight
        found.append((name.removesuffix(".linear"), wide))
    return found


def _dense(layer: Any) -> mx.array:
    """The weights (outputs, inputs) of a layer as float32, quantised ones spread out."""
    if "scales" not in layer:
        return layer.weight.astype(mx.float32)
    biases = layer.biases if "biases" in layer else None
    weight = mx.dequantize(layer.weight, layer.scales, biases, layer.group_size, layer.bits, layer.mode)
    return weight.astype(mx.float32)
