"""Intervals against published values and against sums done by hand."""

from math import sqrt

import pytest

from rl.statistics import Z, changes, mcnemar, mean_interval, paired_difference, wilson

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


# scipy 1.17.1: scipy.stats.binomtest(k, n).proportion_ci(method="wilson")
SCIPY_WILSON = [
    (0, 10, 0.0, 0.27753279986288926),
    (1, 3, 0.06149194472039626, 0.7923403991979523),
    (7, 11, 0.35380117450784887, 0.8483352890463243),
    (94, 100, 0.8752318455410407, 0.9722138760368119),
    (241, 256, 0.9055877343822104, 0.9641733923668249),
    (256, 256, 0.9852161435741286, 1.0),
]


@pytest.mark.parametrize(("successes", "n", "low", "high"), SCIPY_WILSON)
def test_wilson_agrees_with_scipy(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-12)


def pairs(both: int, gained: int, lost: int, neither: int) -> tuple[list[bool], list[bool]]:
    before = [True] * both + [False] * gained + [True] * lost + [False] * neither
    after = [True] * both + [True] * gained + [False] * lost + [False] * neither
    return before, after


# (both, gained, lost, neither), difference, interval, p. Intervals: the score test inverted with scipy 1.17.1 (brentq)
# over a likelihood that was maximised numerically (minimize_scalar), not by Tango's formula. p: scipy.stats.binomtest,
# and statsmodels 0.15.0 mcnemar(exact=True), which agree.
SCIPY_PAIRED = [
    ((1, 7, 1, 12), 0.285714, 0.026003, 0.517232, 0.0703125),
    ((212, 144, 256, 707), -0.084913, -0.114371, -0.055536, 2.3308680873706694e-08),
    ((5, 9, 0, 3), 0.529412, 0.247513, 0.738349, 0.00390625),
    ((60, 30, 2, 8), 0.28, 0.186156, 0.380291, 2.4633482098579407e-07),
    ((0, 0, 0, 8), 0.0, -0.324408, 0.324408, 1.0),
    ((43, 0, 1, 0), -0.022727, -0.118077, 0.059393, 1.0),
]


@pytest.mark.parametrize(("counts", "difference", "low", "high", "p"), SCIPY_PAIRED)
def test_paired_answers_agree_with_scipy(
    counts: tuple[int, int, int, int], difference: float, low: float, high: float, p: float
) -> None:
    before, after = pairs(*counts)
    assert paired_difference(before, after) == pytest.approx((difference, low, high), abs=2e-6)
    assert mcnemar(before, after) == pytest.approx(p, rel=1e-9)
    assert changes(before, after) == (counts[1], counts[2], sum(counts))


def test_mcnemar_by_hand() -> None:
    # 3 gained, 1 lost: 2 (C(4,0) + C(4,1)) / 16
    assert mcnemar(*pairs(5, 3, 1, 5)) == pytest.approx(10 / 16)
    assert mcnemar(*pairs(5, 1, 3, 5)) == pytest.approx(10 / 16)
    assert mcnemar(*pairs(0, 6, 0, 0)) == pytest.approx(2 / 64)
    assert mcnemar(*pairs(9, 2, 2, 9)) == 1.0
    assert mcnemar([], []) == 1.0


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


def test_no_change_on_few_seeds_is_no_certainty() -> None:
    """Where none changed, the interval is by hand: n d² = Z² d (1 - d), so d = Z² / (n + Z²)."""
    for n in (3, 9, 200):
        reach = Z * Z / (n + Z * Z)
        assert paired_difference([True] * n, [True] * n) == pytest.approx((0.0, -reach, reach))


def test_a_gain_on_every_seed_is_still_a_sample() -> None:
    """A narrower claim than that of one proportion 9 of 9, whose interval ends at n / (n + Z²): losses are possible."""
    difference, low, high = paired_difference([False] * 9, [True] * 9)
    assert (difference, high) == (1.0, 1.0)
    assert 0 < low < 9 / (9 + Z * Z)
    assert paired_difference([], []) == (0.0, -1.0, 1.0)


def test_the_interval_leaves_zero_out_where_the_score_test_does() -> None:
    """McNemar's asymptotic test is the score test at zero: |gained - lost| against Z sqrt(gained + lost)."""
    for gained, lost in ((10, 2), (10, 3), (11, 3), (20, 9), (20, 8)):
        _, low, _ = paired_difference(*pairs(30, gained, lost, 20))
        assert (low > 0) == (gained - lost > Z * sqrt(gained + lost))


def test_turning_the_pair_round_turns_the_sign() -> None:
    a, b = [True, False, False, True, False], [True, True, False, False, True]
    difference, low, high = paired_difference(a, b)
    assert paired_difference(b, a) == pytest.approx((-difference, -high, -low))


def test_unequal_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="2 before, 1 after"):
        paired_difference([True, False], [True])


def test_a_means_interval_by_hand() -> None:
    low, high = mean_interval([0.0, 1.0, 1.0, 2.0])  # mean 1, variance (ddof 1) 2/3, standard error sqrt(1/6)
    assert (low, high) == pytest.approx((1 - Z / sqrt(6), 1 + Z / sqrt(6)))
    assert mean_interval([0.25]) == (0.25, 0.25)
    with pytest.raises(ValueError, match="nothing"):
        mean_interval([])
