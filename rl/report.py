"""What a run showed, as one page that opens anywhere: `python -m rl.report RUN` writes RUN/report.html.

With `--curve FILE.svg` it draws the validation success of one run, or of several runs that differ in their seed.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

import scenarios
from recorder import Episode, RecorderError
from rl.charts import STYLE
from rl.command import CommandError, Parser, fail
from rl.config import ConfigError
from rl.curves import CurveError, curve_of_runs, learning_curve, small_charts
from rl.examples import RULES, Example, TurnInWords, choose, headline, tell
from rl.files import CheckpointError, write_atomically
from rl.reproduce import commands, machine
from rl.run_folder import Run, read_run_folder, solved, wins
from scenarios import telling
from scenarios.contract import ScenarioError

PAGE_STYLE = f"""{STYLE}
body{{margin:0 auto;max-width:960px;padding:28px 24px 60px;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}}
h1{{font-size:27px;line-height:1.25;margin:0 0 6px}}
h2{{font-size:18px;margin:38px 0 8px}}
h3{{font-size:15px;margin:22px 0 2px}}
h3+p{{margin:0 0 8px}}
p{{max-width:84ch}}
.dim{{color:var(--dim)}}.good{{color:var(--teacher)}}.bad{{color:var(--failed)}}.verdict{{font-size:17px}}
table{{border-collapse:collapse;width:100%;margin:10px 0}}
th,td{{padding:5px 10px;text-align:right;border-bottom:1px solid var(--grid);font-variant-numeric:tabular-nums}}
th{{font-weight:600;color:var(--dim)}}
th:first-child,td:first-child,td.words{{text-align:left}}
tr.after td{{font-weight:600}}
.pair{{display:grid;grid-template-columns:1fr 1fr;gap:14px}}
@media(max-width:700px){{.pair{{grid-template-columns:1fr}}}}
.panel,pre{{background:var(--panel);border-radius:8px;padding:12px 16px}}
.panel ol{{margin:6px 0 0;padding:0;list-style:none;font-size:13.5px;line-height:1.4}}
.panel li{{margin:8px 0}}
pre{{white-space:pre-wrap;font:13px/1.5 ui-monospace,Menlo,monospace}}
"""
ROWS = (("random", "random"), ("before, sampled", "baseline"), ("before, greedy", "baseline_greedy"),
        ("after, sampled", "trained"), ("after, greedy", "trained_greedy"), ("teacher", "teacher"),
        ("oracle (sees everything)", "oracle"))  # fmt: skip


def write_report(run: Path) -> Path:
    """Writes `run`/report.html from what lies in the run folder, finished or not; returns its path.

    Raises CheckpointError, ConfigError or RecorderError where a file can't be read.
    """
    path = run / "report.html"
    write_atomically(path, page(read_run_folder(run)))
    return path


def page(run: Run) -> str:
    """The whole page as text: styles and charts are in it, nothing is fetched."""
    title = f"{run.config.scenario}: what {escape(run.config.model)} learned"
    parts = [one(run) for one in (_headline, _curve, _table, _terms, _training, _examples, _again, _machine)]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{PAGE_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _headline(run: Run) -> str:
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
        f"<h1>{_percent(before['success'])} → {_percent(after['success'])} of {after['n']} held-out episodes solved"
        f'</h1><p class="verdict">{_verdict(summary["rise"])}</p>'
        f"<p>{what}. Before: {_percent(before['success'])} (95 %: {_range(before)}). "
        f"After: {_percent(after['success'])} (95 %: {_range(after)}). Both played the same {after['n']} test seeds "
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


def _curve(run: Run) -> str:
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


def _table(run: Run) -> str:
    found = {**(run.baseline or {}), **(run.summary or {})}
    rows = [(label, found[key]) for label, key in ROWS if key in found]
    if not rows:
        return ""
    names = ("test seeds", "success", "95 % interval", "n", "mean reward", "mean turns", "turns when solved")
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        f"<tr{' class=after' if label.startswith('after') else ''}><td>{label}</td><td>{_percent(s['success'])}</td>"
        f"<td>{_range(s)}</td><td>{s['n']}</td><td>{s['mean_reward']:.3f}</td><td>{s['mean_turns']:.1f}</td>"
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
        f"{pairs.count((False, False))} failed both times.</p>"
    )


def _terms(run: Run) -> str:
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


def _training(run: Run) -> str:
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


def _examples(run: Run) -> str:
    examples, none = choose(run.played["before"], run.played["after"])
    if not examples:
        return ""
    told = "".join(_example(run.config.scenario, example) for example in examples)
    missing = "".join(f'<p class="dim">There is no seed for: {rule}.</p>' for rule in none)
    rules = "; ".join(rule for rule, *_ in RULES)
    return (
        f'<h2>Episodes in words</h2><p class="dim">From episodes.b22, test seeds, sampled. Chosen by rule, not by '
        f"hand: {rules}. The figure behind a choice is the probability that it had.</p>{told}{missing}"
    )


def _example(scenario: str, example: Example) -> str:
    turns = example.before.turns or example.after.turns
    mission = telling.mission(scenario, turns[0].observation) if turns else ""
    about = f": {escape(mission)}" if mission else ""
    panels = _panel("Before", scenario, example.before) + _panel("After", scenario, example.after)
    title = f'<h3>Seed {example.seed}{about}</h3><p class="dim">{example.rule}</p>'
    return f'{title}<div class="pair">{panels}</div>'


def _panel(when: str, scenario: str, episode: Episode) -> str:
    colour = "good" if solved(episode) else "bad"
    lines = "".join(_turn(tell(scenario, turn)) for turn in episode.turns)
    head = f'<b>{when}: <span class="{colour}">{escape(headline(episode))}</span></b>'
    return f'<div class="panel">{head}<ol>{lines}</ol></div>'


def _turn(told: TurnInWords) -> str:
    instead = f" (done instead: {escape(told.instead)})" if told.instead else ""
    return (
        f'<li><span class="dim">{told.number}. {escape(told.situation)}</span><br><b>{escape(told.chose)}</b>'
        f'{instead} <span class="dim">{told.odds}</span> → {escape(told.outcome)} '
        f'<span class="dim">{told.reward:+.3f}</span></li>'
    )


def _again(run: Run) -> str:
    lines = "\n".join(f"# {what}\n{command}" for what, command in commands(run))
    return f"<h2>Do it again</h2><pre>{escape(lines)}</pre>"


def _machine(run: Run) -> str:
    rows = "".join(f"<tr><td>{escape(n)}</td><td class=words>{escape(value)}</td></tr>" for n, value in machine(run))
    values = escape(json.dumps(msgspec.to_builtins(run.config), indent=1))
    settings = f"<details><summary>run.toml</summary><pre>{values}</pre></details>"
    return f"<h2>Machine and settings</h2><table>{rows}</table>{settings}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _range(score: dict[str, Any]) -> str:
    return f"{100 * score['ci_low']:.1f} to {100 * score['ci_high']:.1f}"


def table_of_runs(runs: Sequence[Run]) -> str:
    """A Markdown table, one finished run a row. Raises CommandError for one that isn't finished."""
    names = ("training seed", "before", "after", "rise, paired", "greedy before → after", "episodes", "updates", "head",
             "KL", "minutes")  # fmt: skip
    rows = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for run in runs:
        s = run.summary
        if s is None:
            raise CommandError(f"{run.folder}: not finished, so it has no answer; go on with --resume")
        rise = s["rise"]
        rows.append(
            f"| {s['seed']} | {_percent(s['baseline']['success'])} ({_range(s['baseline'])}) "
            f"| {_percent(s['trained']['success'])} ({_range(s['trained'])}) "
            f"| {100 * rise['difference']:+.1f} ({100 * rise['ci_low']:+.1f} to {100 * rise['ci_high']:+.1f}) "
            f"| {_percent(s['baseline_greedy']['success'])} → {_percent(s['trained_greedy']['success'])} "
            f"| {s['episodes']} | {s['updates']} | {s['head']} | {s['kl_final']:.3f} | {s['wall_s'] / 60:.1f} |"
        )
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m rl.report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders; each gets its report.html")
    parser.add_argument("--curve", metavar="FILE.svg", help="draw the curve of all runs together instead")
    parser.add_argument("--table", action="store_true", help="print the runs' answers as a Markdown table instead")
    args = parser.parse_args(argv)
    try:
        if args.table:
            print(table_of_runs([read_run_folder(Path(run), log=False) for run in args.runs]))
            return 0
        if args.curve is None:
            for run in args.runs:
                print(write_report(Path(run)))
            return 0
        path = Path(args.curve)
        if path.suffix != ".svg":
            raise CommandError(f"--curve {path}: curves are drawn as SVG; name a file that ends in .svg")
        if not path.parent.is_dir():
            raise CommandError(f"--curve {path}: no folder {path.parent}; make it first")
        write_atomically(path, curve_of_runs([read_run_folder(Path(run), log=False) for run in args.runs]) + "\n")
        print(path)
    except (CheckpointError, ConfigError, CommandError, CurveError, ScenarioError, RecorderError, OSError) as error:
        return fail("rl.report", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
