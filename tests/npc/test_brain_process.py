"""The brain in its own process: it never blocks the caller, drops what is late, and says when it is dead."""

import os
import signal
import subprocess
import sys
import time

import pytest

from npc.brain_process import BrainError, BrainProcess
from npc.models import hash_arrays, load, save_model
from npc.policy import ClosedPolicy
from tests.npc.making import brain

LEGAL = ("go to the dock", "go to the inn", "wait")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(brain(0), path)
    return str(path)


def answer(process, seconds=30.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        decision = process.poll()
        if decision is not None:
            return decision
        process.wait(0.05)
    raise AssertionError("no answer")


def test_answers_as_the_policy_does_and_only_the_newest_turn(folder):
    with BrainProcess(folder, None, " mara") as process:
        assert process.state == "warming" and process.info is None
        process.ask(1, " rope", ("wait",))
        process.ask(2, " rope dock", LEGAL, 0.7, 0.4)
        decision = answer(process)
        assert process.state == "ready" and process.info is not None
        made = load(folder)
        assert (process.info.base_hash, process.info.weights_hash) == (made.base_hash, made.base_hash)
        assert process.info.prefix_ids == tuple(made.tokenizer.encode(" mara")) != ()
        [expected] = ClosedPolicy(made, " mara").decide([" rope dock"], [LEGAL], 0.7, [0.4])
        assert (decision.phrase, decision.sampled_ids) == (expected.phrase, expected.sampled_ids)
        assert decision.probs == pytest.approx(expected.probs, abs=1e-6)
        assert process.poll() is None

        process.ask(3, " rope", LEGAL)
        assert process.state == "thinking"
        process.forget()  # a fallback has played turn 3
        process.wait(5)
        assert process.poll() is None and process.state == "ready"

        process.ask(4, " rope", ())
        with pytest.raises(BrainError, match="no legal phrase"):
            answer(process)
        process.ask(5, " rope", LEGAL)  # a refusal is not the end of it
        assert answer(process).phrase in LEGAL

        for turn in range(10, 40, 2):  # the second question comes while the first is being answered
            process.ask(turn, " rope", LEGAL)
            time.sleep(turn * 1e-4)
            process.ask(turn + 1, " rope", ("ask mara", "ask tom"))
            assert answer(process).phrase in ("ask mara", "ask tom")

        os.kill(process._process.pid, signal.SIGINT)
        process.ask(6, " rope", LEGAL)
        assert answer(process).phrase in LEGAL

        os.kill(process._process.pid, signal.SIGKILL)
        process._process.join(5)
        assert process.state == "dead" and "ended unexpectedly" in process.error
        with pytest.raises(BrainError, match="ended unexpectedly"):
            process.ask(7, " rope", LEGAL)
    with pytest.raises(BrainError, match="was closed"):
        process.poll()


def test_a_model_that_is_not_there_is_one_line():
    with BrainProcess("/no/such/folder", None, "") as process:
        process.wait(30)
        assert process.state == "dead"
        assert process.error.startswith("/no/such/folder: no such model; give one of auto, nano,")
        assert process.error.endswith("or an id of the hub") and "\n" not in process.error


CTRL_C = """
import os, signal, sys, time
from npc.brain_process import BrainProcess

if __name__ == "__main__":
    with BrainProcess(sys.argv[1], None, "") as process:
        try:
            os.killpg(0, signal.SIGINT)  # what the terminal sends to all, here while the child is starting
            time.sleep(5)
        except KeyboardInterrupt:
            pass
        process.ask(1, " rope", ("wait", "go"))
        while (decision := process.poll()) is None:
            process.wait(0.05)
        print(decision.phrase)
"""


def test_ctrl_c_while_the_child_starts_neither_kills_nor_shows(folder, tmp_path):
    script = tmp_path / "play.py"
    script.write_text(CTRL_C)
    done = subprocess.run(
        [sys.executable, str(script), folder],
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )
    assert done.stdout.strip() in ("wait", "go")
    assert done.stderr == ""


def test_hashes_are_of_names_shapes_types_and_bytes():
    import mlx.core as mx

    arrays = [{"a": mx.zeros(4)}, {"b": mx.zeros(4)}, {"a": mx.zeros((2, 2))}, {"a": mx.zeros(4, dtype=mx.int32)}]
    assert len({hash_arrays(a) for a in arrays}) == 4
