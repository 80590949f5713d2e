"""The hour of the day, told from the world's clock, and the light that it gives. Picture only; no pygame.

An errand begins in the last sun of the afternoon, goes through dusk into the night and, if it lasts, to the morning.
"""

from __future__ import annotations

START_MINUTE = 18 * 60
DAY = 24 * 60
HALF_MINUTES_A_TICK = 3

Light = tuple[int, int, int]

# minute of the day -> what daylight leaves of red, green and blue
SKY: tuple[tuple[int, Light], ...] = (
    (0, (82, 90, 156)),
    (4 * 60 + 30, (84, 94, 158)),
    (6 * 60, (206, 176, 176)),
    (7 * 60 + 30, (255, 246, 230)),
    (16 * 60 + 30, (255, 246, 226)),
    (18 * 60, (255, 226, 188)),
    (19 * 60, (226, 172, 168)),
    (20 * 60 + 30, (124, 118, 178)),
    (22 * 60, (88, 96, 162)),
    (DAY, (82, 90, 156)),
)
LAMPS: tuple[tuple[int, float], ...] = (
    (0, 1.0), (5 * 60, 1.0), (7 * 60, 0.0), (17 * 60, 0.0), (18 * 60, 0.1), (19 * 60, 0.6), (20 * 60, 1.0), (DAY, 1.0),
)  # fmt: skip


def minute_of(ticks: float) -> float:
    """The minute of the day after so many ticks of the world's clock."""
    return (START_MINUTE + ticks * HALF_MINUTES_A_TICK / 2) % DAY


def clock_words(ticks: float) -> str:
    """As a clock shows it: "18:05"."""
    minute = int(minute_of(ticks))
    return f"{minute // 60:02}:{minute % 60:02}"


def sky(minute: float) -> Light:
    """Factors of 255 for red, green and blue."""
    at, share = _between([minute_ for minute_, _ in SKY], minute)
    before, after = SKY[at][1], SKY[at + 1][1]
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(before, after, strict=True))
    return red, green, blue


def lamps(minute: float) -> float:
    """How far lamps and windows are lit: 0 at noon, 1 at night."""
    at, share = _between([minute_ for minute_, _ in LAMPS], minute)
    return LAMPS[at][1] + (LAMPS[at + 1][1] - LAMPS[at][1]) * share


def _between(minutes: list[int], minute: float) -> tuple[int, float]:
    """The entry before a minute, and how far it is from there to the next, 0 … 1."""
    at = max(index for index in range(len(minutes) - 1) if minutes[index] <= minute)
    return at, (minute - minutes[at]) / (minutes[at + 1] - minutes[at])
