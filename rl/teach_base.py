"""Builds the embedded model `nano` from scratch: `python -m rl.teach_base --out runs/nano`.

What it is taught (`scenarios.lessons`): to recall a value by its name, to read an observation, to say what is so in
it, and to follow random orders. At the end it unlearns what habits it has behind the bare cue: it acts at random there
until it is taught. It is never shown an errand. Lessons use train seeds only.

Loss is cross-entropy over the whole vocabulary on the answer tokens alone (with loss on all tokens, recall never
came about). The learning rate warms up and falls by a cosine. Work is shared by worker processes; the result depends
on the seed and the number of workers, not on their speed. It is saved every 200 steps and resumes from there.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

import scenarios
from npc.forward import MASKED, hidden_states, prefix_kv
from npc.llama import LlamaConfig
from npc.mlx import flat, mx, nn, tree_unflatten
from npc.models import Brain, create, load_folder, save_model
from npc.policy import CUE
from npc.tokenizer import TextTokenizer, build_nano_tokenizer
from npc.weights import weights_of
from rl.optim import Optimizer
from rl.pool import Pool
from scenarios import lessons

SAVE_EVERY = 200
OPTIMIZER_FILE = "optimizer.safetensors"
# words that are in the vocabulary for games to come: boards, directions, numbers
SPARE = ("up", "down", "left", "right", "row", "column", "put", "board", "score", "target", "merge", "empty", "of",
         "in", "and", "to", "the", "then", "north", "south", "east", "west", "open", "close", "lead", "trade",
         "32", "64", "128", "256", "512", "1024", "2048")  # fmt: skip


def nano_tokenizer() -> TextTokenizer:
    """The words of the village's errands and lessons, and some to spare for other scenarios; the beginnings of action
    phrases are one token each."""
    errands = scenarios.get("fetch_item").vocabulary
    words = [*errands, *lessons.QUESTION_WORDS, *lessons.ORDERS, "go", "take", "drop", "give", *SPARE]
    phrases = ["go to the", "take the", "drop the", "give the"]
    return TextTokenizer(build_nano_tokenizer(list(dict.fromkeys(words)), phrases))


class Setup:
    """What a worker keeps: model, tokenizer and its own endless stream of lessons."""

    def __init__(self, model: dict[str, Any], seed: int, index: int) -> None:
        tokenizer = nano_tokenizer()
        self.brain = create(LlamaConfig.from_dict(model, "nano"), tokenizer, seed)
        self.scenario = scenarios.get("fetch_item")
        self.prefix_ids = tokenizer.encode(self.scenario.prefix)
        self.words = tuple(w for w in dict.fromkeys(self.scenario.vocabulary) if w.isalpha())
        self.dice = random.Random(f"{seed}/{index}")
        self.visited = lessons.visited(self.scenario, self.dice)
        self.ids: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        if text not in self.ids:
            self.ids[text] = self.brain.tokenizer.encode(f" {text}")
        return self.ids[text]

    # -- rows: (tokens, positions, branch of each token, whether the next token of its branch is to be predicted)

    def recall_row(self, pairs: int) -> tuple[list[int], list[int], list[int], list[int]]:
        row = lessons.recall_row(self.words, self.dice, pairs)
        tokens = [token for pair in row for word in pair for token in self.encode(word)]
        targets = [-1] * len(tokens)
        for at in range(2 * pairs, 4 * pairs, 2):
            targets[at] = tokens[at + 1]
        return tokens, list(range(len(tokens))), [0] * len(tokens), targets

    def lesson_row(self, seen: Any, count: int, wander: float) -> tuple[list[int], list[int], list[int], list[int]]:
        given = lessons.lesson(seen, self.dice, count, wander)
        tokens = self.brain.tokenizer.encode(f" {given.text}")
        trunk = len(tokens)
        positions, branches, targets = list(range(trunk)), [0] * trunk, [-1] * trunk
        for branch, (question, answer) in enumerate(given.questions, 1):
            asked = self.brain.tokenizer.encode(CUE) if question == "do" else self.encode(question)
            said = [*self.encode(answer), self.brain.tokenizer.eos_id]
            tokens += [*asked, *said[:-1]]
            positions += range(trunk, trunk + len(asked) + len(said) - 1)
            branches += [branch] * (len(asked) + len(said) - 1)
            targets += [-1] * (len(asked) - 1) + said
        return tokens, positions, branches, targets

    def batch(self, rows: int, recall_share: float, count: int, wander: float) -> tuple[np.ndarray, ...]:
        made = []
        for _ in range(rows):
            kind = self.dice.random()
            if kind < recall_share:
                made.append(self.recall_row(self.dice.randint(4, 12)))
            elif kind < recall_share + (1 - recall_share) * 0.5:
                made.append(self.lesson_row(next(self.visited), count, wander))
            else:
                made.append(self.lesson_row(lessons.imagined(self.dice), count, wander))
        length = max(len(tokens) for tokens, *_ in made)
        tokens_B_T = np.zeros((rows, length), dtype=np.int32)
        positions_B_T = np.zeros((rows, length), dtype=np.int32)
        branches_B_T = np.full((rows, length), -1, dtype=np.int32)
        targets_B_T = np.full((rows, length), -1, dtype=np.int32)
        for row, (tokens, positions, branches, targets) in enumerate(made):
            tokens_B_T[row, : len(tokens)] = tokens
            positions_B_T[row, : len(tokens)] = positions
            branches_B_T[row, : len(tokens)] = branches
            targets_B_T[row, : len(tokens)] = targets
        seen = (branches_B_T[:, None, :] == 0) | (branches_B_T[:, None, :] == branches_B_T[:, :, None])
        seen &= np.tril(np.ones((length, length), dtype=bool))
        mask_B_T_T = np.where(seen, 0.0, MASKED).astype(np.float32)
        return tokens_B_T, positions_B_T, mask_B_T_T, targets_B_T


def _setup(model: dict[str, Any], seed: int, workers: int) -> dict[str, Any]:
    return {"model": model, "seed": seed, "workers": workers, "made": {}}


def _gradient(state: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Summed loss, number of answer tokens and gradient of one share of a batch."""
    made = state["made"]
    if "setup" not in made:
        made["setup"] = Setup(state["model"], state["seed"], job["index"] + 1000 * job["start"])
    setup: Setup = made["setup"]
    model = setup.brain.model
    model.update(tree_unflatten([(name, mx.array(w)) for name, w in job["weights"].items()]))
    tokens, positions, mask, targets = setup.batch(job["rows"], job["recall"], job["questions"], job["wander"])
    rows, places = np.nonzero(targets >= 0)
    wanted = mx.array(targets[rows, places])
    at = mx.array(rows * targets.shape[1] + places)

    def loss(net: Any) -> tuple[mx.array, mx.array]:
        read = weights_of(net)
        prefix = prefix_kv(read, setup.prefix_ids) if job["recall"] < 1 else None
        states = hidden_states(read, mx.array(tokens), mx.array(positions), mx.array(mask), prefix)
        logits = states.reshape(-1, states.shape[-1])[at] @ read.output.T
        losses = nn.losses.cross_entropy(logits, wanted)
        return losses.sum(), (mx.argmax(logits, axis=-1) == wanted).sum()

    (total, right), grads = nn.value_and_grad(model, loss)(model)
    named = flat(grads)
    arrays = {name: np.array(value) for name, value in named.items()}
    counts = {"right": right.item(), "count": len(rows), "tokens": int(tokens.size)}
    return {"loss": total.item(), "grads": arrays} | counts


