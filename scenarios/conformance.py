"""What every scenario must hold to, as checks that any scenario can be put through: `python -m scenarios check NAME`.

Each check plays the scenario on some seeds and gives a Finding; a failed one says what is wrong, on which seed, and
what the likely cause is. Nothing here knows a scenario.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from scenarios.contract import MAX_SEED, Scenario, ScenarioError

ILLEGAL = "illegal"
JUNK = ("", " ", "sing a song", "GO", "0", "größer", "x" * 300)
SLOW = 100  # turns a second, under which a scenario is called slow

Options = Mapping[str, str]
Player = Callable[[Any, random.Random], str]


class Finding(msgspec.Struct, frozen=True):
    """One check and how it went. `ok` None: nothing to pass, a thing to know."""

    name: str
    ok: bool | None
    text: str


class Broken(AssertionError):
    """A check's finding that something is wrong."""


def check(
    scenario: Scenario, options: Options | None = None, seeds: int = 12, only: Container[str] = ()
) -> list[Finding]:
    """All checks that need no model, or those called `only`, on the first `seeds` validation seeds with `options`."""
    chosen = scenario.resolve_options(options)
    findings = []
    for test in CHECKS:
        name = test.__name__.replace("_", " ")
        if only and name not in only:
            continue
        try:
            findings.append(Finding(name, True, test(scenario, chosen, seeds)))
        except Broken as wrong:
            findings.append(Finding(name, False, str(wrong)))
        except Exception as error:  # a scenario is anybody's code; whatever it raises is the finding
            findings.append(Finding(name, False, f"raised {type(error).__name__}: {error}"))
    return findings


# -- playing ----------------------------------------------------------------------------------------------------


