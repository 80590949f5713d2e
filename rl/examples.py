"""Episodes of a log retold in words, and the rule by which a report chooses the ones that it tells."""

from __future__ import annotations

from dataclasses import dataclass

import scenarios
from recorder import Episode, Turn
from rl.run_folder import solved


@dataclass(frozen=True)
class Example:
    """One test seed, played before and after. `rule` says why this one."""

    rule: str
    seed: int
    before: Episode
    after: Episode


@dataclass(frozen=True)
class TurnInWords:
    """A turn's parts, each ready to be shown. `instead` is what was done where that was something else."""

    number: int
    situation: str
    chose: str
    odds: str
    instead: str
    outcome: str
    reward: float


RULES = (
    ("the first seed that was failed before and solved after", False, True),
    ("the first seed that was solved both times", True, True),
    ("the first seed that was failed after", None, False),
)


def choose(before: dict[int, Episode], after: dict[int, Episode]) -> tuple[list[Example], list[str]]:
    """An example for every rule that some seed fits, and the rules that none fits. Seeds are tried in their order, so
    nobody picks."""
    both = sorted(before.keys() & after.keys())
    examples, none = [], []
    for rule, was, now in RULES:
        seed = next((s for s in both if was in (None, solved(before[s])) and solved(after[s]) is now), None)
        if seed is None:
            none.append(rule)
        else:
            examples.append(Example(rule, seed, before[seed], after[seed]))
    return examples, none


def headline(episode: Episode) -> str:
    """How an episode went: "solved in 7 turns, reward +0.97"."""
    end = episode.end
    if end is None:
        return f"never ended ({len(episode.turns)} turns)"
    how = "solved" if end.success else f"failed ({end.ended})"
    return f"{how} in {end.turns} turns, reward {end.total_reward:+.2f}"


def chosen_probability(turn: Turn) -> float | None:
    """The probability that the policy gave to what it did, before it was drawn; None where none was recorded."""
    probabilities = turn.prob_values
    if len(probabilities) != len(turn.legal) or turn.proposed not in turn.legal:
        return None
    return float(probabilities[turn.legal.index(turn.proposed)])


def situation(scenario: str, observation: str) -> str:
    """Where the character stands, in the scenario's own words; the observation as it stands where there are none: of a
    scenario that isn't here, or of a text of another version's form."""
    try:
        return scenarios.get(scenario).situation(observation)
    except ValueError:
        return observation


def mission(scenario: str, observation: str) -> str:
    """What the episode is about, in the scenario's own words; empty where there are none."""
    try:
        return scenarios.get(scenario).mission(observation)
    except ValueError:
        return ""


def tell(scenario: str, turn: Turn) -> TurnInWords:
    """One turn as people read it."""
    chance = chosen_probability(turn)
    choices = f"of {len(turn.legal)} choices" if turn.legal else "in its own words"
    return TurnInWords(
        number=turn.turn + 1,
        situation=situation(scenario, turn.observation),
        chose=turn.proposed,
        odds=choices if chance is None else f"{100 * chance:.0f} % {choices}",
        instead="" if turn.executed == turn.proposed else turn.executed,
        outcome=turn.outcome_text,
        reward=turn.reward,
    )
