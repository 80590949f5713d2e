"""Charts as SVG text, written by hand so that a report is one file that opens anywhere.

A chart is a list of marks over one pair of axes. Colours are CSS variables named by what they show, so that light and
dark are one stylesheet's matter (`STYLE`). Arrays run along x; y is in the chart's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--panel:#f6f7f9;--ink:#1c2130;--dim:#646b7c;--grid:#e2e5eb;
--train:#5b84c4;--valid:#c2570c;--test:#8a2be2;--teacher:#1d8348;--oracle:#12776f;--random:#7a7f8c;
--before:#9a5b13;--dead:#b9bec9;--failed:#c0392b}
@media(prefers-color-scheme:dark){:root{--ground:#15181f;--panel:#1d212a;--ink:#e4e6eb;--dim:#9aa1b0;--grid:#2e3440;
--train:#7da7e6;--valid:#f0975a;--test:#c49bff;--teacher:#63c48a;--oracle:#4fc4b8;--random:#9aa0ad;
--before:#dda85a;--dead:#565d6b;--failed:#ec7063}}
svg.chart{display:block;width:100%;height:auto}
svg.chart text{font:12px system-ui,sans-serif;fill:var(--dim)}
svg.chart .title{font-size:13px;font-weight:600;fill:var(--ink)}
svg.chart .grid{stroke:var(--grid);stroke-width:1}
"""


@dataclass(frozen=True)
class Line:
    """A line through points. `width` in pixels; `faint` for one of many."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    label: str = ""
    width: float = 2.0
    faint: bool = False


@dataclass(frozen=True)
class Band:
    """The space between `low` and `high`."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str
    label: str = ""


@dataclass(frozen=True)
class Dots:
    """Points with whiskers from `low` to `high` (none where they are empty), and a text each that shows on hovering."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    label: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    told: Sequence[str] = ()
    diamond: bool = False


@dataclass(frozen=True)
class Level:
    """A dashed line from side to side, with its label behind its right end."""

    y: float
    colour: str
    label: str


@dataclass(frozen=True)
class Bars:
    """Bars that stand on `base` (0 where it is empty)."""

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    label: str = ""
    base: Sequence[float] = ()


Drawn = Line | Band | Dots | Bars
Mark = Drawn | Level


@dataclass(frozen=True)
class Frame:
    """From the chart's unit to pixels."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    left: float
    right: float
    top: float
    bottom: float

    def x(self, value: float) -> float:
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - (value - self.y_low) / (self.y_high - self.y_low) * (self.bottom - self.top)


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def plain(value: float) -> str:
    return f"{value:.4g}"


def chart(title: str, marks: Sequence[Mark], x_label: str, form: Callable[[float], str] = plain, width: int = 860,
          height: int = 360, y_range: tuple[float, float] | None = None, style: str = "") -> str:  # fmt: skip
    """One `<svg>`. `form` writes the numbers of the y axis; `style` is put inside for a file that stands alone."""
    levels = sorted((mark for mark in marks if isinstance(mark, Level)), key=lambda level: -level.y)
    drawn = [mark for mark in marks if not isinstance(mark, Level)]
    xs, ys = _extent(marks)
    low, high = y_range or (min(ys), max(ys))
    if y_range is None:
        low, high = min(low, 0.0), max(high, 0.0)  # so that a height can be read as a size
        room = 0.06 * (high - low) or 0.5
        low, high = low - room * (low < 0), high + room * (high > 0 or low == high)
    x_low, x_high = min(xs), max(xs)
    if x_high - x_low < 1e-9:
        x_low, x_high = x_low - 1, x_high + 1
    gap = 0.02 * (x_high - x_low) + (0.5 if any(isinstance(mark, Bars) for mark in drawn) else 0)
    frame = Frame(x_low - gap, x_high + gap, low, high, 58, width - (118 if levels else 14), 46, height - 40)
    parts = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">'
    ]
    if style:
        parts.append(f'<style>{style}</style><rect width="{width}" height="{height}" fill="var(--ground)"/>')
    parts.append(f'<text class="title" x="{frame.left}" y="16">{escape(title)}</text>')
    parts += _axes(frame, x_label, form)
    parts += [_DRAW[type(mark)](mark, frame) for mark in drawn]
    parts += _levels(levels, frame)
    parts += _legend([mark for mark in drawn if mark.label], frame)
    return "".join([*parts, "</svg>"])


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from `low` to `high`, roughly `about` of them."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _extent(marks: Iterable[Mark]) -> tuple[list[float], list[float]]:
    xs: list[float] = []
    ys: list[float] = []
    for mark in marks:
        match mark:
            case Level():
                ys.append(mark.y)
            case Band():
                xs += mark.x
                ys += [*mark.low, *mark.high]
            case Bars():
                xs += mark.x
                ys += [0.0, *(y + base for y, base in zip(mark.y, mark.base or [0.0] * len(mark.y), strict=True))]
            case Dots():
                xs += mark.x
                ys += [*mark.y, *mark.low, *mark.high]
            case Line():
                xs += mark.x
                ys += mark.y
    return xs or [0.0], ys or [0.0]


