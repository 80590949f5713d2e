"""Log-probabilities straight from a GGUF file, in NumPy and float64: what every other path is compared with.

Shares no code with them: the file is parsed here, weights are unpacked here, rows keep llama.cpp's order (rotated pairs
are neighbours), and every token sees its past by a plain mask. Format: ggml's `docs/gguf.md`; block layouts:
`block_q4_1` and `block_q8_0` of `ggml-common.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from npc.errors import ModelError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_Q4_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)])
_Q8_0 = np.dtype([("d", "<f2"), ("q", "i1", 32)])
_STORED: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f2"),
    3: _Q4_1,
    8: _Q8_0,
}  # by ggml's type number
BLOCK = 32


class GgufFile:
    """The facts of a GGUF file, and its tensors as float64 when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}
        self._where: dict[str, tuple[tuple[int, ...], int, int]] = {}
        with path.open("rb") as file:
            magic, version, tensors, facts = struct.unpack("<4sIQQ", file.read(24))
            if magic != b"GGUF" or version not in (2, 3):
                raise ModelError(f"{path}: not a GGUF file of version 2 or 3")
            for _ in range(facts):
                key = _string(file)
                self.facts[key] = _value(file, _scalar(file, "I"))
            for _ in range(tensors):
                name = _string(file)
                shape = tuple(_scalar(file, "Q") for _ in range(_scalar(file, "I")))
                self._where[name] = (shape[::-1], _scalar(file, "I"), _scalar(file, "Q"))
            alignment = self.facts.get("general.alignment", 32)
            self._start = -(-file.tell() // alignment) * alignment

    def tensor(self, name: str) -> np.ndarray:
        """One tensor, rows first, unpacked to float64."""
        shape, kind, offset = self._where[name]
        if kind not in _STORED:
            raise ModelError(f"{self.path}: tensor {name} is of ggml type {kind}, which is not read")
        stored = _STORED[kind]
        size = int(np.prod(shape))
        raw = np.fromfile(self.path, stored, size // (BLOCK if stored.fields else 1), offset=self._start + offset)
        if stored is _Q4_1:
            nibbles = np.concatenate([raw["q"] & 15, raw["q"] >> 4], axis=1).astype(np.float64)
            raw = nibbles * raw["d"].astype(np.float64)[:, None] + raw["m"].astype(np.float64)[:, None]
        elif stored is _Q8_0:
            raw = raw["q"].astype(np.float64) * raw["d"].astype(np.float64)[:, None]
        return raw.astype(np.float64).reshape(shape)

    def __contains__(self, name: str) -> bool:
        return name in self._where


def next_token_logps(file: GgufFile, texts: Sequence[Sequence[int]]) -> list[list[float]]:
    """For each text of token ids the log-probability of every token but the first, given those before it."""
    fact = {key.removeprefix("llama."): value for key, value in file.facts.items() if key.startswith("llama.")}
    heads, kv_heads = fact["attention.head_count"], fact["attention.head_count_kv"]
    eps, base = fact["attention.layer_norm_rms_epsilon"], fact["rope.freq_base"]
    embedding = file.tensor("token_embd.weight")
    states = [embedding[np.asarray(ids)] for ids in texts]
    for place in range(fact["block_count"]):
        w = {
            name: file.tensor(f"blk.{place}.{name}.weight")
            for name in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up",
                         "ffn_down")
        }  # fmt: skip
        for i, x in enumerate(states):
            normed = _norm(x, eps) * w["attn_norm"]
            q = _turned((normed @ w["attn_q"].T).reshape(len(x), heads, -1), base)
            k = _turned((normed @ w["attn_k"].T).reshape(len(x), kv_heads, -1), base)
            v = (normed @ w["attn_v"].T).reshape(len(x), kv_heads, -1)
            k, v = (np.repeat(part, heads // kv_heads, axis=1) for part in (k, v))
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
            scores[:, ~np.tri(len(x), dtype=bool)] = -np.inf
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            x = x + np.einsum("hqk,khd->qhd", scores, v).reshape(len(x), -1) @ w["attn_output"].T
            normed = _norm(x, eps) * w["ffn_norm"]
            gate = normed @ w["ffn_gate"].T
            states[i] = x + (gate / (1 + np.exp(-gate)) * (normed @ w["ffn_up"].T)) @ w["ffn_down"].T
    output = file.tensor("output.weight") if "output.weight" in file else embedding
    norm = file.tensor("output_norm.weight")
    found = []
    for x, ids in zip(states, texts, strict=True):
        logits = (_norm(x, eps) * norm) @ output.T
        top = logits.max(axis=-1)
        logps = logits - (top + np.log(np.exp(logits - top[:, None]).sum(axis=-1)))[:, None]
        found.append([float(logps[place, token]) for place, token in enumerate(ids[1:])])
    return found


def _norm(x: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)


def _turned(x_T_H_K: np.ndarray, base: float) -> np.ndarray:
    """The rotary embedding (Su et al. 2021, eq. 34): neighbours are a pair."""
    length, _, size = x_T_H_K.shape
    angles = np.arange(length)[:, None] * base ** (-np.arange(0, size, 2) / size)
    turned = x_T_H_K[..., 0::2] + 1j * x_T_H_K[..., 1::2]
    turned = turned * np.exp(1j * angles)[:, None, :]
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x_T_H_K.shape)


def _scalar(file: BinaryIO, form: str) -> Any:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]


def _string(file: BinaryIO) -> str:
    return file.read(_scalar(file, "Q")).decode("utf-8")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = _scalar(file, "I"), _scalar(file, "Q")
        return [_value(file, inner) for _ in range(count)]
    return _scalar(file, _SCALARS[kind])
