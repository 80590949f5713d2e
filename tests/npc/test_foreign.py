"""Models that are mlx-lm's own: what they say and learn here is what mlx-lm's plain forward says, of every kind."""

import numpy as np
import pytest

import npc.reading
from npc import adapters
from npc.adapters.fuse import fuse
from npc.adapters.layers import places
from npc.errors import AdapterError
from npc.foreign import Foreign, behind_prefix, packed_tokens, prefix_of_foreign
from npc.generate import completion_logps, generate
from npc.gradient import summed_gradient
from npc.mlx import flat, mx, nn
from npc.models import Brain, load
from npc.models.spread import is_quantised
from npc.policy import ClosedPolicy, action_logps
from npc.proving import prove_decisions
from npc.reading import is_plain_llama, reading_of
from npc.sharing import foreign_of
from tests.npc.foreign_making import SHAPES, folder
from tests.npc.making import brain, mlx_lm_model, plain_probabilities, with_adapter

PREFIX = " mara rope the lantern"
TEXTS = ["rope dock", "mill", "tom mara mara inn bread"]
LEGAL = [
    ("go to the dock", "go to the inn", "take the rope", "take", "wait"),
    ("wait",),
    ("go to the mill", "go to the mill to the dock", "go to", "wait"),
]
CASES = [(kind, 4 if kind in ("llama", "gpt2", "gemma3_text") else 0) for kind in SHAPES]


@pytest.fixture
def packed_weights(monkeypatch):
    """A machine without the room to hold quantised weights spread out."""
    monkeypatch.setattr("npc.models.spread.memory_bytes", lambda: 1)


@pytest.mark.parametrize(("kind", "bits"), CASES)
def test_it_decides_as_mlx_lm_would_with_the_adapter_that_was_saved(kind, bits, tmp_path, packed_weights):
    import mlx_lm

    made = with_adapter(load(folder(tmp_path / "model", kind, chat=bits > 0, bits=bits)))
    adapters.save_adapter(made, tmp_path / "adapter")
    assert made.form.name.partition(":")[0] == ("chat" if bits else "plain")
    theirs, _ = mlx_lm.load(str(tmp_path / "model"), adapter_path=str(tmp_path / "adapter"))
    acting = ClosedPolicy(made, PREFIX)
    assert isinstance(acting.present()[0], Foreign)
    for decision, legal in zip(acting.decide(TEXTS, LEGAL, 0.7), LEGAL, strict=True):
        ids_A = [acting.table.ids(phrase) for phrase in legal]
        wanted = plain_probabilities(theirs, acting.prefix_ids, decision.prompt_ids, ids_A, 0.7)
        np.testing.assert_allclose(decision.probs, wanted, atol=1e-5)
    again = load(tmp_path / "model")
    adapters.load_adapter(again, tmp_path / "adapter")
    assert ClosedPolicy(again, PREFIX).decide(TEXTS, LEGAL, 0.7) == acting.decide(TEXTS, LEGAL, 0.7)


SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
LLAMAS = {
    "mistral": ({"model_type": "mistral", "sliding_window": 5}, True),  # whose window mlx-lm leaves out
    "as transformers 5 writes it": ({"rope_theta": None, "rope_parameters": {"rope_theta": 90.0}}, True),
    "scaled positions": ({"rope_scaling": SCALED}, False),
    "sliding windows": ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 5,
                         "num_hidden_layers": 4}, False),
}  # fmt: skip


@pytest.mark.parametrize("llama", LLAMAS)
def test_llamas_run_on_our_own_forward_where_it_computes_what_they_do(llama, tmp_path):
    changes, ours = LLAMAS[llama]
    made = load(folder(tmp_path / "model", "llama", **changes))
    assert is_plain_llama(made.model) == ours
    worst, bound = prove_decisions(made, PREFIX, list(zip(TEXTS, LEGAL, strict=True)), 0.7)
    assert worst < 1e-5 < bound


def test_what_is_shared_is_what_can_be(tmp_path):
    found = {kind: foreign_of(load(folder(tmp_path / kind, kind)).model) for kind in SHAPES if kind != "llama"}
    every = (None, None, None)
    ways = {kind: (one.windows, one.steps) for kind, one in found.items()}
    assert ways.pop("gemma3_text") == ways.pop("gemma3") == ((7, None, 7), True)
    assert ways.pop("lfm2") == (None, False)
    assert ways.pop("gemma2") == ways.pop("gpt_bigcode") == (every, False)  # one place for all rows, says their code
    assert set(ways.values()) == {(every, True)}


def test_what_sharing_gets_wrong_is_not_shared(tmp_path, monkeypatch):
    model = load(folder(tmp_path / "model", "qwen3")).model
    assert foreign_of(model).steps
    monkeypatch.setattr("npc.sharing._known", {})
    monkeypatch.setattr("npc.foreign.NEVER", 0)  # pads are seen
    assert foreign_of(model) == Foreign(model, (None, None, None), False)
    monkeypatch.setattr("npc.sharing._known", {})
    monkeypatch.setattr("npc.foreign.behind_prefix", lambda foreign, _: behind_prefix(foreign, []))  # and no prefix
    assert foreign_of(model) == Foreign(model, None, False)


