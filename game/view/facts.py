"""What the panel says, as words: read from the records that are logged, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from game.sim.cast import PLACES
from game.sim.observation import NOTHING, ROAD, UNKNOWN, Observation, ObservationError, parse_observation
from game.sim.trading import parse_sight
from game.view.answers import Result, summed_terms
from game.view.person import PERSON
from game.view.players import Player
from game.view.session import THINKING
from recorder import EpisodeBegin, Turn
from scenarios.contract import Scenario


@dataclass(frozen=True)
class Choice:
    """A legal phrase; `prob` is None while nothing was decided, or where a fallback or a person acted.

    `key` is what a person presses for it, "" while none is asked.
    """

    phrase: str
    prob: float | None
    chosen: bool
    key: str = ""


@dataclass(frozen=True)
class Facts:
    """All words and numbers of the panel."""

    title: str
    tally: str
    request: str
    turns_left: int
    turn_cap: int
    seen: tuple[str, ...]
    memory: tuple[str, ...]
    how: str
    choices: tuple[Choice, ...]
    note: str
    caption: str  # of the outcome
    outcome: str
    good: bool | None  # how the episode ended: success, another way, not yet
    terms: tuple[tuple[str, float, float], ...]  # name, earned in the turn shown, sum
    total: float
    player: str
    measured: str


class Told(Protocol):
    """What the panel reads: a session, or a record of one that is shown again."""

    @property
    def scenario(self) -> Scenario: ...

    @property
    def seed(self) -> int: ...

    @property
    def begin(self) -> EpisodeBegin: ...

    @property
    def turn(self) -> Turn: ...

    @property
    def turns(self) -> list[Turn]: ...

    @property
    def phase(self) -> str: ...

    @property
    def ended(self) -> str | None: ...

    @property
    def results(self) -> Sequence[Result]: ...

    @property
    def player(self) -> Player: ...

    @property
    def deciding(self) -> str: ...

    @property
    def waiting(self) -> str: ...


def facts_of(session: Told, revealed: bool) -> Facts:
    """What there is to say now. `revealed`: the picture has come to the end of the turn, its outcome may be told."""
    turn = session.turn
    thinking = session.phase == THINKING
    under_way = not thinking and not revealed
    told = session.turns if thinking or revealed else session.turns[:-1]
    ended = session.ended if not thinking and revealed else None
    last = told[-1] if told else None
    sums = summed_terms(told)
    earned = last.terms if last is not None and not under_way else {}
    names = [term.name for term in session.scenario.reward_terms]
    request, seen, memory = describe(turn.observation)
    finished = [result for result in session.results if result.ended is not None]
    if session.ended is not None and ended is None:
        finished = finished[:-1]
    won = sum(result.success for result in finished)
    return Facts(
        title=f"{session.begin.scenario}  ·  seed {session.seed}",
        tally=f"{won} of {len(finished)} succeeded" if finished else "first episode",
        request=request,
        turns_left=session.scenario.turn_cap - turn.turn - (1 if not thinking and revealed else 0),
        turn_cap=session.scenario.turn_cap,
        seen=seen,
        memory=memory,
        how=_how(turn, session.waiting if thinking else ""),
        choices=choices_of(turn, not thinking, thinking and session.player.person),
        caption="What came of the last one" if thinking and session.turns else "What came of it",
        note=f"daydreaming: {last.policy_note}" if last is not None and last.fallback and not under_way else "",
        outcome="Doing it …" if under_way else _outcome(last, ended),
        good=None if ended is None else ended == "success",
        terms=tuple((name, earned.get(name, 0.0), sums.get(name, 0.0)) for name in names),
        total=math.fsum(sums.values()),
        player=player_words(session.begin, session.deciding if thinking else turn.player),
        measured="" if thinking else _measured(turn),
    )


@lru_cache(maxsize=64)
def describe(observation: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The request, what is seen and what is remembered, in sentences. Another scenario's text stays as it is."""
    try:
        seen = parse_observation(observation)
    except ObservationError:
        return _trading(observation)
    return f"{seen.goal_person} wants the {seen.goal_item}", _seen(seen), _memory(seen)


