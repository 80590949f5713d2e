"""The forward against mlx-lm's own, and its two forms of the operations between matmuls against each other."""

import mlx.nn as nn
import numpy as np
import pytest

from npc import kernels
from npc.forward import MASKED, causal_mask, hidden_states, output_rows, prefix_kv
from npc.mlx import flat, mx
from npc.weights import weights_of
from tests.npc.making import brain, mlx_lm_model, with_adapter

KINDS = {
    "grouped": {},
    "all heads": {"num_key_value_heads": 4},
    "biased": {"attention_bias": True, "mlp_bias": True},
    "traditional": {"rope_traditional": True},
    "untied": {"tie_word_embeddings": False},
    "wide heads": {"head_dim": 16, "rope_theta": 100000.0},
}


@pytest.fixture(params=[True, False], ids=["numpy", "mlx"])
def form(request, monkeypatch):
    if request.param and not kernels.USE_NUMPY:
        pytest.skip("the NumPy form is for a Linux CPU")
    monkeypatch.setattr(kernels, "USE_NUMPY", request.param)


def tokens(rows, length, seed=0):
    return mx.array(np.random.default_rng(seed).integers(0, 250, (rows, length)).astype(np.int32))


def plain(rows, length):
    positions = mx.broadcast_to(mx.arange(length)[None], (rows, length))
    return positions, mx.broadcast_to(causal_mask(length)[None], (rows, length, length))


def logits(model, ids, prefix=None, asked=None):
    weights = weights_of(model)
    return hidden_states(weights, ids, *plain(*ids.shape), prefix, asked) @ output_rows(weights).T


def close(ours, theirs, tolerance=1e-5):
    """Within ``tolerance`` of the largest value, which is what float32 can promise."""
    ours, theirs = np.array(ours), np.array(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapted", [False, True])
def test_equals_mlx_lm_on_plain_sequences(form, kind, adapted):
    made = brain(1, **KINDS[kind])
    if adapted:
        with_adapter(made)
    ids = tokens(3, 17)
    close(logits(made.model, ids), mlx_lm_model(made)(ids))


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_prefix_equals_the_prefix_in_every_row(form, kind):
    made = brain(2, **KINDS[kind])
    ids, prefix = tokens(3, 9), tokens(1, 5, seed=1)
    whole = mx.concatenate([mx.broadcast_to(prefix, (3, 5)), ids], axis=1)
    kv = prefix_kv(made.model, prefix[0].tolist())
    close(logits(made.model, ids, kv), mlx_lm_model(made)(whole)[:, 5:])


def test_asking_for_some_tokens_equals_asking_for_all(form):
    made = brain(3)
    ids, asked = tokens(3, 9), mx.array([[8, 0], [3, 3], [0, 7]])
    for kv in ([], prefix_kv(made.model, [5, 6, 7])):
        every = logits(made.model, ids, kv)
        close(logits(made.model, ids, kv, asked), mx.take_along_axis(every, asked[:, :, None], axis=1), 1e-6)


def test_a_branch_equals_the_sequence_it_stands_for(form):
    """Two branches in one row, at equal positions, each blind to the other."""
    made = brain(4)
    trunk, one, two = [5, 6, 7, 8], [20, 21], [30, 31, 32]
    row = mx.array([[*trunk, *one, *two]])
    positions = mx.array([[0, 1, 2, 3, 4, 5, 4, 5, 6]])
    sees = np.tri(9, dtype=bool)
    sees[6:, 4:6] = False
    mask = mx.array(np.where(sees, 0, MASKED).astype(np.float32))[None]
    states = hidden_states(made.model, row, positions, mask)
    for branch, places in ((one, [4, 5]), (two, [6, 7, 8])):
        sequence = mx.array([[*trunk, *branch]])
        alone = hidden_states(made.model, sequence, *plain(*sequence.shape))
        close(states[0][mx.array(places)], alone[0, 4:])


BIG = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}


def test_the_low_rank_path_equals_the_added_one(form):
    """A rank above which adding the adapter to its weight is dearer, and a rank below, on equal weights."""
    made = with_adapter(brain(5), rank=2)
    assert weights_of(made.model).layers[0].qkv.low_rank is None
    big = with_adapter(brain(5, **BIG), rank=1)
    assert weights_of(big.model).layers[0].qkv.low_rank is not None
    ids = tokens(2, 6)
    close(logits(big.model, ids), mlx_lm_model(big)(ids))


@pytest.mark.parametrize("kind", KINDS)
def test_low_rank_gradients_equal_those_of_full_weights(form, kind, monkeypatch):
    """Both ways of a layer with an adapter, whatever stands around it; sums that were made before serve as well."""
    made = with_adapter(brain(6, loud=4.0, **(BIG | KINDS[kind])), rank=1)
    ids = tokens(3, 6)
    weighting = mx.array(np.random.default_rng(7).normal(size=(3, 6, made.config.vocab_size)).astype(np.float32))

    def gradient(present=None):
        def loss():
            weights = weights_of(made.model, present)
            return ((hidden_states(weights, ids, *plain(3, 6)) @ output_rows(weights).T) * weighting).mean()

        return flat(nn.value_and_grad(made.model, loss)()[1])

    thin, again = gradient(), gradient(weights_of(made.model))
    monkeypatch.setattr("npc.weights._is_large", lambda module: False)
    full = gradient()
    assert thin.keys() == full.keys() and any(name.endswith("lora_a") for name in full)
    for name in full:
        assert np.array(full[name]).any()
        close(thin[name], full[name], 2e-5)
        close(again[name], thin[name], 1e-6)


