"""`export`: every format holds every turn, value for value, and loads in the tool that it is for."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder import Amend, Writer
from recorder.export.rows import Rows, column_types
from tests.recorder.calling import call
from tests.recorder.making import a_begin, a_turn, an_end, write_episodes


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        prefix = log.add_prefix("You run errands.", [1, 2, 3], "tok")
        write_episodes(log, range(3), 3, split="train", prefix_hash=prefix, policy="nano:a")
        write_episodes(log, range(3, 5), 2, split="test", prefix_hash=prefix, policy="nano:b")
        log.begin_episode(a_begin(5, seed=2**63 - 1))
        log.turn(a_turn(5, 0, terms={}, sampled_ids=[], logps=b"", probs=b"", observation="é\u0085\n\"'"))
        log.amend(Amend(episode=0, turn=1, terms={"found": 2.5}))
        log.begin_episode(a_begin(6))
        log.end_episode(an_end(6, 0))
    return path


def rows_of(log: Path) -> list[dict[str, Any]]:
    return list(Rows([log]))


def test_rows_hold_every_field(log: Path) -> None:
    rows = rows_of(log)
    assert len(rows) == 14 and list(rows[0]) == list(rows[-1]) and set(rows[0]) == set(column_types())
    turn = a_turn(0, 1)
    assert rows[1]["logps"] == turn.logp_values.tolist() and rows[1]["observation"] == turn.observation
    assert rows[1]["terms"] == {"found": 2.5, "success": 0.0} and rows[1]["reward"] == 2.5  # the AMEND applied
    assert rows[0]["episode_return"] == pytest.approx(2.7) and rows[0]["policy"] == "nano:a"
    assert rows[-1]["ended"] is None and rows[-1]["seed"] == 2**63 - 1
    recorded = list(Rows([log], rewards="recorded"))
    assert recorded[1]["terms"]["found"] == 0.1 and recorded[0]["episode_return"] == pytest.approx(0.3)


def test_jsonl(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    code, printed, said = call(capsys, "export", log, "--format", "jsonl", "--out", out)
    assert (code, said) == (0, "") and printed == f"{out}: 14 turns\n"
    assert [json.loads(line) for line in out.read_text().split("\n")[:-1]] == rows_of(log)
    code, printed, _ = call(capsys, "export", log, log, "--format", "jsonl", "--out", "-", "--policy", "nano:b")
    assert code == 0 and [json.loads(line)["episode"] for line in printed.splitlines()] == [3, 3, 4, 4] * 2


def test_export_filters_and_counts(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--format", "jsonl", "--out", tmp_path / "out", "--split", "test", "--json"]
    found = json.loads(call(capsys, "export", log, *arguments)[1])
    assert found["turns"] == 4 and found["format"] == "jsonl"


def test_an_unknown_reward_version(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--format", "jsonl", "--out", tmp_path / "out", "--rewards", "v9"]
    code, _, said = call(capsys, "export", log, *arguments)
    assert code == 2 and "'v9'" in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_a_library_that_is_not_there(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.partition(".")[0] in ("pyarrow", "minari"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return load(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    for name, needs in (("parquet", "pyarrow"), ("hf", "pyarrow"), ("minari", "minari")):
        code, _, said = call(capsys, "export", log, "--format", name, "--out", tmp_path / "out")
        assert code == 2 and f"{needs} can't be imported" in said and "pip install 'errand[export]'" in said
        assert said.count("\n") == 1 and not (tmp_path / "out").exists()


def as_rows(table: Any) -> list[dict[str, Any]]:
    """A Parquet table's rows with (name, value) lists as dicts again."""
    dicts = [name for name, hint in column_types().items() if getattr(hint, "__origin__", None) is dict]
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row.update({name: {pair["name"]: pair["value"] for pair in row[name]} for name in dicts})
    return rows


