"""What the whole-model form has beside its equality with MLX's own operations (tests/npc/test_forward.py)."""

import mlx.nn as nn
import numpy as np
import pytest

from npc import arrays, kernels, stack
from npc.forward import causal_mask, hidden_states, prefix_kv
from npc.mlx import flat, mx
from npc.policy import ClosedPolicy
from npc.weights import weights_of
from tests.npc.making import brain, with_adapter

PREFIX = [5, 6, 7]


def asked(weights, tokens=((9, 8, 7, 6),), prefix=()):
    ids = mx.array(tokens)
    rows, length = ids.shape
    places = mx.broadcast_to(mx.arange(length)[None], (rows, length))
    mask = mx.broadcast_to(causal_mask(length)[None], (rows, length, length))
    return hidden_states(weights, ids, places, mask, list(prefix), mx.full((rows, 1), length - 1))


@pytest.mark.skipif(not kernels.USE_NUMPY, reason="this form is for a Linux CPU")
def test_a_linux_cpu_takes_this_form_for_float32_and_no_other(monkeypatch):
    made = with_adapter(brain(1))
    taken = []
    monkeypatch.setattr(stack.Run, "states", lambda run: taken.append(run) or mx.zeros((1, 32)))
    asked(made.model)
    assert len(taken) == 1
    made.model.model.embed_tokens.weight = made.model.model.embed_tokens.weight.astype(mx.float16)
    asked(made.model)
    small = brain(2, intermediate_size=64)
    nn.quantize(small.model.model.layers[1], group_size=32)
    asked(small.model)
    assert len(taken) == 1


@pytest.mark.skipif(not kernels.USE_NUMPY, reason="this form is for a Linux CPU")
def test_weights_that_play_keep_nothing_and_say_so_when_a_gradient_is_asked_for():
    made = ClosedPolicy(with_adapter(brain(1)), " wait mara")
    weights, prefix = made.present()
    assert not weights.learns
    learning = np.array(asked(made.brain.model, prefix=prefix))
    np.testing.assert_array_equal(np.array(asked(weights, prefix=prefix)), learning)
    # what one forward left in the buffers that the next one uses is never seen
    first = np.array(asked(weights, [[9, 8, 7, 6]] * 3, prefix))
    asked(weights, [[1, 2, 3, 4, 5, 6]] * 5, prefix)
    np.testing.assert_array_equal(np.array(asked(weights, [[9, 8, 7, 6]] * 3, prefix)), first)
    with pytest.raises(RuntimeError, match="read to play"):
        keys = [part for pair in prefix for part in pair]

        def loss(keys):
            return asked(weights, prefix=list(zip(keys[::2], keys[1::2], strict=True))).sum()

        mx.eval(mx.grad(loss)(keys))


def test_a_token_asked_for_twice_gets_both_gradients():
    made = brain(3, loud=4.0)
    ids, places = mx.array([[9, 8, 7, 6]]), mx.arange(4)[None]

    def loss(asked_1_Q):
        def inner():
            weights = weights_of(made.model)
            states = hidden_states(weights, ids, places, causal_mask(4)[None], prefix_kv(weights, PREFIX), asked_1_Q)
            return (states * mx.arange(states.size).reshape(states.shape)[:, :1]).sum()

        return nn.value_and_grad(made.model, inner)()[1]

    twice, once = (flat(loss(mx.array([places]))) for places in ([2, 2], [2]))
    for name, value in once.items():
        wanted = 2 * np.array(value)
        np.testing.assert_allclose(np.array(twice[name]), wanted, rtol=0, atol=2e-5 * max(1, np.abs(wanted).max()))
        assert name.startswith("lm_head") or wanted.any()


def test_softmax_of_rows_far_below_their_neighbours():
    """Each row has its own maximum: one whose scores all lie far below the others' does not vanish."""
    scores = np.zeros((2, 3, 5), dtype=np.float32)
    scores[0] += 90
    scores[1] -= 90
    scores[1, 0, 0] += np.log(np.float32(3))
    mask = np.zeros((2, 3, 3), dtype=np.float32)
    mask[0, 1, 2] = -1e9
    arrays.softmax(scores, mask)
    np.testing.assert_allclose(scores[0, 0], 1 / 5, rtol=1e-6)
    np.testing.assert_allclose(scores[0, 1], [0.25, 0.25, 0.25, 0.25, 0], rtol=1e-6)
    np.testing.assert_allclose(scores[1, 0], [3 / 7, 1 / 7, 1 / 7, 1 / 7, 1 / 7], rtol=1e-5)


def test_pads_change_nothing_and_cost_no_matmul(monkeypatch):
    """Rows of mixed length, padded at either end, against each alone: states, and gradients of all parameters."""
    if not kernels.USE_NUMPY:
        pytest.skip("this form is for a Linux CPU")
    made = with_adapter(brain(5, loud=4.0))
    rows = [[9, 8, 7, 6, 5], [20, 21], [30, 31, 32]]
    starts = [0, 3, 1]
    ids, places = np.zeros((3, 5), dtype=np.int32), np.full((3, 5), -1, dtype=np.int32)
    mask = np.full((3, 5, 5), -1e9, dtype=np.float32)
    mask[:, np.arange(5), np.arange(5)] = 0
    for row, (tokens, start) in enumerate(zip(rows, starts, strict=True)):
        span = slice(start, start + len(tokens))
        ids[row, span], places[row, span] = tokens, np.arange(len(tokens))
        mask[row, span, span] = np.where(np.tri(len(tokens), dtype=bool), 0, -1e9)
    ends = np.array([[4, 0], [4, 4], [3, 1]], dtype=np.int32)
    weighting = mx.arange(1.0, 33.0)

    def together(asked_B_Q):
        def loss():
            weights = weights_of(made.model)
            states = hidden_states(weights, mx.array(ids), mx.array(places), mx.array(mask), prefix_kv(weights, PREFIX),
                                   asked_B_Q)  # fmt: skip
            if asked_B_Q is None:
                states = mx.take_along_axis(states, mx.array(ends)[:, :, None], axis=1)
            return (states * weighting).sum()

        return nn.value_and_grad(made.model, loss)()

    def alone():
        def loss():
            weights, total = weights_of(made.model), mx.array(0.0)
            for tokens, start, end in zip(rows, starts, ends, strict=True):
                row, at, places = mx.array([tokens]), mx.array(end - start)[None], mx.arange(len(tokens))[None]
                prefix = prefix_kv(weights, PREFIX)
                states = hidden_states(weights, row, places, causal_mask(len(tokens))[None], prefix, at)
                total = total + (states * weighting).sum()
            return total

        return nn.value_and_grad(made.model, loss)()

    seen = []
    call = stack._Linear.__call__

    def watched(self, given, x_N_D, *how, **more):
        seen.append(len(x_N_D))
        return call(self, given, x_N_D, *how, **more)

    monkeypatch.setattr(stack._Linear, "__call__", watched)
    found = [together(mx.array(ends)), together(None)]
    assert max(seen) == 10  # of 15 with the pads
    value, grads = alone()
    for other, theirs in found:
        np.testing.assert_allclose(np.array(other), np.array(value), rtol=1e-5)
        for name, wanted in flat(grads).items():
            wanted = np.array(wanted)
            np.testing.assert_allclose(np.array(flat(theirs)[name]), wanted, rtol=0, atol=5e-5 * np.abs(wanted).max())
