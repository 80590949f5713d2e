"""Intervals against published values and against sums done by hand."""

from math import sqrt

import pytest

from rl.statistics import Z, paired_difference, wilson

# Newcombe 1998 (Statistics in Medicine 17, 857-872), table I, method 3: Wilson's score interval without correction
NEWCOMBE = [
    (81, 263, 0.2553, 0.3662),
    (15, 148, 0.0624, 0.1605),
    (0, 20, 0.0000, 0.1611),
    (1, 29, 0.0061, 0.1718),
]


@pytest.mark.parametrize(("successes", "n", "low", "high"), NEWCOMBE)
def test_wilson_gives_the_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_of_nothing_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_is_a_mirror() -> None:
    low, high = wilson(3, 10)
    assert wilson(7, 10) == pytest.approx((1 - high, 1 - low))


def test_wilson_stays_within_the_possible() -> None:
    assert wilson(5, 5)[1] == 1.0
    assert wilson(0, 5)[0] == 0.0


def test_wilson_solves_its_own_equation() -> None:
    """Its ends are the proportions p from which 12 of 40 lies exactly Z standard errors away."""
    for end in wilson(12, 40):
        assert abs(12 / 40 - end) == pytest.approx(Z * sqrt(end * (1 - end) / 40))


def test_a_paired_difference_by_hand() -> None:
    before = [False, False, True, True]
    after = [True, True, True, False]
    # differences +1 +1 0 -1: mean 1/4; squares 9/16 + 9/16 + 1/16 + 25/16 = 44/16, over 3: 11/12; over 4: 11/48
    difference, low, high = paired_difference(before, after)
    assert difference == 0.25
    assert low == pytest.approx(0.25 - 1.959964 * sqrt(11 / 48), abs=1e-6)
    assert high == 1.0  # 0.25 + 0.938 is more than there can be


def test_pairing_makes_a_steady_gain_certain() -> None:
    """The same change on every seed has no spread, however mixed the seeds are."""
    assert paired_difference([False] * 9, [True] * 9) == (1.0, 1.0, 1.0)
    assert paired_difference([True, False, True], [True, False, True]) == (0.0, 0.0, 0.0)


def test_turning_the_pair_round_turns_the_sign() -> None:
    a, b = [True, False, False, True, False], [True, True, False, False, True]
    difference, low, high = paired_difference(a, b)
    assert paired_difference(b, a) == pytest.approx((-difference, -high, -low))


def test_unequal_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="2 before, 1 after"):
        paired_difference([True, False], [True])
