"""A small sound scenario, to be broken by the tests of the checks, and one that is broken in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from game.sim.rng import below
from scenarios.contract import Option, Outcome, RewardTerm, check_seed
from scenarios.plain import PlainScenario


class Room(msgspec.Struct):
    seed: int
    lamp: int
    at: int
    lit: bool = False
    turn: int = 0


class Lamp(PlainScenario):
    """Walk to the lamp and light it."""

    name = "lamp"
    version = 1
    engine_version = "1"
    turn_cap = 9
    state_type = Room
    reward_terms = (RewardTerm("lit", "the lamp is lit", 0.0, 1.0),)
    options = (Option("wide", "5", ("5", "6"), "how wide the room is"),)
    splits = {"train": range(500), "validation": range(500, 1000), "test": range(1000, 1500)}  # noqa: RUF012
    prefix = "Light the lamp ."
    vocabulary = ("Light", "the", "lamp", ".", "left", "right", "light", *map(str, range(10)))

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Room:
        check_seed(seed)
        wide = int(self.resolve_options(options)["wide"])
        return Room(seed, below(wide, seed, "lamp"), below(wide, seed, "at"))

    def observation(self, state: Room) -> str:
        return f"lamp {state.lamp} {state.at}"

    def legal(self, state: Room) -> tuple[str, ...]:
        return ("left", "right", "light")

    def apply(self, state: Room, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        state.turn += 1
        if phrase not in self.legal(state):
            return self.illegal(state, phrase, {})
        state.lit = phrase == "light" and state.at == state.lamp
        state.at = (state.at + {"left": -1, "right": 1}.get(phrase, 0)) % 6
        return Outcome(phrase, phrase, 1, {"lit": 1.0} if state.lit else {}, self.ended(state))

    def ended(self, state: Room) -> str | None:
        return "success" if state.lit else "turn_cap" if state.turn >= self.turn_cap else None

    def oracle(self, state: Room) -> str:
        return "light" if state.at == state.lamp else "left" if state.lamp < state.at else "right"

    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        _, lamp, at = observation.split(" ")[:3]
        return self.oracle(Room(0, int(lamp), int(at))), memory


class Unordered(Lamp):
    """Its text ends in the order of a set."""

    def observation(self, state: Room) -> str:
        return f"{super().observation(state)} {' '.join(set(map(str, range(10))))}"
