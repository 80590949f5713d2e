"""Every scenario holds to the contract, and the checks that say so find what is broken."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import scenarios
from rl.rollout import Episode, Plan
from rl.scenario_check import environment, verdict
from scenarios import Scenario
from scenarios.conformance import CHECKS, check
from scenarios.contract import Option, Outcome, RewardTerm
from tests.scenarios.broken import Lamp

SEEDS = 4



@pytest.mark.parametrize("contract", CHECKS, ids=lambda test: test.__name__)
@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_holds_to_the_contract(name: str, contract: Callable[..., str]) -> None:
    scenario = scenarios.get(name)
    contract(scenario, scenario.resolve_options(None), SEEDS)


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_is_a_gymnasium_environment(name: str) -> None:
    scenario = scenarios.get(name)
    found = environment(scenario, scenario.resolve_options(None))
    assert found.ok, found.text


def test_a_sound_scenario_passes_everything() -> None:
    found = check(scenarios.get("tests.scenarios.broken:Lamp"), seeds=SEEDS)
    assert [finding.name for finding in found if not finding.ok] == []


def _replace(**changed: Any) -> type[Scenario]:
    """Lamp with other attributes or methods."""
    return type("Changed", (Lamp,), {"__doc__": "A lamp.", "__module__": Lamp.__module__, **changed})


def _told_by_the_list(self: Any, state: Any) -> tuple[str, ...]:
    return ("left", "right", "light") if state.turn % 2 else ("left", "right")  # the turn is not in the text


def _takes_all(self: Any, state: Any, phrase: str, on_tick: Any = None) -> Outcome:
    return Lamp.apply(self, state, phrase if phrase in self.legal(state) else "left")


def _pays_for_walking(self: Any, state: Any, phrase: str, on_tick: Any = None) -> Outcome:
    outcome = Lamp.apply(self, state, phrase)
    return Outcome(outcome.kind, outcome.text, 1, {**outcome.terms, "lit": outcome.terms.get("lit", 0) + 0.3},
                   outcome.ended)  # fmt: skip


def _pays_another_term(self: Any, state: Any, phrase: str, on_tick: Any = None) -> Outcome:
    outcome = Lamp.apply(self, state, phrase)
    return Outcome(outcome.kind, outcome.text, 1, {"bonus": 0.1}, outcome.ended)


def _any_phrase_wins(self: Any, state: Any, phrase: str, on_tick: Any = None) -> Outcome:
    state.turn, state.lit = state.turn + 1, True
    return Outcome(phrase, phrase, 1, {"lit": 1.0}, "success")


def _over(self: Any, state: Any) -> str | None:
    return "success"


def _goes_on(self: Any, state: Any) -> str | None:
    return "success" if state.lit else None


def _same(self: Any, state: Any) -> Any:
    return state


def _one_lamp(self: Any, seed: int, options: Any = None) -> Any:
    return Lamp.build(self, 5 if 0 <= seed < 2**63 and isinstance(seed, int) and seed is not True else seed, options)


def _takes_any_seed(self: Any, seed: int, options: Any = None) -> Any:
    return Lamp.build(self, 5, options)


BREAKS = {
    "facts": {"__doc__": " "},
    "seed ranges": {"splits": {"train": range(100), "validation": range(50, 200), "test": range(200, 300)}},
    "bad input": {"build": _takes_any_seed},
    "same in every process": {"build": _one_lamp},
    "every seed solved": {"oracle": lambda self, state: "left"},
    "rewards in bounds": {"apply": _pays_for_walking},
    "texts": {"vocabulary": ("left",)},
    "exactly the legal": {"legal": _told_by_the_list},
    "clones": {"clone": _same},
    "illegal turns end": {"ended": _goes_on},
    "teacher is legal": {"teacher": lambda self, memory, observation: ("dance", memory)},
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_check_finds_what_it_is_for(name: str) -> None:
    (found,) = check(_named(_replace(**BREAKS[name])), seeds=SEEDS, only=[name])
    assert found.ok is False, found.text
    assert "\n" not in found.text


@pytest.mark.parametrize(
    ("changed", "name", "said"),
    [
        ({"apply": _takes_all}, "exactly the legal", "is not legal, but apply calls it"),
        ({"apply": _pays_another_term}, "rewards in bounds", "'bonus', which is not in reward_terms"),
        ({"retell": lambda self, text: text + " more"}, "texts", "reads back as"),
        ({"situation": lambda self, text: "in\nthe room"}, "texts", "must give one line of words"),
        ({"mission": lambda self, text: None}, "texts", "must give one line of words"),
        ({"options": (Option("side", "up", ("left", "right"), "?"),)}, "facts", "not among its choices"),
        ({"reward_terms": (RewardTerm("lit", "?", 1.0, 0.0),)}, "facts", "no bounds"),
        ({"oracle": lambda self, state: 1 / 0}, "every seed solved", "raised ZeroDivisionError"),
        ({"ended": _over}, "every seed solved", "is over before its first turn; `ended` gives 'success'"),
        ({"ended": _over}, "teacher is legal", "the teacher was never asked"),
        ({"apply": _any_phrase_wins}, "teacher is legal", "chance solves every seed and earns as much as the teacher: "
         f"{SEEDS} of {SEEDS} solved, chance {SEEDS}; nothing is to be learned here"),
        ({"teacher": lambda self, memory, text: ("left", memory)}, "teacher is legal", "no better than chance: 0 of "),
        ({"apply": _pays_for_walking}, "rewards in bounds", "'lit' came to"),
        ({"apply": _pays_for_walking, "reward_terms": (RewardTerm("lit", "?", 0.0, 9.0),)}, "rewards in bounds",
         "play ends in 'turn_cap' and earns 2.7, the oracle's success"),
    ],
)
def test_a_finding_says_what_is_wrong(changed: dict[str, Any], name: str, said: str) -> None:
    (found,) = check(_named(_replace(**changed)), seeds=SEEDS, only=[name])
    assert found.ok is False and said in found.text


def test_an_oracle_that_runs_into_the_turn_cap_is_no_success_to_compare_with() -> None:
    (found,) = check(_named(_replace(oracle=lambda self, state: "left")), seeds=SEEDS, only=["rewards in bounds"])
    assert found.ok and "at most 1.000 earned" in found.text
    assert f"{SEEDS} of {SEEDS} seeds, which the oracle does not solve" in found.text


def test_an_order_that_depends_on_string_hashes_is_found() -> None:
    unordered = scenarios.get("tests.scenarios.broken:Unordered")
    (found,) = check(unordered, seeds=SEEDS, only=["same in every process"])
    assert found.ok is False and "another process plays otherwise" in found.text


def _named(broken: type[Scenario]) -> Scenario:
    """An instance that another process finds under its sound sister's name."""
    scenario = broken()
    scenario.name = "tests.scenarios.broken:Lamp"
    return scenario


