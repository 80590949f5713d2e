"""Recorded turns as the peers take them: whole prompts, said tokens, the episode's reward; siblings side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npc.adapters import get_adapter
from npc.forward import prefix_kv
from npc.generate import completion_logps
from npc.mlx import mx
from npc.models import Brain, save_model
from npc.policy import turn_text
from rl.credit import groups_of
from rl.rollout import Episode


def rows_of(episodes: Sequence[Episode], prefix: str, prefix_ids: Sequence[int], size: int) -> list[dict[str, Any]]:
    """One row a turn. Each `size` rows after another are turns of one group, those of the same moment first, which is
    what a peer compares with one another. What a group has beyond a multiple of `size` is left out."""
    rows = []
    for members in groups_of(episodes).values():
        longest = max(len(episodes[i].turns) for i in members)
        of_group = [
            {"prompt": prefix + turn_text(turn.observation), "prompt_ids": [*prefix_ids, *turn.prompt_ids],
             "completion_ids": list(turn.sampled_ids), "reward": episodes[i].reward}
            for at in range(longest) for i in members for turn in episodes[i].turns[at : at + 1]
        ]  # fmt: skip
        rows += of_group[: len(of_group) // size * size]
    return rows


def logps_of(brain: Brain, rows: Sequence[dict[str, Any]]) -> list[float]:
    """This project's log-probability of each row's completion over the whole vocabulary: a peer that was given the
    same weights must find the same."""
    found, _, _ = completion_logps(
        brain.model, prefix_kv(brain.model, []), [row["prompt_ids"] for row in rows],
        [row["completion_ids"] for row in rows],
    )  # fmt: skip
    return [float(value) for value in found.sum(axis=1).tolist()]  # type: ignore[union-attr, arg-type]


def write_model(brain: Brain, folder: Path) -> None:
    """The base in float32, as transformers and mlx-lm read it, and in `peft` beside it its adapter as peft does."""
    save_model(brain, folder)
    (folder / "peft").mkdir()
    tensors = {}
    for name, value in get_adapter(brain).items():
        place, part = name.rsplit(".", 1)
        tensors[f"base_model.model.{place}.lora_{part[-1].upper()}.weight"] = mx.contiguous(value.T)
    mx.save_safetensors(str(folder / "peft" / "adapter_model.safetensors"), tensors, metadata={"format": "pt"})
    assert brain.adapter is not None
    rank, scale = brain.adapter["rank"], brain.adapter["scale"]
    adapted = sorted({name.split(".")[-2] for name in get_adapter(brain)})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": scale * rank, "bias": "none",
              "lora_dropout": 0.0, "target_modules": adapted}  # fmt: skip
    (folder / "peft" / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
