"""The closed-action policy: a model that can only say what is legal, with the exact probability of everything
it can say.

The prompt is a static prefix, computed once for each version of the weights, and a short per-turn text. The
legal phrases form a trie of token ids; at each node the distribution is the model's softmax over the legal
continuations at temperature τ. One forward evaluates the whole tree, so the distribution over whole actions
is exact, and what is sampled from is what the loss recomputes: :func:`action_logps` serves both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npc.decision import Decision
from npc.errors import PolicyError
from npc.foreign import Foreign, child_logits, packed_tokens, width_of
from npc.forward import PrefixKV, hidden_states
from npc.mlx import mx
from npc.models import Brain
from npc.reading import Reading, prefix_of, reading_of
from npc.template import CUE
from npc.tree import PackedBatch, PhraseTable, pack
from npc.weights import Weights

__all__ = ["CUE", "ClosedPolicy", "Decision", "action_logps", "child_logps", "entropy", "kl", "turn_text"]

TRAINING_BYTES = 384 << 20  # what one batch keeps for its backward, at most
TRAINING_TOKENS = 1024  # of one batch, at most: from 500 on a matmul runs at its full rate, and less is better cached


def turn_text(observation: str) -> str:
    """The per-turn part of the prompt: the observation and the cue after which a phrase is spoken."""
    return f" {observation}{CUE}"


def child_logps(model: Any, packed: PackedBatch, prefix: PrefixKV, tau: float = 1.0) -> mx.array:
    """Log-probabilities (O, C) of each open node's children at temperature ``tau``; very negative where
    there is none.
    """
    reading = reading_of(model)
    if isinstance(reading, Foreign):
        logits_O_C = child_logits(reading, packed, prefix)
    else:
        states = hidden_states(
            reading,
            mx.array(packed.tokens_B_T),
            mx.array(packed.positions_B_T),
            mx.array(packed.mask_B_T_T),
            prefix,
            mx.array(packed.asked_B_Q),
        )
        open_O_D = states.reshape(-1, states.shape[-1])[mx.array(packed.open_at_O)]
        rows_O_C_D = reading.output[mx.array(packed.child_token_O_C)]
        logits_O_C = (rows_O_C_D @ open_O_D[:, :, None]).squeeze(-1)
    logits_O_C = logits_O_C.astype(mx.float32) / tau + mx.array(packed.child_mask_O_C)
    return logits_O_C - mx.logsumexp(logits_O_C, axis=-1, keepdims=True)


def action_logps(model: Any, packed: PackedBatch, prefix: PrefixKV, tau: float = 1.0) -> mx.array:
    """Log-probabilities (B, A) of the whole legal actions at ``tau``, -inf where there is no action.
    Differentiable.

    ``model`` is a model or what :func:`npc.reading.reading_of` reads of it; ``prefix`` is what
    :func:`npc.reading.prefix_of` keeps of the prefix. For training make both inside the loss, so that gradients flow
    through them; in a rollout they are kept.
    """
    legal = mx.array(packed.legal_B_A)
    if not packed.open_at_O.size:
        return mx.where(legal, 0.0, -mx.inf)
    flat = mx.concatenate([child_logps(model, packed, prefix, tau).reshape(-1), mx.zeros((1,))])
    return mx.where(legal, flat[mx.array(packed.path_B_A_L)].sum(axis=-1), -mx.inf)


def even_chunks(count: int, most: int) -> list[slice]:
    """``count`` rows cut into chunks of at most ``most``, none more than one row larger than another."""
    chunks = math.ceil(count / most)
    ends = [count * place // chunks for place in range(1, chunks + 1)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def entropy(logps_B_A: mx.array) -> mx.array:
    """Exact entropy (B,) in nats over the legal set; -inf entries count as absent."""
    return -mx.sum(mx.exp(logps_B_A) * _finite(logps_B_A), axis=-1)


def kl(logp_B_A: mx.array, logq_B_A: mx.array) -> mx.array:
    """Exact KL(p ‖ q) (B,) in nats over the legal set; entries that are -inf in p count as absent."""
    return mx.sum(mx.exp(logp_B_A) * (_finite(logp_B_A) - _finite(logq_B_A)), axis=-1)


def _finite(logps: mx.array) -> mx.array:
    return mx.where(logps == -mx.inf, 0.0, logps)


class ClosedPolicy:
    """A brain that answers with legal phrases only. ``prefix`` is the static text before every per-turn
    text.
    """

    def __init__(self, brain: Brain, prefix: str, max_rows: int = 256, max_bytes: int = 1 << 26) -> None:
        self.brain = brain
        self.prefix = prefix
        self.prefix_ids = brain.prefix_ids(prefix)
        self.table = PhraseTable(brain.tokenizer, brain.form.lead)
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._present: tuple[Reading, PrefixKV] | None = None
        self._version = -1

    def encode(self, observation: str) -> list[int]:
        """The prompt ids of an observation with its cue: stored with the turn and never rebuilt."""
        return self.brain.prompt_ids(observation)

    def pack(self, prompts: Sequence[Sequence[int]], legal: Sequence[tuple[str, ...]]) -> PackedBatch:
        """Prompt ids and legal sets as one batch for :func:`action_logps`."""
        return pack(prompts, [self.table.layout(tuple(phrases)) for phrases in legal], self.brain.tokenizer.pad_id)

    def pack_unique(
        self, prompts: Sequence[Sequence[int]], legal: Sequence[tuple[str, ...]]
    ) -> tuple[PackedBatch, mx.array]:
        """Each different question once (siblings ask the same at first), and for each given one its row."""
        rows: dict[tuple, int] = {}
        asked = zip(map(tuple, prompts), map(tuple, legal), strict=True)
        index = [rows.setdefault(question, len(rows)) for question in asked]
        return self.pack([ids for ids, _ in rows], [said for _, said in rows]), mx.array(index, dtype=mx.int32)

    def present(self) -> tuple[Reading, PrefixKV]:
        """The present weights and the prefix's keys and values, made anew after ``brain.bump()``."""
        if self._present is None or self._version != self.brain.version:
            self._present = None  # the older one's memory is free for the newer
            reading = reading_of(self.brain.model)
            if isinstance(reading, Weights):
                reading = replace(reading, learns=False)
            self._present, self._version = (reading, prefix_of(reading, self.prefix_ids)), self.brain.version
            mx.eval(reading.arrays(), list(self._present[1]))
        return self._present

    def prefix_kv(self) -> PrefixKV:
        """The prefix's keys and values by the present weights."""
        return self.present()[1]

    def logps(self, packed: PackedBatch, tau: float = 1.0) -> np.ndarray:
        """:func:`action_logps` (B, A) by the present weights, without gradients."""
        weights, prefix = self.present()
        return np.array(action_logps(weights, packed, prefix, tau))

    def decide(
        self,
        observations: Sequence[str],
        legal: Sequence[tuple[str, ...]],
        tau: float = 1.0,
        uniforms: Sequence[float] | None = None,
    ) -> list[Decision]:
        """One decision for each observation, in order.

        ``uniforms`` in [0, 1) draw the actions by the inverse of the distribution function; None takes the
        most probable whole action (the first of equals). ``tau`` is the sampling temperature, above 0.
        """
        return self.decide_ids([self.encode(text) for text in observations], legal, tau, uniforms)

    def decide_ids(
        self,
        prompts: Sequence[list[int]],
        legal: Sequence[tuple[str, ...]],
        tau: float = 1.0,
        uniforms: Sequence[float] | None = None,
    ) -> list[Decision]:
        """As :meth:`decide`, from prompt ids."""
        if not tau > 0:
            raise PolicyError(f"tau must be above 0, not {tau}; for the most probable action give no uniforms")
        if len(legal) != len(prompts):
            raise PolicyError(f"{len(prompts)} prompts but {len(legal)} legal sets")
        if uniforms is not None and len(uniforms) != len(prompts):
            raise PolicyError(f"{len(prompts)} observations but {len(uniforms)} uniforms")
        if uniforms is not None and not all(0 <= uniform < 1 for uniform in uniforms):
            raise PolicyError("every uniform must lie in [0, 1)")
        equal: dict[tuple, list[int]] = {}  # siblings ask the same at first: one row answers them all
        for row, (prompt, phrases) in enumerate(zip(prompts, legal, strict=True)):
            equal.setdefault((tuple(prompt), tuple(phrases)), []).append(row)
        questions = sorted(equal, key=lambda question: len(question[0]))
        decisions: dict[int, Decision] = {}
        longest = max((self.row_tokens(len(prompt), phrases) for prompt, phrases in questions), default=1)
        for chunk in even_chunks(len(questions), min(self._max_rows, self._fitting(longest, self._max_bytes))):
            asked = questions[chunk]
            packed = self.pack([prompt for prompt, _ in asked], [phrases for _, phrases in asked])
            logps = self._child_logps(packed, tau)
            first_open = 0
            for question, layout in zip(asked, packed.layouts, strict=True):
                last_open = first_open + len(layout.open_nodes)
                for row in equal[question]:
                    uniform = None if uniforms is None else uniforms[row]
                    decisions[row] = _choose(layout, logps[first_open:last_open], prompts[row], tau, uniform)
                first_open = last_open
        return [decisions[row] for row in range(len(prompts))]

    def training_tokens(self, longest: int) -> int:
        """How many tokens, in rows of up to ``longest``, one forward and backward takes together."""
        reading, config = self.present()[0], self.brain.config
        if isinstance(reading, Foreign):
            kept = 3 * width_of(reading)  # MLX keeps about three times a layer's widest result
        else:  # see npc.stack
            seen = config.num_attention_heads * (len(self.prefix_ids) + longest)
            heads = 2 * (config.num_attention_heads + config.num_key_value_heads) * config.head_dim
            kept = 2 * config.hidden_size + heads + seen + 2 * config.intermediate_size
        return max(longest, min(TRAINING_TOKENS, TRAINING_BYTES // (4 * kept * len(self.brain.model.layers))))

    def training_rows(self, longest: int, most: int) -> int:
        """How many prompts of up to ``longest`` tokens one forward and backward can keep, ``most`` at most."""
        return min(most, self.training_tokens(longest) // longest)

    def row_tokens(self, prompt: int, legal: Sequence[str]) -> int:
        """How many tokens a question with a prompt of so many asks a forward to keep."""
        reading = self.present()[0]
        if not legal:
            return prompt
        layout = self.table.layout(tuple(legal))
        if isinstance(reading, Foreign):
            return packed_tokens(reading, layout, prompt, len(self.prefix_ids))
        return prompt + len(layout.token_ids_N)

    def _fitting(self, longest: int, max_bytes: int) -> int:
        """How many questions of ``longest`` tokens give a layer's widest result about ``max_bytes``; 1 or more."""
        reading, config = self.present()[0], self.brain.config
        if isinstance(reading, Foreign):
            return max(1, max_bytes // (4 * width_of(reading) * max(1, longest)))
        return max(1, max_bytes // (4 * (config.hidden_size + 2 * config.intermediate_size) * max(1, longest)))

    def _child_logps(self, packed: PackedBatch, tau: float) -> np.ndarray:
        if not packed.open_at_O.size:
            return np.zeros((0, 1), dtype=np.float32)
        weights, prefix = self.present()
        return np.array(child_logps(weights, packed, prefix, tau))


def _choose(layout: Any, logps_O_C: np.ndarray, prompt: list[int], tau: float, uniform: float | None) -> Decision:
    path_logps = [[logps_O_C[node, child] for node, child in path] for path in layout.path_A]
    action_logps_A = np.array([sum(path, np.float32(0)) for path in path_logps], dtype=np.float64)
    probs_A = np.exp(action_logps_A)
    probs_A /= probs_A.sum()
    if uniform is None:
        index = int(np.argmax(probs_A))
    else:
        index = min(int(np.searchsorted(np.cumsum(probs_A), uniform, side="right")), len(probs_A) - 1)
    node_logps = [0.0 if edge is None else float(path_logps[index][edge]) for edge in layout.edge_of_token_A[index]]
    return Decision(
        phrase=layout.phrases[index],
        index=index,
        probs=probs_A.tolist(),
        logprob=float(action_logps_A[index]),
        node_logps=node_logps,
        prompt_ids=list(prompt),
        sampled_ids=list(layout.ids_A[index]),
        tau=tau,
        greedy=uniform is None,
    )
