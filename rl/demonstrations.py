"""What there is to imitate: a teacher's play, recorded; play that was recorded before; a student's play, labelled.

Whatever is imitated comes out of a log. Turns that a fallback played, and turns that an unusable reply was lost on,
are no example.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recorder import Amend, Reader, Turn
from recorder.reader import Episode as Recorded
from rl.logbook import Author, Logbook
from rl.policies import Policy, TurnView
from rl.rollout import TRUNCATED, Episode, Plan, play
from scenarios.contract import Scenario

PROGRAM = "python -m rl.distill"
LABEL, LABEL_PROBS = "teacher", "teacher_probs"  # of an AMEND: what the teacher would have done
FEW = 8  # episodes that a slow teacher plays between two writes to the log
FIELDS = ("policy", "model", "purpose", "split", "run", "group")  # of an EpisodeBegin, for `only`
Told = Callable[[int, int], None]  # is told how many are solved, and how many were played


class DemonstrationError(ValueError):
    """A log that can't be learned from; one line."""


@dataclass(frozen=True)
class Example:
    """A turn to imitate. `target_A`: the teacher's probability of each legal phrase; where there is none, `text` is
    what it wrote."""

    observation: str
    legal: tuple[str, ...]
    target_A: np.ndarray
    text: str = ""


def record(teacher: Policy, author: Author, scenario: Scenario, plans: Sequence[Plan], split: str, path: Path, run: str,
           wanted: int | None = None, told: Told = lambda *_: None, few: int = FEW) -> int:  # fmt: skip
    """The teacher plays `plans`, to the end or until `wanted` of them are solved; they lie in the log at `path`. What
    the log holds of these already is not played again. Returns how many are solved."""
    known = _played(path, scenario, author.policy) if path.exists() else {}
    solved = at = 0
    with Logbook(path, scenario, PROGRAM, run, append=path.exists()) as log:
        while at < len(plans) and (wanted is None or solved < wanted):
            share = plans[at : at + few]
            at += len(share)
            fresh = [plan for plan in share if plan.seed not in known]
            episodes = play(teacher, scenario, fresh) if fresh else []
            log.add(episodes, author, "demonstration", split)
            solved += sum(known.get(plan.seed, False) for plan in share) + sum(e.success for e in episodes)
            told(solved, at)
    return solved


def demonstration_plans(scenario: Scenario, options: dict[str, str], wanted: int, seed: int) -> list[Plan]:
    """Training seeds for `wanted` solved demonstrations: four times as many, for a teacher that fails often."""
    seeds = scenario.splits["train"]
    count = min(len(seeds), 4 * wanted + 10)
    chosen = random.Random(f"demonstrations/{seed}").sample(range(len(seeds)), count)
    return [Plan(seeds[i], options, f"demo/{i}", f"{seed}/demo/{i}") for i in chosen]


def _played(path: Path, scenario: Scenario, policy: str) -> dict[int, bool]:
    """Seed -> solved, of the whole episodes that a log holds of this policy."""
    found = {}
    with Reader(path) as log:
        for episode in log.episodes():
            _check_rules(path, episode, scenario)
            if episode.begin.policy != policy:
                raise DemonstrationError(
                    f"{path}: holds play of {episode.begin.policy!r}, not of {policy!r}; give another --out"
                )
            if episode.whole and episode.end is not None:
                found[episode.begin.seed] = episode.end.success
    return found


def read_examples(paths: Sequence[Path], scenario: Scenario, soft: bool, split: str | None = None,
                  count: int | None = None, solved: bool = True, only: Mapping[str, str] | None = None,
                  ) -> list[list[Example]]:  # fmt: skip
    """The examples in logs, an episode at a time: the first `count` episodes of `split` (None: any but "test") that
    are solved (`solved` False: all) and whose fields are as `only` says.

    `soft` takes the recorded distribution of a turn, else what was done takes all. Raises DemonstrationError for a log
    of other rules; only training seeds teach, so episodes on test seeds are passed over.
    """
    found: list[list[Example]] = []
    for path in paths:
        with Reader(path) as log:
            for episode in log.episodes():
                _check_rules(path, episode, scenario)
                if count is not None and len(found) == count:
                    return found
                begin, end = episode.begin, episode.end
                if end is None or (solved and not end.success) or begin.seed in scenario.splits["test"]:
                    continue
                if split is not None and begin.split != split:
                    continue
                if any(getattr(begin, name) != value for name, value in (only or {}).items()):
                    continue
                text = scenario.free_text is not None
                examples = [example for turn in episode.turns if (example := _example(turn, soft, text)) is not None]
                if examples:
                    found.append(examples)
    return found


