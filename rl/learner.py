"""What a worker does: play its share of an update's groups, then give the gradient of the loss over them.

Everything a worker needs travels with the job (the adapter's tensors, the plans), so that a share's result depends on
the job alone. Its loss is summed with weights, and the trainer divides by what all shares count together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import scenarios
from npc.adapters import attach, get_adapter, load_adapter, set_adapter
from npc.forward import PrefixKV
from npc.gradient import Run, gradient_of_runs
from npc.mlx import mx
from npc.models import load
from npc.policy import action_logps, kl
from npc.reading import Reading
from npc.tree import PackedBatch
from recorder.records import Turn
from rl.branching import play_branched
from rl.credit import Credited
from rl.kl import k3
from rl.losses import LOSSES, Counts
from rl.objective import Goal, LossParts, TurnBatch, closed_objective
from rl.policies import ModelPolicy, Policy, make_policy, parse_policy
from rl.rollout import Episode, play
from rl.share import Share, make_share
from rl.text_turns import TextBatch, is_text, text_logps, text_rows, text_run
from rl.weights import Spread, spread_of


@dataclass(frozen=True)
class Settings:
    """What stays the same for a whole run. `rows`: turns in one forward and backward, at most."""

    scenario: str
    model: str
    rank: int
    scale: float
    tau: float
    goal: Goal
    branched: bool = False
    rows: int = 128


@dataclass
class Worker:
    """A worker's own: model with adapter, the reference's tensors, the episodes that it played last, and what of them
    is learned from."""

    settings: Settings
    policy: ModelPolicy
    scenario: Any
    reference: dict[str, np.ndarray]
    others: dict[str, Policy] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    share: Share = field(default_factory=Share)


@dataclass(frozen=True)
class Gradient:
    """Sums over a share's turns. `counts` is what they are to be divided by, once all shares are added up."""

    arrays: dict[str, np.ndarray]
    loss: float
    kl: float
    entropy: float
    clipped: float
    worst_ratio: float  # the largest |log π_θ − log π_behaviour|
    counts: Counts
    tokens: int
    train_s: float  # the slowest share's, since they run side by side
    spread: Spread

    def __add__(self, other: Gradient) -> Gradient:
        """The sums over both shares' turns."""
        arrays = self.arrays | {name: self.arrays[name] + value if name in self.arrays else value
                                for name, value in other.arrays.items()}  # fmt: skip
        counts = Counts(self.counts.episodes + other.counts.episodes, self.counts.rows + other.counts.rows)
        return Gradient(
            arrays, self.loss + other.loss, self.kl + other.kl, self.entropy + other.entropy,
            self.clipped + other.clipped, max(self.worst_ratio, other.worst_ratio), counts, self.tokens + other.tokens,
            max(self.train_s, other.train_s), self.spread + other.spread,
        )  # fmt: skip


NO_GRADIENT = Gradient({}, 0.0, 0.0, 0.0, 0.0, 0.0, Counts(0, 0), 0, 0.0, Spread())


def set_up(settings: Settings, adapter: str) -> Worker:
    """Loads the model with the adapter that the run starts from, which is also its reference policy."""
    scenario = scenarios.get(settings.scenario)
    brain = load(settings.model)
    if adapter:
        load_adapter(brain, adapter)
    else:
        attach(brain, settings.rank, settings.scale)
    reference = {name: np.array(value) for name, value in get_adapter(brain).items()}
    policy = ModelPolicy(brain, scenario.prefix, settings.tau, scenario.free_text)
    return Worker(settings, policy, scenario, reference)


def play_plans(worker: Worker, job: dict[str, Any]) -> list[Episode]:
    """Plays `plans` with the adapter's tensors in `adapter`, or with the policy that `policy` names."""
    if "policy" in job:
        name = job["policy"]
        if name not in worker.others:
            worker.others[name] = make_policy(parse_policy(name), worker.scenario, worker.settings.tau)
        return play(worker.others[name], worker.scenario, job["plans"], job["greedy"])
    set_adapter(worker.policy.brain, job["adapter"])
    return play(worker.policy, worker.scenario, job["plans"], job["greedy"])


