"""A Llama model out of a GGUF file, in mlx-lm's form: names, row order of q and k, and a tokenizer.

llama.cpp rotates neighbouring rows of a head, Hugging Face and mlx-lm rows that are half a head apart. Its converter
has therefore interleaved the two halves of each head of q_proj and k_proj; here that is undone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from npc.errors import ModelError
from npc.llama import LlamaConfig
from npc.mlx import mx

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL = 3  # the token type of special tokens
GROUP = 32  # weights that share a scale in every quantised form that is read


@dataclass(frozen=True)
class Converted:
    """A model as mlx-lm knows it. ``weights`` are float16."""

    config: LlamaConfig
    weights: dict[str, mx.array]
    tokenizer: Tokenizer
    tokenizer_config: dict[str, Any]


def read_gguf(path: Path) -> Converted:
    """Reads and converts the file. Raises :class:`~npc.errors.ModelError` for what is not a Llama GGUF."""
    try:
        loaded = mx.load(str(path), format="gguf", return_metadata=True)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{path}: not a readable GGUF file ({str(error).splitlines()[0]})") from error
    arrays, facts = cast(tuple[dict[str, mx.array], dict[str, Any]], loaded)
    config = _config(facts, arrays, path)
    tokenizer, tokenizer_config = _tokenizer(facts, path)
    return Converted(config, _weights(arrays, config, path), tokenizer, tokenizer_config)


def save_converted(model: Converted, folder: Path) -> None:
    """Writes a folder that :func:`npc.models.load` and ``mlx_lm.load`` take."""
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), model.weights, metadata={"format": "mlx"})
    config = model.config.to_dict() | {"torch_dtype": "float16"}
    model.tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in (("config.json", config), ("tokenizer_config.json", model.tokenizer_config)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _config(facts: dict[str, Any], arrays: dict[str, mx.array], path: Path) -> LlamaConfig:
    if facts.get("general.architecture") != "llama":
        raise ModelError(f"{path}: architecture is {facts.get('general.architecture')!r}; only 'llama' is read")

    def number(key: str) -> Any:
        if f"llama.{key}" not in facts:
            raise ModelError(f"{path}: field llama.{key} is missing")
        return facts[f"llama.{key}"].item()

    heads, hidden = number("attention.head_count"), number("embedding_length")
    return LlamaConfig(
        vocab_size=len(facts["tokenizer.ggml.tokens"]),
        hidden_size=hidden,
        num_hidden_layers=number("block_count"),
        intermediate_size=number("feed_forward_length"),
        num_attention_heads=heads,
        num_key_value_heads=number("attention.head_count_kv"),
        head_dim=hidden // heads,
        rms_norm_eps=float(f"{number('attention.layer_norm_rms_epsilon'):.6g}"),
        rope_theta=float(number("rope.freq_base")),
        tie_word_embeddings="output.weight" not in arrays,
        max_position_embeddings=number("context_length"),
    )


def _weights(arrays: dict[str, mx.array], config: LlamaConfig, path: Path) -> dict[str, mx.array]:
    found = {}
    for key in sorted(arrays):
        place, kind = key.rsplit(".", 1)
        if kind != "weight":
            continue
        *block, name = place.split(".")
        if name not in NAMES:
            raise ModelError(f"{path}: tensor {key} is not a part of a Llama model")
        weight = _plain(arrays, place, path)
        if name in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if name == "attn_q" else config.num_key_value_heads
            weight = halves_apart(weight, heads)
        where = f"model.layers.{block[1]}." if block else ""
        found[f"{where}{NAMES[name]}.weight"] = weight.astype(mx.float16)
    mx.eval(found)
    return found


def _plain(arrays: dict[str, mx.array], place: str, path: Path) -> mx.array:
    """A tensor as float32, whether it was quantised or not."""
    weight = arrays[f"{place}.weight"]
    if f"{place}.scales" not in arrays:
        return weight.astype(mx.float32)
    scales, biases = (arrays[f"{place}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
    bits = weight.shape[-1] * 32 // (scales.shape[-1] * GROUP)
    if bits not in (4, 8):
        raise ModelError(f"{path}: tensor {place} is quantised to {bits} bits; 4 and 8 are read")
    return mx.dequantize(weight, scales, biases, group_size=GROUP, bits=bits)


def halves_apart(weight: mx.array, heads: int) -> mx.array:
    """Rows (heads * K, inputs) with rotated pairs as neighbours -> the second of each pair half a head further."""
    rows, inputs = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, inputs).swapaxes(1, 2).reshape(rows, inputs)


def _tokenizer(facts: dict[str, Any], path: Path) -> tuple[Tokenizer, dict[str, Any]]:
    """Byte-level BPE after splitting digits singly, which is what `smollm` stands for in a GGUF."""
    kind = (facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ModelError(f"{path}: its tokenizer is {'/'.join(map(str, kind))}; only gpt2/smollm is rebuilt")
    tokens = facts["tokenizer.ggml.tokens"]
    vocab = {token: place for place, token in enumerate(tokens)}
    merges = [tuple(pair.split(" ")) for pair in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = np.array(facts["tokenizer.ggml.token_type"])
    special = [token for token, what in zip(tokens, types, strict=True) if what == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])

    def named(role: str) -> str:
        return tokens[facts[f"tokenizer.ggml.{role}_token_id"].item()]

    return tokenizer, {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": named("bos"),
        "eos_token": named("eos"),
        "pad_token": named("padding"),
        "chat_template": facts.get("tokenizer.chat_template", ""),
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts["llama.context_length"].item(),
    }
