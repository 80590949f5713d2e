"""Updates by mlx-lm-lora's GRPO, timed inside; runs in mlx-lm-lora's own environment.

Its trainer is used as it is. It samples all siblings of a group from one prompt, which it reads once for all of them;
so it is given every group's first recorded prompt of a moment, and learns from its own completions, which are of the
same phrases since it has the same taught adapter.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from talk import Clock, Talk, rest


class Over(Exception):
    """There are no more rounds to run."""


def preload(blas: str, threads: int) -> str:
    """Loads the fast BLAS that this project brings, before MLX is imported; what it says of it."""
    if not blas:
        return "mlx's own"
    spec = importlib.util.spec_from_file_location("errand_blas", blas)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.preload(threads).message


class Rounds:
    """Stands where the trainer generates and where it reports, and measures what lies between."""

    def __init__(self, talk: Talk, generate: Any, turns: int) -> None:
        self.talk, self.generate, self.turns = talk, generate, turns
        self.rollout: dict[str, float] = {}
        self.generated = 0
        self.fresh = True

    def generate_grpo(self, **how: Any) -> Any:
        if self.fresh:
            if not self.talk.asked():
                raise Over
            self.fresh, self.rollout, self.generated, self.clock = False, {}, 0, Clock()
        clock = Clock()
        completions, texts, indices = self.generate(**how)
        self.rollout = {name: self.rollout.get(name, 0.0) + took for name, took in clock.read("rollout").items()}
        self.generated += sum(one.size for one in completions)
        return completions, texts, indices

    def on_train_loss_report(self, _: dict[str, Any]) -> None:
        self.fresh = True
        self.talk.say(turns=self.turns, generated=self.generated, **rest(self.clock.read("loop"), self.rollout))

    def on_val_loss_report(self, _: dict[str, Any]) -> None:
        raise RuntimeError("nothing is validated here")


def main() -> int:
    talk = Talk()
    job = talk.job
    blas = preload(job["blas"], job["threads"])
    import mlx.core as mx
    import mlx.optimizers as optimizers
    from mlx_lm import load
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm_lora.trainer import grpo_trainer

    def model_with_adapter() -> Any:
        model, tokenizer, *_ = load(job["model"])
        model.freeze()
        load_adapters(model, job["adapter"])
        model.set_dtype(mx.float32)
        mx.eval(model.parameters())
        return model, tokenizer

    size = job["group_size"]
    groups = [job["rows"][at : at + size] for at in range(0, len(job["rows"]), size)]
    batch = min(job["batch"], len(groups))
    groups = groups[: len(groups) // batch * batch]
    steps = len(groups) // batch
    model, tokenizer = model_with_adapter()
    reference, _ = model_with_adapter()
    reference.freeze()
    said = {"versions": {name: version(name) for name in ("mlx-lm-lora", "mlx-lm", "mlx")}, "blas": blas}
    talk.say(**said, off=compare(model, job["rows"], job["logps"]), turns=len(groups) * size)
    dataset = [(group[0]["prompt_ids"], [0], group[0]["prompt"], json.dumps([row["reward"] for row in group]))
               for group in groups]  # fmt: skip

    def recorded(answer: list[str], **_: Any) -> list[float]:
        return [json.loads(rewards)[at % size] for at, rewards in enumerate(answer)]

    with tempfile.TemporaryDirectory() as folder:
        args = grpo_trainer.GRPOTrainingArgs(
            batch_size=batch, iters=1_000_000, gradient_accumulation_steps=steps, steps_per_report=steps,
            steps_per_save=1_000_000, group_size=size, beta=job["beta"], epsilon=0.2, temperature=1.0, top_p=1.0,
            top_k=0, max_completion_length=job["longest"], adapter_file=str(Path(folder) / "adapters.safetensors"),
        )  # fmt: skip
        rounds = Rounds(talk, grpo_trainer.generate_grpo, len(groups) * size)
        grpo_trainer.generate_grpo = rounds.generate_grpo
        try:
            grpo_trainer.train_grpo(
                model, reference, tokenizer, optimizers.AdamW(learning_rate=0.0), dataset, reward_funcs=[recorded],
                args=args, training_callback=rounds, end_answer_token="",
            )  # fmt: skip
        except Over:
            return 0
    return 1


def compare(model: Any, rows: list[dict[str, Any]], expected: list[float]) -> float:
    """The largest difference between what this model and ours give the first recorded completions, in nats."""
    import mlx.core as mx

    worst = 0.0
    for row, wanted in zip(rows, expected, strict=False):
        logits = model(mx.array([row["prompt_ids"] + row["completion_ids"]]))[0].astype(mx.float32)
        logps = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        places = range(len(row["prompt_ids"]) - 1, logits.shape[0] - 1)
        found = sum(logps[at, token].item() for at, token in zip(places, row["completion_ids"], strict=True))
        worst = max(worst, abs(found - wanted))
    return worst


if __name__ == "__main__":
    sys.exit(main())
