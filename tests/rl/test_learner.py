"""What a worker plays, keeps and learns from: each test here fails when the fault that it names is put in."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

import rl.learner as learner
import scenarios
from npc.adapters import get_adapter
from npc.mlx import mx
from npc.models import base_weights, hash_arrays
from recorder import Reader
from rl.credit import Credited
from rl.learner import Settings, Worker, collect, gradient, keep, play_plans, set_up
from rl.logbook import Author, Logbook
from rl.losses import Limits
from rl.objective import Goal
from rl.optim import Optimizer
from rl.policies import find_adapter
from rl.proof import ProofError, prove
from rl.rollout import FAILED, Plan, play
from rl.share import make_share

GOAL = Goal("grpo", Limits(0.2, 0.2, np.inf, 20), kl_weight=0.05)
SETTINGS = Settings("fetch_item", "nano", 16, 2.0, 1.0, GOAL)


def made(settings: Settings = SETTINGS) -> Worker:
    return set_up(settings, find_adapter("nano", "fetch_item"))


def plans(groups: int = 2, size: int = 4) -> list[Plan]:
    return [Plan(seed, {}, f"g{seed}", f"{seed}/{member}") for seed in range(groups) for member in range(size)]


def tensors(worker: Worker) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in get_adapter(worker.policy.brain).items()}


@pytest.fixture(scope="module")
def worker() -> Worker:
    return made()


def collected(worker: Worker) -> dict:
    """Plays a share and keeps all of it, every second turn good and every other one bad."""
    collect(worker, {"adapter": worker.reference, "plans": plans()})
    keep(worker, credit_for(worker.episodes))
    return {"adapter": worker.reference}


def credit_for(episodes) -> list[Credited]:
    return [Credited(1.0 - 2.0 * (np.arange(len(episode.turns)) % 2)) for episode in episodes]


@pytest.mark.parametrize("tau", [1.0, 0.7, 1.5])
def test_recomputed_log_probabilities_are_those_sampled_at_tau(tau):
    worker = made(dataclasses.replace(SETTINGS, tau=tau))
    job = collected(worker)
    assert gradient(worker, job).worst_ratio < 5e-4
    # the fault: sampled at one temperature, recomputed at another
    worker.settings = dataclasses.replace(worker.settings, tau=tau * 1.2)
    assert gradient(worker, job).worst_ratio > 1e-2
    with pytest.raises(ProofError, match="recomputed log-probabilities differ"):
        prove(worker, job)


def test_ids_are_used_as_recorded(worker):
    """What a turn's text says now is nothing to the loss; its ids are all."""
    collect(worker, {"adapter": worker.reference, "plans": plans()})
    credit = credit_for(worker.episodes)
    for episode in worker.episodes:
        episode.turns[:] = [msgspec.structs.replace(turn, observation="other words") for turn in episode.turns]
    assert gradient(worker, {"adapter": worker.reference, "credit": credit}).worst_ratio < 5e-4
    for episode in worker.episodes:
        episode.turns[:] = [msgspec.structs.replace(t, prompt_ids=t.prompt_ids[1:]) for t in episode.turns]
    assert gradient(worker, {"adapter": worker.reference, "credit": credit}).worst_ratio > 1e-2


