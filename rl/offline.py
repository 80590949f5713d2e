"""Recorded groups as episodes to learn from: which logs will do, and what of them.

Only whole episodes on train seeds are taken, with the rewards as amended. A log of another scenario, version, base
model, tokenizer, prefix or temperature is refused: its probabilities would mean something else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

import recorder
from npc.models import Brain
from recorder import EpisodeBegin, Reader, prefix_hash
from recorder.records import Turn
from rl.rollout import Episode, Plan
from scenarios.contract import Scenario

ROUNDING = 1e-9  # two sums of the same rewards may differ by this


class OfflineError(ValueError):
    """Logs that can't be learned from; one line that names the file."""


@dataclass(frozen=True)
class Recorded:
    """Groups of recorded episodes, and by which weights they were played."""

    groups: list[list[Episode]]
    weights: frozenset[str]
    left_out: int  # episodes without a sibling, unfinished, or on seeds that don't teach


def read_groups(paths: Sequence[str | Path], scenario: Scenario, brain: Brain, tau: float) -> Recorded:
    """All groups of two or more whole episodes in the logs. Raises OfflineError or RecorderError."""
    groups: dict[str, list[Episode]] = {}
    weights: set[str] = set()
    prefix_ids = brain.prefix_ids(scenario.prefix)
    ours = prefix_hash(scenario.prefix, prefix_ids)
    total = 0
    for path in paths:
        with Reader(path) as log:
            for episode in log.episodes():
                total += 1
                begin = episode.begin
                if begin.split != "train" or not episode.whole:
                    continue
                _check(begin, scenario, brain, ours, str(path))
                turns = [_ready(turn, brain, tau, str(path), begin) for turn in rescored(episode)]
                weights.add(begin.weights_hash)
                plan = Plan(begin.seed, begin.options, begin.group, "")
                ended = episode.end.ended if episode.end is not None else ""
                groups.setdefault(begin.group, []).append(Episode(plan, begin.digest_start, turns, ended))
    kept = [group for group in groups.values() if len(group) > 1 and group[0].plan.group]
    if not kept:
        raise OfflineError(
            f"{paths[0]}: no group of whole episodes on train seeds in it ({total} episodes); record groups with "
            f"python -m rl.record --scenario {scenario.name} --group-size 4 --out FILE.b22"
        )
    return Recorded(kept, frozenset(weights), total - sum(len(group) for group in kept))


def rescored(episode: recorder.Episode) -> list[Turn]:
    """The turns with their reward terms as amended or scored anew. What the episode as a whole was given late goes to
    its last turn, so that the sums are the episode's."""
    if not episode.amends or not episode.turns:
        return episode.turns
    terms = episode.turn_terms()
    for name, total in episode.terms().items():
        late = total - math.fsum(of_turn.get(name, 0.0) for of_turn in terms)
        if abs(late) > ROUNDING:
            terms[-1][name] = terms[-1].get(name, 0.0) + late
    return [replace(turn, terms=of_turn) for turn, of_turn in zip(episode.turns, terms, strict=True)]


def _check(begin: EpisodeBegin, scenario: Scenario, brain: Brain, prefix: str, path: str) -> None:
    """Raises OfflineError for the first thing about an episode that isn't ours."""
    facts = [
        ("scenario", begin.scenario, scenario.name),
        ("scenario_version", begin.scenario_version, scenario.version),
        ("source_hash", begin.source_hash, scenario.source_hash),
    ]
    if begin.model:  # what a person or a rule played has no model behind it
        facts += [
            ("base_hash", begin.base_hash, brain.base_hash),
            ("tokenizer_hash", begin.tokenizer_hash, brain.tokenizer_hash),
            ("prefix_hash", begin.prefix_hash, prefix),
        ]
    for name, theirs, own in facts:
        if theirs != own:
            raise OfflineError(
                f"{path}: episode {begin.episode}: {name} is {theirs!r}, this training has {own!r}; learn from logs of "
                "the same scenario version, base model and tokenizer"
            )


def _ready(turn: Turn, brain: Brain, tau: float, path: str, begin: EpisodeBegin) -> Turn:
    """A turn with prompt ids: the recorded ones where there are any. What a rule or a person played has none yet."""
    if not turn.prompt_ids:
        return replace(turn, prompt_ids=brain.prompt_ids(turn.observation))
    if turn.logps and not turn.greedy and turn.tau != tau:
        raise OfflineError(
            f"{path}: episode {begin.episode}: turn {turn.turn} was sampled at tau {turn.tau:g}; learn from it with "
            f"--tau {turn.tau:g}"
        )
    return turn
