"""A folder that `datasets.load_dataset(FOLDER)` opens: Parquet by split, and a card."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from recorder.export.parquet import ParquetFile
from recorder.export.rows import Row
from recorder.records import Prefix

NO_SPLIT = "unsplit"
"""The split of turns whose episode names none."""

_PREFIX_COLUMNS = {"hash": str, "text": str, "token_ids": list[int], "tokenizer_hash": str}


def write(rows: Iterable[Row], prefixes: Sequence[Prefix], out: Path) -> None:
    """The folder `out`, made anew: `data/SPLIT-00000-of-00001.parquet`, `prefixes.parquet`, `README.md`.

    Raises ExportError.
    """
    data = out / "data"
    data.mkdir(parents=True)
    files: dict[str, ParquetFile] = {}
    policies: dict[str, None] = {}
    scenarios: dict[str, None] = {}
    for row in rows:
        split = _name(row["split"])
        if split not in files:
            files[split] = ParquetFile(data / f"{split}-00000-of-00001.parquet")
        files[split].add(row)
        policies[row["policy"] or "unknown"] = None
        scenarios[f"{row['scenario']} {row['scenario_version']}"] = None
    if not files:  # no turn is wanted: a folder that says so, and opens
        files[NO_SPLIT] = ParquetFile(data / f"{NO_SPLIT}-00000-of-00001.parquet")
    for file in files.values():
        file.close()
    texts = ParquetFile(out / "prefixes.parquet", _PREFIX_COLUMNS)
    for prefix in prefixes:
        texts.add({name: getattr(prefix, name) for name in _PREFIX_COLUMNS})
    texts.close()
    card = _card({split: file.rows for split, file in files.items()}, list(scenarios), list(policies))
    (out / "README.md").write_text(card, encoding="utf-8")


def _name(split: str) -> str:
    """A split's name as `datasets` takes it: letters, digits and underscores."""
    return "".join(char if char.isalnum() and char.isascii() else "_" for char in split) or NO_SPLIT


def _card(splits: dict[str, int], scenarios: list[str], policies: list[str]) -> str:
    lines = ["---", "configs:", "- config_name: turns", "  default: true", "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: data/{split}-*.parquet"]
    lines += ["- config_name: prefixes", "  data_files: prefixes.parquet", "---", "# Turns of an errand-runner", ""]
    lines += [
        "One row a turn: `observation`, `legal` with `probs`, `prompt_ids`, `sampled_ids` and `logps` as they were",
        "sampled at `tau`, what was `proposed` and `executed`, the reward `terms`; beside it what is known of the",
        "episode. The static prompt prefix is named by `prefix_hash`; its text and ids are in the config `prefixes`.",
        "Dicts are lists of (`name`, `value`).",
        "",
        f"- scenarios: {', '.join(json.dumps(name) for name in scenarios) or 'none'}",
        f"- policies: {', '.join(json.dumps(name) for name in policies) or 'none'}",
        *(f"- {split}: {count} turns" for split, count in splits.items()),
        "",
    ]
    return "\n".join(lines)