def choices(scenario: Scenario, state: Any) -> tuple[str, ...]:
    """What may be said: the legal phrases; where a turn is a free text, nonsense and the beginnings of good texts."""
    if scenario.free_text is None:
        return scenario.legal(state)
    good, _ = scenario.teacher(None, scenario.observation(state))
    return (*JUNK, good[: len(good) // 2], good[:-1])


def at_random(scenario: Scenario) -> Player:
    return lambda state, dice: dice.choice(choices(scenario, state))


def by_oracle(scenario: Scenario) -> Player:
    return lambda state, dice: scenario.oracle(state)


def by_teacher(scenario: Scenario) -> Player:
    """For one episode: it remembers."""
    memory: list[Any] = [None]

    def play(state: Any, dice: random.Random) -> str:
        phrase, memory[0] = scenario.teacher(memory[0], scenario.observation(state))
        return phrase

    return play


def in_circles(scenario: Scenario, start: int) -> Player:
    """One action, then another, and back: the way by which a careless reward is farmed."""
    turn = [0]

    def play(state: Any, dice: random.Random) -> str:
        legal = choices(scenario, state)
        turn[0] += 1
        return legal[(start + turn[0] % 2) % len(legal)] if turn[0] % 7 else dice.choice(legal)

    return play


PLAYERS: Mapping[str, Callable[[Scenario], Player]] = {
    "random": at_random, "teacher": by_teacher, "oracle": by_oracle,
    "circles": lambda scenario: in_circles(scenario, 0), "other circles": lambda scenario: in_circles(scenario, 1),
}  # fmt: skip


def states(scenario: Scenario, seed: int, options: Options, player: str) -> Iterator[Any]:
    """The states of one episode, the last included, each as it is before it is played on."""
    state, play, dice = scenario.build(seed, options), PLAYERS[player](scenario), random.Random(seed)
    yield state
    for _ in range(scenario.turn_cap + 1):
        if scenario.ended(state) is not None:
            return
        scenario.apply(state, play(state, dice))
        yield state
    raise Broken(f"seed {seed}: goes on after turn_cap {scenario.turn_cap}; `ended` must say so")


def total(scenario: Scenario, seed: int, options: Options, player: str) -> tuple[float, str, int]:
    """(reward, why it ended, turns) of one episode; Broken where a turn's terms are not as they are listed."""
    state, play, dice = scenario.build(seed, options), PLAYERS[player](scenario), random.Random(seed)
    bounds = {term.name: (term.low, term.top) for term in scenario.reward_terms}
    sums = dict.fromkeys(bounds, 0.0)
    turns = 0
    while scenario.ended(state) is None and turns <= scenario.turn_cap:
        outcome = scenario.apply(state, play(state, dice))
        turns += 1
        for name, value in outcome.terms.items():
            if name not in sums:
                raise Broken(f"seed {seed}, turn {turns}: paid {name!r}, which is not in reward_terms")
            if not math.isfinite(value):
                raise Broken(f"seed {seed}, turn {turns}: {name!r} paid {value}")
            sums[name] += value
        if outcome.ended != scenario.ended(state):
            raise Broken(f"seed {seed}, turn {turns}: outcome.ended is {outcome.ended!r}, ended() says otherwise")
    for name, (low, top) in bounds.items():
        if not low - 1e-9 <= sums[name] <= top + 1e-9:
            raise Broken(f"seed {seed}, {player} play: {name!r} came to {sums[name]:g}, its bounds are {low:g} to "
                         f"{top:g}; can it be farmed, or are the bounds wrong?")  # fmt: skip
    return math.fsum(sums.values()), scenario.ended(state) or "", turns


def trace(scenario: Scenario, options: Options, seeds: int) -> str:
    """A hash of all that random play of some seeds shows: equal in every process."""
    digest = hashlib.blake2b(digest_size=16)
    for seed in scenario.splits["validation"][:seeds]:
        for state in states(scenario, seed, options, "random"):
            said = (scenario.observation(state), scenario.legal(state), sorted(scenario.digest(state).items()))
            digest.update(repr(said).encode())
            digest.update(scenario.dump(state))
    return digest.hexdigest()


# -- the checks -------------------------------------------------------------------------------------------------


def facts(scenario: Scenario, options: Options, seeds: int) -> str:
    """Name, version, documentation, options and terms are there and make sense."""
    for name, so in (
        ("its class has no docstring: write its page there", bool((type(scenario).__doc__ or "").strip())),
        ("version must be 1 or more", scenario.version >= 1),
        ("turn_cap must be 1 or more", scenario.turn_cap >= 1),
        ("prefix is empty: say what the character is to do", bool(scenario.prefix.strip())),
        ("reward_terms is empty", bool(scenario.reward_terms)),
        ("source_hash is empty", bool(scenario.source_hash)),
    ):
        if not so:
            raise Broken(name)
    for option in scenario.options:
        if option.default not in option.choices:
            raise Broken(f"option {option.name}: its default {option.default!r} is not among its choices")
        for choice in option.choices:
            scenario.build(0, {option.name: choice})
    for term in scenario.reward_terms:
        if not -math.inf < term.low <= term.top < math.inf:
            raise Broken(f"reward term {term.name}: low {term.low} and top {term.top} are no bounds")
    return f"version {scenario.version}, {len(scenario.options)} options, {len(scenario.reward_terms)} reward terms"


def seed_ranges(scenario: Scenario, options: Options, seeds: int) -> str:
    """Train, validation and test seeds can't overlap."""
    if set(scenario.splits) != {"train", "validation", "test"}:
        raise Broken(f"splits must be train, validation and test, not {', '.join(scenario.splits)}")
    ranges = sorted(scenario.splits.items(), key=lambda item: item[1].start)
    for name, seeds_of in ranges:
        if seeds_of.step != 1 or not seeds_of or seeds_of.start < 0 or seeds_of.stop > MAX_SEED + 1:
            raise Broken(f"split {name}: {seeds_of} is no range of seeds")
    for (low, first), (high, second) in pairwise(ranges):
        if first.stop > second.start:
            raise Broken(f"splits {low} and {high} overlap: a seed that teaches would also examine")
    return ", ".join(f"{name} {len(scenario.splits[name])}" for name in ("train", "validation", "test"))


def bad_input(scenario: Scenario, options: Options, seeds: int) -> str:
    """Seeds and options that are none are refused with a ScenarioError of one line."""
    for what, seed, given in (
        ("seed -1", -1, {}), ("seed 2**63", MAX_SEED + 1, {}), ("seed True", True, {}), ("seed 1.5", 1.5, {}),
        ("an unknown option", 0, {"no such option": "1"}),
        *((f"{option.name}=?", 0, {option.name: "?"}) for option in scenario.options),
    ):  # fmt: skip
        try:
            scenario.build(seed, given)  # type: ignore[arg-type]
        except ScenarioError as error:
            if "\n" in str(error):
                raise Broken(f"{what}: refused in more than one line") from error
        else:
            raise Broken(f"{what} was accepted; use check_seed and resolve_options in build")
    for seed in (0, MAX_SEED):
        scenario.build(seed, options)
    return "refused in one line"


def same_in_every_process(scenario: Scenario, options: Options, seeds: int) -> str:
    """A process with other string hashes plays what this one plays, and different seeds differ."""
    few = min(seeds, 3)
    here = trace(scenario, options, few)
    code = ("import sys, scenarios; from scenarios.conformance import trace; "
            "print(trace(scenarios.get(sys.argv[1]), dict(p.split('=', 1) for p in sys.argv[3:]), int(sys.argv[2])))")
    other_hash = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, "PYTHONHASHSEED": other_hash, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}
    words = [sys.executable, "-c", code, scenario.name, str(few), *(f"{k}={v}" for k, v in options.items())]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"can't be played in another process: {done.stderr.strip().splitlines()[-1:]}")
    if done.stdout.strip() != here:
        raise Broken("another process plays otherwise: is a set iterated, hash() used, or the clock or a shared "
                     "random generator asked?")  # fmt: skip
    if here != trace(scenario, options, few):
        raise Broken("a second play in one process differs: something outlives an episode")
    starts = {str(scenario.digest(scenario.build(seed, options))) for seed in scenario.splits["validation"][:50]}
    if len(starts) < 25:
        raise Broken(f"50 seeds make {len(starts)} different states: is the seed used?")
    return f"{few} episodes equal in 2 processes"


