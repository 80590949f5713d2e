"""LoRA adapters on all linear layers of all blocks: attach, save, load strictly.

The files are mlx-lm's own (``adapters.safetensors`` and ``adapter_config.json``), so that
``mlx_lm.load(model, adapter_path=folder)`` takes them; ``provenance.json`` beside them says which base and
tokenizer they belong to. mlx-lm's loader accepts an adapter that lacks tensors; this one refuses whatever
doesn't match.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npc.adapters.layers import LoRALinear, keys_of, places, put, shape_of
from npc.errors import AdapterError
from npc.mlx import flat, mx, tree_unflatten
from npc.models import Brain, check_names_and_shapes, hash_arrays, read_safetensors
from npc.template import PLAIN

WEIGHTS_FILE, CONFIG_FILE, PROVENANCE_FILE = "adapters.safetensors", "adapter_config.json", "provenance.json"


def attach(brain: Brain, rank: int = 16, scale: float = 2.0, seed: int = 0) -> None:
    """Puts a fresh adapter on the model (instead of one that is there) and freezes all else.

    A is drawn uniformly from ±1/sqrt(inputs), equal on every machine for equal ``seed``; B is zero, so that
    the model still answers as its base does.
    """
    if rank < 1:
        raise AdapterError(f"adapter rank must be 1 or more, not {rank}")
    if not (math.isfinite(scale) and scale > 0):
        raise AdapterError(f"adapter scale must be above 0, not {scale}")
    detach(brain)
    put([(place, LoRALinear(place.module, rank, scale)) for place in places(brain.model)])
    brain.model.freeze()
    brain.model.unfreeze(keys=["lora_a", "lora_b"], strict=False)
    brain.adapter = {"rank": rank, "scale": scale}
    generator = np.random.Generator(np.random.PCG64(seed))
    fresh: dict[str, mx.array] = {}
    for key, value in sorted(get_adapter(brain).items()):
        if key.endswith("lora_a"):
            bound = 1 / math.sqrt(value.shape[0])
            fresh[key] = mx.array(generator.uniform(-bound, bound, value.shape).astype(np.float32))
        else:
            fresh[key] = mx.zeros(value.shape)
    set_adapter(brain, fresh)


def detach(brain: Brain) -> None:
    """Takes the adapter off, if there is one, and unfreezes the base."""
    if brain.adapter is None:
        return
    put([(place, place.linear) for place in places(brain.model)])
    brain.model.unfreeze()
    brain.adapter = None
    brain.bump()


def get_adapter(brain: Brain) -> dict[str, mx.array]:
    """The adapter's tensors by name (``model.layers.0.self_attn.q_proj.lora_a`` …); empty without an
    adapter.
    """
    if brain.adapter is None:
        return {}
    return {key: value for key, value in flat(brain.model.parameters()).items() if key.endswith((".lora_a", ".lora_b"))}


def set_adapter(brain: Brain, tensors: Mapping[str, mx.array | np.ndarray]) -> None:
    """Replaces all of the adapter's tensors (float32); names and shapes must match exactly. Where all are as they were,
    what was computed from them stays good."""
    arrays = {key: mx.array(value).astype(mx.float32) for key, value in tensors.items()}
    before = get_adapter(brain)
    check_names_and_shapes(arrays, before, "adapter", AdapterError)
    if all(mx.array_equal(value, before[key]).item() for key, value in arrays.items()):
        return
    brain.model.update(tree_unflatten(list(arrays.items())))
    mx.eval(brain.model.parameters())
    brain.bump()


def weights_hash(brain: Brain) -> str:
    """The hash of the weights that act now, read from memory: the adapter's, or the base's without one."""
    tensors = get_adapter(brain) or flat(brain.model.parameters())
    return hash_arrays(tensors)


def round_to_half(brain: Brain) -> None:
    """Rounds the adapter's values to float16, in memory, so that :func:`save_adapter` can store them as such."""
    set_adapter(brain, {name: value.astype(mx.float16) for name, value in get_adapter(brain).items()})


def save_adapter(
    brain: Brain, folder: str | Path, provenance: Mapping[str, Any] | None = None, half: bool = False
) -> None:
    """Writes the adapter in mlx-lm's format, with provenance.json (base, tokenizer and weights hashes, and
    the caller's own fields: scenario, teacher, seeds …).

    ``half`` stores float16, which takes half the space; the values must be such (:func:`round_to_half`), so that what
    is read back is what is in memory.
    """
    if brain.adapter is None:
        raise AdapterError("nothing to save: the model has no adapter")
    tensors = get_adapter(brain)
    if half:
        stored = {name: value.astype(mx.float16) for name, value in tensors.items()}
        if hash_arrays({name: value.astype(mx.float32) for name, value in stored.items()}) != hash_arrays(tensors):
            raise AdapterError("the adapter's values are not float16: round them first, or store float32")
        tensors = stored
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / WEIGHTS_FILE), tensors, metadata={"format": "mlx"})
    config = {
        "fine_tune_type": "lora",
        "num_layers": len(brain.model.layers),
        "lora_parameters": {
            "rank": brain.adapter["rank"],
            "scale": brain.adapter["scale"],
            "dropout": 0.0,
            "keys": keys_of(places(brain.model)),
        },
    }
    _write_json(folder / CONFIG_FILE, config)
    origin = {
        "model": brain.name,
        "base_hash": brain.base_hash,
        "tokenizer_hash": brain.tokenizer_hash,
        "prompt": brain.form.name,
        "weights_hash": weights_hash(brain),
    }
    _write_json(folder / PROVENANCE_FILE, dict(provenance or {}) | origin)


