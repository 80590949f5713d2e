"""Small sounds, made here out of tones and noise. Only who asks for sound opens the mixer."""

from __future__ import annotations

import numpy as np
import pygame

RATE = 22_050  # samples a second
LOUDNESS = 0.22

# name -> (frequency in Hz, milliseconds) one after the other; 0 Hz is noise
TUNES: dict[str, tuple[tuple[float, int], ...]] = {
    "step": ((0, 18),),
    "taken": ((523, 50), (784, 80)),
    "dropped": ((392, 50), (262, 80)),
    "told": ((659, 50), (587, 50), (659, 70)),
    "refused": ((196, 110), (165, 170)),
    "robbed": ((880, 60), (698, 60), (523, 60), (349, 150)),
    "delivered": ((523, 80), (659, 80), (784, 80), (1047, 220)),
    "failed": ((330, 160), (294, 160), (262, 320)),
}
# kind of an outcome -> name of a tune
OUTCOMES = {
    "taken": "taken", "handed": "taken", "dropped": "dropped", "told": "told", "met": "told", "nothing": "refused",
    "refused": "refused", "gone": "refused", "illegal": "refused", "robbed": "robbed", "delivered": "delivered",
}  # fmt: skip


def samples(tune: tuple[tuple[float, int], ...]) -> np.ndarray:
    """int16 (samples,): each tone a soft square wave that dies away; noise for a footstep."""
    parts = []
    for frequency, milliseconds in tune:
        time_s = np.arange(RATE * milliseconds // 1000) / RATE
        fade = np.exp(-time_s * 1000 / milliseconds * 2.5)
        if frequency:
            phase = 2 * np.pi * frequency * time_s
            wave = np.sin(phase) + np.sin(3 * phase) / 3
        else:
            wave = 0.4 * np.random.default_rng(0).uniform(-1, 1, len(time_s))
        parts.append(wave * fade)
    return (np.concatenate(parts) * LOUDNESS * 32_767).astype(np.int16)


class Sounds:
    """All tunes, ready to be played."""

    def __init__(self) -> None:
        """Opens the mixer. Raises pygame.error where there is no sound."""
        pygame.mixer.init(frequency=RATE, size=-16, channels=1, buffer=512)
        self.on = True
        self.played: list[str] = []  # the last few, the newest last
        self._sounds = {name: pygame.mixer.Sound(buffer=samples(tune).tobytes()) for name, tune in TUNES.items()}

    def play(self, name: str) -> None:
        """One tune, unless they are off."""
        if self.on:
            self._sounds[name].play()
            self.played = [*self.played[-9:], name]

    def toggle(self) -> None:
        self.on = not self.on

    def close(self) -> None:
        pygame.mixer.quit()