def teach(args: argparse.Namespace) -> None:
    out = Path(args.out)
    config = {
        "model_type": "llama", "hidden_size": args.hidden, "num_hidden_layers": args.layers,
        "intermediate_size": args.intermediate, "num_attention_heads": args.heads, "num_key_value_heads": args.heads,
        "rms_norm_eps": 1e-5, "vocab_size": nano_tokenizer().vocab_size, "rope_theta": 10000.0,
        "tie_word_embeddings": True, "max_position_embeddings": 1024,
    }  # fmt: skip
    brain: Brain = create(LlamaConfig.from_dict(config, "nano"), nano_tokenizer(), args.seed)
    last = args.steps + args.forget_steps
    start, optimizer = 0, Optimizer(decay=0.01)
    if (out / "teaching.json").is_file() and args.resume:
        progress = json.loads((out / "teaching.json").read_text())
        brain = load_folder(out, "nano")
        start = progress["step"]
        optimizer.load(out / OPTIMIZER_FILE)
        print(f"resuming at step {start}", flush=True)
    names = [name for name, _ in sorted(flat(brain.model.trainable_parameters()).items())]
    weights = {name: np.array(flat(brain.model.parameters())[name]) for name in names}
    size = sum(w.size for w in weights.values())
    print(f"nano: {size / 1e6:.2f} M parameters, vocabulary {config['vocab_size']}", flush=True)
    began, losses, right, count, tokens = time.time(), 0.0, 0, 0, 0
    with Pool(args.workers, _setup, (config, args.seed, args.workers)) as pool:
        for step in range(start, last):
            recall = 1.0 if step < args.recall_steps else 0.15
            job = {"weights": weights, "rows": args.rows // args.workers, "recall": recall,
                   "questions": args.questions, "start": start,
                   "wander": 1.0 if step >= args.steps else 0.5}  # fmt: skip
            shares = pool.map(_gradient, [job | {"index": index} for index in range(args.workers)])
            answered = sum(share["count"] for share in shares)
            grads = {n: sum(share["grads"][n] for share in shares) / np.float32(answered) for n in names}
            weights, _ = optimizer.step(weights, grads, _rate(step, args))
            losses += sum(share["loss"] for share in shares)
            right += sum(share["right"] for share in shares)
            count += answered
            tokens += sum(share["tokens"] for share in shares)
            if (step + 1) % 20 == 0:
                speed = tokens / (time.time() - began)
                print(f"step {step + 1} loss {losses / count:.4f} right {right / count:.3f} tokens/s {speed:.0f} "
                      f"minutes {(time.time() - began) / 60:.1f}", flush=True)  # fmt: skip
                losses, right, count = 0.0, 0, 0
            if (step + 1) % SAVE_EVERY == 0 or step + 1 == last:
                brain.model.update(tree_unflatten([(n, mx.array(w)) for n, w in weights.items()]))
                save_model(brain, out)
                optimizer.save(out / OPTIMIZER_FILE)
                recipe = {name: value for name, value in vars(args).items() if name not in ("out", "resume")}
                (out / "teaching.json").write_text(json.dumps({"step": step + 1} | recipe, indent=2) + "\n")
    (out / OPTIMIZER_FILE).unlink()  # only resuming needs it


def _rate(step: int, args: argparse.Namespace) -> float:
    if step < args.warmup:
        return args.rate * (step + 1) / args.warmup
    share = min(1.0, (step - args.warmup) / max(1, args.steps - args.warmup))
    return args.rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rl.teach_base", description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="runs/nano", help="folder for the model (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1200, help="updates of recall and lessons (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=128, help="rows an update, over all workers")
    parser.add_argument("--questions", type=int, default=8, help="questions about one observation")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--recall-steps", type=int, default=300, help="updates of recall alone, before the lessons")
    forget = "further updates, in which any legal phrase follows the bare cue: no habit stays (default: %(default)s)"
    parser.add_argument("--forget-steps", type=int, default=100, help=forget)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--intermediate", type=int, default=352)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from what lies in the folder")
    teach(parser.parse_args())


if __name__ == "__main__":
    main()
