"""What the keys do while the game plays: one table, for the keyboard, the line and the page of keys."""

from __future__ import annotations

from typing import Protocol

import pygame

from game.view.session import Session
from game.view.show import Control
from game.view.sound import Sounds
from game.view.stage import Stage


class Playing(Protocol):
    """What the controls need of the show that they control."""

    session: Session
    stage: Stage

    sounds: Sounds | None

    def take_over(self) -> None: ...

    def open_policies(self, forking: bool = True) -> None: ...

    def toggle_help(self) -> None: ...


def play_controls(show: Playing) -> tuple[Control, ...]:
    """The table."""
    stage = show.stage
    sound = show.sounds
    loud = () if sound is None else (Control((pygame.K_m,), "m", "sounds off, and on", sound.toggle),)
    return (
        Control((pygame.K_SPACE,), "space", "stop the village, and let it go on", stage.pause, "pause"),
        Control((pygame.K_n,), "n", "play one turn, then stop", stage.step, "one turn"),
        Control(
            (pygame.K_PLUS, pygame.K_KP_PLUS, pygame.K_EQUALS), "+", "faster: ×1, ×4, ×16", lambda: stage.faster(1),
            "faster",
        ),
        Control((pygame.K_MINUS, pygame.K_KP_MINUS), "−", "slower", lambda: stage.faster(-1), "slower"),
        Control((pygame.K_t,), "t", "take over the errand-runner, and hand it back", show.take_over, "take over"),
        Control(
            (pygame.K_f,), "f", "play the turn on show again, with another brain", show.open_policies, "another brain"
        ),
        Control((pygame.K_r,), "r", "this seed again", lambda: stage.start(show.session.seed), "again"),
        Control(
            (pygame.K_TAB, pygame.K_RIGHT), "tab", "the next seed", lambda: stage.start(show.session.next_seed()),
            "next",
        ),
        *loud,
        Control((pygame.K_h, pygame.K_QUESTION, pygame.K_SLASH, pygame.K_F1), "h", "this page", show.toggle_help,
                "help"),
    )  # fmt: skip
