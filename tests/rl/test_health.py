"""What counts as a collapse, each kind by itself."""

from __future__ import annotations

import math

import pytest

from rl.config import TrainConfig
from rl.health import collapse, repeat_share
from rl.rollout import Episode, Plan
from tests.rl.test_share import turn

CONFIG = TrainConfig(scenario="s", model="m", adapter="a", validation_episodes=200)
WELL = {"loss": 0.1, "kl": 0.5, "kl_after": 0.6, "gradient_norm": 1.0, "entropy": 0.4, "success": 0.9,
        "repeat_share": 0.1, "validation": None,
        "replayed": 0}  # fmt: skip


def found(best: float = 0.9, **how) -> str | None:
    return collapse(WELL | how, CONFIG, best)


def test_a_policy_that_is_well_is_left_alone():
    assert found() is None
    assert found(validation=0.88) is None
    assert found(loss=None, kl=None, kl_after=None, entropy=None) is None


@pytest.mark.parametrize("name", ["loss", "kl", "kl_after", "gradient_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_none(name, value):
    assert found(**{name: value}).startswith(name)


@pytest.mark.parametrize("name", ["kl", "kl_after"])
def test_kl_above_its_limit(name):
    assert "--kl-limit 3" in found(**{name: 3.1})
    assert found(**{name: 2.9}) is None


def test_validation_below_the_best_ones_interval():
    # 90 % of 200: Wilson from 85.1 %
    assert "below the best one's, which begins at 85.1 %" in found(validation=0.79)
    assert found(validation=0.81) is None  # 200 episodes: its interval reaches up to 85.8 %
    assert found(best=0.01, validation=0.0) is None  # next to 0, a success more or less is noise
    assert found(best=-math.inf, validation=0.0) is None


def test_entropy_and_repetition_count_where_success_has_fallen_too():
    assert found(entropy=0.001) is None
    assert "--entropy-floor" in found(entropy=0.001, success=0.5)
    assert found(repeat_share=0.9) is None
    assert "--repeat-limit" in found(repeat_share=0.9, success=0.5)
    assert found(repeat_share=0.9, entropy=0.001, success=0.5, replayed=64) is None


def test_repeated_actions_are_counted_within_episodes():
    def episode(*phrases: str) -> Episode:
        return Episode(Plan(0, {}, "g", ""), {}, [turn(n, executed=p) for n, p in enumerate(phrases)], "success")

    assert repeat_share([episode("a", "a", "b"), episode("b"), episode("b", "b")]) == pytest.approx(2 / 3)
    assert repeat_share([episode("a")]) == 0.0
