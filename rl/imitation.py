"""A student learns a teacher's choices: cross-entropy between two distributions over the legal actions of a turn, or,
where a turn is a free text, over the next token of the teacher's text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from npc.adapters import get_adapter, set_adapter
from npc.forward import PrefixKV
from npc.generate import completion_logps, generate
from npc.gradient import Run, gradient_of_runs
from npc.mlx import mx
from npc.models import Brain
from npc.policy import action_logps, even_chunks
from npc.reading import Reading
from rl.demonstrations import Example
from rl.optim import Optimizer
from rl.policies import ModelPolicy
from rl.text_turns import TOKENS_KEPT

MOST_ROWS = 128  # turns in one forward and backward
Heard = Callable[[int, float, int], None]  # is told the epoch, its loss and the best epoch


class Demonstrations(msgspec.Struct, frozen=True):
    """Turns to imitate, as the student reads them: prompt ids, legal phrases, the teacher's probabilities (A,); or the
    ids of the teacher's text, its end included, which are empty where there are legal phrases."""

    prompts: list[list[int]]
    legal: list[tuple[str, ...]]
    targets: list[np.ndarray]
    texts: list[list[int]]


class Learned(msgspec.Struct, frozen=True):
    """How it went. `loss` and `losses` (one an epoch) are on the held-out turns, in nats a turn."""

    loss: float
    epochs: int
    losses: list[float]
    interrupted: bool


def demonstrations(examples: Sequence[Example], policy: ModelPolicy) -> Demonstrations:
    """Examples in the ids of the student's tokenizer."""
    tokenizer = policy.brain.tokenizer
    return Demonstrations(
        [policy.closed.encode(example.observation) for example in examples],
        [example.legal for example in examples],
        [example.target_A for example in examples],
        [[] if example.legal else [*tokenizer.encode(example.text), tokenizer.eos_id] for example in examples],
    )


def imitation_run(policy: ModelPolicy, shown: Demonstrations, rows: Sequence[int]) -> Run:
    """The loss of a batch: Σ over turns of −Σ_a p_teacher(a) log π(a) over the legal actions, or of −log π of the text,
    divided by its tokens."""
    if not shown.legal[rows[0]]:
        prompts, texts = [shown.prompts[i] for i in rows], [shown.texts[i] for i in rows]
        lengths_N = mx.array([float(len(text)) for text in texts])

        def run_text(weights: Reading, prefix: PrefixKV) -> tuple[mx.array, tuple[mx.array, ...]]:
            logps_N_C, _, _ = completion_logps(weights, prefix, prompts, texts)
            return -(logps_N_C.sum(axis=1) / lengths_N).sum(), ()

        return run_text
    packed = policy.closed.pack([shown.prompts[i] for i in rows], [shown.legal[i] for i in rows])
    targets_N_A = np.zeros(packed.legal_B_A.shape, dtype=np.float32)
    for row, i in enumerate(rows):
        targets_N_A[row, : len(shown.targets[i])] = shown.targets[i]

    def run(weights: Reading, prefix: PrefixKV) -> tuple[mx.array, tuple[mx.array, ...]]:
        logps_N_A = action_logps(weights, packed, prefix)
        finite = mx.where(mx.array(packed.legal_B_A), logps_N_A, 0.0)
        return -(mx.array(targets_N_A) * finite).sum(), ()

    return run


def imitate(policy: ModelPolicy, shown: Demonstrations, held_out: Demonstrations, rate: float, seed: int, patience: int,
            max_epochs: int, heard: Heard = lambda *_: None, rows_a_step: int = 64) -> Learned:  # fmt: skip
    """Trains the adapter to its best loss on `held_out` and leaves it there. Ctrl-C ends it early, best so far kept."""
    brain = policy.brain
    optimizer = Optimizer(betas=(0.9, 0.98), decay=0.0)
    dice = random.Random(f"distil/{seed}")
    weights = _arrays(brain)
    best, best_weights, best_epoch, losses = float("inf"), weights, 0, []
    epoch = 0
    size = min(rows_a_step, len(shown.prompts))
    per_epoch = len(shown.prompts) // size
    interrupted = False
    try:
        while epoch < max_epochs and epoch - best_epoch < patience:
            epoch += 1
            order = list(range(len(shown.prompts)))
            dice.shuffle(order)
            for step in range(per_epoch):
                rows = sorted(order[step * size : (step + 1) * size], key=lambda i: len(shown.prompts[i]))
                parts = _chunks(policy, shown, rows)
                sums, _ = gradient_of_runs(policy.closed, [imitation_run(policy, shown, rows[part]) for part in parts])
                gradient = {name: np.array(value) / np.float32(len(rows)) for name, value in sums.items()}
                warm = min(1.0, ((epoch - 1) * per_epoch + step + 1) / 10)
                weights, _ = optimizer.step(weights, gradient, rate * warm)
                set_adapter(brain, weights)
            loss = mean_loss(policy, held_out)
            losses.append(loss)
            if loss < best:
                best, best_weights, best_epoch = loss, weights, epoch
            heard(epoch, loss, best_epoch)
    except KeyboardInterrupt:
        interrupted = True
    set_adapter(brain, best_weights)
    mx.clear_cache()
    return Learned(best, best_epoch, losses, interrupted)


def mean_loss(policy: ModelPolicy, shown: Demonstrations) -> float:
    """The imitation loss over all of `shown`, in nats a turn."""
    rows = sorted(range(len(shown.prompts)), key=lambda i: len(shown.prompts[i]))
    total = 0.0
    for part in _chunks(policy, shown, rows):
        loss, _ = imitation_run(policy, shown, rows[part])(*policy.closed.present())
        total += float(np.array(loss))
    return total / len(rows)


def agreement(policy: ModelPolicy, shown: Demonstrations) -> float:
    """The share of turns in which the student's most probable action is the teacher's; of texts, those that it writes
    word by word when it takes the most probable token each time."""
    if policy.free_text is not None:
        longest = max(map(len, shown.texts))
        stop = [policy.brain.tokenizer.eos_id]
        said = generate(*policy.closed.present(), shown.prompts, stop, longest)
        return float(np.mean([one.ids == text for one, text in zip(said, shown.texts, strict=True)]))
    decisions = policy.closed.decide_ids(shown.prompts, shown.legal)
    same = [decision.index == int(np.argmax(target)) for decision, target in zip(decisions, shown.targets, strict=True)]
    return float(np.mean(same))


def _chunks(policy: ModelPolicy, shown: Demonstrations, rows: Sequence[int]) -> list[slice]:
    """Rows cut into what one forward and backward takes."""
    if shown.texts[rows[0]]:
        longest = max(len(shown.prompts[i]) + len(shown.texts[i]) for i in rows)
    else:
        longest = max(policy.closed.row_tokens(len(shown.prompts[i]), shown.legal[i]) for i in rows)
    most = max(1, min(MOST_ROWS, TOKENS_KEPT // longest)) if shown.texts[rows[0]] else MOST_ROWS
    return even_chunks(len(rows), policy.closed.training_rows(longest, most))


def _arrays(brain: Brain) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in get_adapter(brain).items()}