def load_adapter(brain: Brain, folder: str | Path) -> dict[str, Any]:
    """Puts the adapter of ``folder`` on the model and returns its provenance.

    Raises :class:`~npc.errors.AdapterError`, with the model left as it was, where a file is missing or
    damaged, a tensor doesn't match by name and shape, a value is not finite, or base or tokenizer are not
    those it was made for.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise AdapterError(f"{folder}: no such adapter folder")
    config, provenance = read_json(folder / CONFIG_FILE), read_json(folder / PROVENANCE_FILE)
    rank, scale = read_config(config, folder / CONFIG_FILE, len(brain.model.layers))
    for name, ours in (("base_hash", brain.base_hash), ("tokenizer_hash", brain.tokenizer_hash)):
        if provenance.get(name) != ours:
            raise AdapterError(
                f"{folder / PROVENANCE_FILE}: {name} is {provenance.get(name)!r}, "
                f"the model {brain.name!r} has {ours!r}; use the model that this adapter was made for"
            )
    prompt = provenance.get("prompt", PLAIN.name)
    if prompt != brain.form.name:
        raise AdapterError(
            f"{folder / PROVENANCE_FILE}: it learned from prompts of the form {prompt!r}, the model {brain.name!r} "
            f"reads {brain.form.name!r} here; name the model as it was named in the training"
        )
    path = folder / WEIGHTS_FILE
    stored = read_safetensors(path, AdapterError)
    tensors = {name: value.astype(mx.float32) for name, value in stored.items()}
    check_names_and_shapes(tensors, _wanted(brain, rank), str(path), AdapterError)
    for key in sorted(tensors):
        if not mx.all(mx.isfinite(tensors[key])).item():
            raise AdapterError(f"{path}: tensor {key} holds NaN or infinity; the training that wrote it had diverged")
    if provenance.get("weights_hash") not in (None, hash_arrays(tensors)):
        raise AdapterError(f"{path}: its tensors are not those that {PROVENANCE_FILE} names (weights_hash differs)")
    attach(brain, rank, scale)
    set_adapter(brain, tensors)
    return provenance


def _wanted(brain: Brain, rank: int) -> dict[str, mx.array]:
    """Names and shapes of an adapter of ``rank`` on this model."""
    wanted = {}
    for place in places(brain.model):
        outputs, inputs = shape_of(place.linear)
        wanted[f"{place.name}.lora_a"] = mx.zeros((inputs, rank))
        wanted[f"{place.name}.lora_b"] = mx.zeros((rank, outputs))
    return wanted


def read_config(config: Mapping[str, Any], path: Path, layers: int | None = None) -> tuple[int, float]:
    """Rank and scale of adapter_config.json, for a model of `layers` blocks (None: any). Raises AdapterError."""
    if config.get("fine_tune_type", "lora") != "lora":
        raise AdapterError(f"{path}: fine_tune_type is {config['fine_tune_type']!r}, only 'lora' is loaded")
    parameters = config.get("lora_parameters")
    if not isinstance(parameters, dict):
        raise AdapterError(f"{path}: field lora_parameters is missing")
    rank, scale = parameters.get("rank"), parameters.get("scale")
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise AdapterError(f"{path}: lora_parameters.rank is {rank!r}, must be a number of 1 or more")
    if not isinstance(scale, int | float) or isinstance(scale, bool) or not (math.isfinite(scale) and scale > 0):
        raise AdapterError(f"{path}: lora_parameters.scale is {scale!r}, must be a number above 0")
    if parameters.get("dropout", 0.0) != 0.0:
        raise AdapterError(f"{path}: lora_parameters.dropout is {parameters['dropout']!r}, must be 0")
    if layers is not None and config.get("num_layers") != layers:
        raise AdapterError(f"{path}: num_layers is {config.get('num_layers')!r}, the model has {layers}")
    return rank, float(scale)


def read_json(path: Path) -> dict[str, Any]:
    """An object out of a file of an adapter folder. Raises AdapterError."""
    if not path.is_file():
        raise AdapterError(f"{path}: missing; an adapter folder holds {WEIGHTS_FILE}, {CONFIG_FILE}, {PROVENANCE_FILE}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AdapterError(f"{path}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise AdapterError(f"{path}: must hold an object")
    return value


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
