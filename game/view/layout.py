"""Where things are in a window of any size: the village at a whole-number zoom where that fills it, panel, foot.

All sizes are pixels. The zoom counts pixels of the window to one of the sprites; the scale is that of the words.
"""

from __future__ import annotations

from dataclasses import dataclass

from pygame import Rect

MAP = (480, 320)  # the village at zoom 1
FIRST_SIZE = (1320, 686)  # zoom 2, words at scale 1
PANEL, FOOT, EXTRA_ROW = 360, 46, 26  # at scale 1
SMALLEST_SCALE, LARGEST_SCALE = 0.78, 4.0
NARROWEST_PANEL = 0.82  # of PANEL, to make room for a whole zoom
CRISP = 0.8  # a whole zoom is kept if it is at least so much of what would fill the window


@dataclass(frozen=True)
class Layout:
    """The parts of a window; `extra` is a strip above the foot that was asked for, else empty."""

    size: tuple[int, int]
    zoom: float
    scale: float
    village: Rect
    panel: Rect
    foot: Rect
    extra: Rect

    @classmethod
    def of(cls, size: tuple[int, int], extra_rows: int = 0) -> Layout:
        """For a window of `size`, with so many rows of words between village and foot."""
        width, height = max(size[0], 64), max(size[1], 64)
        foot_rows = FOOT + EXTRA_ROW * extra_rows
        wanted = FIRST_SIZE[1] + EXTRA_ROW * extra_rows
        scale = min(max(min(width / FIRST_SIZE[0], height / wanted), SMALLEST_SCALE), LARGEST_SCALE)
        panel = min(round(PANEL * scale), int(width * 0.45))
        filling = min((width - panel) / MAP[0], (height - foot_rows * scale) / MAP[1])
        zoom = max(filling, 0.05)
        whole = int(min((width - panel * NARROWEST_PANEL) / MAP[0], (height - foot_rows * SMALLEST_SCALE) / MAP[1]))
        if whole >= 1 and whole >= CRISP * filling:
            zoom = float(whole)
            panel = min(panel, width - MAP[0] * whole)
            scale = max(min(scale, panel / (PANEL * NARROWEST_PANEL), (height - MAP[1] * whole) / foot_rows),
                        SMALLEST_SCALE)  # fmt: skip
        low = round(FOOT * scale)
        strip = round(EXTRA_ROW * extra_rows * scale)
        left = width - panel
        drawn = (max(round(MAP[0] * zoom), 1), max(round(MAP[1] * zoom), 1))
        room = Rect(0, 0, left, max(height - low - strip, 1))
        village = Rect((0, 0), drawn)
        village.center = room.center
        village.top = max(village.top, 0)
        return cls(
            size=(width, height), zoom=zoom, scale=scale, village=village, panel=Rect(left, 0, panel, height),
            foot=Rect(0, height - low, left, low), extra=Rect(0, height - low - strip, left, strip),
        )  # fmt: skip
