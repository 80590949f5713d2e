"""Rounds of TRL's GRPOTrainer on PyTorch, timed inside; runs in TRL's own environment.

The trainer is used as it is. Its rows are the recorded turns (each with its own prompt, siblings side by side, so that
groups have the recorded shape); it samples every round, and then learns from the recorded completions, so that both
sides learn from the same tokens.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from talk import Clock, Talk, rest
from torch.utils.data import Sampler
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Over(Exception):
    """There are no more rounds to run."""


class InOrder(Sampler):
    """All rows in their order, again and again, siblings side by side. An epoch never ends: at its end the trainer
    would take a step on what it has, after a part of the rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from range(self.rows)

    def __len__(self) -> int:
        return self.rows * 1_000_000


class Timed(GRPOTrainer):
    """Waits to be asked before each update, and measures what the update's parts take."""

    talk: Talk
    rows: list[dict[str, Any]]
    generated: int
    rollout: dict[str, float]
    clock: Clock

    def _get_train_sampler(self, dataset: Any = None) -> Sampler:
        return InOrder(len(self.rows))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.talk.asked():
            raise Over
        self.clock = Clock()
        return super()._generate_and_score_completions(inputs)

    def _generate(self, prompts: list[str]) -> Any:
        clock = Clock()
        try:
            return super()._generate(prompts)
        finally:
            self.rollout = clock.read("rollout")

    def _generate_single_turn(self, prompt_ids: list[list[int]], *rest: Any, **more: Any) -> Any:
        if prompt_ids != [row["prompt_ids"] for row in self.rows]:
            raise ValueError("TRL reads the prompts as other tokens than those that were recorded")
        sampled, logprobs = super()._generate_single_turn(prompt_ids, *rest, **more)
        self.generated = sum(map(len, sampled))
        return [row["completion_ids"] for row in self.rows], logprobs


class Answer(TrainerCallback):
    """Tells what a round took once its optimizer step is done."""

    def __init__(self) -> None:
        self.trainer: Timed

    def on_step_end(self, *_: Any, **__: Any) -> None:
        trainer = self.trainer
        parts = rest(trainer.clock.read("loop"), trainer.rollout)
        trainer.talk.say(turns=len(trainer.rows), generated=trainer.generated, **parts)


def main() -> int:
    talk = Talk()
    job = talk.job
    torch.set_num_threads(job["threads"])
    size, rows = job["group_size"], job["rows"]
    batch = max(size, min(job["batch"], len(rows)) // size * size)
    rows = rows[: len(rows) // batch * batch]
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    model = PeftModel.from_pretrained(model, job["peft"], is_trainable=True)
    talk.say(versions={name: version(name) for name in ("trl", "torch", "transformers", "peft")},
             off=compare(model, rows, job["logps"]), turns=len(rows))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
            num_generations=size, max_completion_length=job["longest"], temperature=1.0, top_p=1.0, top_k=0,
            per_device_train_batch_size=batch, gradient_accumulation_steps=len(rows) // batch, beta=job["beta"],
            epsilon=0.2, loss_type="grpo", learning_rate=0.0, lr_scheduler_type="constant", max_grad_norm=1.0,
            max_steps=1_000_000, save_strategy="no", logging_steps=1, shuffle_dataset=False, disable_tqdm=True,
            dataloader_pin_memory=False, disable_dropout=True,
        )  # fmt: skip
        answer = Answer()
        trainer = Timed(
            model=model, reward_funcs=lambda completions, reward, **_: list(reward), args=config,
            train_dataset=Dataset.from_list([{"prompt": row["prompt"], "reward": row["reward"]} for row in rows]),
            processing_class=tokenizer, callbacks=[answer],
        )  # fmt: skip
        trainer.talk, trainer.rows, answer.trainer = talk, rows, trainer
        try:
            trainer.train()
        except Over:
            return 0
    return 1


def compare(model: Any, rows: list[dict[str, Any]], expected: list[float]) -> float:
    """The largest difference between what this model and ours give the first recorded completions, in nats."""
    worst = 0.0
    for row, wanted in zip(rows, expected, strict=False):
        ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
        with torch.no_grad():
            logps = torch.log_softmax(model(ids).logits[0].double(), dim=-1)
        said = row["completion_ids"]
        places = range(len(row["prompt_ids"]) - 1, ids.shape[1] - 1)
        worst = max(worst, abs(sum(float(logps[at, token]) for at, token in zip(places, said, strict=True)) - wanted))
    return worst


if __name__ == "__main__":
    sys.exit(main())