def collect(worker: Worker, job: dict[str, Any]) -> tuple[list[Episode], float]:
    """Plays `plans` with the adapter's tensors in `adapter`, keeps the episodes (beside those of the last job, with
    `more`), and returns what it played with the seconds."""
    began = time.perf_counter()
    set_adapter(worker.policy.brain, job["adapter"])
    how = play_branched if worker.settings.branched else play
    played = how(worker.policy, worker.scenario, job["plans"])
    worker.episodes = [*worker.episodes, *played] if job.get("more") else played
    return played, time.perf_counter() - began


def hold(worker: Worker, job: dict[str, Any]) -> None:
    """Takes `episodes` that were played elsewhere, as `collect` would have kept them."""
    worker.episodes = [*worker.episodes, *job["episodes"]] if job.get("more") else list(job["episodes"])


def give(worker: Worker, episodes: Sequence[Episode]) -> None:
    """Recorded episodes, beside those that the worker played."""
    worker.episodes = [*worker.episodes, *episodes]


def remembered(job: Callable[[Any, Any], Any], payload: Any) -> str:
    """What a worker has to have done before, to stand where it stood: see `rl.pool.Memory`."""
    if job in (collect, hold):
        return "more" if payload.get("more") else "new"
    return "more" if job is give or (job is gradient and "credit" in payload) else ""


def keep(worker: Worker, credit: Sequence[Credited | None]) -> None:
    """Keeps what is learned from the worker's episodes for `gradient`, with the reference's log-probabilities."""
    settings = worker.settings
    turns = [turn for episode in worker.episodes for turn in episode.turns]
    closed, whole = worker.policy.closed, LOSSES[settings.goal.loss].whole_episodes

    def tokens(turn: Turn) -> int:
        return closed.row_tokens(len(turn.prompt_ids), turn.legal)

    longest = max(map(tokens, turns), default=1)
    rows = closed.training_rows(longest, settings.rows) if whole else settings.rows
    if worker.policy.free_text is not None:
        rows = text_rows(turns, rows)
    share = make_share(worker.episodes, credit, rows, whole, settings.goal.imitation > 0,
                       closed.training_tokens(longest), tokens,
                       idle=settings.goal.kl_weight != 0 or settings.goal.entropy_weight != 0)  # fmt: skip
    set_adapter(worker.policy.brain, worker.reference)
    share.reference = [np.array(recomputed(worker, share.turns[at])) for at in share.batches]
    worker.share = share


def gradient(worker: Worker, job: dict[str, Any]) -> Gradient:
    """The gradient of the summed loss over the worker's share, at the adapter given.

    `credit`, given with the first pass over a share, says what is kept of the episodes that were collected last (see
    `keep`).
    """
    began = time.perf_counter()
    if "credit" in job:
        keep(worker, job["credit"])
    share = worker.share
    brain = worker.policy.brain
    set_adapter(brain, job["adapter"])
    batches = [share.batch(at, reference) for at, reference in zip(share.batches, share.reference, strict=True)]
    sums, found = _gradient(worker.policy, [share.turns[at] for at in share.batches], batches, worker.settings)
    totals = np.zeros(4)
    log_ratios = np.zeros(len(share.turns))
    worst = 0.0
    for at, batch, (parts, logp) in zip(share.batches, batches, found, strict=True):
        totals += np.array([parts.loss, parts.kl, parts.entropy, parts.clipped], dtype=np.float64)
        log_ratios[at], largest = _log_ratios(batch, np.array(logp))
        worst = max(worst, largest)
    mx.clear_cache()  # else the cache of freed buffers grows with every new batch shape
    arrays = {name: np.array(value) for name, value in sums.items()}
    loss, divergence, entropy, clipped = totals.tolist()
    divergence, entropy = divergence / share.shown, entropy / share.shown  # idle turns are taken to be as the others
    tokens = sum(len(turn.prompt_ids) for turn in share.turns)
    spread = spread_of(log_ratios, share.episode, share.imitated)
    spent = time.perf_counter() - began
    return Gradient(arrays, loss, divergence, entropy, clipped, worst, share.counts, tokens, spent, spread)


