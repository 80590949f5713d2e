"""What rows of a model of mlx-lm's can share, found out once for each architecture by trying.

That a model keeps nothing but keys and values is seen in its caches. Whether its code takes rows that begin at places
of their own is not: some wants one number there, and some takes the rows of a mask for heads where there are as many.
So what sharing gives is compared with the plain forward, on a few tokens, and what differs or fails is not shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npc.foreign import Foreign, child_logits, prefix_of_foreign
from npc.mlx import flat, mx
from npc.tree import build_layout, pack

PREFIX = [1, 2]
PROMPTS = [[3], [4, 5, 6, 7, 8], [6, 3], [9, 2, 4]]
# their trees have five paths in all, a number that no model has of key-value heads
PHRASES = [[7, 8, 0], [7, 9, 0], [8, 10, 4, 0], [8, 10, 5, 0]]
# of the largest logit, by the precision of the weights
TOLERANCE = {mx.float32: 1e-4, mx.float16: 2e-2, mx.bfloat16: 1e-1}
# what code that wasn't made for it stumbles over
STUMBLES = (ValueError, TypeError, IndexError, AttributeError, RuntimeError)

_known: dict[tuple, tuple[tuple[int | None, ...] | None, bool]] = {}


def foreign_of(model: Any) -> Foreign:
    """The model with as much sharing as it can take."""
    key = (type(model), repr(getattr(model, "args", None)), _precision(model))
    if key not in _known:
        _known[key] = _found_out(model)
    return Foreign(model, *_known[key])


def _found_out(model: Any) -> tuple[tuple[int | None, ...] | None, bool]:
    windows = _windows(model)
    if windows is None:
        return None, False
    plain = _try(Foreign(model, None, False))
    for steps in (True, False):
        try:
            shared = _try(Foreign(model, windows, steps))
        except STUMBLES:
            continue
        if np.abs(shared - plain).max() <= TOLERANCE[_precision(model)] * np.abs(plain).max():
            return windows, steps
    return None, False


def _windows(model: Any) -> tuple[int | None, ...] | None:
    """How far back each cache reaches; None where one holds something else than keys and values."""
    from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache

    windows: list[int | None] = []
    for cache in make_prompt_cache(model):
        if type(cache) is KVCache:
            windows.append(None)
        elif type(cache) is RotatingKVCache and cache.keep == 0:
            windows.append(cache.max_size)
        else:
            return None
    return tuple(windows)


def _try(foreign: Foreign) -> np.ndarray:
    """Logits of the children of some small trees behind prompts of different lengths."""
    said = (PHRASES, PHRASES[:2], PHRASES[2:], PHRASES[:2])
    layouts = [build_layout(tuple("abcd"[: len(some)]), some) for some in said]
    packed = pack(PROMPTS, layouts, pad_id=0)
    logits = child_logits(foreign, packed, prefix_of_foreign(foreign, PREFIX)).astype(mx.float32)
    return np.where(packed.child_mask_O_C == 0, np.array(logits), 0.0)


def _precision(model: Any) -> mx.Dtype:
    kinds = {value.dtype for value in flat(model.parameters()).values()}
    return next((kind for kind in (mx.bfloat16, mx.float16) if kind in kinds), mx.float32)
