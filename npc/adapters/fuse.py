"""Melts an adapter into its base, where the base's number format can hold it.

Weights are stored in a few bits; a change much smaller than the distance between two neighbouring values rounds to
nothing, and the model that was trained is gone without a word. So what is left of the change is measured first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npc.adapters import detach
from npc.adapters.layers import LoRALinear, places
from npc.errors import AdapterError
from npc.mlx import flat, mx, tree_unflatten
from npc.models import Brain, save_model
from npc.models.foreign import without_quantisation
from npc.models.spread import dense, wide_layers

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

    Raises AdapterError, with nothing written and the brain as it was, without an adapter, for an unknown dtype, or
    where storing as `dtype` loses more than 5 % of the change's norm; ModelError for quantised layers of a kind that
    can't be spread out.
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
        whole_O_I = dense(module.linear) + moved_O_I
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
    wide = wide_layers(brain.model)
    detach(brain)
    if wide:
        brain.model.update_modules(tree_unflatten(wide))
        brain.source = without_quantisation(brain.source)
    brain.model.update(tree_unflatten(list(fused.items())))
    others = {name: value.astype(DTYPES[dtype]) for name, value in flat(brain.model.parameters()).items()}
    brain.model.update(tree_unflatten(list(others.items())))
    mx.eval(brain.model.parameters())
    brain.bump()
    save_model(brain, folder)
    return Fused(Path(folder), dtype, lost, worst)

