"""What an adapter folder holds, without its model: facts, sizes of the change by layer, differences, provenance.

The change that LoRA makes to a linear layer is D = scale · (A B)ᵀ. Its Frobenius norm comes from two matrices of the
rank's size, ‖A B‖² = Σ (AᵀA) ∘ (B Bᵀ), so that no matrix of the layer's size is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npc.adapters import CONFIG_FILE, PROVENANCE_FILE, WEIGHTS_FILE, read_config, read_json
from npc.errors import AdapterError
from npc.mlx import mx
from npc.models import array_bytes, hash_arrays, read_safetensors


@dataclass(frozen=True)
class AdapterFacts:
    """An adapter folder as it lies on disk. `norms`: Frobenius norm of the change by layer name; `zero`: the layers
    whose change is exactly nothing."""

    folder: Path
    rank: int
    scale: float
    parameters: int
    bytes: int
    dtype: str
    weights_hash: str
    norms: dict[str, float]
    zero: tuple[str, ...]
    provenance: dict[str, Any]

    @property
    def norm(self) -> float:
        """Frobenius norm of the whole change."""
        return math.sqrt(math.fsum(value * value for value in self.norms.values()))


@dataclass(frozen=True)
class AdapterDifference:
    """How far two adapters of one base lie apart. `relative` and `cosine` are of the changes that they make, by layer:
    ‖D_a − D_b‖ / max(‖D_a‖, ‖D_b‖) and ⟨D_a, D_b⟩ / ‖D_a‖‖D_b‖ (0 where one is nothing)."""

    equal: bool
    relative: dict[str, float]
    cosine: dict[str, float]
    total_relative: float
    total_cosine: float
    provenance: dict[str, tuple[Any, Any]]  # fields that differ


def inspect(folder: str | Path) -> AdapterFacts:
    """Reads a folder. Raises AdapterError where a file is missing, damaged or holds something that is no LoRA."""
    folder = Path(folder)
    tensors, rank, scale, provenance = _read(folder)
    pairs = _pairs(folder, tensors)
    norms = {layer: scale * _norm(a, b) for layer, (a, b) in pairs.items()}
    kinds = sorted({str(value.dtype).rpartition(".")[2] for value in tensors.values()})
    in_memory = hash_arrays({name: value.astype(mx.float32) for name, value in tensors.items()})
    return AdapterFacts(
        folder, rank, scale, sum(value.size for value in tensors.values()), (folder / WEIGHTS_FILE).stat().st_size,
        "+".join(kinds), in_memory, norms, tuple(layer for layer, norm in norms.items() if norm == 0.0),
        provenance,
    )  # fmt: skip


def check_not_nothing(facts: AdapterFacts) -> None:
    """Raises AdapterError for an adapter that changes nothing, or leaves a layer as it was: training that never
    reached some B is the usual cause."""
    if facts.zero:
        some = facts.zero[0] if len(facts.zero) == 1 else f"{facts.zero[0]} and {len(facts.zero) - 1} more"
        whole = "the adapter changes nothing" if len(facts.zero) == len(facts.norms) else "layers are left unchanged"
        raise AdapterError(f"{facts.folder / WEIGHTS_FILE}: {whole}: lora_b (or lora_a) is all zero in {some}")


def difference(left: str | Path, right: str | Path) -> AdapterDifference:
    """Compares two folders. Raises AdapterError where they are not of one base or of one set of layers."""
    left, right = Path(left), Path(right)
    (tensors_a, _, scale_a, origin_a), (tensors_b, _, scale_b, origin_b) = _read(left), _read(right)
    if origin_a.get("base_hash") != origin_b.get("base_hash"):
        raise AdapterError(
            f"{left} and {right} belong to different bases ({origin_a.get('base_hash')} and "
            f"{origin_b.get('base_hash')}), so their changes can't be compared"
        )
    pairs_a, pairs_b = _pairs(left, tensors_a), _pairs(right, tensors_b)
    if set(pairs_a) != set(pairs_b):
        odd = sorted(set(pairs_a) ^ set(pairs_b))[0]
        raise AdapterError(f"{left} and {right}: layer {odd} is in only one of them")
    relative, cosine = {}, {}
    sums = np.zeros(3)  # ⟨a,a⟩, ⟨b,b⟩, ⟨a,b⟩
    for layer, (a, b) in pairs_a.items():
        c, d = pairs_b[layer]
        if (a.shape[0], b.shape[1]) != (c.shape[0], d.shape[1]):
            raise AdapterError(f"{right}: layer {layer} is {c.shape[0]}×{d.shape[1]}, not {a.shape[0]}×{b.shape[1]}")
        products = np.array([
            scale_a * scale_a * _inner(a, b, a, b), scale_b * scale_b * _inner(c, d, c, d),
            scale_a * scale_b * _inner(a, b, c, d),
        ])  # fmt: skip
        sums += products
        relative[layer], cosine[layer] = _apart(products)
    keys = sorted(set(origin_a) | set(origin_b))
    differing = {key: (origin_a.get(key), origin_b.get(key)) for key in keys if origin_a.get(key) != origin_b.get(key)}
    equal = set(tensors_a) == set(tensors_b) and all(
        array_bytes(value) == array_bytes(tensors_b[name]) for name, value in tensors_a.items()
    )
    total_relative, total_cosine = _apart(sums)
    return AdapterDifference(equal and scale_a == scale_b, relative, cosine, total_relative, total_cosine, differing)


def find(root: str | Path) -> Iterator[Path]:
    """Every adapter folder below `root`, in order of their names. Raises AdapterError where `root` isn't there."""
    root = Path(root)
    if not root.is_dir():
        raise AdapterError(f"{root}: no such folder")
    yield from sorted(path.parent for path in root.rglob(WEIGHTS_FILE))


