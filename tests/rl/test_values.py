"""Worth of stages and generalised advantages, against values worked out by hand."""

import numpy as np
import pytest

from rl.credit import stage_advantages
from rl.values import PRIOR, Values


def test_worth_is_the_mean_return_to_go_drawn_towards_the_coarser_stage():
    values = Values()
    values.learn([[("a",), ("b",)]], [np.array([0.25, 1.0])])
    # returns-to-go 1.25 at a, 1.0 at b; over all stages 1.125
    assert values.worth(()) == pytest.approx(1.125)
    assert values.worth(("a",)) == pytest.approx((1.25 + PRIOR * 1.125) / (1 + PRIOR))
    assert values.worth(("never seen",)) == pytest.approx(1.125)


def test_nothing_seen_is_worth_nothing():
    assert Values().worth(("a", "b")) == 0.0


def test_old_updates_fade():
    values = Values()
    values.learn([[()]], [np.array([1.0])])
    values.learn([[()]], [np.array([0.0])])
    # weights 1/2 and 1
    assert values.worth(()) == pytest.approx(0.5 / 1.5)


def fixed(**worths: float) -> Values:
    """Values that were seen so often that the prior is nothing beside them."""
    values = Values()
    values.sums = {name: [1e9, 1e9 * worth] for name, worth in worths.items()}
    values.sums[""] = [1.0, 0.0]
    return values


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        # δ = 0 + 0.5 − 0.2, 1 + 0 − 0.5
        (0.0, [0.3, 0.5]),
        (1.0, [0.8, 0.5]),  # the return minus the worth of where it began
        (0.5, [0.3 + 0.5 * 0.5, 0.5]),
    ],
)
def test_generalised_advantages_by_hand(trace, expected):
    found = fixed(a=0.2, b=0.5).advantages([("a",), ("b",)], np.array([0.0, 1.0]), trace)
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_mistake_is_blamed_where_it_was_made():
    """Stumbling into a worthless stage costs the turn that did it, and not the ones that only stay there."""
    values = fixed(good=0.6, trap=0.0)
    found = values.advantages([("good",), ("good",), ("trap",), ("trap",)], np.zeros(4), 0.0)
    assert found == pytest.approx([0.0, -0.6, 0.0, 0.0], abs=1e-6)


def test_advantages_are_scaled_by_their_std():
    found = stage_advantages([np.array([3.0]), np.array([-3.0])], [[("a",)]] * 2, fixed(a=0.0), 0.0)
    assert found[0] == pytest.approx([1.0], rel=1e-3)
    assert found[1] == pytest.approx([-1.0], rel=1e-3)


def test_sums_are_plain_numbers_that_read_back_exactly():
    import json

    values = Values()
    values.learn([[("a", "b")]], [np.array([1 / 3])])
    again = Values()
    again.sums = json.loads(json.dumps(values.sums))
    assert again.sums == values.sums
    assert again.worth(("a", "b")) == values.worth(("a", "b"))
