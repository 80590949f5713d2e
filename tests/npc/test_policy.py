"""The closed policy against the plain evaluation of every phrase, one token at a time, by mlx-lm's own forward."""

import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc import stack
from npc.errors import PolicyError
from npc.forward import prefix_kv
from npc.mlx import flat, mx
from npc.policy import ClosedPolicy, action_logps, entropy, even_chunks, kl
from npc.weights import weights_of
from tests.npc.making import WORDS, brain, mlx_lm_model, plain_probabilities, with_adapter

PREFIX = " wait mara dock ask"
LEGAL = ("go to the dock", "go to the inn", "go to the mill", "take the rope", "ask mara", "ask tom", "wait")
BEGINS = ("take the rope", "take the rope bread", "take the", "ask", "ask mara tom", "ask mara")
SETS = [LEGAL, BEGINS, ("wait",), ("wait", "wait wait"), ("ask xyz", "ask xy", "ask ü", "")]


def policy(seed=0, prefix=PREFIX, **changes):
    return ClosedPolicy(with_adapter(brain(seed, **changes)), prefix)


def expected(made, prompt, legal, tau):
    ids = [made.table.ids(phrase) for phrase in legal]
    return plain_probabilities(mlx_lm_model(made.brain), made.prefix_ids, prompt, ids, tau)


@pytest.mark.parametrize("prefix", [PREFIX, ""])
@pytest.mark.parametrize("tau", [1.0, 0.4, 2.5])
@pytest.mark.parametrize("legal", SETS)
def test_equals_the_plain_evaluation(legal, tau, prefix):
    made = policy(prefix=prefix)
    [decision] = made.decide(["rope dock mara inn"], [legal], tau)
    np.testing.assert_allclose(decision.probs, expected(made, decision.prompt_ids, legal, tau), atol=1e-5)
    assert sum(decision.probs) == pytest.approx(1, abs=1e-9)


phrases = st.lists(st.sampled_from([*WORDS, "x", "xy"]), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(phrases, min_size=1, max_size=7, unique=True).map(tuple), min_size=1, max_size=3))
def test_any_legal_sets_equal_the_plain_evaluation(sets):
    made = POLICY
    texts = ["rope " * (place + 1) for place in range(len(sets))]
    for decision, legal in zip(made.decide(texts, sets, 0.8), sets, strict=True):
        np.testing.assert_allclose(decision.probs, expected(made, decision.prompt_ids, legal, 0.8), atol=1e-5)


POLICY = policy(5)


def test_a_batch_of_mixed_lengths_equals_singles_in_order():
    made = policy(1)
    texts = ["rope " * n for n in (9, 1, 30, 4, 4)]
    uniforms = [0.1, 0.9, 0.5, 0.99, 0.0]
    together = made.decide(texts, SETS, 0.7, uniforms)
    small = ClosedPolicy(made.brain, PREFIX, max_rows=2).decide(texts, SETS, 0.7, uniforms)
    for text, legal, uniform, ours, halves in zip(texts, SETS, uniforms, together, small, strict=True):
        [alone] = made.decide([text], [legal], 0.7, [uniform])
        for other in (ours, halves):
            np.testing.assert_allclose(other.probs, alone.probs, atol=2e-6)
            assert (other.phrase, other.sampled_ids, other.prompt_ids) == (
                alone.phrase,
                alone.sampled_ids,
                alone.prompt_ids,
            )


def test_padding_changes_nothing():
    """Pads stand at the right and are seen by nobody: another pad token, the same numbers."""
    made = policy(2)
    packed = made.pack([[5, 6, 7], [5] * 40], [LEGAL, LEGAL])
    before = made.logps(packed)
    packed.tokens_B_T[0][packed.positions_B_T[0] < 0] = 99
    assert (packed.positions_B_T[0] < 0).sum() > 30
    np.testing.assert_allclose(made.logps(packed), before, atol=1e-5)


def test_the_row_holds_the_prompt_and_what_leads_to_open_nodes_only():
    """`go to the …` is open (3 places), `ask …` is open, `take the rope` is not: two nodes are packed, three open."""
    made = policy()
    packed = made.pack([[5, 6, 7]], [LEGAL])
    go, ask = made.brain.tokenizer.encode(" go to the"), made.brain.tokenizer.encode(" ask")
    assert packed.tokens_B_T.tolist() == [[5, 6, 7, *go, *ask]]
    assert packed.positions_B_T.tolist() == [[0, 1, 2, 3, 3]]
    assert packed.asked_B_Q.tolist() == [[2, 3, 4]]
    sees = packed.mask_B_T_T[0] == 0
    assert sees.astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 0, 1],
    ]
    assert packed.token_count == 5


def test_log_probabilities_add_up_and_align_with_the_ids():
    made = policy(3)
    for index, legal in enumerate(SETS):
        [decision] = made.decide(["rope mara"], [legal], 0.9, [0.6])
        assert len(decision.node_logps) == len(decision.sampled_ids)
        assert decision.sampled_ids[-1] == made.brain.tokenizer.eos_id
        assert decision.sampled_ids == made.table.ids(decision.phrase)
        assert decision.logprob == pytest.approx(sum(decision.node_logps), abs=1e-6)
        assert np.exp(decision.logprob) == pytest.approx(decision.probs[decision.index], abs=1e-6)
        assert all(np.float32(value) == value for value in [*decision.node_logps, decision.logprob]), index


