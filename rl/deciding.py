"""What every policy is to whoever plays it: it looks at turns and gives decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from npc.decision import Decision


class PolicyNameError(ValueError):
    """A policy string that names nothing; one line."""


@dataclass
class TurnView:
    """What a policy may look at: models and `teacher` see the text, `oracle` the state. `memory` is the teacher's."""

    state: Any
    observation: str
    legal: tuple[str, ...]
    memory: Any = None


class Policy(Protocol):
    """Decides many turns at once. `uniforms` in [0, 1) draw the actions; None takes the most probable."""

    def decide(self, turns: Sequence[TurnView], uniforms: Sequence[float] | None) -> list[Decision]: ...
