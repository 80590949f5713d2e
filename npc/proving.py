"""Proof that a model says here what its file says: log-probabilities, answers, tokenizer round trips."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npc.errors import ModelError
from npc.forward import causal_mask, hidden_states, output_rows
from npc.mlx import mx
from npc.models import Brain, base_weights
from npc.models.foreign import load_by_mlx_lm
from npc.policy import ClosedPolicy
from npc.reading import is_plain_llama
from npc.reference import GgufFile, next_token_logps
from npc.tokenizer import TextTokenizer
from npc.weights import weights_of

REFERENCE_FILE = "reference.json"
TEXTS = (
    "The baker opened the door of the mill and gave me 12 loaves of bread.",
    "left 20 last start unseen dock inn mill asker well at well goal lantern Mara hold none item unknown here with",
    "def add(a, b):\n    return a + b\n",
)
# |log p here - log p of the float64 reference|: what weights rounded to float16 explain (measured: 0.011)
TOLERANCE = 0.05
# of a decision's probabilities, by the precision that the weights are held in
DECISION_TOLERANCE = {mx.float32: 1e-4, mx.float16: 2e-2, mx.bfloat16: 1e-1}
QUESTION, ANSWER = "What is the capital of France?", "Paris"


def make_reference(gguf: Path, tokenizer: TextTokenizer) -> dict[str, Any]:
    """Token ids of fixed texts and their log-probabilities, computed in float64 from the GGUF itself."""
    ids = [tokenizer.encode(text) for text in TEXTS]
    return {"texts": list(TEXTS), "ids": ids, "logps": next_token_logps(GgufFile(gguf), ids)}


def read_reference(folder: Path) -> dict[str, Any]:
    """The reference that was computed when the model was pulled."""
    path = folder / REFERENCE_FILE
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: can't be read ({error}); pull the model --again") from error


def prove(brain: Brain, reference: dict[str, Any], tolerance: float = TOLERANCE) -> float:
    """The largest difference from the reference. Raises ModelError where it is above the tolerance."""
    worst = 0.0
    for text, ids, expected in zip(reference["texts"], reference["ids"], reference["logps"], strict=True):
        if brain.tokenizer.encode(text) != ids:
            raise ModelError(f"{brain.name}: its tokenizer reads {text!r} otherwise than when it was pulled")
        worst = max(worst, float(np.abs(_logps(brain, ids) - np.array(expected)).max()))
    if not worst <= tolerance:
        raise ModelError(
            f"{brain.name}: log-probabilities differ by {worst:.3f} from those of its file, more than {tolerance}"
        )
    return worst


def answer(brain: Brain, question: str = QUESTION, most: int = 24) -> str:
    """The most probable answer to one question in the chat form of SmolLM2, token by token."""
    tokenizer = brain.tokenizer
    start, end = tokenizer.id_of("<|im_start|>"), tokenizer.eos_id
    ids = [start, *tokenizer.encode(f"user\n{question}"), end, *tokenizer.encode("\n"), start]
    ids += tokenizer.encode("assistant\n")
    asked = len(ids)
    while len(ids) < asked + most:
        ids.append(int(np.argmax(np.array(_logits(brain, ids, last=True)[0]))))
        if ids[-1] == end:
            break
    return tokenizer.decode([i for i in ids[asked:] if i != end]).strip()


def describe(brain: Brain) -> str:
    """What kind of model it is, how large, and how it is held."""
    held = base_weights(brain)
    modules = [module for _, module in brain.model.named_modules() if "scales" in module]
    packed = sum(module.scales.size * module.group_size for module in modules)
    tail = ("scales", "biases")
    plain = sum(value.size for name, value in held.items() if value.dtype != mx.uint32 and not name.endswith(tail))
    kind = brain.source.get("model_type", brain.config.model_type)
    how = "quantised" if packed else str(brain.precision).rpartition(".")[2]
    whose = "our own forward" if is_plain_llama(brain.model) else "mlx-lm's forward"
    return f"{kind}, {len(brain.model.layers)} blocks, {plain + packed:,} parameters, held as {how}, by {whose}"


def prove_decisions(
    brain: Brain, prefix: str, turns: Sequence[tuple[str, tuple[str, ...]]], tau: float = 1.0
) -> tuple[float, float]:
    """The largest difference between a decision's probabilities and those by mlx-lm's plain forward, without a mask, a
    cache or a shared prefix, one phrase after the other; and what is allowed. Raises ModelError where it is above."""
    acting = ClosedPolicy(brain, prefix)
    plain = load_by_mlx_lm(brain.folder).model if is_plain_llama(brain.model) else brain.model
    bound = DECISION_TOLERANCE[brain.precision]
    worst = 0.0
    decided = acting.decide([text for text, _ in turns], [legal for _, legal in turns], tau)
    for decision, (_, legal) in zip(decided, turns, strict=True):
        before = [*acting.prefix_ids, *decision.prompt_ids]
        wanted = _plain_probabilities(plain, before, [acting.table.ids(phrase) for phrase in legal], tau)
        worst = max(worst, float(np.abs(wanted - decision.probs).max()))
    if not worst <= bound:
        raise ModelError(f"{brain.name}: a probability differs by {worst:.3f} from mlx-lm's plain forward")
    return worst, bound


def _plain_probabilities(model: Any, before: list[int], ids_A: list[list[int]], tau: float) -> np.ndarray:
    rows = {tuple(ids): np.array(model(mx.array([[*before, *ids]]))[0].astype(mx.float32)) for ids in ids_A}
    found = []
    for ids in ids_A:
        logp = 0.0
        for at, token in enumerate(ids):
            legal = sorted({other[at] for other in ids_A if len(other) > at and other[:at] == ids[:at]})
            logits = rows[tuple(ids)][len(before) + at - 1, legal].astype(np.float64) / tau
            logp += logits[legal.index(token)] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        found.append(np.exp(logp))
    return np.array(found)


def check_round_trip(tokenizer: TextTokenizer, texts: Iterable[str]) -> int:
    """The number of texts, each of which came back from its ids as it was. Raises ModelError for one that didn't."""
    count = 0
    for text in texts:
        back = tokenizer.decode(tokenizer.encode(text))
        if back != text:
            raise ModelError(f"the tokenizer turns {text!r} into {back!r}")
        count += 1
    return count


