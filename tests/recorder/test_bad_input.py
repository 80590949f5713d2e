"""Every command with every bad input: one line that names the file, the right exit code, nothing written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recorder import Op
from tests.recorder.calling import call
from tests.recorder.making import a_log, frames_of

READING = {
    "info": ["info"], "ls": ["ls"], "cat": ["cat"], "tail": ["tail"], "verify": ["verify"], "stats": ["stats"],
}  # fmt: skip
MAKING = {
    "merge": ["merge"], "migrate": ["migrate"], "jsonl": ["export", "--format", "jsonl"],
    "parquet": ["export", "--format", "parquet"], "hf": ["export", "--format", "hf"], "recover": ["recover"],
}  # fmt: skip
UNREADABLE = {
    "missing": "can't be opened: No such file or directory",
    "directory": "not a regular file",
    "foreign": "not a .b22 log: no record in it can be read",
    "device": "not a regular file",
    "nul": "can't be opened: embedded null byte",
}


def a_bad_file(folder: Path, kind: str) -> str:
    path = folder / f"{kind}.b22"
    match kind:
        case "directory":
            path.mkdir()
        case "foreign":
            path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20)
        case "device":
            return "/dev/null"
        case "nul":
            return f"{folder}/a\0b.b22"
    return str(path)


def arguments(command: list[str], file: object, out: Path) -> list[str]:
    if command[0] == "show":
        return ["show", str(file), "0"]
    if command[0] == "diff":
        return ["diff", str(file), str(file)]
    return [*command, str(file), *(["--out", str(out)] if command in MAKING.values() else [])]


ALL = {**READING, **MAKING, "show": ["show"], "diff": ["diff"]}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("name", ALL)
def test_what_is_no_log(name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name in ("parquet", "hf"):
        pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    code, printed, said = call(capsys, *arguments(ALL[name], a_bad_file(tmp_path, kind), out))
    assert code == 2 and printed == ""
    assert said.count("\n") == 1 and UNREADABLE[kind] in said
    assert {"device": "/dev/null", "nul": "a\\x00b.b22"}.get(kind, f"{kind}.b22") in said
    assert not out.exists() and not list(tmp_path.glob(".*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ALL)
def test_what_may_not_be_read(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    path.chmod(0)
    code, _, said = call(capsys, *arguments(ALL[name], path, tmp_path / "out"))
    assert code == 2 and said.count("\n") == 1 and "Permission denied" in said


@pytest.mark.parametrize("name", ["ls", "cat", "tail", "stats"])
def test_an_empty_file_is_an_empty_log(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a kill leaves that came before the first record."""
    path = tmp_path / "a.b22"
    path.touch()
    assert call(capsys, name, path)[0] == 0
    code, out, _ = call(capsys, name, path, "--json")
    assert code == 0 and (name == "stats" or out == "")


@pytest.mark.parametrize("name", ["info", "verify"])
def test_an_empty_file_does_not_pass_as_good(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    path.touch()
    code, out, _ = call(capsys, name, path)
    assert code == 1 and "a.b22: empty: no record was ever written whole" in out
    assert json.loads(call(capsys, name, path, "--json")[1])["empty"]


@pytest.mark.parametrize("name", ["merge", "migrate", "show", "diff", "recover"])
def test_there_is_nothing_to_take_from_an_empty_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.b22"
    path.touch()
    code, printed, said = call(capsys, *arguments(ALL[name], path, tmp_path / "out"))
    assert code == 2 and printed == "" and said.count("\n") == 1 and "a.b22" in said
    assert [one.name for one in tmp_path.iterdir()] == ["a.b22"]


@pytest.mark.parametrize("name", ["info", "ls", "cat", "tail", "verify", "stats", "show", "migrate", "jsonl"])
def test_a_cut_file_is_good(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    last = frames_of(path)[-1]
    path.write_bytes(path.read_bytes()[: last.offset + 9])
    code, _, said = call(capsys, *arguments(ALL[name], path, tmp_path / "out"))
    assert (code, said) == (0, "")


@pytest.mark.parametrize("name", ALL)
def test_a_damaged_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading commands give what there is and exit with 1; merge and migrate refuse and say what to do."""
    if name in ("parquet", "hf"):
        pytest.importorskip("pyarrow")
    path, out = tmp_path / "a.b22", tmp_path / "out"
    a_log(path)
    data = bytearray(path.read_bytes())
    turn = next(frame for frame in frames_of(path) if frame.op == Op.TURN)
    data[turn.offset + 25] ^= 0xFF
    path.write_bytes(data)
    code, printed, said = call(capsys, *arguments(ALL[name], path, out))
    assert code == (3 if name == "recover" else 1)
    if name in ("merge", "migrate"):
        assert "damaged; recover it first: python -m recorder recover" in said and not out.exists()
    else:
        assert printed and (f"first at offset {turn.offset}" in said + printed or "has lost turns" in said)


def test_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    a_log(path)
    before = path.read_bytes()
    for command in MAKING.values():
        for out, why in ((path, "already there"), (tmp_path / "none" / "x", "is not a folder")):
            code, _, said = call(capsys, *command, path, "--out", out)
            assert code == 2 and why in said and said.count("\n") == 1, command
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.b22"]


def test_a_full_disk_under_the_output(tmp_path: Path) -> None:
    """/dev/full takes nothing: one line, exit code 2."""
    import subprocess
    import sys

    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    path = tmp_path / "a.b22"
    a_log(path)
    command = [sys.executable, "-m", "recorder", "cat", str(path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr


@pytest.mark.parametrize("name", [*READING, "recover", "diff", "merge", "export", "migrate", "show", ""])
def test_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, *([name] if name else []), "--help")
    assert code == 0 and f"python -m recorder {name}".strip() in out
    assert not name or "--json" in out