def test_a_long_prompt_is_never_cut(worker):
    words = " ".join(["lantern dock"] * 200)
    ids = worker.policy.closed.encode(words)
    assert len(ids) > 400
    assert ids[: len(ids) // 2] != ids[len(ids) // 2 :]
    (decision,) = worker.policy.closed.decide([words], [("wait", "ask Tom")])
    assert decision.prompt_ids == ids


def test_the_cache_of_freed_buffers_does_not_grow(worker):
    """MLX keeps what was freed, one buffer for each shape: after a gradient there is none of it left."""
    job = collected(worker)
    gradient(worker, job)
    assert mx.get_cache_memory() < 8 << 20


def test_ratio_is_one_at_the_first_pass_and_not_at_the_second(worker):
    job = collected(worker)
    first = gradient(worker, job)
    assert first.worst_ratio < 5e-4
    moved, _ = Optimizer().step(worker.reference, first.arrays, 1e-3)
    assert gradient(worker, job | {"adapter": moved}).worst_ratio > 1e-2


def test_kl_to_the_start_is_zero_at_the_start_and_not_after_a_step(worker):
    job = collected(worker)
    first = gradient(worker, job)
    assert abs(first.kl) < 1e-4
    moved, _ = Optimizer().step(worker.reference, first.arrays, 1e-3)
    assert gradient(worker, job | {"adapter": moved}).kl > 1e-3


def test_a_step_leaves_the_base_bit_identical(worker):
    before = hash_arrays(base_weights(worker.policy.brain))
    job = collected(worker)
    moved, _ = Optimizer().step(worker.reference, gradient(worker, job).arrays, 1e-2)
    gradient(worker, job | {"adapter": moved})
    assert hash_arrays(base_weights(worker.policy.brain)) == before


def test_only_the_adapter_gets_gradient_and_all_of_it(worker):
    job = collected(worker)
    found = gradient(worker, job)
    assert set(found.arrays) == set(worker.reference)
    assert all(np.any(value) for value in found.arrays.values())


def test_what_has_no_credit_gives_no_gradient_not_even_of_the_kl(worker):
    """A share of live and dead episodes has the gradient of the live ones alone."""
    collect(worker, {"adapter": worker.reference, "plans": plans()})
    both = worker.episodes
    moved = {"adapter": {name: value + np.float32(0.01) for name, value in worker.reference.items()}}
    worker.episodes = both[:4]
    alone = gradient(worker, moved | {"credit": credit_for(both[:4])})
    worker.episodes = both
    mixed = gradient(worker, moved | {"credit": [*credit_for(both[:4]), None, None, None, None]})
    assert mixed.counts.rows == alone.counts.rows > 0
    assert mixed.counts.episodes == 4
    for name in alone.arrays:
        np.testing.assert_array_equal(mixed.arrays[name], alone.arrays[name])


def test_a_scenario_that_raises_fails_its_episode_only(worker, monkeypatch):
    scenario = worker.scenario
    apply = type(scenario).apply

    def broken(self, state, phrase, on_tick=None):
        if state.state.seed == 1:
            raise RuntimeError("the bridge is out")
        return apply(self, state, phrase, on_tick)

    monkeypatch.setattr(type(scenario), "apply", broken)
    episodes, _ = collect(worker, {"adapter": worker.reference, "plans": plans()})
    assert [e.ended == FAILED for e in episodes] == [False] * 4 + [True] * 4
    assert "the bridge is out" in episodes[-1].error


def test_log_probabilities_read_back_from_the_log_are_those_sampled(worker, tmp_path):
    episodes = play_plans(worker, {"adapter": worker.reference, "plans": plans(), "greedy": False})
    with Logbook(tmp_path / "log.b22", scenarios.get("fetch_item"), "test", "run") as log:
        log.add(episodes, Author("nano"), "train", "train")
    with Reader(tmp_path / "log.b22") as log:
        read = [turn for episode in log.episodes() for turn in episode.turns]
    played = [turn for episode in episodes for turn in episode.turns]
    assert [turn.logps for turn in read] == [turn.logps for turn in played]
    assert [turn.prompt_ids for turn in read] == [turn.prompt_ids for turn in played]
    assert all(np.isfinite(turn.logp_values).all() and turn.logprob < 0 for turn in read if len(turn.legal) > 1)
    # learned from as read, the ratio is still 1
    for episode, again in zip(episodes, _chunks_of(read, [len(e.turns) for e in episodes]), strict=True):
        episode.turns[:] = again
    worker.episodes = episodes
    assert gradient(worker, {"adapter": worker.reference, "credit": credit_for(episodes)}).worst_ratio < 5e-4


def test_proof_passes_and_names_what_it_found(worker):
    found = prove(worker, collected(worker))
    assert found["worst_log_ratio"] < 5e-4
    assert found["adapter_changes_logps_by"] > 0
    assert found["step_changes_logps_by"] > 0


def test_proof_refuses_rollouts_that_do_not_use_the_adapter(worker, monkeypatch):
    job = collected(worker)
    monkeypatch.setattr("npc.adapters.LoRALinear.__call__", lambda self, x: self.linear(x))
    monkeypatch.setattr("npc.weights.effective_weight", lambda m: m.linear.weight if "lora_a" in m else m.weight)
    with pytest.raises(ProofError):
        prove(worker, job)


def test_proof_refuses_a_base_that_trains(worker, monkeypatch):
    job = collected(worker)
    hashes = iter(["before", "after"])
    monkeypatch.setattr("rl.proof.hash_arrays", lambda arrays: next(hashes))
    with pytest.raises(ProofError, match="not frozen"):
        prove(worker, job)


def test_proof_refuses_gradient_that_misses_a_tensor(worker, monkeypatch):
    job = collected(worker)
    honest = learner.gradient

    def lame(worker, job):
        found = honest(worker, job)
        name = next(n for n in found.arrays if n.endswith("q_proj.lora_b"))
        return dataclasses.replace(found, arrays=found.arrays | {name: np.zeros_like(found.arrays[name])})

    monkeypatch.setattr("rl.proof.gradient", lame)
    with pytest.raises(ProofError, match="gets no gradient"):
        prove(worker, job)


def test_rollouts_use_the_adapter_of_their_job(worker):
    """The fault: the weights of an earlier job, or the bare base, play on."""
    given, _ = collect(worker, {"adapter": worker.reference, "plans": plans()})
    bare = {name: np.zeros_like(value) for name, value in worker.reference.items()}
    without, _ = collect(worker, {"adapter": bare, "plans": plans()})
    assert given[0].turns[0].probs != without[0].turns[0].probs
    again, _ = collect(worker, {"adapter": worker.reference, "plans": plans()})
    assert [t.probs for t in again[0].turns] == [t.probs for t in given[0].turns]


def test_siblings_start_from_one_state_and_part(worker):
    episodes = play(worker.policy, worker.scenario, plans(groups=1, size=8))
    assert len({str(e.digest_start) for e in episodes}) == 1
    assert len({str([t.executed for t in e.turns]) for e in episodes}) > 1


def test_batching_changes_no_draw(worker):
    together = play(worker.policy, worker.scenario, plans())
    alone = [play(worker.policy, worker.scenario, [plan])[0] for plan in plans()]
    assert [[t.executed for t in e.turns] for e in together] == [[t.executed for t in e.turns] for e in alone]


def _chunks_of(turns, sizes):
    start = 0
    for size in sizes:
        yield turns[start : start + size]
        start += size


def test_turns_without_advantage_cost_nothing_and_change_nothing(worker, monkeypatch):
    """Where KL and entropy have no price, their gradient is 0: learned from with them and without, all is the same."""
    job = collected(worker)
    credit = [Credited(np.arange(len(episode.turns)) % 2.0) for episode in worker.episodes]
    free = dataclasses.replace(GOAL, kl_weight=0.0)
    monkeypatch.setattr(worker, "settings", dataclasses.replace(SETTINGS, goal=free))
    idle = gradient(worker, job | {"credit": credit})
    turns = len(worker.share.turns)
    monkeypatch.setattr(learner, "make_share", lambda *given, **how: make_share(*given, **how | {"idle": True}))
    whole = gradient(worker, job | {"credit": credit})
    assert turns < len(worker.share.turns) == whole.counts.rows and idle.counts == whole.counts
    assert idle.loss == pytest.approx(whole.loss, rel=1e-5)
    assert idle.entropy == pytest.approx(whole.entropy, rel=0.5)  # a mean over fewer turns
    for name, value in whole.arrays.items():
        np.testing.assert_allclose(idle.arrays[name], value, rtol=0, atol=1e-5 * np.abs(value).max())