def unicode_texts(tokenizer: TextTokenizer, count: int, seed: int = 0) -> list[str]:
    """Texts of up to 24 characters from all over Unicode, but for those that the tokenizer says it can't write
    (and surrogates, which no text holds). Every second text is from the first 8192 characters, where languages are.
    """
    dice = np.random.default_rng(seed)
    found = []
    for number in range(count):
        codes = dice.integers(0, 0x110000 - 0x800 if number % 2 else 0x2000, dice.integers(1, 25))
        letters = [chr(code + 0x800 if code >= 0xD800 else code) for code in codes.tolist()]
        found.append("".join(c for c in letters if not any(byte in tokenizer.unspeakable for byte in c.encode())))
    return found


def _logits(brain: Brain, ids: list[int], last: bool = False) -> mx.array:
    weights = weights_of(brain.model)
    length = len(ids)
    asked = mx.array([[length - 1]]) if last else None
    places = mx.arange(length)[None]
    states = hidden_states(weights, mx.array([ids]), places, causal_mask(length)[None], asked_B_Q=asked)[0]
    return (states @ output_rows(weights).T).astype(mx.float32)


def _logps(brain: Brain, ids: list[int]) -> np.ndarray:
    """Log-probabilities (T - 1,) of each token given those before it."""
    logits = _logits(brain, ids)[:-1]
    logps = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return np.array(mx.take_along_axis(logps, mx.array(ids[1:])[:, None], axis=1)[:, 0])