def every_seed_solved(scenario: Scenario, options: Options, seeds: int) -> str:
    """The oracle succeeds on every seed, by legal phrases."""
    turns = 0
    for split in ("validation", "test"):
        for seed in scenario.splits[split][:seeds]:
            _, ended, took = total(scenario, seed, options, "oracle")
            turns += took
            if not took:
                raise Broken(f"seed {seed}: is over before its first turn; `ended` gives {ended!r} for a fresh state")
            if ended != "success":
                raise Broken(f"seed {seed}: the oracle ends in {ended!r}, not in 'success'")
    return f"{2 * seeds} seeds, {turns / (2 * seeds):.1f} turns each"


def rewards_in_bounds(scenario: Scenario, options: Options, seeds: int) -> str:
    """Terms are listed and finite, their sums in bounds, whoever plays; circles and failures earn less than success."""
    best, unsolved = 0.0, 0
    for seed in scenario.splits["validation"][:seeds]:
        goal, how, _ = total(scenario, seed, options, "oracle")
        unsolved += how != "success"  # there is then no success to compare with
        for player in PLAYERS:
            reward, ended, _ = total(scenario, seed, options, player)
            if how == "success" != ended and reward >= goal:
                raise Broken(f"seed {seed}: {player} play ends in {ended!r} and earns {reward:g}, the oracle's success "
                             f"{goal:g}; a reward that can be had without success will be had that way")  # fmt: skip
            best = max(best, reward)
    beside = f"; {unsolved} of {seeds} seeds, which the oracle does not solve, were compared with nothing"
    return f"at most {best:.3f} earned" + (beside if unsolved else "")