@pytest.fixture
def twins(monkeypatch):
    """One Llama as our modules and as mlx-lm's, the second read as any other model."""
    ours = with_adapter(brain(1))
    plain = brain(1)
    theirs = Brain(mlx_lm_model(plain), plain.tokenizer, "theirs", "")
    adapters.attach(theirs, 4)
    adapters.set_adapter(theirs, adapters.get_adapter(ours))
    monkeypatch.setattr(npc.reading, "is_plain_llama", lambda model: model is ours.model)
    return ClosedPolicy(ours, PREFIX), ClosedPolicy(theirs, PREFIX)


WAYS = {
    "prompts shared": ((None, None, None), True), "wide windows": ((90, None, 90), True),
    "prefix shared": ((None, None, None), False), "prefix and wide windows": ((90, None, 90), False),
    "nothing shared": (None, False),
}  # fmt: skip


def share(acting, way, monkeypatch):
    monkeypatch.setattr(npc.reading, "foreign_of", lambda model: Foreign(model, *way))
    assert (acting.present()[0].windows, acting.present()[0].steps) == way


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_paths_and_the_tree_agree_in_log_probabilities_and_gradients(twins, way, monkeypatch):
    share(twins[1], way, monkeypatch)
    logps, gradients = [], []
    for acting in twins:
        packed = [acting.pack([acting.encode(TEXTS[at]) for at in part], [LEGAL[at] for at in part])
                  for part in ([0, 1], [2])]  # fmt: skip
        wanted = [mx.array(np.sin(np.arange(one.legal_B_A.size)).reshape(one.legal_B_A.shape)) for one in packed]

        def loss(at, one, wanted=wanted):
            legal = mx.array(one.legal_B_A)
            return lambda given: (mx.sum(mx.where(legal, given, 0.0) * wanted[at]), (given,))

        sums, found = summed_gradient(acting, [(one, loss(at, one)) for at, one in enumerate(packed)], 0.7)
        gradients.append({name: np.array(value) for name, value in sums.items()})
        logps += [np.array(several) for _, (several,) in found]
        for one, (_, (several,)) in zip(packed, found, strict=True):
            np.testing.assert_allclose(acting.logps(one, 0.7), np.array(several), atol=1e-5)
    for tree, paths in zip(logps[:2], logps[2:], strict=True):
        np.testing.assert_allclose(paths, tree, atol=1e-5)
    assert gradients[0].keys() == gradients[1].keys()
    for name, value in gradients[0].items():
        assert value.any()
        np.testing.assert_allclose(gradients[1][name], value, rtol=0, atol=5e-5 * np.abs(value).max())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_free_text_is_written_and_scored_as_by_our_own_modules(twins, way, monkeypatch):
    share(twins[1], way, monkeypatch)
    written, scored = [], []
    for acting in twins:
        reading, prefix = acting.present()
        prompts = [acting.encode(text) for text in TEXTS]
        said = generate(reading, prefix, prompts, [acting.brain.tokenizer.eos_id], 9, 0.8, lambda row, step: 0.1 * step)
        logps, entropy, there = completion_logps(reading, prefix, prompts, [one.ids for one in said], 0.8)
        written.append(said)
        scored.append((np.array(logps), np.array(entropy)))
        drawn = np.concatenate([one.logps for one in said])
        np.testing.assert_allclose(np.array(logps)[there], drawn, atol=2e-5)
    assert [one.ids for one in written[0]] == [one.ids for one in written[1]]
    for ours, theirs in zip(*scored, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=2e-5)


def test_a_recurrent_model_writes_what_it_scores(tmp_path):
    acting = ClosedPolicy(load(folder(tmp_path / "model", "lfm2")), PREFIX)
    reading, prefix = acting.present()
    prompts = [acting.encode(text) for text in TEXTS]
    said = generate(reading, prefix, prompts, [acting.brain.tokenizer.eos_id], 9, 1.0, lambda row, step: 0.1 * step)
    logps, _, there = completion_logps(reading, prefix, prompts, [one.ids for one in said])
    np.testing.assert_allclose(np.array(logps)[there], np.concatenate([one.logps for one in said]), atol=2e-5)


