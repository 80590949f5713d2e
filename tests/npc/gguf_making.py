"""A tiny GGUF file, written here byte by byte, and a wheel around it."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from pathlib import Path

import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

from npc.catalog import Wheel

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS = 2, 64, 96, 4, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "Ġt h", "Ġth e", "Ġ d", "o c", "oc k", "Ġd ock"]
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8


def tokens(missing: str = "") -> list[str]:
    letters = [letter for letter in sorted(ByteLevel.alphabet()) if letter not in missing]
    return [*SPECIAL, *letters, *[merge.replace(" ", "") for merge in MERGES]]


def write_gguf(path: Path, seed: int = 0, architecture: str = "llama", missing: str = "") -> Path:
    """A random Llama whose embedding is Q8_0, whose matrices are Q4_1 but for one in F16, and whose norms are F32."""
    dice = np.random.default_rng(seed)
    vocab = tokens(missing)
    head = HIDDEN // HEADS
    shapes = {"token_embd": (len(vocab), HIDDEN, Q8_0), "output_norm": (0, HIDDEN, F32)}
    for place in range(LAYERS):
        shapes |= {
            f"blk.{place}.attn_norm": (0, HIDDEN, F32), f"blk.{place}.ffn_norm": (0, HIDDEN, F32),
            f"blk.{place}.attn_q": (HIDDEN, HIDDEN, Q4_1), f"blk.{place}.attn_k": (head * KV_HEADS, HIDDEN, Q4_1),
            f"blk.{place}.attn_v": (head * KV_HEADS, HIDDEN, Q4_1), f"blk.{place}.attn_output": (HIDDEN, HIDDEN, F16),
            f"blk.{place}.ffn_gate": (INNER, HIDDEN, Q4_1), f"blk.{place}.ffn_up": (INNER, HIDDEN, Q4_1),
            f"blk.{place}.ffn_down": (HIDDEN, INNER, Q4_1),
        }  # fmt: skip
    infos, data = b"", b""
    for name, (rows, columns, kind) in shapes.items():
        values = 0.12 * dice.normal(size=(rows or 1, columns)).astype(np.float32) + (0 if rows else 1)
        shape = (columns, rows) if rows else (columns,)
        infos += _text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        packed = _packed(values, kind)
        data += packed + bytes(-len(packed) % 32)
    facts = {
        "general.architecture": architecture, "llama.block_count": LAYERS, "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 100000.0, "llama.context_length": 256, "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": vocab, "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in vocab],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.padding_token_id": 2,
    }  # fmt: skip
    head_bytes = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(facts))
    head_bytes += b"".join(_text(key) + _value(value) for key, value in facts.items()) + infos
    path.write_bytes(head_bytes + bytes(-len(head_bytes) % 32) + data)
    return path


def write_wheel(folder: Path, gguf: Path) -> tuple[Wheel, Path]:
    """A wheel with the GGUF in it, and how a catalogue would name it."""
    file = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as opened:
        opened.write(gguf, "tiny_model/tiny.gguf")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Wheel("tiny-model==1.0", file.name, digest, "tiny_model/tiny.gguf", "MIT", "a tiny model"), file


def _packed(values: np.ndarray, kind: int) -> bytes:
    if kind in (F32, F16):
        return values.astype("<f4" if kind == F32 else "<f2").tobytes()
    blocks = values.reshape(-1, 32)
    if kind == Q8_0:
        d = (np.abs(blocks).max(axis=1) / 127).astype("<f2")
        q = np.rint(blocks / d.astype(np.float32)[:, None]).clip(-128, 127).astype("i1")
        return b"".join(a.tobytes() + b.tobytes() for a, b in zip(d, q, strict=True))
    low = blocks.min(axis=1).astype("<f2")
    d = ((blocks.max(axis=1) - blocks.min(axis=1)) / 15).astype("<f2")
    scaled = (blocks - low.astype(np.float32)[:, None]) / d.astype(np.float32)[:, None]
    q = np.rint(scaled).clip(0, 15).astype("u1")
    both = q[:, :16] | q[:, 16:] << 4
    return b"".join(a.tobytes() + b.tobytes() + c.tobytes() for a, b, c in zip(d, low, both, strict=True))


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: object) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, list) and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_text(each) for each in value)
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<II", 4, value)