def texts(scenario: Scenario, options: Options, seeds: int) -> str:
    """Observations and phrases are single lines of known words; an observation reads back as what it says."""
    known, longest = set(scenario.vocabulary), 0
    for seed in scenario.splits["validation"][:seeds]:
        for state in states(scenario, seed, options, "random"):
            text = scenario.observation(state)
            for said in (text, *scenario.legal(state)):
                words = said.split(" ")
                if not said or not all(words):
                    raise Broken(f"seed {seed}: {said!r} is empty or has a space too many")
                if not known.issuperset(words):
                    raise Broken(f"seed {seed}: {sorted(set(words) - known)} in {said[:80]!r} is not in vocabulary")
            if scenario.retell(text) != text:
                raise Broken(f"seed {seed}: {text[:80]!r} reads back as {scenario.retell(text)[:80]!r}")
            if not all(isinstance(part, str) for part in scenario.credit_key(text)):
                raise Broken(f"seed {seed}: credit_key must give words")
            for told in (scenario.situation(text), scenario.mission(text)):
                if not isinstance(told, str) or "\n" in told:
                    raise Broken(f"seed {seed}: situation and mission must give one line of words, not {told!r}")
            longest = max(longest, len(text.split(" ")))
    return f"at most {longest} words an observation"


def exactly_the_legal(scenario: Scenario, options: Options, seeds: int) -> str:
    """`apply` takes every legal phrase and calls every other one illegal; equal texts have equal legal sets."""
    seen: dict[str, tuple[str, ...]] = {}
    met: dict[str, None] = {}
    tried = 0
    for seed in scenario.splits["validation"][:seeds]:
        for number, state in enumerate(states(scenario, seed, options, "random")):
            text, legal = scenario.observation(state), scenario.legal(state)
            if len(set(legal)) != len(legal):
                raise Broken(f"seed {seed}: a phrase is twice among the legal ones")
            if scenario.ended(state) is not None:
                continue
            if scenario.free_text is not None:
                tried += _takes_any_text(scenario, state, legal)
                seen[text] = legal
                continue
            if not legal:
                raise Broken(f"seed {seed}: nothing is legal, but the episode goes on")
            if seen.setdefault(text, legal) != legal:
                raise Broken(f"seed {seed}: equal observations, different legal sets: {text[:80]!r}; the list tells "
                             "what the text doesn't")  # fmt: skip
            met.update(dict.fromkeys(legal))
            if number % 5:
                continue
            others = [phrase for phrase in list(met)[-40:] if phrase not in legal]
            for phrase in (*legal, *others, *JUNK, f"{legal[0]} ", legal[0].upper() + "!"):
                outcome = scenario.apply(scenario.clone(state), phrase)
                tried += 1
                if (outcome.kind != ILLEGAL) != (phrase in legal):
                    raise Broken(f"seed {seed}: {phrase!r} is {'' if phrase in legal else 'not '}legal, but apply "
                                 f"calls it {outcome.kind!r}")  # fmt: skip
    return f"{tried} proposals in {len(seen)} situations"


def _takes_any_text(scenario: Scenario, state: Any, legal: tuple[str, ...]) -> int:
    if legal:
        raise Broken("a scenario of free text has no legal phrases: legal() must be ()")
    for text in JUNK:
        if scenario.apply(scenario.clone(state), text).kind == ILLEGAL:
            raise Broken(f"{text[:40]!r} is called illegal, but a turn here is any text")
    return len(JUNK)