def _read(folder: Path) -> tuple[dict[str, mx.array], int, float, dict[str, Any]]:
    if not folder.is_dir():
        raise AdapterError(f"{folder}: no such adapter folder")
    config = read_json(folder / CONFIG_FILE)
    rank, scale = read_config(config, folder / CONFIG_FILE)
    path = folder / PROVENANCE_FILE
    return read_safetensors(folder / WEIGHTS_FILE, AdapterError), rank, scale, read_json(path) if path.is_file() else {}


def _pairs(folder: Path, tensors: dict[str, mx.array]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Layer name -> float64 A (inputs, rank) and B (rank, outputs)."""
    path = folder / WEIGHTS_FILE
    layers = sorted({name.rpartition(".")[0] for name in tensors})
    pairs = {}
    for layer in layers:
        found = [tensors.get(f"{layer}.{part}") for part in ("lora_a", "lora_b")]
        odd = sorted(n for n in tensors if n.rpartition(".")[0] == layer and not n.endswith((".lora_a", ".lora_b")))
        if odd or found[0] is None or found[1] is None:
            raise AdapterError(f"{path}: layer {layer} needs lora_a and lora_b and nothing else")
        a, b = (np.array(value.astype(mx.float32)).astype(np.float64) for value in found if value is not None)
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise AdapterError(f"{path}: layer {layer} has lora_a {a.shape} and lora_b {b.shape}; ranks must agree")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise AdapterError(f"{path}: layer {layer} holds NaN or infinity; the training that wrote it had diverged")
        pairs[layer] = (a, b)
    return pairs


def _inner(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """⟨A B, C D⟩ = Σ (AᵀC) ∘ (B Dᵀ)."""
    return float(((a.T @ c) * (b @ d.T)).sum())


def _norm(a: np.ndarray, b: np.ndarray) -> float:
    # exactly zero only where a factor is: rounding must not make something of nothing, or nothing of something
    if not a.any() or not b.any():
        return 0.0
    return math.sqrt(max(_inner(a, b, a, b), 0.0))


def _apart(products: np.ndarray) -> tuple[float, float]:
    """Relative distance and cosine out of ⟨a,a⟩, ⟨b,b⟩, ⟨a,b⟩."""
    aa, bb, ab = (float(value) for value in products)
    larger = max(aa, bb)
    if larger <= 0:
        return 0.0, 1.0
    apart = math.sqrt(max(aa + bb - 2 * ab, 0.0) / larger)
    return apart, ab / math.sqrt(aa * bb) if aa > 0 and bb > 0 else 0.0
