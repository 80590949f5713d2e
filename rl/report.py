"""What a run showed, as one page that opens anywhere: `python -m rl.report RUN` writes RUN/report.html.

With `--curve FILE.svg` it draws the validation success of one run, or of several runs that differ in their seed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from recorder import RecorderError
from rl import stepping
from rl.charts import STYLE
from rl.command import CommandError, Parser, ended, fail
from rl.config import ConfigError
from rl.curves import CurveError, curve_of_runs
from rl.files import CheckpointError, write_atomically
from rl.report_examples import examples
from rl.report_parts import again, curve, headline, interval, machine, percent, table, terms, training, tree
from rl.run_folder import Run, read_run_folder
from scenarios.contract import ScenarioError

PAGE_STYLE = f"""{STYLE}{stepping.STYLE}
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
    parts = [one(run) for one in (headline, curve, table, terms, training, tree, examples, again, machine)]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{PAGE_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


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
            f"| {s['seed']} | {percent(s['baseline']['success'])} ({interval(s['baseline'])}) "
            f"| {percent(s['trained']['success'])} ({interval(s['trained'])}) "
            f"| {100 * rise['difference']:+.1f} ({100 * rise['ci_low']:+.1f} to {100 * rise['ci_high']:+.1f}) "
            f"| {percent(s['baseline_greedy']['success'])} → {percent(s['trained_greedy']['success'])} "
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
    sys.exit(ended("rl.report", main))
