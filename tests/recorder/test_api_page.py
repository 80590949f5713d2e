"""The examples of docs/log-api.md run, in their order, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import recorder

PAGE = Path(__file__).parents[2] / "docs" / "log-api.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 5
    exec(compile("\n".join(examples), str(PAGE), "exec"), {})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mended.b22", "play.b22"]


def test_the_arrays_named_there_are_those_of_a_batch() -> None:
    table = PAGE.read_text(encoding="utf-8").split("| names | shapes |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert named == set(recorder.Batch.__struct_fields__)
