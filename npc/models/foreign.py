"""Loads a model folder by mlx-lm: every architecture that it knows, quantised ones included. Runs no code of the
folder's."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npc.errors import ModelError
from npc.mlx import ON_CPU, flat, mx, tree_unflatten
from npc.models.spread import fits, is_quantised, wide_layers

# what Hugging Face calls the heads of models that don't go on with a text
OTHER_TASKS = ("ForMaskedLM", "Classification", "ForQuestionAnswering", "ForPreTraining", "Segmentation", "Detection",
               "ForMultipleChoice", "ForNextSentencePrediction", "VisionModel", "EncoderModel")  # fmt: skip


def check_causal(config: dict[str, Any], path: Path, known: bool) -> None:
    """Raises ModelError for a model that is none that goes on with a text, or, where its type is not ``known``, that
    mlx-lm doesn't know either."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ModelError(f"{path}: field model_type is missing")
    heads = config.get("architectures") or []
    heads = [heads] if isinstance(heads, str) else heads
    odd = next((head for head in heads if str(head).endswith(OTHER_TASKS)), None)
    if config.get("is_encoder_decoder") or odd:
        what = odd or f"{kind} with an encoder"
        raise ModelError(f"{path}: {what} is not a causal language model; give one that goes on with a text")
    if not known and not _is_known(kind):
        name = f" ({heads[0]})" if heads else ""
        raise ModelError(f"{path}: model_type {kind!r}{name} is none of mlx-lm's causal language models")


def _is_known(kind: str) -> bool:
    from mlx_lm.utils import MODEL_REMAPPING

    kind = MODEL_REMAPPING.get(kind, kind)
    return kind.replace("-", "_").isidentifier() and importlib.util.find_spec(f"mlx_lm.models.{kind}") is not None


@dataclass(frozen=True)
class Loaded:
    """A model with the config.json that describes it as it is in memory. ``stored`` are its parameters as they lie in
    the files."""

    model: Any
    config: dict[str, Any]
    stored: dict[str, mx.array]


def load_by_mlx_lm(folder: Path) -> Loaded:
    """Loads a folder. On a CPU the model holds floats as float32, what was quantised too where there is room for it
    (:mod:`npc.models.spread`); elsewhere all is as it is stored."""
    from mlx_lm.utils import load_model

    if ON_CPU:
        mx.disable_compile()  # parts of mlx-lm's models are compiled, which wants a C++ compiler on a CPU
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    try:
        model, _ = load_model(folder, lazy=True, strict=True, model_config=_theta(config))
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, OSError, ImportError, SystemExit) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{folder}: mlx-lm can't load this model ({type(error).__name__}: {lines[0]})") from error
    if not hasattr(model, "layers"):
        raise ModelError(f"{folder}: {config['model_type']} names no blocks that an adapter could go on")
    stored = flat(model.parameters())
    if ON_CPU:
        if is_quantised(model) and fits(model):
            model.update_modules(tree_unflatten(wide_layers(model)))
            config = without_quantisation(config)
        held = flat(model.parameters()).items()
        floats = [(name, value.astype(mx.float32)) for name, value in held if mx.issubdtype(value.dtype, mx.floating)]
        model.update(tree_unflatten(floats))
    return Loaded(model, config, stored)


def _theta(config: dict[str, Any]) -> dict[str, Any]:
    """The base of the rotary positions where mlx-lm's models look for it; transformers 5 writes it a level deeper."""
    deeper = config.get("rope_parameters")
    if "rope_theta" in config or not isinstance(deeper, dict) or "rope_theta" not in deeper:
        return {}
    return {"rope_theta": deeper["rope_theta"]}


def without_quantisation(config: dict[str, Any]) -> dict[str, Any]:
    """The config of the same model in floats."""
    return {key: value for key, value in config.items() if not key.startswith("quantization")}
