"""The charts of a run and of several runs: which numbers of a run folder stand where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rl.charts import STYLE, Band, Bars, Dots, Level, Line, Mark, chart, percent
from rl.run_folder import Run
from rl.statistics import wilson

LEVELS = ("random", "teacher", "oracle")
TESTED = "test seeds, before and after"


class CurveError(ValueError):
    """Runs that can't be drawn into one curve; one line."""


def learning_curve(run: Run) -> str:
    """Success against updates made: training (band: Wilson over that update's episodes), validation, test."""
    marks: list[Mark] = []
    if run.metrics:
        x = [line["update"] - 1 for line in run.metrics]  # an update's episodes are played before its step
        y = [line["success"] for line in run.metrics]
        low, high = zip(*(_interval(line["success"], n) for line, n in zip(run.metrics, played(run), strict=True)),
                        strict=True)  # fmt: skip
        marks += [Band(x, low, high, "train"), Line(x, y, "train", "training episodes of each update")]
    points = validations(run)
    if points:
        n = run.config.validation_episodes
        intervals = [_interval(success, n) for _, success in points]
        told = [f"validation after update {u}: {100 * s:.1f} % (95 %: {100 * low:.1f} to {100 * high:.1f}, n={n})"
                for (u, s), (low, high) in zip(points, intervals, strict=True)]  # fmt: skip
        marks.append(Line([u for u, _ in points], [s for _, s in points], "valid", width=1.2))
        marks.append(Dots([u for u, _ in points], [s for _, s in points], "valid", "validation seeds",
                          [low for low, _ in intervals], [high for _, high in intervals], told))  # fmt: skip
    tests = test_scores(run)
    if tests:
        told = [f"test, {name}: {100 * s['success']:.1f} % (95 %: {100 * s['ci_low']:.1f} to {100 * s['ci_high']:.1f}, "
                f"n={s['n']})" for name, _, s in tests]  # fmt: skip
        marks.append(Dots([u for _, u, _ in tests], [s["success"] for *_, s in tests], "test", TESTED,
                          [s["ci_low"] for *_, s in tests], [s["ci_high"] for *_, s in tests], told, True))  # fmt: skip
    if run.baseline:
        marks += [Level(run.baseline[name]["success"], name, f"{name} {100 * run.baseline[name]['success']:.0f} %")
                  for name in LEVELS]  # fmt: skip
        success = run.baseline["baseline"]["success"]
        marks.append(Level(success, "before", f"before {100 * success:.0f} %"))
    return chart("Success against updates made", marks, "updates made", percent, y_range=(0, 1))


def small_charts(run: Run) -> list[str]:
    """KL and entropy, reward, and groups, against updates. Empty before the first update."""
    lines = run.metrics
    if not lines:
        return []
    x = [line["update"] for line in lines]
    charts = []
    for name, title in (("kl", "KL to the start, nats a turn"), ("entropy", "Entropy, nats a turn")):
        known = [(line["update"], line[name]) for line in lines if line[name] is not None]
        if known:
            charts.append(_small(title, [Line([u for u, _ in known], [v for _, v in known], "train")]))
    rewarded = [line for line in lines if line["reward"] is not None]
    if rewarded:
        at = [line["update"] for line in rewarded]
        mean = [line["reward"] for line in rewarded]
        spread = [line["reward_std"] for line in rewarded]
        low = [m - s for m, s in zip(mean, spread, strict=True)]
        high = [m + s for m, s in zip(mean, spread, strict=True)]
        charts.append(_small("Reward an episode", [Band(at, low, high, "train", "± one std"),
                                                   Line(at, mean, "train", "mean")]))  # fmt: skip
    dead, failed = [line["dead_groups"] for line in lines], [line["failed_groups"] for line in lines]
    groups = float(run.config.groups)
    bars: list[Mark] = [Bars(x, dead, "dead", "dead"), Bars(x, failed, "failed", "failed", dead)]
    charts.append(_small(f"Groups that taught nothing, of {run.config.groups}", bars, y_range=(0, groups)))
    return charts


def curve_of_runs(runs: Sequence[Run]) -> str:
    """Validation success of one run with its Wilson interval, or of several seeds: each faint, their mean, and the band
    from the lowest to the highest; a file that stands alone. Raises CurveError."""
    if not runs:
        raise CurveError("no run to draw")
    scenario = runs[0].config.scenario
    for run in runs:
        if run.config.scenario != scenario or run.config.options != runs[0].config.options:
            raise CurveError(f"{run.folder}: another scenario or other options than {runs[0].folder}: draw them apart")
        if not validations(run):
            raise CurveError(f"{run.folder}: nothing measured yet (no baseline.json)")
    curves = [dict(validations(run)) for run in runs]
    x = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = np.array([[curve[u] for u in x] for curve in curves])
    mean = values.mean(axis=0).tolist()
    marks: list[Mark] = []
    if len(runs) == 1:
        n = runs[0].config.validation_episodes
        intervals = [_interval(success, n) for success in mean]
        marks.append(Band(x, [low for low, _ in intervals], [high for _, high in intervals], "valid",
                          f"95 % interval, n={n}"))  # fmt: skip
        marks.append(Line(x, mean, "valid", f"validation seeds, seed {runs[0].config.seed}"))
    else:
        marks.append(Band(x, values.min(axis=0).tolist(), values.max(axis=0).tolist(), "valid", "lowest to highest"))
        marks += [Line(x, row, "valid", width=1, faint=True) for row in values.tolist()]
        marks.append(Line(x, mean, "valid", f"validation seeds, mean of {len(runs)} trainings", 3))
    tests = [test for run in runs for test in test_scores(run)]
    marks.append(Dots([u for _, u, _ in tests], [s["success"] for *_, s in tests], "test", TESTED, diamond=True))
    for name in LEVELS:
        level = float(np.mean([run.baseline[name]["success"] for run in runs if run.baseline]))
        marks.append(Level(level, name, f"{name} {100 * level:.0f} %"))
    options = "".join(f" {key}={value}" for key, value in runs[0].config.options.items())
    title = f"{scenario}{options}: success against updates made"
    return chart(title, marks, "updates made", percent, y_range=(0, 1), style=STYLE)


def played(run: Run) -> list[int]:
    """Episodes of each update."""
    counts = [line["episodes"] for line in run.metrics]
    return [now - before for before, now in zip([0, *counts[:-1]], counts, strict=True)]


def validations(run: Run) -> list[tuple[int, float]]:
    """(updates made, success) for every validation, the one before the first update included."""
    points = [(0, run.baseline["validation"])] if run.baseline else []
    return points + [(line["update"], line["validation"]) for line in run.metrics if line["validation"] is not None]


def test_scores(run: Run) -> list[tuple[str, int, dict[str, Any]]]:
    """(before or after, updates made, score) of the sampled play on test seeds."""
    found = [("before", 0, run.baseline["baseline"])] if run.baseline else []
    if run.summary is not None and run.head_update is not None:
        found.append(("after", run.head_update, run.summary["trained"]))
    return found


def _small(title: str, marks: Sequence[Mark], y_range: tuple[float, float] | None = None,
           form: Callable[[float], str] = "{:.4g}".format) -> str:  # fmt: skip
    return chart(title, marks, "update", form, 420, 240, y_range)


def _interval(success: float, n: int) -> tuple[float, float]:
    return wilson(round(success * n), n)
