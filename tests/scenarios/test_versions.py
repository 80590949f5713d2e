"""A changed rule or reward demands a raised version."""

from tests.scenarios.record_versions import COMMAND, Recorded, current, forgotten, read


def test_every_scenario_was_recorded_as_it_is_now() -> None:
    lines = forgotten(read(), current())
    assert not lines, "\n".join(lines)
    assert read() == current(), f"a version was raised or a scenario is new; run: {COMMAND}"


def test_a_forgotten_version_is_told_from_a_raised_one() -> None:
    old: dict[str, Recorded] = {"fetch_item": {"version": 1, "source_hash": "a" * 16}}
    assert forgotten(old, old) == []
    assert forgotten(old, {"fetch_item": {"version": 2, "source_hash": "b" * 16}}) == []
    (line,) = forgotten(old, {"fetch_item": {"version": 1, "source_hash": "b" * 16}})
    assert "raise `version`" in line and COMMAND in line
