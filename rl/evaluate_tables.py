"""What `python -m rl.evaluate` found, as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

WAYS = 4  # how many ways of failing are shown of each policy


def show(found: dict[str, Any], console: Console, record: str = "") -> None:
    """Success with intervals, paired differences, slices, what was earned and done, and how it failed."""
    options = " ".join(f"{key}={value}" for key, value in found["options"].items())
    title = (f"{found['scenario']} {options}: {found['episodes']} {found['split']} seeds, {found['first_seed']} to "
             f"{found['last_seed']}")  # fmt: skip
    policies = found["policies"]
    names = ("policy", "success", "95 % interval", "mean reward", "mean turns", "turns when solved")
    console.print(_table(title, names, (
        (label(one), _percent(one["success"]), _range(one), f"{one['mean_reward']:.3f}", f"{one['mean_turns']:.1f}",
         "–" if one["mean_turns_solved"] is None else f"{one['mean_turns_solved']:.1f}") for one in policies
    )))  # fmt: skip
    console.print("mean reward, 95 %: " + ", ".join(
        f"{label(one)} {one['reward_low']:.3f} to {one['reward_high']:.3f}" for one in policies
    ), markup=False, soft_wrap=True)  # fmt: skip
    for one in policies:
        if one["errors"]:
            console.print(f"{one['policy']}: the scenario raised an error in {one['errors']} episodes; they count as "
                          "failed", markup=False)  # fmt: skip
    for one in found["differences"]:
        console.print(difference_line(one), markup=False, soft_wrap=True)
    if "slices" in found:
        _slices(found["slices"], console)
    labels = [label(one, "\n") for one in policies]
    console.print(_table("What was earned, mean an episode", ("reward term", *labels), (
        (term, *(f"{one['terms'][term]:+.3f}" for one in policies)) for term in policies[0]["terms"]
    )))  # fmt: skip
    for about, key in (("What was done, share of all turns", "actions"), ("What came of it", "outcomes")):
        console.print(_table(about, (key.rstrip("s"), *labels), _shares([one[key] for one in policies])))
    _failures(policies, console, record)


def label(one: dict[str, Any], between: str = " ") -> str:
    """How a policy is named in a table: with its mode, where it has one."""
    return f"{one['policy']}{between}{one['mode']}".strip()


def difference_line(one: dict[str, Any]) -> str:
    """A paired difference in one line."""
    return (
        f"{one['of']} against {one['against']}, paired on the same seeds: {100 * one['difference']:+.1f} points "
        f"(95 %: {100 * one['ci_low']:+.1f} to {100 * one['ci_high']:+.1f}); {one['gained']} seeds won, {one['lost']} "
        f"lost, exact McNemar {p_value(one['mcnemar_p'])}"
    )


def p_value(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}" if p < 0.1 else f"p = {p:.2f}"


def _slices(slices: dict[str, Any], console: Console) -> None:
    first = slices["choices"][0]["policies"]
    rows = []
    for part in slices["choices"]:
        cells = [f"{_percent(one['success'])} ({_range(one)})" for one in part["policies"]]
        pairs = [f"{100 * one['difference']:+.1f} ({100 * one['ci_low']:+.1f} to {100 * one['ci_high']:+.1f}) "
                 f"{p_value(one['mcnemar_p'])}" for one in part["differences"]]  # fmt: skip
        rows.append((part["choice"], *cells, *pairs))
    pairs = [f"{one['of']} − {one['against']}" for one in slices["choices"][0]["differences"]]
    title = f"By {slices['option']}, {slices['episodes']} seeds each"
    console.print(_table(title, (slices["option"], *map(label, first), *pairs), rows))


def _failures(policies: Sequence[dict[str, Any]], console: Console, record: str) -> None:
    for one in policies:
        if not one["failures"]:
            continue
        console.print(f"How {label(one)} failed:", markup=False, soft_wrap=True)
        for way in one["failures"][:WAYS]:
            console.print(f"  {way['count']} ({_percent(way['share'])}): {way['way']}", markup=False, soft_wrap=True)
            console.print(f"    {way['command']}", markup=False, soft_wrap=True)
        rest = len(one["failures"]) - WAYS
        if rest > 0:
            console.print(f"  and {rest} rarer ways", markup=False)
    drawn = any(one["mode"] == "sampled" and one["failures"] for one in policies)
    if drawn and not record:
        console.print("Sampled play has other dice in the game; --record FILE.b22 keeps these very episodes.",
                      markup=False, soft_wrap=True)  # fmt: skip


def _shares(counts: Sequence[dict[str, int]]) -> Iterable[tuple[str, ...]]:
    kinds = {kind: None for one in counts for kind in one}  # in the order of the first that has them
    sums = [max(1, sum(one.values())) for one in counts]
    for kind in kinds:
        yield kind, *(f"{_percent(one.get(kind, 0) / total)}" for one, total in zip(counts, sums, strict=True))


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _range(one: dict[str, Any]) -> str:
    return f"{100 * one['ci_low']:.1f} to {100 * one['ci_high']:.1f}"
