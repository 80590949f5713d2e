"""What a forward reads of a model: the joined weights of a Llama model, or a model of mlx-lm as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npc.foreign import Foreign, prefix_of_foreign
from npc.forward import PrefixKV, prefix_kv
from npc.llama import Llama
from npc.sharing import foreign_of
from npc.weights import Weights, weights_of

Reading = Weights | Foreign


def reading_of(model: Any, present: Reading | None = None) -> Reading:
    """Reads a model, with or without LoRA on its linear layers. What is a reading is given back as it is.

    ``present`` is the reading of the same parameters made before, see :func:`npc.weights.weights_of`.
    """
    if isinstance(model, Weights | Foreign):
        return model
    if isinstance(present, Foreign):
        return present
    return weights_of(model, present) if is_plain_llama(model) else foreign_of(model)


def is_plain_llama(model: Any) -> bool:
    """Whether :mod:`npc.forward` computes what the model does: our own modules, or mlx-lm's Llama without anything
    that ours leave out."""
    if isinstance(model, Llama):
        return True
    if type(model).__module__ != "mlx_lm.models.llama":
        return False
    args = model.args
    sliding = any(layer.use_sliding for layer in model.layers)
    return not args.rope_scaling and not sliding and "scales" not in model.model.embed_tokens


def prefix_of(reading: Reading, ids: Sequence[int]) -> PrefixKV:
    """What is kept of a prefix, to be shared by every row. Gradients flow through it where it is computed inside the
    loss."""
    return prefix_of_foreign(reading, ids) if isinstance(reading, Foreign) else prefix_kv(reading, ids)
