"""The Llama architecture as plain MLX modules, with the parameter names of Hugging Face and mlx-lm.

The weights are interchangeable with ``mlx_lm.models.llama``. The modules are our own because importing mlx-lm
costs over a second (it imports transformers), and because its forward takes neither a mask nor positions:
:mod:`npc.forward` computes the forward, over these modules or over mlx-lm's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from npc.errors import ModelError
from npc.mlx import nn

TYPES = ("llama", "mistral")  # mlx-lm reads both as one


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a model. ``vocab_size`` counts embedding rows; it may exceed the tokenizer's."""

    vocab_size: int
    hidden_size: int = 128
    num_hidden_layers: int = 4
    intermediate_size: int = 384
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    head_dim: int = 32
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_traditional: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = True
    max_position_embeddings: int = 2048
    model_type: str = "llama"

    def to_dict(self) -> dict[str, Any]:
        """The config.json of this model, as Hugging Face and mlx-lm read it."""
        fields = asdict(self)
        return fields | {
            "architectures": ["LlamaForCausalLM"],
            "hidden_act": "silu",
            "torch_dtype": "float32",
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any], source: str = "config.json") -> LlamaConfig:
        """Reads a config.json that :func:`computes` says yes to. Raises ModelError for a field that is missing or makes
        no sense."""
        known = {name: config[name] for name in cls.__dataclass_fields__ if config.get(name) is not None}
        known.setdefault("rope_theta", (config.get("rope_parameters") or {}).get("rope_theta", cls.rope_theta))
        missing = {
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "intermediate_size",
            "num_attention_heads",
        } - set(known)
        if missing:
            raise ModelError(f"{source}: field {sorted(missing)[0]} is missing")
        known.setdefault("num_key_value_heads", known["num_attention_heads"])
        known.setdefault("head_dim", known["hidden_size"] // known["num_attention_heads"])
        if known["num_attention_heads"] % known["num_key_value_heads"]:
            raise ModelError(f"{source}: num_attention_heads is not a multiple of num_key_value_heads")
        return cls(**known)


def computes(config: Mapping[str, Any]) -> bool:
    """Whether these modules and their forward compute what a config.json describes: a Llama model in floats, with plain
    rotary positions and full attention."""
    if config.get("model_type") not in TYPES or config.get("hidden_act", "silu") != "silu":
        return False
    for scaling in (config.get("rope_scaling") or {}, config.get("rope_parameters") or {}):
        if (scaling.get("rope_type") or scaling.get("type") or "default") != "default":
            return False
    if config.get("quantization") or config.get("quantization_config"):
        return False
    return set(config.get("layer_types") or ["full_attention"]) == {"full_attention"}


class Attention(nn.Module):
    """The four projections; the attention itself is in :mod:`npc.forward`."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        inner = config.num_attention_heads * config.head_dim
        shared = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, inner, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, shared, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, shared, bias=config.attention_bias)
        self.o_proj = nn.Linear(inner, config.hidden_size, bias=config.attention_bias)


class MLP(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)


class Block(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class Trunk(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = [Block(config) for _ in range(config.num_hidden_layers)]
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class Llama(nn.Module):
    """The parameters of a Llama model under ``model.…`` and, where the embedding is not tied, ``lm_head``."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.args = config
        self.model = Trunk(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def layers(self) -> list[Block]:
        return self.model.layers
