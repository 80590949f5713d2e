"""The costs that the simulated farm runs on, and learning from older policies: what is counted, and who plays."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.costs import PASSES, least, measure
from benchmarks.staleness import Behind, together
from rl.learner import Settings, collect, set_up
from rl.logbook import Author
from rl.losses import Limits
from rl.objective import Goal
from rl.policies import find_adapter
from rl.runtime import Version, Workers
from rl.statistics import wilson


def test_every_step_of_a_training_is_measured():
    goal = Goal("grpo", Limits(0.2, 0.2, 100.0, 20), 0.02)
    worker = set_up(Settings("fetch_item", "nano", 16, 2.0, 1.0, goal), find_adapter("nano", "fetch_item"))
    found = measure(worker, {"groups": 2, "group_size": 3, "tries": 1})
    costs = found.costs
    assert set(costs.play_s) == {1, 2}
    assert len(costs.turns) == 2 and sum(costs.turns) == found.turns
    assert 6 <= found.turns <= 6 * worker.scenario.turn_cap
    for seconds in (*costs.play_s.values(), costs.pack_s, costs.decode_s, costs.log_s, costs.credit_s, costs.learn_s,
                    costs.step_s, found.serialise_s, found.restore_s):  # fmt: skip
        assert 0 < seconds < 10
    # a turn holds its observation, ids and probabilities, and is compressed
    assert 100 < costs.parcel_bytes < 2000 and 100 < costs.log_bytes < 2000
    assert costs.adapter_bytes > sum(value.nbytes for value in worker.reference.values())
    assert costs.passes == PASSES


def test_the_least_of_some_tries():
    numbers = iter(range(10))
    seconds, last = least(4, lambda: next(numbers))
    assert last == 3 and seconds >= 0


class OneWorker:
    """A pool that notes by which adapter it is asked to play."""

    workers, restarts, lost = 1, 0, ()

    def __init__(self) -> None:
        self.played: list[Any] = []

    def map(self, job, payloads):
        assert job is collect
        self.played += [payload["adapter"] for payload in payloads]
        return [([], 0.0) for _ in payloads]


@pytest.mark.parametrize(("lag", "by"), [(0, [0, 1, 2, 3, 4]), (1, [0, 0, 1, 2, 3]), (4, [0, 0, 0, 0, 0])])
def test_who_lags_plays_by_the_adapter_of_so_many_updates_before(lag, by):
    pool = OneWorker()
    behind = Behind(Workers(pool), lag)  # type: ignore[arg-type]
    for number in range(5):
        now = Version(number, f"adapter {number}", Author(""))  # type: ignore[arg-type]
        behind.submit([[]], now)
        taken = behind.take(1, now, 0, more=False)
        assert [version.number for version, _ in taken.by_version] == [by[number]]
    assert pool.played == [f"adapter {number}" for number in by]


def test_trainings_of_one_lag_are_taken_together():
    def run(success: float) -> dict[str, Any]:
        return {"lag": 2, "n": 100, "success": success, "ess_turn": success, "clip_fraction": 0.1, "kl": 1.0,
                "rollbacks": 1}  # fmt: skip

    found = together([run(0.8), run(0.6)])
    assert (found["success"], found["n"], found["trainings"], found["rollbacks"]) == (0.7, 200, 2, 2)
    assert (found["ci_low"], found["ci_high"]) == wilson(140, 200)
    assert found["ess_turn"] == pytest.approx(0.7)
