"""The losses against values worked out by hand and against TRL's own, with a behaviour policy that is deliberately
stale, so that ratio, clip and KL do real work."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npc.mlx import mx
from rl.config import LOSS_NAMES
from rl.kl import k2, k3
from rl.losses import LOSSES, Counts, Limits, Rows
from rl.objective import HEAVIEST, Goal, TurnBatch, closed_objective, objective
from tests.rl import trl_values as trl

GOLDEN = json.loads((Path(__file__).parent / "golden/trl_losses.json").read_text())
LIMITS = Limits(0.2, 0.2, math.inf, 20)


def array(values, kind=mx.float32):
    return mx.array(values, dtype=kind)


def rows(now, behaviour, advantage, episode=None, length=None, mask=None):
    n = len(now)
    return Rows(
        array(np.log(now)), array(np.log(behaviour)), array(advantage), array(mask or [1.0] * n),
        array(episode or list(range(n)), mx.int32), array(length or [1.0] * n),
    )  # fmt: skip


def total(name, given, limits=LIMITS):
    """The whole loss of rows that are all there is."""
    loss = LOSSES[name]
    value, _ = loss.value(given, limits)
    mask = np.array(given.mask_N) > 0
    counts = Counts(len(set(np.array(given.episode_N)[mask].tolist())), int(mask.sum()))
    return mx.sum(mx.where(given.mask_N > 0, loss.weight(given, limits) * value, 0.0)) / loss.denominator(counts)


def test_the_config_offers_exactly_the_losses_there_are():
    assert tuple(LOSSES) == LOSS_NAMES


@pytest.mark.parametrize("name", ["grpo", "bnpo", "dapo"])
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
def test_ratio_and_clip_by_hand(name, now, behaviour, advantage, loss, clipped):
    given = rows([now], [behaviour], [advantage])
    assert total(name, given).item() == pytest.approx(loss, rel=1e-5)
    assert LOSSES[name].value(given, LIMITS)[1].item() == clipped


def test_a_higher_upper_bound_by_hand():
    limits = Limits(0.2, 0.28, math.inf, 20)
    assert total("dapo", rows([0.8], [0.5], [1.0]), limits).item() == pytest.approx(-1.28, rel=1e-5)
    assert total("dapo", rows([0.2], [0.5], [-1.0]), limits).item() == pytest.approx(0.8, rel=1e-5)
    assert LOSSES["dapo"].epsilon_high > LOSSES["dapo"].epsilon


def test_delta_bounds_the_ratio_of_a_worse_action_by_hand():
    bound = replace(LIMITS, delta=1.5)
    given = rows([0.9], [0.3], [-2.0])  # ratio 3
    assert total("grpo", given).item() == pytest.approx(6.0, rel=1e-5)
    assert total("grpo", given, bound).item() == pytest.approx(3.0, rel=1e-5)
    assert LOSSES["grpo"].value(given, bound)[1].item() == 1.0
    slope = mx.grad(lambda logp: total("grpo", replace(given, logp_N=logp), bound))(given.logp_N)
    assert slope.item() == 0.0


TWO = {"now": [0.6, 0.4, 0.5], "behaviour": [0.5, 0.5, 0.25], "advantage": [1.0, 1.0, -1.0], "episode": [0, 0, 1],
           "length": [2.0, 2.0, 1.0]}  # fmt: skip
"""An episode of two turns, ratios 1.2 and 0.8, and one of one turn, ratio 2: values −1.2, −0.8 and 2."""


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("grpo", (-1.0 + 2.0) / 2),  # mean over turns, then over episodes
        ("bnpo", (-1.2 - 0.8 + 2.0) / 3),  # mean over turns
        ("dapo", (-1.2 - 0.8 + 2.0) / 3),
        ("dr_grpo", (-1.2 - 0.8 + 2.0) / 20 / 2),  # sum over turns by the turn cap, mean over episodes
        # one ratio an episode: sqrt(1.2 · 0.8) = 0.9798 and 2
        ("gspo", (-math.sqrt(0.96) + 2.0) / 2),
        # −sg(ρ) A log π, mean over turns
        ("cispo", (-1.2 * math.log(0.6) - 0.8 * math.log(0.4) + 2 * math.log(0.5)) / 3),
    ],
)
def test_means_by_hand(name, loss):
    limits = Limits(0.2, 4.0 if name == "cispo" else 0.2, math.inf, 20)
    assert total(name, rows(**TWO), limits).item() == pytest.approx(loss, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_a_masked_row_changes_nothing_whatever_it_holds(name):
    given = rows(**TWO)
    more = Rows(*(mx.concatenate([have, extra]) for have, extra in zip(
        (given.logp_N, given.behaviour_logp_N, given.advantage_N, given.mask_N, given.episode_N, given.length_N),
        (array([-30.0]), array([0.0]), array([1e6]), array([0.0]), array([1], mx.int32), array([1.0])),
        strict=True)))  # fmt: skip
    assert total(name, more).item() == pytest.approx(total(name, given).item(), rel=1e-6)
    slope = mx.grad(lambda logp: total(name, replace(more, logp_N=logp)))(more.logp_N)
    alone = mx.grad(lambda logp: total(name, replace(given, logp_N=logp)))(given.logp_N)
    assert np.array(slope)[-1] == 0.0
    assert np.array(slope)[:-1] == pytest.approx(np.array(alone), abs=1e-6)


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_gradient_flows_at_ratio_one_and_against_the_advantage(name):
    """The fault: a ratio built from a constant. At ratio 1 every loss has the gradient −A / (what it is divided by)."""
    given = rows([0.5], [0.5], [3.0])
    slope = mx.grad(lambda logp: total(name, replace(given, logp_N=logp)))(given.logp_N).item()
    assert slope == pytest.approx(-3.0 / (20 if name == "dr_grpo" else 1), rel=1e-5)


@pytest.mark.parametrize("name", ["grpo", "bnpo", "dr_grpo", "dapo", "gspo"])
def test_a_clipped_row_gives_no_gradient(name):
    given = rows([0.8], [0.5], [1.0])
    assert mx.grad(lambda logp: total(name, replace(given, logp_N=logp)))(given.logp_N).item() == 0.0


def test_cispo_keeps_the_gradient_of_a_clipped_row():
    given = rows([0.8], [0.1], [1.0])  # ratio 8 counts as 5
    limits = Limits(1.0, 4.0, math.inf, 20)
    slope = mx.grad(lambda logp: total("cispo", replace(given, logp_N=logp), limits))(given.logp_N).item()
    assert slope == pytest.approx(-5.0, rel=1e-5)


def test_gspo_shares_one_ratio_over_an_episode():
    """Both turns of the first episode get the same gradient, though their own ratios differ."""
    slope = mx.grad(lambda logp: total("gspo", replace(rows(**TWO), logp_N=logp)))(rows(**TWO).logp_N)
    assert np.array(slope)[0] == pytest.approx(np.array(slope)[1], rel=1e-5)
    assert np.array(slope)[0] == pytest.approx(-math.sqrt(0.96) / 2 / 2, rel=1e-5)


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_extreme_ratios_stay_finite(name):
    given = replace(rows([0.5, 0.5], [0.5, 0.5], [1.0, -1.0]), logp_N=array([-1e-6, -200.0]),
                    behaviour_logp_N=array([-200.0, 0.0]))  # fmt: skip
    value, slope = mx.value_and_grad(lambda logp: total(name, replace(given, logp_N=logp)))(given.logp_N)
    assert np.isfinite(value.item()) and np.isfinite(np.array(slope)).all()


def trl_rows(case):
    mask = np.array(trl.MASK)
    by_turn = np.array(trl.BY_TURN) if case["by_turn"] else np.array(trl.ADVANTAGE)[:, None].repeat(4, axis=1)
    episode = np.arange(3)[:, None].repeat(4, axis=1)
    flat = (np.array(trl.LOGP), np.array(trl.BEHAVIOUR), by_turn, mask)
    return Rows(*(array(part.reshape(-1).astype(np.float32)) for part in flat),
                array(episode.reshape(-1), mx.int32),
                array(mask.sum(axis=1)[:, None].repeat(4, axis=1).reshape(-1).astype(np.float32)))  # fmt: skip


@pytest.mark.parametrize("name", trl.CASES)
def test_loss_and_gradient_are_those_of_trl(name):
    case, wanted = trl.CASES[name], GOLDEN["cases"][name]
    limits = Limits(case["epsilon"], case["epsilon_high"], case["delta"] or math.inf, trl.TURN_CAP)
    given = trl_rows(case)
    value, slope = mx.value_and_grad(lambda logp: total(case["loss"], replace(given, logp_N=logp), limits))(
        given.logp_N
    )
    assert value.item() == pytest.approx(wanted["loss"], rel=1e-5, abs=1e-6)
    assert np.array(slope).reshape(3, 4) == pytest.approx(np.array(wanted["gradient"]), rel=1e-4, abs=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed")
def test_what_is_kept_is_what_trl_says_today():
    for name, found in trl.compute().items():
        assert found["loss"] == pytest.approx(GOLDEN["cases"][name]["loss"], rel=1e-9)


def test_k2_and_k3_by_hand():
    logp, reference = array([math.log(0.5)]), array([math.log(0.25)])
    d = math.log(0.5)  # log π_ref − log π_θ
    assert k2(logp, reference).item() == pytest.approx(d * d / 2, rel=1e-5)
    assert k3(logp, reference).item() == pytest.approx(0.5 - d - 1, rel=1e-5)


def test_k3_does_not_overflow():
    assert np.isfinite(k3(array([-500.0]), array([0.0])).item())


def test_k2_and_k3_estimate_the_exact_kl():
    """Averaged over π_θ, k3 is the KL itself, and the gradient of k2 is the gradient of the KL."""
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.3, 0.2])
    exact = float((p * np.log(p / q)).sum())
    each = k3(array(np.log(p)), array(np.log(q)))
    assert float((p * np.array(each)).sum()) == pytest.approx(exact, rel=1e-4)

    def by_k2(logits):
        logp = logits - mx.logsumexp(logits)
        return mx.sum(mx.stop_gradient(mx.exp(logp)) * k2(logp, array(np.log(q))))

    def exactly(logits):
        logp = logits - mx.logsumexp(logits)
        return mx.sum(mx.exp(logp) * (logp - array(np.log(q))))

    at = array(np.log(p))
    assert np.array(mx.grad(by_k2)(at)) == pytest.approx(np.array(mx.grad(exactly)(at)), abs=1e-5)


# -- the objective: KL, entropy, imitation ---------------------------------------------------------------------


def goal(**how) -> Goal:
    return Goal(**({"loss": "grpo", "limits": LIMITS, "kl_weight": 0.0} | how))


def batch(behaviour, advantage, reference=None, imitated=0.0, mask=1.0, width=2):
    return TurnBatch(array([0], mx.int32), array([math.log(behaviour)]), array([float(advantage)]), array([mask]),
                     array([0], mx.int32), array([1.0]), array([imitated]),
                     None if reference is None else array([np.log(reference).tolist()]))  # fmt: skip


def logps(*probs):
    return array([[math.log(p) if p else -math.inf for p in probs]])


def test_kl_by_hand_is_of_the_policy_to_the_reference():
    """KL(p ‖ q) = Σ p log(p/q), which is not KL(q ‖ p)."""
    parts = closed_objective(logps(0.8, 0.2), batch(0.8, 0.0, [0.5, 0.5]), goal(kl_weight=0.5))
    expected = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    assert parts.kl.item() == pytest.approx(expected, rel=1e-5)
    assert parts.loss.item() == pytest.approx(0.5 * expected, rel=1e-5)


def downhill(how, given):
    def loss(logits):
        return closed_objective(logits - mx.logsumexp(logits, axis=-1, keepdims=True), given, how).loss

    return -np.array(mx.grad(loss)(array([[math.log(4.0), 0.0]])))[0]


def test_kl_pulls_towards_the_reference():
    first, second = downhill(goal(kl_weight=1.0), batch(0.8, 0.0, [0.5, 0.5]))
    assert first < 0 < second


def test_entropy_bonus_by_hand_pulls_towards_even_odds():
    parts = closed_objective(logps(0.8, 0.2), batch(0.8, 0.0), goal(entropy_weight=0.1))
    entropy = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    assert parts.entropy.item() == pytest.approx(entropy, rel=1e-5)
    assert parts.loss.item() == pytest.approx(-0.1 * entropy, rel=1e-5)
    first, second = downhill(goal(entropy_weight=1.0), batch(0.8, 0.0))
    assert first < 0 < second


def test_ratio_is_against_the_behaviour_policy_not_the_reference():
    parts = closed_objective(logps(0.5, 0.5), batch(0.5, 1.0, reference=[0.9, 0.1]), goal())
    assert parts.loss.item() == pytest.approx(-1.0, rel=1e-5)


def test_absent_actions_change_nothing():
    wide = replace(batch(0.5, 1.0), reference_logp_N_A=array([[math.log(0.5), math.log(0.5), -math.inf]]))

    def loss(logits):
        logp = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        padded = mx.concatenate([logp, mx.full((1, 1), -mx.inf)], axis=1)
        return closed_objective(padded, wide, goal(kl_weight=1.0, entropy_weight=0.5)).loss

    value, slope = mx.value_and_grad(loss)(array([[math.log(3.0), 0.0]]))
    # p = 0.75, 0.25; ratio 1.5 clips to 1.2
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    expected = -1.2 + 0.75 * math.log(1.5) + 0.25 * math.log(0.5) - 0.5 * entropy
    assert value.item() == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(np.array(slope)).all()


@pytest.mark.parametrize(("advantage", "weight"), [(1.0, math.exp(2.0)), (-1.0, math.exp(-2.0)), (9.0, HEAVIEST)])
def test_imitation_by_hand_uses_no_ratio(advantage, weight):
    """−min(exp(A / temperature), 20) log π; a behaviour log-probability that means nothing changes nothing."""
    parts = closed_objective(logps(0.8, 0.2), batch(1e-9, advantage, imitated=1.0), goal(imitation=0.5))
    assert parts.loss.item() == pytest.approx(-weight * math.log(0.8), rel=1e-5)
    assert parts.clipped.item() == 0.0


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_an_imitated_row_moves_no_ratio_of_its_episode(name):
    given = rows(**TWO)
    mixed = objective(given, mx.zeros(3), mx.zeros(3), array([1.0, 0.0, 0.0]), goal(loss=name, imitation=1.0)).loss
    alone = objective(replace(given, mask_N=array([0.0, 1.0, 1.0])), mx.zeros(3), mx.zeros(3), mx.zeros(3),
                      goal(loss=name)).loss  # fmt: skip
    first = float(np.array(LOSSES[name].weight(given, LIMITS))[0]) * -math.e * math.log(0.6)
    assert mixed.item() == pytest.approx(alone.item() + first, rel=1e-5)