def test_nodes_with_one_child_add_exactly_nothing():
    made = policy(3)
    [decision] = made.decide(["rope"], [("wait",)], 0.9, [0.999])
    assert decision.node_logps == [0.0, 0.0] and decision.logprob == 0.0 and decision.probs == [1.0]
    [decision] = made.decide(["rope"], [("take the rope", "ask mara")], 1.0, [0.0])
    assert decision.phrase == "take the rope" and decision.node_logps[1:] == [0.0, 0.0]


def test_what_was_sampled_is_what_the_loss_recomputes():
    made = policy(4)
    texts, sets = ["rope", "mara dock inn tom", "bread"], [LEGAL, BEGINS, ("wait",)]
    decisions = made.decide(texts, sets, 0.6, [0.3, 0.8, 0.5])
    packed = made.pack([decision.prompt_ids for decision in decisions], sets)
    logps = np.array(action_logps(made.brain.model, packed, prefix_kv(made.brain.model, made.prefix_ids), 0.6))
    assert (logps > -np.inf).sum(axis=1).tolist() == [len(legal) for legal in sets]
    for row, decision in enumerate(decisions):
        assert logps[row, decision.index] == pytest.approx(decision.logprob, abs=1e-5)


def test_uniforms_draw_by_the_inverse_of_the_distribution_function():
    made = policy(6, loud=2.0)
    probs = made.decide(["rope"], [LEGAL])[0].probs
    edges = np.cumsum(probs)
    assert min(probs) > 1e-4
    for index, (low, high) in enumerate(zip([0, *edges[:-1]], edges, strict=True)):
        for uniform in (low + 1e-7, high - 1e-7):
            assert made.decide(["rope"], [LEGAL], 1.0, [uniform])[0].index == index
    assert made.decide(["rope"], [LEGAL], 1.0, [np.nextafter(1, 0)])[0].index == len(LEGAL) - 1


def test_greedy_is_the_most_probable_whole_action():
    """Three ways to go share what `go` gets: a walk that takes the best token each time may end elsewhere."""
    differs = 0
    for seed in range(40):
        made = ClosedPolicy(brain(seed, loud=3.0), "")
        [decision] = made.decide(["rope dock"], [LEGAL])
        assert decision.greedy and decision.index == int(np.argmax(decision.probs))
        first = {}
        for phrase, prob in zip(LEGAL, decision.probs, strict=True):
            first[phrase.split()[0]] = first.get(phrase.split()[0], 0) + prob
        walk = max(first, key=first.get)
        differs += walk != decision.phrase.split()[0]
    assert differs > 0


def test_the_adapter_acts_and_a_stale_prefix_is_dropped():
    made = policy(7)
    before = made.decide(["rope"], [LEGAL])[0].probs
    from npc import adapters

    zeroed = {name: np.zeros(value.shape, np.float32) for name, value in adapters.get_adapter(made.brain).items()}
    adapters.set_adapter(made.brain, zeroed)
    after = made.decide(["rope"], [LEGAL])[0].probs
    assert np.abs(np.subtract(before, after)).max() > 1e-3
    np.testing.assert_allclose(after, ClosedPolicy(brain(7), PREFIX).decide(["rope"], [LEGAL])[0].probs, atol=1e-6)


def test_every_b_gets_gradient_and_a_gets_none_while_b_is_zero():
    from npc import adapters

    made = ClosedPolicy(brain(8), PREFIX)
    adapters.attach(made.brain, 4, 2.0, 0)
    packed = made.pack([made.encode("rope mara"), made.encode("dock")], [LEGAL, BEGINS])

    def loss():
        kv = prefix_kv(made.brain.model, made.prefix_ids)
        return action_logps(made.brain.model, packed, kv, 0.7)[:, 0].sum()

    grads = flat(nn.value_and_grad(made.brain.model, loss)()[1])
    assert len(grads) == 2 * 7 * 3
    for name, grad in grads.items():
        assert bool(mx.any(grad != 0).item()) == name.endswith("lora_b"), name


def test_gradient_equals_a_numerical_one():
    made = policy(9, loud=3.0)
    from npc import adapters

    packed = made.pack([made.encode("rope mara"), made.encode("dock")], [LEGAL, BEGINS])

    def loss():
        logps = action_logps(made.brain.model, packed, prefix_kv(made.brain.model, made.prefix_ids), 0.7)
        return logps[0, 1] - 2 * logps[1, 4] + entropy(logps).sum()

    grads = flat(nn.value_and_grad(made.brain.model, loss)()[1])
    tensors = {name: np.array(value) for name, value in adapters.get_adapter(made.brain).items()}
    dice = np.random.default_rng(0)
    way = {name: dice.normal(size=value.shape).astype(np.float32) for name, value in tensors.items()}
    slope = sum(float((np.array(grads[name]) * way[name]).sum()) for name in way)
    ends = []
    for step in (1e-3, -1e-3):
        adapters.set_adapter(made.brain, {name: tensors[name] + step * way[name] for name in way})
        ends.append(loss().item())
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=0.02)