def clones(scenario: Scenario, options: Options, seeds: int) -> str:
    """A clone, and a state that was written and read, go on as the original does, and share nothing with it."""
    for seed in scenario.splits["validation"][:seeds]:
        for number, state in enumerate(states(scenario, seed, options, "random")):
            if number > 12 or scenario.ended(state) is not None:
                break
            before = scenario.digest(state)
            phrase = choices(scenario, state)[-1]
            after = []
            for copy in (scenario.clone(state), scenario.load(scenario.dump(state))):
                if scenario.digest(copy) != before or scenario.observation(copy) != scenario.observation(state):
                    raise Broken(f"seed {seed}, turn {number}: a copy differs from the state")
                scenario.apply(copy, phrase)
                after.append(scenario.digest(copy))
            if scenario.digest(state) != before:
                raise Broken(f"seed {seed}, turn {number}: playing a copy changed the original; something is shared")
            if after[0] != after[1]:
                raise Broken(f"seed {seed}, turn {number}: clone and load(dump) go on differently")
    return "independent"


def illegal_turns_end(scenario: Scenario, options: Options, seeds: int) -> str:
    """An illegal proposal uses up the turn and earns nothing, so that an episode of them ends at the cap."""
    state = scenario.build(scenario.splits["validation"][0], options)
    earned = turns = 0.0
    while scenario.ended(state) is None:
        outcome = scenario.apply(state, "sing a song")
        turns += 1
        earned += math.fsum(value for value in outcome.terms.values() if value > 0) if turns > 1 else 0.0
        if turns > scenario.turn_cap:
            raise Broken(f"{turns:.0f} illegal proposals, and turn_cap {scenario.turn_cap} does not end the episode")
    if earned > 0:
        raise Broken(f"illegal proposals earned {earned:g}")
    return f"{turns:.0f} turns"


def teacher_is_legal(scenario: Scenario, options: Options, seeds: int) -> str:
    """The teacher says legal phrases only, from the observation, and is better than chance."""
    wins = {"teacher": 0, "random": 0}
    rewards = {"teacher": 0.0, "random": 0.0}
    said = 0
    for seed in scenario.splits["validation"][:seeds]:
        play, dice = by_teacher(scenario), random.Random(seed)
        state = scenario.build(seed, options)
        while scenario.ended(state) is None:
            phrase = play(state, dice)
            if scenario.free_text is None and phrase not in scenario.legal(state):
                raise Broken(f"seed {seed}: the teacher says {phrase!r}, which is not legal")
            said += 1
            scenario.apply(state, phrase)
        for player in wins:
            reward, ended, _ = total(scenario, seed, options, player)
            wins[player] += ended == "success"
            rewards[player] += reward
    if not said:
        raise Broken("the teacher was never asked: every seed is over before its first turn")
    solved = f"{wins['teacher']} of {seeds} solved, chance {wins['random']}"
    if wins["random"] == seeds and rewards["teacher"] <= rewards["random"]:
        raise Broken(f"chance solves every seed and earns as much as the teacher: {solved}; nothing is to be learned "
                     "here, make it harder")  # fmt: skip
    if (wins["teacher"], rewards["teacher"]) <= (wins["random"], rewards["random"]):
        raise Broken(f"the teacher is no better than chance: {solved}; reward {rewards['teacher'] / seeds:.3f} and "
                     f"{rewards['random'] / seeds:.3f}")  # fmt: skip
    return f"{said} phrases legal; {solved}"


def speed(scenario: Scenario, options: Options, seeds: int) -> str:
    """How many turns of random play a second: text, legal set, turn and digest, as a rollout asks for them."""
    began, turns = time.perf_counter(), 0
    for seed in scenario.splits["train"][:seeds]:
        for state in states(scenario, seed, options, "random"):
            scenario.observation(state)
            scenario.legal(state)
            scenario.digest(state)
            turns += 1
    rate = turns / (time.perf_counter() - began)
    return f"{rate:.0f} turns/s" + ("" if rate > SLOW else ": slow; training will wait for the scenario")


CHECKS = (facts, seed_ranges, bad_input, same_in_every_process, every_seed_solved, rewards_in_bounds, texts,
          exactly_the_legal, clones, illegal_turns_end, teacher_is_legal, speed)  # fmt: skip
