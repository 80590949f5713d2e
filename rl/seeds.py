"""Seeds that teach: which starts and which difficulty to train on, from what was seen so far.

A group teaches most where success is near one half. So a share of the groups goes to seeds that were neither always won
nor always lost, the nearer to one half the likelier; those always won or always lost are dropped. The other groups are
fresh seeds out of all, so that nothing is left out. What was seen long ago fades, since the policy has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rl.rollout import Episode, uniform
from scenarios.contract import Option, Scenario

FADE = 0.5  # what is left of an update's weight after the next one
REMEMBERED = 256  # seeds
PRIOR = 1.0  # wins and losses that a difficulty begins with, each

Starts = list[tuple[int, dict[str, str]]]  # (seed, options) of each group


class SeedBook:
    """What was won and lost, by start and by difficulty; plain numbers, so that they read back exactly."""

    def __init__(self) -> None:
        self.starts: dict[str, list[float]] = {}  # "SEED/DIFFICULTY" -> [won, played]
        self.levels: dict[str, list[float]] = {}  # difficulty -> [won, played]

    def learn(self, episodes: Sequence[Episode], ladder: Option | None) -> None:
        """Takes in an update's episodes."""
        for counts in (*self.starts.values(), *self.levels.values()):
            counts[0] *= FADE
            counts[1] *= FADE
        for episode in episodes:
            level = episode.plan.options[ladder.name] if ladder else ""
            for book, name in ((self.starts, f"{episode.plan.seed}/{level}"), (self.levels, level)):
                counts = book.setdefault(name, [0.0, 0.0])
                counts[0] += episode.success
                counts[1] += 1.0
        lately = {name: counts for name, counts in self.starts.items() if 0 < counts[0] < counts[1]}
        self.starts = dict(list(lately.items())[-REMEMBERED:])

    def plain(self) -> dict[str, dict[str, list[float]]]:
        return {"starts": self.starts, "levels": self.levels}

    def restore(self, plain: dict[str, dict[str, list[float]]]) -> None:
        self.starts, self.levels = plain["starts"], plain["levels"]


def ladder_of(scenario: Scenario) -> Option | None:
    """The option that makes a scenario harder or easier, where it has one."""
    return next((option for option in scenario.options if option.name == "difficulty"), None)


def choose_starts(book: SeedBook, curriculum: str, share: float, scenario: Scenario, options: dict[str, str],
                  count: int, draws: str) -> Starts:  # fmt: skip
    """`count` starts. Of the groups, `share` in the mean are ones that `curriculum` chose; the others are fresh seeds
    at the difficulty asked for. All draws are keyed by `draws`."""
    seeds = scenario.splits["train"]
    ladder = ladder_of(scenario)
    found: Starts = []
    for group in range(count):
        seed = seeds[int(uniform(draws, group) * len(seeds))]
        chosen = options
        if curriculum != "uniform" and uniform(f"{draws}/chosen", group) < share:
            level = options[ladder.name] if ladder else ""
            if curriculum == "ladder" and ladder:
                level = best_level(book, ladder)
                chosen = options | {ladder.name: level}
            seen = {name: w for name, w in teaching(book).items() if name.partition("/")[2] == level}
            if seen and uniform(f"{draws}/again", group) < 0.5:
                seed = int(_drawn(seen, uniform(f"{draws}/which", group)).partition("/")[0])
        found.append((seed, chosen))
    return found


def teaching(book: SeedBook) -> dict[str, float]:
    """The starts that can teach, with weights p (1 − p): none that was always won or always lost."""
    rates = {name: won / played for name, (won, played) in book.starts.items()}
    return {name: rate * (1 - rate) for name, rate in rates.items() if 0 < rate < 1}


def best_level(book: SeedBook, ladder: Option) -> str:
    """The difficulty whose success is nearest one half; one that was not tried yet counts as one half."""

    def distance(level: str) -> float:
        won, played = book.levels.get(level, [0.0, 0.0])
        return abs((won + PRIOR) / (played + 2 * PRIOR) - 0.5)

    return min(ladder.choices, key=distance)


def _drawn(weights: dict[str, float], uniform_draw: float) -> str:
    left = uniform_draw * sum(weights.values())
    for name, weight in weights.items():
        left -= weight
        if left < 0:
            return name
    return name