def test_entropy_and_kl_by_hand():
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])
    logp = mx.array(np.log([[*p, 1], [1, 1, 1, 1]]).astype(np.float32))
    logp[0, 3], logp[1, 1:] = -mx.inf, -mx.inf
    logq = mx.array(np.log([[*q, 1], [1, 1, 1, 1]]).astype(np.float32))
    logq[0, 3], logq[1, 1:] = -mx.inf, -mx.inf
    # H = 0.5 ln 2 + 0.5 ln 4; KL = 0.5 ln 2 - 0.25 ln 2
    np.testing.assert_allclose(np.array(entropy(logp)), [1.5 * np.log(2), 0], rtol=1e-6)
    np.testing.assert_allclose(np.array(kl(logp, logq)), [0.25 * np.log(2), 0], rtol=1e-6)
    for measure in (lambda x: entropy(x).sum(), lambda x: kl(x, logq).sum()):
        assert np.isfinite(np.array(mx.grad(measure)(logp))).all()


def test_impossible_questions_are_refused_in_one_line():
    made = policy()
    for arguments, message in [
        ((["rope"], [()]), "no legal phrase"),
        ((["rope"], [("wait", "wait")]), "listed twice"),
        ((["rope"], [LEGAL], 0.0), "tau must be above 0"),
        ((["rope"], [LEGAL], 1.0, [1.0]), r"in \[0, 1\)"),
        ((["rope"], [LEGAL], 1.0, []), "1 observations but 0 uniforms"),
        ((["rope"], [LEGAL, LEGAL]), "1 prompts but 2 legal sets"),
    ]:
        with pytest.raises(PolicyError, match=message) as caught:
            made.decide(*arguments)
        assert "\n" not in str(caught.value)
    with pytest.raises(PolicyError, match="prompt 0 is empty"):
        made.decide_ids([[]], [LEGAL])


def test_equal_questions_cost_one_row_and_each_has_its_own_draw(monkeypatch):
    made = policy(1)
    counted = []
    honest = made.pack
    monkeypatch.setattr(made, "pack", lambda prompts, legal: counted.append(len(prompts)) or honest(prompts, legal))
    texts, uniforms = ["rope", "dock", "rope", "rope"], [0.05, 0.5, 0.5, 0.95]
    found = made.decide(texts, [LEGAL, LEGAL, LEGAL, BEGINS], 1.0, uniforms)
    assert counted == [3]
    alone = [made.decide([text], [legal], 1.0, [u])[0] for text, legal, u in
             zip(texts, [LEGAL, LEGAL, LEGAL, BEGINS], uniforms, strict=True)]  # fmt: skip
    assert [d.phrase for d in found] == [d.phrase for d in alone]
    np.testing.assert_allclose([d.logprob for d in found], [d.logprob for d in alone], atol=1e-5)
    assert found[0].phrase != found[2].phrase and found[0].probs == found[2].probs


def test_chunks_are_even_cover_all_and_stay_within_their_bound():
    for count, most in ((100, 256), (100, 7), (100, 1), (8, 4), (0, 4)):
        cut = even_chunks(count, most)
        assert [at for part in cut for at in range(part.start, part.stop)] == list(range(count))
        sizes = [part.stop - part.start for part in cut]
        assert max(sizes, default=0) <= most and max(sizes, default=0) - min(sizes, default=0) <= 1


def test_rows_a_batch_follow_from_what_its_layers_keep(monkeypatch):
    """The arithmetic of `training_tokens` against the bytes that a forward holds on to."""
    made = policy()
    rows, length = 6, 20
    weights, prefix = weights_of(made.brain.model), made.prefix_kv()
    x = mx.zeros((rows * length, made.brain.config.hidden_size))
    turns = mx.ones((rows * length, made.brain.config.head_dim // 2))
    run = stack.Run(weights, x, turns, turns, mx.zeros((rows, length, length)), prefix)
    mx.eval(run.states())
    kept = sum(value.nbytes for layer in run._kept for name, value in vars(layer).items() if "factor" not in name)
    monkeypatch.setattr("npc.policy.TRAINING_BYTES", kept)
    assert made.training_tokens(length) == rows * length
    assert [made.training_rows(length, 64), made.training_rows(length, 4)] == [rows, 4]
    assert made.training_rows(10_000, 64) == 1

def test_each_question_is_packed_once_and_every_turn_finds_its_row():
    made = policy(1)
    prompts = [made.encode(text) for text in ("rope", "dock inn", "rope", "rope")]
    legal = [LEGAL, LEGAL, LEGAL, BEGINS]
    packed, row_N = made.pack_unique(prompts, legal)
    assert len(packed.layouts) == 3
    np.testing.assert_allclose(made.logps(packed)[np.array(row_N)], made.logps(made.pack(prompts, legal)), atol=5e-6)
