"""`export FILE... --format jsonl|parquet|hf|minari --out PLACE`: logs as what other tools read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from recorder.commands.common import (
    BAD_LOG,
    GOOD,
    Commands,
    UsageError,
    as_json,
    command,
    damage_text,
    print_json,
    say,
)
from recorder.commands.ls import add_filters, wanted_of
from recorder.export import Rows, huggingface, minari_dataset, parquet
from recorder.export.rows import Row
from recorder.fresh import fresh
from recorder.reader import Attempts

FORMATS = ("jsonl", "parquet", "hf", "minari")


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(
        commands, "export", run, "logs as JSON lines, Parquet, a Hugging Face dataset folder or a Minari dataset",
        epilog="parquet, hf and minari need pip install 'errand[export]'. A row is a turn, with what is known of its "
        "episode beside it; AMENDs are applied.",
    )  # fmt: skip
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument(
        "-o", "--out", required=True, metavar="PLACE",
        help="the file (jsonl, parquet) or folder (hf, minari) to make; - prints jsonl",
    )  # fmt: skip
    parser.add_argument("--name", default="errand/turns-v0", help="minari: the dataset's id (default: %(default)s)")
    parser.add_argument(
        "--rewards", default="latest", metavar="VERSION",
        help="latest (AMENDs applied), recorded, or a reward version (default: %(default)s)",
    )  # fmt: skip
    add_filters(parser)
    parser.add_argument(
        "--attempts", choices=("latest", "all"), default="latest",
        help="latest leaves out what a resumed run recorded again (default: %(default)s)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Makes the file or folder, whole or not at all."""
    wanted = wanted_of(options)
    attempts: Attempts = "all" if options.attempt is not None else options.attempts
    table = Rows([Path(file) for file in options.files], wanted, attempts=attempts, rewards=options.rewards)
    turns, empty = 0, 0

    def rows() -> Iterator[Row]:
        nonlocal turns
        for row in table:
            turns += 1
            yield row

    if options.out == "-" and options.format != "jsonl":
        raise UsageError(f"export: --out - is for jsonl; {options.format} needs a place to write to")
    if options.out == "-":
        _lines(rows(), sys.stdout)
    else:
        with fresh(Path(options.out)) as part:
            if options.format == "jsonl":
                with part.open("w", encoding="utf-8") as file:
                    _lines(rows(), file)
            elif options.format == "parquet":
                parquet.write(rows(), part)
            elif options.format == "hf":
                huggingface.write(rows(), table.prefixes(), part)
            else:
                empty, turns = minari_dataset.write(table, part, options.name)
        if options.json:
            print_json({"out": options.out, "format": options.format, "turns": turns, "empty_episodes": empty})
        else:
            left_out = f"; {empty:,} episodes without a turn left out" if empty else ""
            print(f"{options.out}: {turns:,} turns{left_out}")
    damaged = {path: damage for path, damage in table.damage.items() if damage.damaged}
    for path, damage in damaged.items():
        say(f"{path}: {damage_text(damage)}; what can be read was exported")
    return BAD_LOG if damaged else GOOD


def _lines(rows: Iterator[Row], file: IO[str]) -> None:
    for row in rows:
        file.write(as_json(row) + "\n")
