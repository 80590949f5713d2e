"""Tiny random models of several architectures, as folders that mlx-lm loads."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken

from npc.mlx import flat, mx, nn
from npc.tokenizer import EOS, PAD, TextTokenizer, build_nano_tokenizer
from tests.npc.making import PHRASES, WORDS

STARTS, ENDS = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
COMMON = {
    "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "max_position_embeddings": 512, "tie_word_embeddings": True,
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    # queries and keys normed, a head's size of its own
    "qwen3": COMMON | {"architectures": ["Qwen3ForCausalLM"]},
    # sliding windows shorter than a prompt, scaled embeddings, norms about 1
    "gemma3_text": COMMON | {"sliding_window": 7, "sliding_window_pattern": 2, "query_pre_attn_scalar": 8},
    # one layer for queries, keys and values, one for gate and up; an output layer of its own
    "phi3": COMMON | {"tie_word_embeddings": False},
    # learned positions, biases, norms of another kind
    "gpt2": {"n_ctx": 512, "n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 512, "layer_norm_epsilon": 1e-5},
    # takes one place for all rows, and mixes up the rows of a mask where there are as many as heads
    "gemma2": COMMON | {"query_pre_attn_scalar": 8},
    # takes one place for all rows
    "gpt_bigcode": {"n_embd": 32, "n_head": 4, "n_layer": 3, "n_inner": 64, "n_positions": 512,
                    "layer_norm_epsilon": 1e-5},
    # convolutions beside attention: a state that rows can't share
    "lfm2": COMMON | {"norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3, "block_dim": 32, "block_ff_dim": 64,
                      "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False,
                      "layer_types": ["conv", "full_attention", "conv"]},
    # experts
    "qwen3_moe": COMMON | {"num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [0],
                           "moe_intermediate_size": 32, "norm_topk_prob": True},
    # a language model within a model that sees
    "gemma3": {"architectures": ["Gemma3ForConditionalGeneration"],
               "text_config": COMMON | {"model_type": "gemma3_text", "sliding_window": 7, "sliding_window_pattern": 2,
                                        "query_pre_attn_scalar": 8}},
    "llama": COMMON | {"architectures": ["LlamaForCausalLM"]},
}  # fmt: skip


def tokenizer(chat: bool = False) -> TextTokenizer:
    made = build_nano_tokenizer(WORDS, PHRASES, (PAD, EOS))
    if chat:
        made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (STARTS, ENDS)])
    return TextTokenizer(made)


def folder(at: Path, kind: str, chat: bool = False, bits: int = 0, seed: int = 0, like: TextTokenizer | None = None,
           dtype: mx.Dtype = mx.float32, **changes: Any) -> Path:  # fmt: skip
    """A model folder at ``at``: weights wild enough that answers differ, ``bits`` of them where quantised."""
    words = like or tokenizer(chat)
    config = SHAPES[kind] | {"model_type": kind, "vocab_size": words.vocab_size + 3} | changes
    config = {name: value for name, value in config.items() if value is not None}
    module = importlib.import_module(f"mlx_lm.models.{kind}")
    model = module.Model(module.ModelArgs.from_dict(config))
    dice = np.random.default_rng(seed)
    drawn: dict[str, mx.array] = {}
    for name, value in flat(model.parameters()).items():
        loud = 0.3 if value.ndim > 1 else 0.1
        around = 1.0 if "norm" in name and name.endswith("weight") and not kind.startswith("gemma") else 0.0
        drawn[name] = mx.array((around + dice.normal(0, loud, value.shape)).astype(np.float32)).astype(dtype)
    if kind.startswith("gemma3"):  # tied, which mlx-lm sees by what is missing
        drawn.pop(next(name for name in drawn if name.endswith("lm_head.weight")))
    at.mkdir(parents=True)
    kept = {name.partition(".")[0] for name in drawn}
    if bits:
        model.load_weights(list(drawn.items()), strict=False)
        nn.quantize(model, group_size=32, bits=bits)
        config["quantization"] = {"group_size": 32, "bits": bits}
        drawn = {name: value for name, value in flat(model.parameters()).items() if name.partition(".")[0] in kept}
    mx.save_safetensors(str(at / "model.safetensors"), drawn, metadata={"format": "mlx"})
    (at / "config.json").write_text(json.dumps(config))
    words.save(at, TEMPLATE if chat else "")
    return at