def test_parquet(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = tmp_path / "out.parquet"
    assert call(capsys, "export", log, "--format", "parquet", "--out", out)[0] == 0
    table = pq.read_table(out)
    assert as_rows(table) == rows_of(log)
    assert str(table.schema.field("logps").type) == "list<element: float>"


def test_parquet_writes_group_by_group(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from recorder.export.parquet import ParquetFile

    file = ParquetFile(tmp_path / "a.parquet", group=5)
    for row in rows_of(log):
        file.add(row)
    file.close()
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 3
    assert as_rows(pq.read_table(tmp_path / "a.parquet")) == rows_of(log)


def test_a_hugging_face_folder(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The layout that `datasets` documents: files by split, and a card that names them."""
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = tmp_path / "folder"
    code, printed, _ = call(capsys, "export", log, "--format", "hf", "--out", out)
    assert code == 0 and printed == f"{out}: 14 turns\n"
    files = {path.name: pq.read_table(path) for path in sorted((out / "data").iterdir())}
    sizes = {name.split("-")[0]: table.num_rows for name, table in files.items()}
    assert sizes == {"test": 4, "train": 9, "unsplit": 1}
    rows = sorted((row for table in files.values() for row in as_rows(table)), key=lambda r: (r["episode"], r["turn"]))
    assert rows == rows_of(log)
    assert pq.read_table(out / "prefixes.parquet").to_pylist()[0]["text"] == "You run errands."
    card = (out / "README.md").read_text()
    assert card.startswith("---\nconfigs:\n") and "  - split: train\n    path: data/train-*.parquet\n" in card
    assert "data/train-00000-of-00001.parquet" in [str(path.relative_to(out)) for path in out.rglob("*.parquet")]


def test_the_hugging_face_folder_loads(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "folder"
    call(capsys, "export", log, "--format", "hf", "--out", out)
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 9, "test": 4, "unsplit": 1}
    assert loaded["train"][1]["logps"] == a_turn(0, 1).logp_values.tolist()


@pytest.mark.filterwarnings("ignore")
def test_minari(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    out = Path("folder")
    code, printed, _ = call(capsys, "export", log, "--format", "minari", "--out", out, "--name", "a/b-v0")
    assert code == 0 and printed == f"{out}: 14 turns; 1 episodes without a turn left out\n"
    dataset = minari.MinariDataset(out / "data")
    assert (dataset.total_episodes, dataset.total_steps, dataset.id) == (6, 14, "a/b-v0")
    rows, metadata = rows_of(log), list(dataset.storage.get_episode_metadata(range(6)))
    assert [one["seed"] for one in metadata] == [100, 101, 102, 103, 104, 2**63 - 1]
    for number, episode in enumerate(dataset.iterate_episodes()):
        mine = [row for row in rows if row["episode"] == number]
        assert list(episode.observations) == [row["observation"] for row in mine] + [""]
        assert list(episode.actions) == [row["executed"] for row in mine]
        assert np.allclose(episode.rewards, [row["reward"] for row in mine])
        assert list(episode.terminations)[:-1] == [False] * (len(mine) - 1)
        assert [json.loads(text) for text in list(episode.infos["legal"])[:-1]] == [row["legal"] for row in mine]
        assert [json.loads(text) for text in list(episode.infos["logps"])[:-1]] == [row["logps"] for row in mine]


def test_minari_of_nothing(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    code, _, said = call(capsys, "export", log, "--format", "minari", "--out", tmp_path / "out", "--policy", "nobody")
    assert code == 2 and "no turn to export" in said and not (tmp_path / "out").exists()


def test_a_failed_export_leaves_nothing(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.commands.export.as_json", lambda _: (_ for _ in ()).throw(OSError(28, "No space")))
    code, _, said = call(capsys, "export", log, "--format", "jsonl", "--out", tmp_path / "out")
    assert code == 2 and "No space" in said and [path.name for path in tmp_path.iterdir()] == ["a.b22"]