@pytest.mark.parametrize(("kind", "bits"), [("llama", 4), ("llama", 8), ("gpt2", 3), ("qwen3_moe", 4)])
def test_quantised_weights_are_spread_out_on_a_cpu_and_packed_without_room(kind, bits, tmp_path, monkeypatch):
    at = folder(tmp_path / "model", kind, chat=True, bits=bits)
    found = []
    adapters.save_adapter(with_adapter(load(at)), tmp_path / "adapter")
    for room in (1 << 40, 1):
        monkeypatch.setattr("npc.models.spread.memory_bytes", lambda room=room: room)
        made = load(at)
        adapters.load_adapter(made, tmp_path / "adapter")
        assert is_quantised(made.model) == (room == 1 or not npc.mlx.ON_CPU)
        assert ("quantization" in made.source) == is_quantised(made.model)
        found.append((made.base_hash, ClosedPolicy(made, PREFIX).decide(TEXTS, LEGAL, 0.7)))
    assert found[0][0] == found[1][0]
    for wide, packed in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(packed.probs, wide.probs, atol=1e-5)


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_lora_on_quantised_layers_is_lora_on_what_they_hold(bits, tmp_path, packed_weights):
    made = with_adapter(load(folder(tmp_path / "model", "llama", bits=bits)))
    assert all(isinstance(place.linear, nn.QuantizedLinear) for place in places(made.model))
    acting = ClosedPolicy(made, PREFIX)
    packed = acting.pack([acting.encode(text) for text in TEXTS], LEGAL)
    before = acting.logps(packed, 0.7)
    report = fuse(made, tmp_path / "fused")
    assert report.lost < 1e-6
    wide = load(tmp_path / "fused")  # floats: our own modules, and the tree
    assert not isinstance(reading_of(wide.model), Foreign)
    np.testing.assert_allclose(ClosedPolicy(wide, PREFIX).logps(packed, 0.7), before, atol=2e-5)


@pytest.mark.parametrize("kind", ["gemma3_text", "phi3", "gpt2"])
def test_a_fused_model_of_mlx_lm_is_a_chat_model_still(kind, tmp_path):
    made = with_adapter(load(folder(tmp_path / "model", kind, chat=True)))
    acting = ClosedPolicy(made, PREFIX)
    before = [one.probs for one in acting.decide(TEXTS, LEGAL)]
    fuse(made, tmp_path / "fused")
    again = ClosedPolicy(load(tmp_path / "fused"), PREFIX)
    assert again.prefix_ids == acting.prefix_ids and again.brain.form == made.form
    for probs, wanted in zip((one.probs for one in again.decide(TEXTS, LEGAL)), before, strict=True):
        np.testing.assert_allclose(probs, wanted, atol=2e-5)


def test_half_precision_is_hashed_as_stored_and_held_as_float32_on_a_cpu(tmp_path):
    made = load(folder(tmp_path / "model", "qwen3", dtype=mx.bfloat16))
    same = load(folder(tmp_path / "same", "qwen3", dtype=mx.bfloat16))
    other = load(folder(tmp_path / "wide", "qwen3"))
    assert made.base_hash == same.base_hash != other.base_hash
    kinds = {value.dtype for value in flat(made.model.parameters()).values()}
    wanted = mx.float32 if npc.mlx.ON_CPU else mx.bfloat16
    assert kinds == {wanted} and made.precision == wanted


def test_experts_are_left_alone_and_an_adapter_must_fit(tmp_path):
    made = with_adapter(load(folder(tmp_path / "model", "qwen3_moe")))
    names = set(adapters.get_adapter(made))
    assert "model.layers.1.mlp.gate.lora_a" in names and not any("switch" in name for name in names)
    adapters.save_adapter(made, tmp_path / "adapter")
    other = load(folder(tmp_path / "other", "phi3"))
    with pytest.raises(AdapterError, match="base_hash"):
        adapters.load_adapter(other, tmp_path / "adapter")


def test_questions_are_counted_by_what_they_take(tmp_path):
    shared, alone = (ClosedPolicy(load(folder(tmp_path / kind, kind)), PREFIX) for kind in ("qwen3", "lfm2"))
    layout = shared.table.layout(LEGAL[2])
    paths = packed_tokens(shared.present()[0], layout, 10, 4) - 10
    assert paths > 0 and shared.row_tokens(10, LEGAL[2]) == 10 + paths
    assert alone.row_tokens(10, LEGAL[2]) >= 14 + paths
    assert shared.row_tokens(10, LEGAL[1]) == 10 and alone.row_tokens(10, LEGAL[1]) == 10 + len(alone.prefix_ids)
    assert shared.training_rows(10_000, 64) < shared.training_rows(10, 64) == 64


def test_no_prefix_and_one_token_prompts(tmp_path):
    for kind in ("qwen3", "lfm2"):
        acting = ClosedPolicy(load(folder(tmp_path / kind, kind)), "")
        packed = acting.pack([[30], [30, 40]], [LEGAL[0], LEGAL[2]])
        reading = acting.present()[0]
        both = np.array(action_logps(reading, packed, prefix_of_foreign(reading, [])))
        one = np.array(action_logps(reading, acting.pack([[30]], [LEGAL[0]]), []))
        np.testing.assert_allclose(both[0], one[0], atol=1e-5)

