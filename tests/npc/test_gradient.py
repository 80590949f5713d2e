"""Gradients of many batches over one prefix, against plain sequences, one turn after the other."""

import mlx.nn as nn
import numpy as np
import pytest

from npc.forward import causal_mask, hidden_states, output_rows
from npc.gradient import summed_gradient
from npc.mlx import flat, mx
from npc.policy import ClosedPolicy
from npc.weights import weights_of
from tests.npc.making import brain, with_adapter
from tests.npc.test_policy import BEGINS, LEGAL, PREFIX

TURNS = [("rope dock", LEGAL), ("rope dock mara inn the", LEGAL), ("xyz", BEGINS), ("inn", ("wait", "ask tom"))]
SHAPES = {"small": {}, "large": {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}}
TOLERANCE = 5e-5  # of a tensor's largest gradient: what float32 promises over this depth


def advantage(row, action):
    return float(np.sin(3 * row + action))


def plain_gradient(made, tau):
    """Σ over turns and actions of advantage · log π, each phrase as a sequence of its own, with its own prefix."""

    def loss():
        weights, total = weights_of(made.brain.model), mx.array(0.0)
        for row, (text, legal) in enumerate(TURNS):
            ids_A = [made.table.ids(phrase) for phrase in legal]
            start = [*made.prefix_ids, *made.encode(text)]
            for action, ids in enumerate(ids_A):
                whole = [*start, *ids]
                places = mx.arange(len(whole))[None]
                states = hidden_states(weights, mx.array([whole]), places, causal_mask(len(whole))[None])[0]
                for at, token in enumerate(ids):
                    open_tokens = sorted({other[at] for other in ids_A if len(other) > at and other[:at] == ids[:at]})
                    rows = output_rows(weights)[mx.array(open_tokens)]
                    logits = (rows @ states[len(start) + at - 1]) / tau
                    logp = logits[open_tokens.index(token)] - mx.logsumexp(logits)
                    total = total + advantage(row, action) * logp
        return total

    return flat(nn.value_and_grad(made.brain.model, loss)()[1])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("prefix", [PREFIX, ""])
def test_batches_of_mixed_length_equal_plain_sequences(shape, prefix):
    made = ClosedPolicy(with_adapter(brain(2, loud=4.0, **SHAPES[shape]), 1 if shape == "large" else 4), prefix)
    assert (made.present()[0].layers[0].out.low_rank is not None) == (shape == "large")

    def batch(rows):
        packed = made.pack([made.encode(TURNS[row][0]) for row in rows], [TURNS[row][1] for row in rows])
        wanted = np.zeros(packed.legal_B_A.shape, dtype=np.float32)
        for place, row in enumerate(rows):
            wanted[place, : len(TURNS[row][1])] = [advantage(row, action) for action in range(len(TURNS[row][1]))]

        def loss(logps):
            return mx.sum(mx.where(mx.array(packed.legal_B_A), logps, 0.0) * mx.array(wanted)), (logps,)

        return packed, loss

    expected = plain_gradient(made, 0.7)
    before = made.logps(batch([0, 1, 2, 3])[0], 0.7)
    for cut in ([[0, 1, 2, 3]], [[0, 1], [2], [3]]):
        found, kept = summed_gradient(made, [batch(rows) for rows in cut], 0.7)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            wanted = np.array(value)
            np.testing.assert_allclose(np.array(found[name]), wanted, rtol=0, atol=TOLERANCE * np.abs(wanted).max())
            assert wanted.any()
        logps = [np.array(one) for _, (several,) in kept for one in several]
        for row, one in enumerate(logps):
            count = len(TURNS[row][1])
            np.testing.assert_allclose(one[:count], before[row, :count], atol=1e-5)
    # the weights are left as they were, and nothing of the trace in them
    np.testing.assert_array_equal(made.logps(batch([0, 1, 2, 3])[0], 0.7), before)


def test_no_batch_gives_no_gradient():
    made = ClosedPolicy(with_adapter(brain(2)), PREFIX)
    assert summed_gradient(made, []) == ({}, [])