def read_labels(path: Path, scenario: Scenario) -> list[Example]:
    """The labelled turns of a log that `record_labelled` wrote, with the teacher's distribution as target."""
    found = []
    with Reader(path) as log:
        for episode in log.episodes():
            _check_rules(path, episode, scenario)
            labels = {amend.turn: amend.labels for amend in episode.amends if LABEL in amend.labels}
            for turn in episode.turns:
                if turn.turn in labels:
                    target_A = np.array(labels[turn.turn][LABEL_PROBS].split(), dtype=np.float32)
                    found.append(Example(turn.observation, tuple(turn.legal), target_A))
    return found


def record_labelled(student: Policy, teacher: Policy, author: Author, teacher_name: str, scenario: Scenario,
                    plans: Sequence[Plan], path: Path) -> list[Episode]:  # fmt: skip
    """The student plays `plans`; the log keeps its play, and as labels what the teacher would have done in each turn.

    Ross, Gordon & Bagnell 2011 ("A reduction of imitation learning …", DAgger): states are the student's, so that it
    learns where it goes, not only where the teacher would go.
    """
    episodes = play(student, scenario, plans)
    labels = label(teacher, scenario, episodes)
    with Logbook(path, scenario, PROGRAM, f"distil-{scenario.name}-student", append=path.exists()) as log:
        numbers = log.add(episodes, author, "labelled", "train")
        for number, labelled in zip(numbers, labels, strict=True):
            for turn, (phrase, probs_A) in labelled.items():
                words = {LABEL: phrase, LABEL_PROBS: " ".join(repr(float(value)) for value in probs_A)}
                log.amend(Amend(episode=number, turn=turn, labels=words, author=teacher_name))
    return episodes


def label(teacher: Policy, scenario: Scenario, episodes: Sequence[Episode]) -> list[dict[int, tuple[str, np.ndarray]]]:
    """For each episode, turn -> (phrase, probabilities (A,)) of the teacher, which sees what the player saw and, where
    it looks at the state, the state played again. Turns that it had no usable answer for are left out."""
    found: list[dict[int, tuple[str, np.ndarray]]] = [{} for _ in episodes]
    states = [scenario.build(episode.plan.seed, episode.plan.options) for episode in episodes]
    views = [TurnView(state, "", ()) for state in states]
    for number in range(max((len(episode.turns) for episode in episodes), default=0)):
        rows = [i for i, episode in enumerate(episodes) if number < len(episode.turns)]
        for i in rows:
            turn = episodes[i].turns[number]
            views[i].observation, views[i].legal = turn.observation, tuple(turn.legal)
        decisions = teacher.decide([views[i] for i in rows], None)
        for i, decision in zip(rows, decisions, strict=True):
            turn = episodes[i].turns[number]
            if decision.phrase in turn.legal:
                found[i][number] = (decision.phrase, np.array(decision.probs, dtype=np.float32))
            scenario.apply(states[i], turn.executed)
    return found


def only_from(pairs: Mapping[str, str]) -> dict[str, str]:
    """Checks `--only` fields. Raises DemonstrationError for one that an episode doesn't have."""
    for name in pairs:
        if name not in FIELDS:
            raise DemonstrationError(f"--only {name}: an episode has {', '.join(FIELDS)}")
    return dict(pairs)


def _example(turn: Turn, soft: bool, free_text: bool) -> Example | None:
    if free_text and turn.executed and not turn.fallback and turn.policy_note != TRUNCATED:
        return Example(turn.observation, (), np.zeros(0, dtype=np.float32), turn.executed)
    if turn.fallback or turn.executed not in turn.legal:
        return None
    target_A = np.array(turn.prob_values)
    if not soft or len(target_A) != len(turn.legal):
        target_A = np.array([phrase == turn.executed for phrase in turn.legal], dtype=np.float32)
    return Example(turn.observation, tuple(turn.legal), target_A)


def _check_rules(path: Path, episode: Recorded, scenario: Scenario) -> None:
    begin = episode.begin
    theirs, ours = (begin.scenario, begin.scenario_version), (scenario.name, scenario.version)
    if theirs != ours:
        raise DemonstrationError(
            f"{path}: episode {begin.episode} is of {theirs[0]} version {theirs[1]}, not of {ours[0]} version {ours[1]}"
        )
    if begin.source_hash and begin.source_hash != scenario.source_hash:
        raise DemonstrationError(
            f"{path}: episode {begin.episode} was played under other rules of {scenario.name} (source "
            f"{begin.source_hash}, now {scenario.source_hash}); record it again"
        )