def gradients(made, ids, prefix_ids, shared):
    """Gradients of a fixed weighting of the logits, through a prefix that is shared or in the rows."""
    weighting = mx.array(np.random.default_rng(7).normal(size=(3, 6, made.config.vocab_size)).astype(np.float32))

    def loss():
        if shared:
            return (logits(made.model, ids, prefix_kv(made.model, prefix_ids)) * weighting).mean()
        whole = mx.concatenate([mx.broadcast_to(mx.array([prefix_ids]), (3, len(prefix_ids))), ids], axis=1)
        return (logits(made.model, whole)[:, len(prefix_ids) :] * weighting).mean()

    return flat(nn.value_and_grad(made.model, loss)()[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapted", [False, True])
def test_gradients_through_a_shared_prefix_equal_plain_ones(form, kind, adapted):
    made = brain(6, loud=4.0, **KINDS[kind])
    if adapted:
        with_adapter(made)
    ids = tokens(3, 6)
    ours, plain_ones = (gradients(made, ids, [9, 8, 7, 6], shared) for shared in (True, False))
    assert ours.keys() == plain_ones.keys()
    for name in ours:
        close(ours[name], plain_ones[name], 2e-5)


@pytest.mark.parametrize("adapted", [False, True])
def test_gradients_equal_those_through_mlx_lm(form, adapted):
    made = brain(8, loud=4.0)
    ids = tokens(2, 7)
    theirs = mlx_lm_model(made)
    weighting = mx.array(np.random.default_rng(9).normal(size=(2, 7, made.config.vocab_size)).astype(np.float32))
    expected = flat(nn.value_and_grad(theirs, lambda: (theirs(ids) * weighting).mean())()[1])
    if adapted:  # with B = 0, d/dB = scale * Aᵀ (d/dW)ᵀ
        from npc import adapters

        adapters.attach(made, 4, 2.0, 0)
        found = flat(nn.value_and_grad(made.model, lambda: (logits(made.model, ids) * weighting).mean())()[1])
        assert {name.rsplit(".", 1)[1] for name in found} == {"lora_a", "lora_b"}
        tensors = adapters.get_adapter(made)
        for name, value in found.items():
            stem, part = name.rsplit(".", 1)
            if part == "lora_a":
                assert not np.array(value).any()
            else:
                close(value, 2.0 * tensors[f"{stem}.lora_a"].T @ expected[f"{stem}.weight"].T, 2e-5)
                assert np.array(value).any()
    else:
        found = flat(nn.value_and_grad(made.model, lambda: (logits(made.model, ids) * weighting).mean())()[1])
        assert found.keys() == expected.keys()
        for name in expected:
            close(found[name], expected[name], 2e-5)


def test_attention_weights_survive_rows_far_below_their_block(form):
    """A row whose scores all lie far below its neighbours' must not vanish."""
    scores = np.zeros((1, 2, 3, 3), dtype=np.float32)
    scores[0, 0] += 90
    scores[0, 1] -= 90
    mask = np.zeros((2, 3, 3), dtype=np.float32)
    for prefix in (None, mx.array(scores + 1)):
        own, seen = kernels.attention_weights(mx.array(scores), mx.array(mask), prefix)
        np.testing.assert_allclose(np.array(own), 1 / 3 if prefix is None else 1 / (3 + 3 * np.e), rtol=1e-5)
        assert (seen is None) == (prefix is None)


def test_the_operations_one_by_one_equal_the_model_as_one(monkeypatch):
    """Forward and gradients by :mod:`npc.stack`, by NumPy's operations one by one, and by MLX's."""
    if not kernels.USE_NUMPY:
        pytest.skip("the NumPy forms are for a Linux CPU")
    made = with_adapter(brain(6, loud=4.0))
    ids, asked = tokens(3, 6), mx.array([[5, 2], [1, 1], [0, 4]])
    weighting = mx.array(np.random.default_rng(7).normal(size=(3, 2, made.config.vocab_size)).astype(np.float32))

    def found():
        def loss():
            return (logits(made.model, ids, prefix_kv(made.model, [9, 8, 7]), asked) * weighting).mean()

        value, grads = nn.value_and_grad(made.model, loss)()
        return {"loss": value} | flat(grads)

    whole = found()
    monkeypatch.setattr("npc.stack.usable", lambda weights: False)
    one_by_one = found()
    monkeypatch.setattr(kernels, "USE_NUMPY", False)
    plain_mlx = found()
    for name, value in plain_mlx.items():
        assert np.array(value).any()
        close(whole[name], value, 2e-5)
        close(one_by_one[name], value, 2e-5)
