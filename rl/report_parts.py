"""The parts of a run's page, each as HTML text; empty where the run has nothing to show yet."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from html import escape
from typing import Any

import msgspec

import scenarios
from recorder import Episode
from rl.curves import learning_curve, small_charts
from rl.evaluate_tables import p_value
from rl.files import CheckpointError
from rl.reproduce import commands, machine_facts
from rl.run_folder import Run, wins
from rl.statistics import mcnemar
from rl.tree import Tree
from rl.tree_view import drawn, facts_of, tree_svg

ROWS = (("random", "random"), ("before, sampled", "baseline"), ("before, greedy", "baseline_greedy"),
        ("after, sampled", "trained"), ("after, greedy", "trained_greedy"), ("teacher", "teacher"),
        ("oracle (sees everything)", "oracle"))  # fmt: skip


def headline(run: Run) -> str:
    """What came out, with its intervals, or how far the run is."""
    config, summary = run.config, run.summary
    options = "".join(f" {escape(key)}={escape(value)}" for key, value in config.options.items())
    what = f"{escape(config.scenario)}{options}, model {escape(config.model)}, seed {config.seed}"
    if summary is None:
        done = run.metrics[-1]["update"] if run.metrics else 0
        return (
            f"<h1>Not finished: {done} of {config.updates} updates</h1><p>{what}. There is no success after training "
            f"yet, because the test seeds are played again only at the end. Go on with <code>"
            f"python -m rl.train --resume {escape(shlex.quote(str(run.folder)))}</code></p>"
        )
    before, after = summary["baseline"], summary["trained"]
    seeds = scenarios.get(config.scenario).splits["test"]
    chosen = f"validation seeds chose the checkpoint <b>{escape(summary['head'])}</b>"
    if run.head_update == 0:
        chosen = "no checkpoint did better on the validation seeds than the start, so the start still plays"
    return (
        f"<h1>{percent(before['success'])} → {percent(after['success'])} of {after['n']} held-out episodes solved"
        f'</h1><p class="verdict">{_verdict(summary["rise"])}</p>'
        f"<p>{what}. Before: {percent(before['success'])} (95 %: {interval(before)}). "
        f"After: {percent(after['success'])} (95 %: {interval(after)}). Both played the same {after['n']} test seeds "
        f"({seeds[0]} to {seeds[after['n'] - 1]}), actions sampled at τ = {summary['tau']:g}.</p>"
        f"<p>Training never saw these seeds and nothing was chosen by them: they were played once before the first "
        f"update and once after the last. Train seeds taught ({summary['episodes']} episodes in {summary['updates']} "
        f"updates); {chosen}. All took {summary['wall_s'] / 60:.1f} minutes.</p>"
    )


def _verdict(rise: dict[str, float]) -> str:
    points = (f"{100 * rise['difference']:+.1f} points on the same seeds (95 %: {100 * rise['ci_low']:+.1f} to "
              f"{100 * rise['ci_high']:+.1f})")  # fmt: skip
    if rise["ci_low"] > 0:
        return f'<span class="good">Better: {points}.</span>'
    if rise["ci_high"] < 0:
        return f'<span class="bad">Worse: {points}.</span>'
    return f"No reliable change: {points}; the interval holds zero."


def curve(run: Run) -> str:
    """Success against updates."""
    if not run.metrics and run.baseline is None:
        return ""
    config = run.config
    return (
        f"<h2>Learning curve</h2>{learning_curve(run)}"
        f'<p class="dim">Training: {config.groups} groups of {config.group_size} episodes an update, on seeds drawn '
        f"anew, so it goes up and down with them. Its band is the 95 % Wilson interval over that update's episodes as "
        f"if they were independent; siblings of a group share a seed, so it is too narrow. Validation: the same "
        f"{config.validation_episodes} seeds each time. Point at a dot for its figures.</p>"
    )


def table(run: Run) -> str:
    """Who solved how much of the test seeds."""
    found = {**(run.baseline or {}), **(run.summary or {})}
    rows = [(label, found[key]) for label, key in ROWS if key in found]
    if not rows:
        return ""
    names = ("test seeds", "success", "95 % interval", "n", "mean reward", "mean turns", "turns when solved")
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        f"<tr{' class=after' if label.startswith('after') else ''}><td>{label}</td><td>{percent(s['success'])}</td>"
        f"<td>{interval(s)}</td><td>{s['n']}</td><td>{s['mean_reward']:.3f} "
        f"({s['reward_low']:.3f} to {s['reward_high']:.3f})</td><td>{s['mean_turns']:.1f}</td>"
        f"<td>{'–' if s['mean_turns_solved'] is None else format(s['mean_turns_solved'], '.1f')}</td></tr>"
        for label, s in rows
    )
    return f"<h2>Before and after</h2><table><tr>{head}</tr>{body}</table>{_pairs(run)}"


def _pairs(run: Run) -> str:
    """Seed by seed: a mean can hide that what was gained here was lost there."""
    before, after = run.played["before"], run.played["after"]
    seeds = sorted(before.keys() & after.keys())
    if not seeds:
        return ""
    pairs = list(zip(wins(before, seeds), wins(after, seeds), strict=True))
    return (
        f"<p>Seed by seed, sampled: {pairs.count((False, True))} were failed before and solved after, "
        f"{pairs.count((True, False))} the other way round, {pairs.count((True, True))} solved both times, "
        f"{pairs.count((False, False))} failed both times; exact McNemar test: "
        f"{escape(p_value(mcnemar(wins(before, seeds), wins(after, seeds))))}.</p>"
    )


def terms(run: Run) -> str:
    """What each reward term gave, before and after."""
    before, after = run.played["before"], run.played["after"]
    if not before:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("reward term", "", "before", "after", "bounds"))
    rows = "".join(
        f"<tr><td>{escape(term.name)}</td><td class=words>{escape(term.doc)}</td>"
        f"<td>{_mean_term(before.values(), term.name)}</td><td>{_mean_term(after.values(), term.name)}</td>"
        f"<td>{term.low:g} to {term.top:g}</td></tr>"
        for term in scenarios.get(run.config.scenario).reward_terms
    )
    return (
        f"<h2>What was earned</h2><table><tr>{head}</tr>{rows}</table>"
        '<p class="dim">Mean an episode on the test seeds, sampled.</p>'
    )


def _mean_term(episodes: Iterable[Episode], name: str) -> str:
    values = [episode.terms().get(name, 0.0) for episode in episodes]
    return f"{sum(values) / len(values):+.3f}" if values else "–"


def training(run: Run) -> str:
    """KL, entropy, reward, and groups that taught nothing."""
    charts = small_charts(run)
    if not charts:
        return ""
    drawn = "".join(f"<div>{one}</div>" for one in charts)
    return (
        f'<h2>While it learned</h2><div class="pair">{drawn}</div>'
        '<p class="dim">KL is exact over the legal actions, against the adapter that the run started from. A dead '
        "group (all its episodes earned the same) teaches nothing; a failed one was dropped because the scenario "
        "raised an error.</p>"
    )


def tree(run: Run) -> str:
    """The checkpoint tree: as a picture, and as lines."""
    nodes = Tree(run.folder / "checkpoints")
    if not nodes.root.is_dir():
        return ""
    try:
        found = facts_of(nodes)
    except CheckpointError as error:
        return f'<h2>Checkpoints</h2><p class="bad">{escape(str(error))}</p>'
    folder = escape(shlex.quote(str(run.folder)))
    lines = escape("\n".join(drawn(found)))
    return (
        f"<h2>Checkpoints</h2>{tree_svg(found)}<p class=\"dim\">Every update is a checkpoint; a branch is a line "
        f"of its own. The ring is the head, which is what plays; the number is the success on validation seeds, in "
        f"percent. Go on from any of them with <code>python -m rl.checkpoints {folder} branch NODE</code>.</p>"
        f"<details><summary>as text</summary><pre>{lines}</pre></details>"
    )


def again(run: Run) -> str:
    """The commands that make all of it again."""
    lines = "\n".join(f"# {what}\n{command}" for what, command in commands(run))
    return f"<h2>Do it again</h2><pre>{escape(lines)}</pre>"


def machine(run: Run) -> str:
    """Where it was made, and the settings."""
    facts = machine_facts(run)
    rows = "".join(f"<tr><td>{escape(n)}</td><td class=words>{escape(value)}</td></tr>" for n, value in facts)
    values = escape(json.dumps(msgspec.to_builtins(run.config), indent=1))
    settings = f"<details><summary>run.toml</summary><pre>{values}</pre></details>"
    return f"<h2>Machine and settings</h2><table>{rows}</table>{settings}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def interval(score: dict[str, Any]) -> str:
    return f"{100 * score['ci_low']:.1f} to {100 * score['ci_high']:.1f}"