def probe(worker: Worker, adapter: dict[str, np.ndarray]) -> tuple[float, int]:
    """(sum of KL to the reference, turns) over the first batch of the share, at `adapter`."""
    share = worker.share
    if not share.batches:
        return 0.0, 0
    set_adapter(worker.policy.brain, adapter)
    logps = recomputed(worker, share.turns[share.batches[0]])
    reference = mx.array(share.reference[0])
    found = kl(logps, reference) if logps.ndim > 1 else k3(logps, reference)
    return float(np.array(found).sum()), found.size


def spread_now(worker: Worker, episodes: Sequence[Episode]) -> Spread:
    """The importance weights of recorded episodes under the weights that are set now."""
    every = [Credited(np.zeros(len(episode.turns))) for episode in episodes]
    share = make_share(episodes, every, 2 * worker.settings.rows)
    logs = np.zeros(len(share.turns))
    for at in share.batches:
        logs[at], _ = _log_ratios(share.batch(at, None), np.array(recomputed(worker, share.turns[at])))
    return spread_of(logs, share.episode, share.imitated)


def turn_gradient(policy: ModelPolicy, turns: Sequence[Turn], batch: TurnBatch | TextBatch,
                  settings: Settings) -> tuple:  # fmt: skip
    """(gradient by tensor name, loss parts, log-probabilities) of recorded turns; ids are used as recorded. Those of
    legal actions are (N, A), those of a free text's tokens (N,)."""
    grads, found = _gradient(policy, [turns], [batch], settings)
    return grads, *found[0]


def _gradient(
    policy: ModelPolicy, turns: Sequence[Sequence[Turn]], batches: Sequence[TurnBatch | TextBatch], settings: Settings
) -> tuple[dict[str, mx.array], list[tuple[LossParts, mx.array]]]:
    """The gradient of the summed loss of all batches, and each one's loss parts and log-probabilities."""

    def run_of(part: Sequence[Turn], batch: TurnBatch | TextBatch) -> Run:
        if isinstance(batch, TextBatch):
            return text_run(part, batch, settings.goal, settings.tau)
        packed, row_N = _packed(policy, part)

        def run(weights: Reading, prefix: PrefixKV) -> tuple[mx.array, tuple[mx.array, ...]]:
            logps = action_logps(weights, packed, prefix, settings.tau)[row_N]
            parts = closed_objective(logps, batch, settings.goal)
            return parts.loss, (parts.kl, parts.entropy, parts.clipped, logps)

        return run

    grads, found = gradient_of_runs(policy.closed, map(run_of, turns, batches))
    return grads, [(LossParts(loss, *kept[:3]), kept[3]) for loss, kept in found]


def recomputed(worker: Worker, turns: Sequence[Turn]) -> mx.array:
    """Log-probabilities (N, A) of recorded turns under the weights that are set now; (N,) of a free text's tokens."""
    if is_text(turns[0]):
        return mx.array(text_logps(worker.policy, turns, worker.settings.tau))
    packed, row_N = _packed(worker.policy, turns)
    return mx.array(worker.policy.closed.logps(packed, worker.settings.tau))[row_N]


def _log_ratios(batch: TurnBatch | TextBatch, logp: np.ndarray) -> tuple[np.ndarray, float]:
    """log(π_θ / π_behaviour) of each turn (a text's tokens added up), and the largest of one decision."""
    if isinstance(batch, TextBatch):
        ratio_N = np.where(np.array(batch.imitated_N) > 0, 0.0, logp - np.array(batch.behaviour_logp_N))
        return np.bincount(batch.turn_N, weights=ratio_N), float(np.abs(ratio_N).max(initial=0.0))
    chosen_N = np.take_along_axis(logp, np.array(batch.chosen_N)[:, None], axis=1)[:, 0]
    ratio_N = np.where(np.array(batch.imitated_N) > 0, 0.0, chosen_N - np.array(batch.behaviour_logp_N))
    return ratio_N, float(np.abs(ratio_N).max(initial=0.0))


def _packed(policy: ModelPolicy, turns: Sequence[Turn]) -> tuple[PackedBatch, mx.array]:
    return policy.closed.pack_unique([turn.prompt_ids for turn in turns], [tuple(turn.legal) for turn in turns])
