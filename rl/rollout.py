"""Plays many episodes side by side: one forward decides a turn of all that are still running."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from msgspec.structs import replace

from recorder.records import Turn, pack_floats
from rl.policies import Policy, TurnView
from scenarios.contract import Scenario

TRUNCATED = "truncated"  # the note of a turn whose free text a limit cut off: it is masked in the loss
FAILED = "failed"  # how an episode ended in which the scenario itself raised an error
SHARED = "shared"  # the note of a turn that a branch takes over from its root


@dataclass(frozen=True)
class Plan:
    """One episode to be played. Plans of one `group` start from one state; `draws` keys the episode's own dice. A
    branch begins with the turns of `opening`, which its root played, and belongs to the fork of that name."""

    seed: int
    options: dict[str, str]
    group: str
    draws: str
    opening: tuple[Turn, ...] = ()
    fork: str = ""


@dataclass
class Episode:
    """A played episode. `turns` are as the log takes them, their `episode` number still 0. `fork` names the fork that
    it is a root or a branch of, with the first turn of its own there."""

    plan: Plan
    digest_start: dict[str, str]
    turns: list[Turn] = field(default_factory=list)
    ended: str = ""
    error: str = ""
    wall_s: float = 0.0
    fork: tuple[str, int] | None = None

    @property
    def success(self) -> bool:
        return self.ended == "success"

    @property
    def reward(self) -> float:
        return math.fsum(turn.reward for turn in self.turns)

    @property
    def terms(self) -> dict[str, float]:
        """Each reward term's sum over the episode."""
        sums: dict[str, float] = {}
        for turn in self.turns:
            for term, value in turn.terms.items():
                sums[term] = sums.get(term, 0.0) + value
        return sums


def uniform(draws: str, turn: int) -> float:
    """A number in [0, 1) that depends on its key alone, so that batching and order change no draw."""
    word = blake2b(f"{draws}|{turn}".encode(), digest_size=8).digest()
    return (int.from_bytes(word, "little") >> 11) / (1 << 53)


def play(policy: Policy, scenario: Scenario, plans: Sequence[Plan], greedy: bool = False) -> list[Episode]:
    """Plays every plan to its end. `greedy` takes the most probable action and draws nothing.

    `wall_s` of an episode is its share of the time that all of them took together.
    """
    began = time.perf_counter()
    starts: dict[tuple[int, str], object] = {}
    states, views, episodes = [], [], []
    for plan in plans:
        key = (plan.seed, repr(sorted(plan.options.items())))
        if key not in starts:
            starts[key] = scenario.build(plan.seed, plan.options)
        state = scenario.clone(starts[key])
        episode = Episode(plan, scenario.digest(state), fork=(plan.fork, len(plan.opening)) if plan.fork else None)
        for turn in plan.opening:
            scenario.apply(state, turn.executed)
            episode.turns.append(replace(turn, policy_note=SHARED))
        states.append(state)
        views.append(TurnView(state, scenario.observation(state), scenario.legal(state)))
        episodes.append(episode)
    running = list(range(len(plans)))
    while running:
        asked = time.perf_counter()
        turns = [views[i] for i in running]
        draws = None if greedy else [uniform(plans[i].draws, len(episodes[i].turns)) for i in running]
        decisions = policy.decide(turns, draws)
        decision_ms = (time.perf_counter() - asked) * 1000 / len(running)
        still = []
        for i, view, decision in zip(running, turns, decisions, strict=True):
            try:
                outcome = scenario.apply(states[i], decision.phrase)
            except Exception:  # somebody's scenario broke: the trainer drops the group, counts it and shows this
                episodes[i].ended, episodes[i].error = FAILED, traceback.format_exc()
                continue
            episodes[i].turns.append(
                Turn(
                    episode=0, turn=len(episodes[i].turns), observation=view.observation, proposed=decision.phrase,
                    executed=decision.phrase, prompt_ids=decision.prompt_ids, sampled_ids=decision.sampled_ids,
                    logps=pack_floats(decision.node_logps), tau=decision.tau, legal=list(view.legal),
                    probs=pack_floats(decision.probs), outcome_kind=outcome.kind, outcome_text=outcome.text,
                    ticks=outcome.ticks, terms=outcome.terms, greedy=decision.greedy,
                    digest_after=scenario.digest(states[i]), decision_ms=decision_ms,
                    policy_note=TRUNCATED if decision.truncated else "",
                )
            )  # fmt: skip
            if outcome.ended is not None:
                episodes[i].ended = outcome.ended
                continue
            view.observation = scenario.observation(states[i])
            view.legal = scenario.legal(states[i])
            still.append(i)
        running = still
    share = (time.perf_counter() - began) / max(1, len(plans))
    for episode in episodes:
        episode.wall_s = share
    return episodes
