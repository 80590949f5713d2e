"""Free text goes through the same trainer: tokens are rows, what was drawn is what the loss recomputes, cut-off texts
are masked, and a policy of texts gets better at a task of texts."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from npc.adapters import attach, get_adapter, set_adapter
from npc.mlx import mx
from npc.models import load
from recorder import Reader
from rl import distill, train
from rl.credit import Credited
from rl.kl import k2, k3
from rl.learner import Settings, Worker, gradient, keep, turn_gradient
from rl.losses import LOSSES, Limits
from rl.objective import Goal
from rl.optim import Optimizer
from rl.policies import ModelPolicy
from rl.rollout import TRUNCATED, Plan, play
from rl.share import make_share, trains
from scenarios.contract import FreeText, Outcome, RewardTerm
from scenarios.plain import PlainScenario

WANTED = "rope"
SPEC = "tests.rl.test_text_turns:Cry"


class Called(msgspec.Struct):
    """Whether something was called out."""

    seed: int
    said: str = ""
    turn: int = 0


class Cry(PlainScenario):
    """Call out for rope: every word "rope" among the first words earns."""

    name = SPEC
    version = 1
    turn_cap = 1
    state_type = Called
    free_text = FreeText(max_tokens=10)
    reward_terms = (RewardTerm("rope", "a word that is rope", 0.0, 1.0),)
    prefix = "Call out for the rope ."
    vocabulary = tuple(prefix.split())

    def build(self, seed, options=None):
        return Called(seed)

    def observation(self, state):
        return "done" if state.turn else "call"

    def legal(self, state):
        return ()

    def apply(self, state, phrase, on_tick=None):
        state.turn, state.said = 1, phrase
        count = min(phrase.split().count(WANTED), 4)
        return Outcome("called", phrase[:40], 1, {"rope": count / 4}, self.ended(state))

    def ended(self, state):
        if not state.turn:
            return None
        return "success" if state.said.split().count(WANTED) >= 4 else "quiet"

    def oracle(self, state):
        return f" {WANTED}" * 4  # a word of nano's vocabulary holds the space before it

    def teacher(self, memory, observation):
        return self.oracle(None), memory


CRY = Cry()


def goal(name="grpo", kl_weight=0.0):
    loss = LOSSES[name]
    return Goal(name, Limits(loss.epsilon, loss.epsilon_high, float("inf"), CRY.turn_cap), kl_weight)


def worker(tau=1.0, name="grpo", kl_weight=0.0):
    """A worker whose adapter does something, with episodes that it played."""
    brain = load("nano")
    attach(brain, 4, 2.0, 1)
    dice = np.random.default_rng(1)
    start = {k: dice.normal(0, 0.05, v.shape).astype(np.float32) for k, v in get_adapter(brain).items()}
    set_adapter(brain, start)
    policy = ModelPolicy(brain, CRY.prefix, tau, CRY.free_text)
    made = Worker(Settings(SPEC, "nano", 4, 2.0, tau, goal(name, kl_weight)), policy, CRY, start)
    made.episodes = play(policy, CRY, [Plan(i, {}, f"g{i // 4}", f"d{i}") for i in range(8)])
    return made, start


def credits(episodes, value=1.0):
    return [Credited(np.full(len(episode.turns), value * (-1) ** i)) for i, episode in enumerate(episodes)]


@pytest.mark.parametrize("tau", [1.0, 0.7])
def test_what_was_drawn_is_what_the_loss_recomputes_token_by_token(tau):
    made, start = worker(tau)
    texts = [turn for episode in made.episodes for turn in episode.turns]
    assert all(len(turn.logp_values) == len(turn.sampled_ids) and turn.legal == [] for turn in texts)
    found = gradient(made, {"adapter": start, "credit": credits(made.episodes)})
    assert found.worst_ratio < 5e-4
    counted = [turn for turn in texts if turn.policy_note != TRUNCATED]
    assert found.counts.rows == sum(len(turn.sampled_ids) for turn in counted)
    # the fault: recomputed at another temperature
    other = Worker(replace(made.settings, tau=tau + 0.5), made.policy, CRY, start)
    other.episodes = made.episodes
    assert gradient(other, {"adapter": start, "credit": credits(made.episodes)}).worst_ratio > 1e-2


def test_a_text_that_was_cut_off_gives_no_gradient():
    made, _ = worker()
    cut = [turn for episode in made.episodes for turn in episode.turns if turn.policy_note == TRUNCATED]
    assert cut and not any(map(trains, cut))
    share = make_share(made.episodes, credits(made.episodes), 8)
    assert not any(turn.policy_note == TRUNCATED for turn in share.turns)


def test_the_gradient_is_that_of_the_surrogate_by_finite_differences():
    made, start = worker()
    keep(made, credits(made.episodes))
    share = made.share
    batch = share.batch(slice(0, len(share.turns)), None)
    grads, _, _ = turn_gradient(made.policy, share.turns, batch, made.settings)
    name = "model.layers.1.mlp.up_proj.lora_b"
    slope = np.array(grads[name])
    at = np.unravel_index(np.abs(slope).argmax(), slope.shape)
    losses = []
    for step in (1e-2, -1e-2):
        moved = {key: value.copy() for key, value in start.items()}
        moved[name][at] += step
        set_adapter(made.policy.brain, moved)
        _, parts, _ = turn_gradient(made.policy, share.turns, batch, made.settings)
        losses.append(float(np.array(parts.loss)))
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(float(slope[at]), rel=0.05)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_loss_takes_texts(name):
    made, start = worker(name=name, kl_weight=0.1)
    found = gradient(made, {"adapter": start, "credit": credits(made.episodes)})
    moved, _ = Optimizer().step(start, found.arrays, 3e-2)
    again = gradient(made, {"adapter": moved})
    assert again.worst_ratio > 1e-3 and found.kl == pytest.approx(0, abs=1e-5) and again.kl > 0
    assert np.isfinite(again.loss) and again.entropy > 0


def test_the_estimates_of_kl_by_hand():
    logp, reference = mx.array([-1.0, -2.0]), mx.array([-1.5, -1.0])
    np.testing.assert_allclose(np.array(k2(logp, reference)), [0.125, 0.5])
    np.testing.assert_allclose(np.array(k3(logp, reference)), [np.exp(-0.5) - 0.5, np.exp(1) - 2], rtol=1e-6)


def test_a_policy_of_texts_learns_by_the_trainer_as_it_is(tmp_path):
    words = ["--scenario", SPEC, "--model", "nano", "--out", str(tmp_path / "run"), "--updates", "8", "--groups", "8",
             "--group-size", "8", "--rate", "3e-4", "--kl-weight", "0", "--validation-episodes", "16",
             "--passes", "1", "--test-episodes", "64", "--workers", "1"]  # fmt: skip
    assert train.main(words) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["trained"]["mean_reward"] > summary["baseline"]["mean_reward"] + 0.2
    with Reader(tmp_path / "run" / "episodes.b22") as log:
        turns = [turn for episode in log.episodes() if episode.begin.purpose == "train" for turn in episode.turns]
    assert turns and all(len(turn.logp_values) == len(turn.sampled_ids) > 0 for turn in turns)


def test_a_student_learns_to_write_what_the_teacher_wrote(tmp_path, capsys):
    words = ["--scenario", SPEC, "--student", "nano", "--episodes", "8", "--held-out", "4", "--validation", "16",
             "--max-epochs", "30", "--rate", "5e-3", "--out", str(tmp_path / "a"), "--json"]  # fmt: skip
    assert distill.main(words) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["greedy"] == 1.0 and line["agreement"] == 1.0 and line["success"] > line["before"]
    assert distill.main([*words, "--on-policy", "4"]) == 2
    assert "free text" in capsys.readouterr().err