def _played(rewards: list[float], ended: str = "turn_cap") -> list[Episode]:
    from recorder import Turn

    return [
        Episode(
            Plan(n, {}, "g", "d"), {},
            [Turn(episode=0, turn=0, observation="", proposed="", executed="", terms={"lit": reward})], ended,
        )
        for n, reward in enumerate(rewards)
    ]  # fmt: skip


def test_rewards_that_differ_in_their_groups_can_be_learned_from() -> None:
    found = verdict(Lamp(), "nano", _played([0.0, 1.0] * 4), 2)
    assert found.ok and "4 of 4 groups differ" in found.text


@pytest.mark.parametrize(
    ("rewards", "ended", "said"),
    [
        ([0.0] * 8, "turn_cap", "flat at the bottom: reward 0.000 ± 0.000, 0 of 8 solved, 0 of 4 groups differ"),
        ([1.0] * 8, "success", "flat at the top"),
        ([0.0, 0.0, 1.0, 1.0] * 2, "turn_cap", "0 of 4 groups differ"),
    ],
)
def test_flat_rewards_are_called_mis_scaled_with_the_remedy(rewards: list[float], ended: str, said: str) -> None:
    found = verdict(Lamp(), "nano", _played(rewards, ended), 2)
    assert found.ok is False
    assert "mis-scaled" in found.text and said in found.text and "Change the target" in found.text
    assert ("harder" in found.text) == (ended == "success")


def test_a_scenario_that_raises_is_told_from_a_flat_one() -> None:
    broken = dataclasses.replace(_played([0.0])[0], ended="failed", error="Traceback\nKeyError: 'x'")
    found = verdict(Lamp(), "nano", [broken, *_played([0.0])], 2)
    assert found.ok is False and "KeyError: 'x'" in found.text
