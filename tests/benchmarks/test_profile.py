"""The profile's clock, and its command on a few episodes."""

from __future__ import annotations

import json

import pytest

from benchmarks import profile


class Machine:
    """Spends seconds of a clock of its own."""

    now = 0.0

    def outer(self):
        Machine.now += 1
        self.inner()
        self.inner()

    def inner(self):
        Machine.now += 2


def test_a_part_is_charged_for_its_own_work_only(monkeypatch):
    monkeypatch.setattr(profile.time, "process_time", lambda: Machine.now)
    clock = profile.Clock()

    def work():
        Machine().outer()
        Machine.now += 5
        return "done"

    with clock.on([(Machine, "outer", "outer"), (Machine, "inner", "inner")]):
        assert clock.take(work) == ("done", {"inner": 4.0, "outer": 1.0, profile.OTHER: 5.0})
    Machine().outer()  # untimed again
    assert clock.spent["inner"] == 4.0


def test_every_part_of_both_is_found_and_nothing_stays_patched(capsys):
    before = [getattr(owner, name) for owner, name, _ in profile.places()]
    assert profile.main(["--groups", "1", "--group-size", "2", "--option", "difficulty=1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["turns"] > 0 and found["model"] == "nano"
    world = {"world step", "observation text", "legal actions"}
    assert world | {"tokenising", "packing", "other"} <= found["rollout"].keys()
    assert {"packing", "choosing what is learned from", "other"} <= found["update"].keys()
    assert {"optimizer step", "log write", "gradient through a pipe"} <= found["trainer"].keys()
    assert [getattr(owner, name) for owner, name, _ in profile.places()] == before


@pytest.mark.parametrize(("given", "told"), [(["--groups", "0"], "--groups 0: 1 or more"), (["--model", "no"], "no")])
def test_bad_input_is_one_line(given, told, capsys):
    assert profile.main(given) == 2
    assert told in capsys.readouterr().err
