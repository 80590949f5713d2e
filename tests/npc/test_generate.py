"""Free text equals that of mlx-lm's model, whatever rows lie beside it; the loss recomputes what was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from npc.errors import PolicyError
from npc.forward import prefix_kv
from npc.generate import completion_logps, generate
from npc.mlx import flat, mx, nn
from npc.policy import ClosedPolicy
from npc.weights import weights_of
from tests.npc import making

PREFIX = [9, 11, 12]
PROMPTS = [[20, 21], [22], [23, 24, 25, 26, 27]]


def draw(row, step):
    return ((row * 7 + step * 13 + 3) % 17) / 17


def plain(model, ids, tau):
    """Log-probabilities (V,) of the next token, by mlx-lm's model over the whole text."""
    logits = np.array(model(mx.array([ids]))[0, -1], dtype=np.float64) / tau
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


@pytest.mark.parametrize("prefix", [[], PREFIX])
@pytest.mark.parametrize("tau", [1.0, 0.7, 1.5])
def test_each_token_is_drawn_from_the_plain_distribution(tau, prefix):
    made = making.with_adapter(making.brain())
    model = making.mlx_lm_model(made)
    found = generate(made.model, prefix_kv(made.model, prefix), PROMPTS, [], 6, tau, draw)
    for row, (prompt, completion) in enumerate(zip(PROMPTS, found, strict=True)):
        assert len(completion.ids) == 6 and not completion.finished
        for step, (token, logp) in enumerate(zip(completion.ids, completion.logps, strict=True)):
            wanted_V = plain(model, [*prefix, *prompt, *completion.ids[:step]], tau)
            assert logp == pytest.approx(wanted_V[token], abs=2e-4)
            below = np.exp(wanted_V[:token]).sum()
            assert below - 1e-4 <= draw(row, step) <= below + np.exp(wanted_V[token]) + 1e-4


def test_greedy_takes_the_most_probable_and_a_stop_token_ends_a_row():
    made = making.brain()
    model = making.mlx_lm_model(made)
    (first, second, third) = generate(made.model, prefix_kv(made.model, PREFIX), PROMPTS, [], 5)
    for prompt, completion in zip(PROMPTS, (first, second, third), strict=True):
        text = [*PREFIX, *prompt]
        for token in completion.ids:
            assert token == int(np.argmax(plain(model, text, 1.0)))
            text.append(token)
    stop = first.ids[2]
    again = generate(made.model, prefix_kv(made.model, PREFIX), PROMPTS, [stop], 5)[0]
    assert again.finished and again.ids == first.ids[: first.ids.index(stop) + 1]


def test_a_row_does_not_feel_its_neighbours():
    made = making.brain()
    together = generate(made.model, [], PROMPTS, [], 5, 1.0, draw)
    for row, prompt in enumerate(PROMPTS):
        (alone,) = generate(made.model, [], [prompt], [], 5, 1.0, lambda _, step, row=row: draw(row, step))
        assert alone.ids == together[row].ids
        np.testing.assert_allclose(alone.logps, together[row].logps, atol=1e-4)


@pytest.mark.parametrize("tau", [1.0, 0.6])
def test_the_loss_recomputes_what_was_drawn(tau):
    made = making.with_adapter(making.brain())
    prefix = prefix_kv(made.model, PREFIX)
    found = generate(made.model, prefix, PROMPTS, [30, 40], 6, tau, draw)
    logps_B_C, entropy_B_C, there_B_C = completion_logps(made.model, prefix, PROMPTS, [one.ids for one in found], tau)
    for row, one in enumerate(found):
        assert there_B_C[row].sum() == len(one.ids)
        np.testing.assert_allclose(np.array(logps_B_C)[row, : len(one.ids)], one.logps, atol=1e-4)
        assert not np.array(logps_B_C)[row, len(one.ids) :].any()
        assert not np.array(entropy_B_C)[row, len(one.ids) :].any()
    model = making.mlx_lm_model(made)
    wanted_V = plain(model, [*PREFIX, *PROMPTS[0]], tau)
    assert float(np.array(entropy_B_C)[0, 0]) == pytest.approx(-(np.exp(wanted_V) * wanted_V).sum(), abs=1e-3)


def test_gradient_reaches_the_adapter_through_the_prefix_too():
    made = making.with_adapter(making.brain())

    def loss(model):
        read = weights_of(model)
        logps, _, _ = completion_logps(read, prefix_kv(read, PREFIX), PROMPTS, [[30, 31], [32], [33]], 1.0)
        return -logps.sum()

    _, grads = nn.value_and_grad(made.model, loss)(made.model)
    assert all(float(mx.abs(value).max().item()) > 0 for value in flat(grads).values())


def test_top_p_draws_from_the_fewest_that_hold_so_much():
    made = making.brain()
    model = making.mlx_lm_model(made)
    wanted = np.exp(plain(model, PROMPTS[0], 1.0))
    order = np.argsort(-wanted)
    kept = order[: int(np.searchsorted(np.cumsum(wanted[order]), 0.5)) + 1]
    for uniform in np.linspace(0, 0.999, 40):
        (one,) = generate(made.model, [], PROMPTS[:1], [], 1, 1.0, lambda *_, u=uniform: float(u), 0.5)
        assert one.ids[0] in kept
        assert one.logps[0] == pytest.approx(np.log(wanted[one.ids[0]] / wanted[kept].sum()), abs=1e-3)


def test_it_ends_early_when_told_to_and_refuses_nonsense():
    made = making.brain()
    left = iter([True, True, False])
    (one,) = generate(made.model, [], PROMPTS[:1], [], 9, going=lambda: next(left))
    assert len(one.ids) == 2 and not one.finished
    for words in ({"tau": 0.0}, {"top_p": 0.0}, {"top_p": 1.5}):
        with pytest.raises(PolicyError):
            generate(made.model, [], PROMPTS, [], 4, **words)
    with pytest.raises(PolicyError, match="needs a token"):
        generate(made.model, [], [[]], [], 4)


def test_it_shares_the_prefix_of_a_policy():
    made = making.brain()
    policy = ClosedPolicy(made, "the lantern")
    weights, prefix = policy.present()
    (one,) = generate(weights, prefix, PROMPTS[:1], [], 3)
    (other,) = generate(made.model, [], [[*policy.prefix_ids, *PROMPTS[0]]], [], 3)
    assert one.ids == other.ids


def test_a_shared_prefix_is_left_as_it_was_for_those_who_read_it_next():
    made = making.brain()
    prefix = prefix_kv(made.model, PREFIX)
    before = [(np.array(k), np.array(v)) for k, v in prefix]
    first = generate(made.model, prefix, PROMPTS, [], 4)
    assert generate(made.model, prefix, PROMPTS, [], 4) == first and len(prefix) == len(before)
    for (k, v), (old_k, old_v) in zip(prefix, before, strict=True):
        np.testing.assert_array_equal(np.array(k), old_k)
        np.testing.assert_array_equal(np.array(v), old_v)
