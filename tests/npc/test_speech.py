"""Spoken lines: trimmed to something that can be shown, by the base alone, and never in a decision's way."""

from __future__ import annotations

import time

import numpy as np
import pytest

from npc import adapters, speech
from npc.brain_process import BrainProcess
from npc.models import load, save_model
from npc.policy import ClosedPolicy
from npc.speech import LONGEST, Speaker, base_alone, can_speak, trim
from tests.npc import making


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('Thank you, Tom!" Mara', "Thank you, Tom!"),
        ('where is it"', "where is it"),
        ("I looked. I looked again and", "I looked."),
        ("no end in sight", ""),
        ("One.\nTwo.", "One."),
        ('a\x07b."', ""),
        ("", ""),
        ("Well.<|im_end|>x", "Well."),
        ("Long. " + "a" * 100 + '"', "Long."),
        ("b" * 200 + '"', ""),
    ],
)
def test_a_line_is_short_whole_and_printable(text, line):
    assert trim(text) == line and len(trim(text)) <= LONGEST


def test_the_base_speaks_and_the_adapter_is_back_afterwards():
    made = making.with_adapter(making.brain())
    policy = ClosedPolicy(made, "the")
    packed = policy.pack([policy.encode("rope")], [("go to the inn", "wait")])
    adapted = policy.logps(packed)
    before = adapters.weights_hash(made)
    with base_alone(made):
        bare = ClosedPolicy(made, "the").logps(packed)
    np.testing.assert_allclose(bare, ClosedPolicy(making.brain(), "the").logps(packed), atol=1e-5)
    assert np.abs(bare - adapted).max() > 1e-3
    assert adapters.weights_hash(made) == before
    np.testing.assert_array_equal(ClosedPolicy(made, "the").logps(packed), adapted)


def test_equal_seeds_say_equal_lines_and_it_can_be_cut_short(monkeypatch):
    monkeypatch.setattr(speech, "trim", lambda text: text)
    speaker = Speaker(making.brain())
    said = [speaker.line("mara ask tom", seed) for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2] and said[0]
    assert speaker.line("mara ask tom", 1, lambda: False) == ""


def test_the_embedded_model_does_not_speak():
    assert not can_speak(load("nano"))


def test_the_process_speaks_between_decisions(tmp_path, monkeypatch):
    save_model(making.brain(), tmp_path / "m")
    with BrainProcess(str(tmp_path / "m"), None, " mara") as process:
        process.speak(1, "mara ask tom")  # a small vocabulary: nothing will come, and decisions go on
        process.ask(1, " rope", ("go to the inn", "wait"))
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            process.wait(0.05)
        assert process.info is not None and not process.info.speaks and process.spoken() is None
