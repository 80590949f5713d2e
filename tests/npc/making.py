"""Tiny brains with weights wild enough that their answers differ, and the plain evaluation they are tested against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npc import adapters
from npc.llama import LlamaConfig
from npc.mlx import flat, mx, tree_unflatten
from npc.models import Brain, create
from npc.tokenizer import TextTokenizer, build_nano_tokenizer

WORDS = [
    "lantern",
    "rope",
    "bread",
    "dock",
    "inn",
    "mill",
    "mara",
    "tom",
    "go",
    "to",
    "the",
    "take",
    "give",
    "ask",
    "wait",
]
PHRASES = ["go to the", "take the", "give the"]


def tokenizer() -> TextTokenizer:
    return TextTokenizer(build_nano_tokenizer(WORDS, PHRASES))


def config(**changes: Any) -> LlamaConfig:
    """Grouped heads (4 queries, 2 keys) by default, so that they are tried everywhere."""
    shape = {
        "vocab_size": tokenizer().vocab_size,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
    }
    return LlamaConfig(**(shape | changes))


def brain(seed: int = 0, loud: float = 8.0, **changes: Any) -> Brain:
    """A random model with weights ``loud`` times the usual, norms that aren't 1, biases that aren't 0."""
    made = create(config(**changes), tokenizer(), seed)
    dice = np.random.default_rng(seed)
    named = {}
    for name, value in flat(made.model.parameters()).items():
        if "norm" in name:
            named[name] = mx.array(dice.uniform(0.5, 1.5, value.shape).astype(np.float32))
        elif name.endswith("bias"):
            named[name] = mx.array(dice.normal(0, 0.3, value.shape).astype(np.float32))
        else:
            named[name] = value * loud
    made.model.update(tree_unflatten(list(named.items())))
    made.bump()
    return made


def with_adapter(made: Brain, rank: int = 4, seed: int = 3) -> Brain:
    """Attaches an adapter whose B is not zero."""
    adapters.attach(made, rank, 2.0, seed)
    dice = np.random.default_rng(seed)
    tensors = {k: dice.normal(0, 0.15, v.shape).astype(np.float32) for k, v in adapters.get_adapter(made).items()}
    adapters.set_adapter(made, tensors)
    return made


def mlx_lm_model(made: Brain) -> Any:
    """mlx-lm's own model with the same weights (adapters fused by hand)."""
    from mlx_lm.models import llama

    args = llama.ModelArgs.from_dict(made.config.to_dict())
    model = llama.Model(args)
    named = flat(made.model.parameters())
    plain = {}
    for name, value in named.items():
        if name.endswith((".lora_a", ".lora_b")):
            continue
        stem = name.removesuffix(".linear.weight")
        if stem != name:
            lora_a, lora_b = named[stem + ".lora_a"], named[stem + ".lora_b"]
            assert made.adapter is not None
            value = value + made.adapter["scale"] * (lora_a @ lora_b).T
        plain[name.replace(".linear.", ".")] = value
    model.load_weights(list(plain.items()))
    return model


def plain_probabilities(
    model: Any, prefix_ids: Sequence[int], prompt: Sequence[int], ids_A: list[list[int]], tau: float
) -> np.ndarray:
    """Probabilities (A,) of whole phrases, one plain forward for each token of each phrase: slow and simple.

    At each token, softmax at ``tau`` over the tokens by which some phrase goes on after what was said so far.
    """
    found = []
    for ids in ids_A:
        logp = 0.0
        for at in range(len(ids)):
            said = ids[:at]
            legal = sorted({other[at] for other in ids_A if len(other) > at and other[:at] == said})
            row = mx.array([[*prefix_ids, *prompt, *said]])
            logits = np.array(model(row)[0, -1], dtype=np.float64)[legal] / tau
            logits -= logits.max()
            logp += logits[legal.index(ids[at])] - math.log(np.exp(logits).sum())
        found.append(math.exp(logp))
    return np.array(found)
