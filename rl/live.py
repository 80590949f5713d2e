"""A running training on the terminal: a live panel under its lines, or, where nobody watches, the plain lines, and
on stderr what goes on in between.

The panel shows the last updates as rows of blocks, each from its own lowest to its own highest value, but for success,
which goes from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from rl.progress import Progress

BLOCKS = "▁▂▃▄▅▆▇█"
GAP = "·"  # an update without a value
SHOWN = 40  # updates


class View:
    """What a training says and shows. As a context manager it owns the terminal's last lines while it runs."""

    def __init__(self, console: Console, title: str, updates: int) -> None:
        self.console = console
        self.title = title
        self.lines: list[Mapping[str, Any]] = []
        self._progress = Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                             TimeElapsedColumn(), TimeRemainingColumn(), console=console)  # fmt: skip
        self._task = self._progress.add_task("starting", total=updates)
        # what a program or a file reads gets lines alone
        self._live = Live(self.panel(), console=console, transient=True, refresh_per_second=4) if (
            console.is_terminal) else None  # fmt: skip
        self._told = Progress(Console(stderr=True), live=False)
        self._told.now("starting")

    def __enter__(self) -> View:
        (self._live.start if self._live is not None else self._told.__enter__)()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        else:
            self._told.__exit__()

    def say(self, line: str) -> None:
        """A line that stays."""
        self.console.print(line, markup=False)
        self._told.heard()

    def show(self, what: str, done: int, total: int) -> None:
        """What is being done now; `done` of `total` updates are made."""
        self._progress.update(self._task, description=what, completed=done, total=total)
        self._told.now(f"{what}; {done} of {total} updates made")
        self._draw()

    def watch(self, line: Mapping[str, Any]) -> None:
        """An update's line, as metrics.jsonl has it."""
        self.lines.append(line)
        self._draw()

    def panel(self) -> RenderableType:
        """The picture of now."""
        return Panel(Group(self._progress, figures(self.lines)), title=Text(self.title), title_align="left")

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self.panel(), refresh=True)


def figures(lines: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each of what there is to watch: its course over the last updates, and its value now."""
    table = Table.grid(padding=(0, 2))
    if not lines:
        return table
    last = lines[-1]
    best = max((line for line in lines if line.get("validation") is not None), key=lambda line: line["validation"],
               default=None)  # fmt: skip
    rows = [
        ("training", "success", f"{100 * last['success']:.1f} % solved", True),
        ("validation", "validation", "" if best is None else
         f"best {100 * best['validation']:.1f} % after update {best['update']}", True),
        ("reward", "reward", _number(last.get("reward")), False),
        ("KL", "kl", f"{_number(last.get('kl'))} nats a turn", False),
        ("entropy", "entropy", f"{_number(last.get('entropy'))} nats a turn", False),
        ("dead groups", "dead_groups", str(last.get("dead_groups", "")), False),
    ]  # fmt: skip
    for label, key, now, share in rows:
        values = [line.get(key) for line in lines[-SHOWN:]]
        table.add_row(Text(label, "dim"), Text(blocks(values, *((0.0, 1.0) if share else ()))), Text(now))
    played, learned = last.get("turns_per_s_rollout"), last.get("turns_per_s_train")
    speed = f"{_number(played, 0)} turns/s played, {_number(learned, 0)} learned from"
    table.add_row(Text("speed", "dim"), Text(speed), Text(f"{last['episodes']} episodes"))
    return table


def blocks(values: Sequence[float | None], low: float | None = None, high: float | None = None) -> str:
    """Values as a row of blocks, from `low` to `high` (their own lowest and highest); a dot where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return GAP * len(values)
    bottom = min(known) if low is None else low
    top = max(known) if high is None else high
    span = top - bottom

    def block(value: float) -> str:
        share = (value - bottom) / span if span > 0 else 0.5 * (value != 0)
        return BLOCKS[min(len(BLOCKS) - 1, max(0, int(share * len(BLOCKS))))]

    return "".join(GAP if value is None else block(value) for value in values)


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
