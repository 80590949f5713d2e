"""`python -m tests.recorder.play_log OUT`: every scenario played for a log, with a digest after every turn.

Needs nothing but the scenarios and the recorder, so that any Python that has their libraries can run it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import scenarios
from recorder import EpisodeBegin, EpisodeEnd, Header, Turn, Writer
from scenarios.contract import Scenario

TURNS = 12
EPISODES = {"sudoku_code": 1}
"""Where two episodes would take long."""


def main(out: str) -> None:
    """Plays train seeds, half by the oracle, half by the dice."""
    with Writer(Path(out), header=Header.here("tests"), sync="none") as log:
        for name in scenarios.names():
            scenario = scenarios.get(name)
            for seed in scenario.splits["train"][: EPISODES.get(name, 2)]:
                record(log, scenario, seed)


def record(log: Writer, scenario: Scenario, seed: int) -> None:
    """One episode of at most `TURNS` turns."""
    number, dice = log.next_episode, random.Random(seed)
    options = scenario.resolve_options({})
    state = scenario.build(seed, options)
    log.begin_episode(
        EpisodeBegin(
            episode=number, scenario=scenario.name, scenario_version=scenario.version, seed=seed, options=options,
            source_hash=scenario.source_hash, engine_version=scenario.engine_version, policy="dice and oracle",
            digest_start=scenario.digest(state),
        )
    )  # fmt: skip
    earned: list[float] = []
    for at in range(TURNS):
        seen, legal = scenario.observation(state), scenario.legal(state)
        action = dice.choice(legal) if legal and dice.random() < 0.5 else scenario.oracle(state)
        outcome = scenario.apply(state, action)
        earned.extend(outcome.terms.values())
        log.turn(
            Turn(
                episode=number, turn=at, observation=seen, proposed=action, executed=action, legal=list(legal),
                outcome_kind=outcome.kind, outcome_text=outcome.text, ticks=outcome.ticks, terms=outcome.terms,
                digest_after=scenario.digest(state),
            )
        )  # fmt: skip
        if outcome.ended:
            break
    ended = scenario.ended(state)
    log.end_episode(
        EpisodeEnd(
            episode=number, ended=ended or "stopped", success=ended == "success", turns=at + 1,
            total_reward=sum(earned),
        )
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
