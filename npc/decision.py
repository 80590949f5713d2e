"""What a policy answers with. No MLX here, so that players without a model can answer in the same words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """One decision and the probabilities it was drawn from.

    ``probs`` is aligned with the legal phrases; ``sampled_ids`` are the phrase's tokens with the terminator, and
    ``node_logps`` the float32 log-probability of each at ``tau`` (exactly 0 where it was the only legal one), whose
    sum is ``logprob``. ``greedy``: the most probable whole action was taken, nothing was drawn. A player without a
    model leaves the ids empty. Free text has ``index`` -1 and no ``probs``; ``truncated`` says that a limit cut it off.
    """

    phrase: str
    index: int
    probs: list[float]
    logprob: float
    node_logps: list[float]
    prompt_ids: list[int]
    sampled_ids: list[int]
    tau: float
    greedy: bool
    truncated: bool = False
