"""The GRPO loss against values worked out by hand, with a behaviour policy that is deliberately stale."""

import math

import numpy as np
import pytest

from npc.mlx import mx
from rl.grpo import TurnBatch, grpo_loss


def batch(behaviour, advantage, chosen=0, weight=1.0, reference=None):
    return TurnBatch(
        chosen_N=mx.array([chosen], dtype=mx.int32),
        behaviour_logp_N=mx.array([math.log(behaviour)]),
        advantage_N=mx.array([float(advantage)]),
        weight_N=mx.array([float(weight)]),
        reference_logp_N_A=None if reference is None else mx.array([np.log(reference).tolist()]),
    )


def logps(*probs):
    return mx.array([[math.log(p) if p else -math.inf for p in probs]])


@pytest.mark.parametrize(
    ("now", "behaviour", "advantage", "loss", "clipped"),
    [
        (0.5, 0.5, 2.0, -2.0, 0.0),  # ratio 1
        (0.6, 0.5, 2.0, -2.4, 0.0),  # ratio 1.2, just inside
        (0.8, 0.5, 2.0, -2.4, 1.0),  # ratio 1.6 counts as 1.2
        (0.8, 0.5, -2.0, 3.2, 0.0),  # a worse action that became likelier is not clipped
        (0.2, 0.5, -2.0, 1.6, 1.0),  # ratio 0.4 counts as 0.8
        (0.2, 0.5, 2.0, -0.8, 0.0),  # a better action that became rarer is not clipped
    ],
)
def test_ratio_and_clip_by_hand(now, behaviour, advantage, loss, clipped):
    parts = grpo_loss(logps(now, 1 - now), batch(behaviour, advantage), clip=0.2, kl_weight=0.0)
    assert parts.loss.item() == pytest.approx(loss, rel=1e-5)
    assert parts.clipped.item() == clipped


def test_clipped_turn_gives_no_gradient_and_an_unclipped_one_does():
    def loss(logits, behaviour):
        logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        return grpo_loss(logp, batch(behaviour, 1.0), clip=0.2, kl_weight=0.0).loss

    logits = mx.array([[math.log(4.0), 0.0]])  # probabilities 0.8 and 0.2
    assert np.array(mx.grad(loss)(logits, 0.5)) == pytest.approx(np.zeros((1, 2)), abs=1e-7)
    # ratio 1: the gradient of −ρA is −A (1 − p) for the chosen logit
    assert np.array(mx.grad(loss)(logits, 0.8)) == pytest.approx(np.array([[-0.2, 0.2]]), abs=1e-5)


def test_kl_by_hand_is_of_the_policy_to_the_reference():
    """KL(p ‖ q) = Σ p log(p/q), which is not KL(q ‖ p)."""
    parts = grpo_loss(logps(0.8, 0.2), batch(0.8, 0.0, reference=[0.5, 0.5]), clip=0.2, kl_weight=0.5)
    expected = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    assert parts.kl.item() == pytest.approx(expected, rel=1e-5)
    assert parts.loss.item() == pytest.approx(0.5 * expected, rel=1e-5)


def test_kl_pulls_towards_the_reference():
    def loss(logits):
        logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        return grpo_loss(logp, batch(0.8, 0.0, reference=[0.5, 0.5]), clip=0.2, kl_weight=1.0).loss

    downhill = -np.array(mx.grad(loss)(mx.array([[math.log(4.0), 0.0]])))
    assert downhill[0, 0] < 0 < downhill[0, 1]


def test_ratio_is_against_the_behaviour_policy_not_the_reference():
    parts = grpo_loss(logps(0.5, 0.5), batch(0.5, 1.0, reference=[0.9, 0.1]), clip=0.2, kl_weight=0.0)
    assert parts.loss.item() == pytest.approx(-1.0, rel=1e-5)


def test_absent_actions_change_nothing():
    wide = TurnBatch(mx.array([0]), mx.array([math.log(0.5)]), mx.array([1.0]), mx.array([1.0]),
                     mx.array([[math.log(0.5), math.log(0.5), -math.inf]]))  # fmt: skip

    def loss(logits):
        logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        padded = mx.concatenate([logp, mx.full((1, 1), -mx.inf)], axis=1)
        return grpo_loss(padded, wide, clip=0.2, kl_weight=1.0).loss

    value, gradient = mx.value_and_grad(loss)(mx.array([[math.log(3.0), 0.0]]))
    # p = 0.75, 0.25; ratio 1.5 clips to 1.2
    expected = -1.2 + 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert value.item() == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(np.array(gradient)).all()


def test_weights_make_long_episodes_weigh_no_more():
    """Two turns of one episode at half weight equal one turn at whole weight."""
    two = TurnBatch(mx.array([0, 0]), mx.array([math.log(0.5)] * 2), mx.array([1.0, 1.0]), mx.array([0.5, 0.5]), None)
    logp = mx.array([[math.log(0.55), math.log(0.45)]] * 2)
    one = grpo_loss(logp[:1], batch(0.5, 1.0), clip=0.2, kl_weight=0.0).loss.item()
    assert grpo_loss(logp, two, clip=0.2, kl_weight=0.0).loss.item() == pytest.approx(one, rel=1e-6)


def test_extreme_ratios_stay_finite():
    parts = grpo_loss(logps(1e-30, 1.0), batch(1.0, 1.0, reference=[0.5, 0.5]), clip=0.2, kl_weight=0.1)
    assert np.isfinite(parts.loss.item())
