"""A person who plays the errand-runner: is asked like any other player, and may take all the time in the world."""

from __future__ import annotations

import time

from game.view.players import Identity
from npc.decision import Decision
from rl.policies import TurnView

PERSON = "human"  # the policy's name, and the mark of such a turn in the log


class Person:
    """Waits for `choose`. Its decisions carry no probabilities: a person has none to tell."""

    person = True
    waking = False
    trouble = ""
    identity = Identity()

    def __init__(self) -> None:
        self.legal: tuple[str, ...] = ()  # what may be chosen now; empty when nothing was asked
        self._chosen = ""

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None:
        self.legal, self._chosen = view.legal, ""

    def choose(self, phrase: str) -> bool:
        """Takes a legal phrase as the answer; False, and nothing happens, for any other or when nothing is asked."""
        if phrase not in self.legal:
            return False
        self._chosen = phrase
        return True

    def poll(self) -> Decision | None:
        if not self._chosen:
            return None
        phrase, legal = self._chosen, self.legal
        self.forget()
        return Decision(phrase, legal.index(phrase), [], 0.0, [], [], [], 0.0, False)

    def wait(self, seconds: float) -> None:
        """Nothing comes by itself; the window looks again after the frame."""
        time.sleep(seconds)

    def forget(self) -> None:
        self.legal, self._chosen = (), ""

    def close(self) -> None:
        self.forget()
