"""A brain that answers in free text: tokens drawn at τ over the whole vocabulary, until a stop token or a limit."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from npc.decision import Decision
from npc.forward import PrefixKV
from npc.generate import generate
from npc.policy import ClosedPolicy
from npc.reading import Reading

ROWS = 16  # texts that are written side by side


class TextPolicy:
    """Free text from the brain, prompts and prefix of a ClosedPolicy, so that both kinds of turns read the same."""

    def __init__(self, closed: ClosedPolicy, top_p: float = 1.0) -> None:
        self.closed = closed
        self.top_p = top_p

    def decide(self, observations: Sequence[str], max_tokens: int, tau: float = 1.0,
               uniforms: Sequence[float] | None = None) -> list[Decision]:  # fmt: skip
        """One text for each observation, in order. `uniforms` in [0, 1) key the dice of a text; None takes the most
        probable token each time. A decision's `node_logps` has one entry a sampled id, the stop token's included;
        `truncated` says that the limit came before a stop token."""
        weights, prefix = self.closed.present()
        found: list[Decision] = []
        for start in range(0, len(observations), ROWS):
            chunk = observations[start : start + ROWS]
            keys = None if uniforms is None else uniforms[start : start + ROWS]
            found += self._share(chunk, max_tokens, tau, keys, weights, prefix)
        return found

    def _share(self, observations: Sequence[str], max_tokens: int, tau: float, uniforms: Sequence[float] | None,
               weights: Reading, prefix: PrefixKV) -> list[Decision]:  # fmt: skip
        tokenizer = self.closed.brain.tokenizer
        prompts = [self.closed.encode(text) for text in observations]
        draw = None if uniforms is None else lambda row, step: token_uniform(uniforms[row], step)
        said = generate(weights, prefix, prompts, [tokenizer.eos_id], max_tokens, tau, draw, self.top_p)
        return [
            Decision(
                phrase=tokenizer.decode(one.ids[:-1] if one.finished else one.ids), index=-1, probs=[],
                logprob=sum(one.logps), node_logps=one.logps, prompt_ids=prompt, sampled_ids=one.ids, tau=tau,
                greedy=uniforms is None, truncated=not one.finished,
            )
            for prompt, one in zip(prompts, said, strict=True)
        ]  # fmt: skip


def token_uniform(uniform: float, step: int) -> float:
    """The number in [0, 1) that draws token `step` of the text whose dice `uniform` keys."""
    word = blake2b(f"{uniform!r}|{step}".encode(), digest_size=8).digest()
    return (int.from_bytes(word, "little") >> 11) / (1 << 53)