def _axes(frame: Frame, x_label: str, form: Callable[[float], str]) -> list[str]:
    parts = []
    for value in ticks(frame.y_low, frame.y_high, 5):
        y = frame.y(value)
        parts.append(f'<line class="grid" x1="{frame.left}" x2="{frame.right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{frame.left - 7}" y="{y + 4:.1f}" text-anchor="end">{form(value)}</text>')
    about = max(2, min(10, int((frame.right - frame.left) / 60)))
    for value in ticks(frame.x_low, frame.x_high, about):
        if value == int(value) and value >= 0:
            x = frame.x(value)
            parts.append(f'<text x="{x:.1f}" y="{frame.bottom + 17}" text-anchor="middle">{int(value)}</text>')
    middle = (frame.left + frame.right) / 2
    parts.append(f'<text x="{middle:.1f}" y="{frame.bottom + 34}" text-anchor="middle">{escape(x_label)}</text>')
    return parts


def _points(frame: Frame, xs: Iterable[float], ys: Iterable[float]) -> str:
    return " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in zip(xs, ys, strict=True))


def _line(mark: Line, frame: Frame) -> str:
    opacity = ' opacity="0.45"' if mark.faint else ""
    return (
        f'<polyline points="{_points(frame, mark.x, mark.y)}" fill="none" stroke="var(--{mark.colour})" '
        f'stroke-width="{mark.width}" stroke-linejoin="round"{opacity}/>'
    )


def _band(mark: Band, frame: Frame) -> str:
    there, back = _points(frame, mark.x, mark.high), _points(frame, list(mark.x)[::-1], list(mark.low)[::-1])
    return f'<polygon points="{there} {back}" fill="var(--{mark.colour})" opacity="0.18"/>'


def _dots(mark: Dots, frame: Frame) -> str:
    parts = []
    for i, (value_x, value_y) in enumerate(zip(mark.x, mark.y, strict=True)):
        x, y = frame.x(value_x), frame.y(value_y)
        told = f"<title>{escape(mark.told[i])}</title>" if mark.told else ""
        whisker = ""
        if mark.low:
            top, bottom = frame.y(mark.high[i]), frame.y(mark.low[i])
            whisker = (f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="var(--{mark.colour})" '
                       f'stroke-width="1.6"/>')  # fmt: skip
        if mark.diamond:
            shape = f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" fill="var(--{mark.colour})"/>'
        else:
            shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--{mark.colour})"/>'
        parts.append(f"<g>{told}{whisker}{shape}</g>")
    return "".join(parts)


def _bars(mark: Bars, frame: Frame) -> str:
    thick = max(2.0, 0.7 * (frame.x(1) - frame.x(0)))
    parts = []
    for i, (value_x, value_y) in enumerate(zip(mark.x, mark.y, strict=True)):
        base = mark.base[i] if mark.base else 0.0
        top, bottom = frame.y(base + value_y), frame.y(base)
        parts.append(
            f'<rect x="{frame.x(value_x) - thick / 2:.1f}" y="{top:.1f}" width="{thick:.1f}" '
            f'height="{bottom - top:.1f}" fill="var(--{mark.colour})"/>'
        )
    return "".join(parts)


_DRAW: dict[type, Callable[..., str]] = {Line: _line, Band: _band, Dots: _dots, Bars: _bars}


def _levels(levels: Sequence[Level], frame: Frame) -> list[str]:
    """The lines, and their labels pushed apart where they would lie on each other."""
    heights = [frame.y(level.y) for level in levels]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + 14)
    over = max(0.0, heights[-1] - frame.bottom) if heights else 0.0
    for i in range(len(heights) - 1, -1, -1):
        limit = frame.bottom if i == len(heights) - 1 else heights[i + 1] - 14
        heights[i] = min(heights[i], limit) if over else heights[i]
    parts = []
    for level, height in zip(levels, heights, strict=True):
        y = frame.y(level.y)
        parts.append(
            f'<line x1="{frame.left}" x2="{frame.right:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="var(--{level.colour})" stroke-width="1.4" stroke-dasharray="5 4"/>'
            f'<path d="M{frame.right:.1f} {y:.1f}L{frame.right + 8:.1f} {height:.1f}" '
            f'stroke="var(--{level.colour})" fill="none"/>'
            f'<text x="{frame.right + 11:.1f}" y="{height + 4:.1f}" style="fill:var(--{level.colour})">'
            f"{escape(level.label)}</text>"
        )
    return parts


def _legend(marks: Sequence[Drawn], frame: Frame) -> list[str]:
    parts = []
    x = frame.left
    for mark in marks:
        shape = 'height="10"' if isinstance(mark, Band | Bars) else 'height="3" transform="translate(0 4)"'
        faded = ' opacity="0.3"' if isinstance(mark, Band) else ""
        parts.append(
            f'<rect x="{x:.1f}" y="26" width="14" {shape} fill="var(--{mark.colour})"{faded}/>'
            f'<text x="{x + 19:.1f}" y="35">{escape(mark.label)}</text>'
        )
        x += 19 + 6.3 * len(mark.label) + 18
    return parts