def _trading(observation: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The same for one who trades."""
    try:
        sight = parse_sight(observation)
    except ObservationError:
        return "", (observation,), ()
    where = "On the road" if sight.place == ROAD else f"At the {sight.place}"
    people = [*sight.people, *(f"{name} (asked)" for name in sight.asked)]
    seen = (f"{where}, the {sight.hold} in hand", f"Here too: {', '.join(people) or 'nobody'}")
    deals = [
        f"{o.person}: the {o.gives} for a {o.wants}" + ("" if o.place == UNKNOWN else f", at the {o.place}")
        for o in sight.offers
    ]
    asker = "no idea where" if sight.asker == UNKNOWN else f"at the {sight.asker}"
    return f"{sight.goal_person} wants the {sight.goal_item}", seen, (*deals, f"{sight.goal_person}: {asker}")


def _seen(seen: Observation) -> tuple[str, ...]:
    where = "On the road" if seen.place == ROAD else f"At the {seen.place}"
    hand = "hands free" if seen.hold == NOTHING else f"the {seen.hold} in hand"
    people = [*seen.people, *(f"{name} (asked)" for name in seen.asked)]
    return (
        f"{where}, {hand}",
        f"Lying here: {', '.join(seen.items) or 'nothing'}",
        f"Here too: {', '.join(people) or 'nobody'}",
    )


def _memory(seen: Observation) -> tuple[str, ...]:
    if seen.item == "hand":
        item = "in hand"
    elif seen.item in PLACES:
        item = f"at the {seen.item}"
    else:
        item = "no idea where" if seen.item == UNKNOWN else f"{seen.item} has it"
    asker = "no idea where" if seen.asker == UNKNOWN else f"at the {seen.asker}"
    lines = [f"{seen.goal_item}: {item}", f"{seen.goal_person}: {asker}"]
    if seen.unseen:
        lines.append(f"Not looked yet: {', '.join(seen.unseen)}")
    return tuple(lines)


KEYS = tuple("1234567890")


def choices_of(turn: Turn, decided: bool, asked: bool = False) -> tuple[Choice, ...]:
    """The legal phrases, the most probable first once there are probabilities; with keys when a person is asked."""
    probs = turn.prob_values.tolist()
    choices = [
        Choice(phrase, probs[at] if probs else None, decided and phrase == turn.executed,
               KEYS[at] if asked and at < len(KEYS) else "")
        for at, phrase in enumerate(turn.legal)
    ]  # fmt: skip
    return tuple(sorted(choices, key=lambda choice: -(choice.prob or 0.0)))


def entropy(probs: list[float]) -> float:
    """In nats."""
    return -math.fsum(p * math.log(p) for p in probs if p > 0)


def player_words(begin: EpisodeBegin, other: str = "") -> str:
    """Who plays: a person, model and adapter, or the rule; `other` is who decides if not the episode's own policy."""
    if other == PERSON or (not other and begin.policy == PERSON):
        return "you, at the keyboard and the mouse"
    if other and other != begin.policy:
        return other
    if not begin.model:
        return f"{begin.policy} (a rule, no model)"
    return f"model {begin.model}, " + (f"adapter {begin.adapter}" if begin.adapter else "no adapter")


def _how(turn: Turn, waiting: str) -> str:
    if waiting:
        return waiting
    if turn.fallback:
        return "fallback"
    if turn.player == PERSON:
        return "chosen by a person"
    if turn.greedy:
        return "greedy: the most probable"
    return f"sampled at τ = {turn.tau:g}"


def _measured(turn: Turn) -> str:
    words = [f"{turn.decision_ms:.0f} ms" if turn.decision_ms >= 1 else "under 1 ms"]
    if turn.probs:
        words.append(f"entropy {abs(entropy(turn.prob_values.tolist())):.2f} nats")
    return ", ".join(words)


def _outcome(last: Turn | None, ended: str | None) -> str:
    if last is None:
        return "A new errand."
    text = last.outcome_text[:1].upper() + last.outcome_text[1:]
    if ended == "turn_cap":
        return f"{text}. No turns are left."
    return text
