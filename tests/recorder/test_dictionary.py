"""Dictionaries: trained, checked, shipped, and worth their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder import DictionaryError, dictionary, writer
from recorder.framing import Op
from tests.recorder.making import a_log, a_turn, frames_of, turns_of

SAMPLES = [dictionary.sample(a_turn(i // 8, i % 8)) for i in range(800)]


def test_training_is_repeatable_and_pays(tmp_path: Path) -> None:
    trained = dictionary.train(SAMPLES, 4096)
    assert trained == dictionary.train(SAMPLES, 4096) and len(trained) <= 4096
    assert 32768 <= dictionary.dictionary_id(trained) <= 65535
    bytes_a_turn = {}
    for name, chosen in (("with", trained), ("without", None)):
        path = tmp_path / f"{name}.b22"
        made = a_log(path, 10, dictionary=chosen)
        assert turns_of(path)[0] == made
        sizes = [len(frame.payload) for frame in frames_of(path) if frame.op == Op.TURN]
        bytes_a_turn[name] = sum(sizes) / len(sizes)
    assert bytes_a_turn["with"] < 0.55 * bytes_a_turn["without"], bytes_a_turn


def test_too_few_samples_are_a_clear_error() -> None:
    with pytest.raises(DictionaryError, match="can't train a dictionary from 2 samples"):
        dictionary.train(SAMPLES[:2])
    with pytest.raises(DictionaryError, match="from 0 samples"):
        dictionary.train([])


@pytest.mark.parametrize("data", [b"", b"words", b"\x37\xa4\x30\xec" + b"\1" * 200, bytes(2 << 20)])
def test_what_is_no_dictionary_is_refused(data: bytes) -> None:
    with pytest.raises(DictionaryError):
        dictionary.dictionary_id(data)


def test_the_shipped_one_is_used_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = dictionary.train(SAMPLES, 1024)
    monkeypatch.setattr(writer, "shipped", lambda: trained)
    path = tmp_path / "a.b22"
    with writer.Writer(path, sync="none"):
        pass
    assert [frame.op for frame in frames_of(path)].count(Op.DICT) == 2


def test_the_shipped_one_if_any_is_a_dictionary() -> None:
    found = dictionary.shipped()
    assert found is None or dictionary.dictionary_id(found)
