"""What went wrong for others in training, put in here on purpose: each fault must make its test fail.

    python -m tests.rl.faults [WORD ...]     (faults whose name holds a word; all without)

Each fault is one change to one file, made in a copy of the source. `tests/rl/test_faults.py` keeps the table in step
with the source; running it all takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Fault:
    """`old` becomes `new` in `file`; then `test` fails."""

    name: str
    file: str
    old: str
    new: str
    test: str


LOSSES, LEARNER, CREDIT = "tests/rl/test_losses.py", "tests/rl/test_learner.py", "tests/rl/test_credit.py"
POLICY, TRAINER = "tests/npc/test_policy.py", "tests/rl/test_trainer.py"

FAULTS = [
    Fault("ids rebuilt from the text", "rl/learner.py", "pack_unique([turn.prompt_ids for turn in turns]",
          "pack_unique([policy.closed.encode(turn.observation) for turn in turns]",
          f"{LEARNER}::test_ids_are_used_as_recorded"),
    Fault("a long prompt cut on the left", "npc/policy.py",
          "return self.brain.prompt_ids(observation)", "return self.brain.prompt_ids(observation)[-100:]",
          f"{LEARNER}::test_a_long_prompt_is_never_cut"),
    Fault("log-probabilities not tempered in the loss", "rl/learner.py",
          "action_logps(weights, packed, prefix, settings.tau)", "action_logps(weights, packed, prefix, 1.0)",
          f"{LEARNER}::test_recomputed_log_probabilities_are_those_sampled_at_tau"),
    Fault("the terminator's log-probability dropped", "npc/policy.py",
          "for edge in layout.edge_of_token_A[index]]", "for edge in layout.edge_of_token_A[index][:-1]] + [0.0]",
          f"{POLICY}::test_log_probabilities_add_up_and_align_with_the_ids"),
    Fault("scored one token too early", "npc/policy.py", "[mx.array(packed.open_at_O)]",
          "[mx.maximum(mx.array(packed.open_at_O) - 1, 0)]", f"{POLICY}::test_equals_the_plain_evaluation"),
    Fault("the ratio taken against the reference", "rl/objective.py",
          "mx.stop_gradient(logp_N), batch.behaviour_logp_N)",
          "mx.stop_gradient(logp_N), logp_N if batch.reference_logp_N_A is None else "
          "chosen_logps(batch.reference_logp_N_A, batch.chosen_N))",
          f"{LOSSES}::test_ratio_is_against_the_behaviour_policy_not_the_reference"),
    Fault("KL with the wrong sign", "rl/objective.py", "value_N + goal.kl_weight * kl_N",
          "value_N - goal.kl_weight * kl_N", f"{LOSSES}::test_kl_pulls_towards_the_reference"),
    Fault("a ratio built from a constant", "rl/losses/rows.py", "return self.logp_N - self.behaviour_logp_N",
          "return mx.stop_gradient(self.logp_N) - self.behaviour_logp_N",
          f"{LOSSES}::test_gradient_flows_at_ratio_one_and_against_the_advantage"),
    Fault("the forward outside of the gradient", "rl/learner.py",
          "logps = action_logps(weights, packed, prefix, settings.tau)",
          "logps = mx.stop_gradient(action_logps(weights, packed, prefix, settings.tau))",
          f"{LEARNER}::test_only_the_adapter_gets_gradient_and_all_of_it"),
    Fault("freezing forgotten", "npc/adapters/__init__.py", "    brain.model.freeze()\n", "",
          f"{LEARNER}::test_only_the_adapter_gets_gradient_and_all_of_it"),
    Fault("dropout in the loss and not in the rollout, or the other way about", "npc/policy.py",
          "    logits_O_C = logits_O_C.astype", "    logits_O_C = logits_O_C + mx.random.normal(logits_O_C.shape)\n"
          "    logits_O_C = logits_O_C.astype",
          f"{LEARNER}::test_ratio_is_one_at_the_first_pass_and_not_at_the_second"),
    Fault("a zero-spread group kept for the KL", "rl/credit.py", 'Credit("dead" if one is None else "live", one)',
          'Credit("dead" if one is None else "live", one or Credited(np.zeros(len(rewards[i]))))',
          f"{CREDIT}::test_a_dead_group_has_no_credit_and_leaves_the_others_theirs"),
    Fault("a failure that takes other groups with it", "rl/credit.py",
          "if any(episodes[i].ended == FAILED for i in members):", "if any(e.ended == FAILED for e in episodes):",
          f"{CREDIT}::test_a_failed_episode_drops_its_group_and_no_other"),
    Fault("longer episodes weigh more", "rl/losses/rows.py", "return rows.mask_N / mx.maximum(rows.length_N, 1)",
          "return rows.mask_N", f"{LOSSES}::test_means_by_hand"),
    Fault("the baseline counts turns", "rl/credit.py", "returns = np.array([float(np.sum(r)) for r in rewards])",
          "returns = np.array([float(np.mean(r)) for r in rewards])",
          f"{CREDIT}::test_longer_episodes_do_not_move_the_baseline"),
    Fault("exp overflows in the ratio", "rl/losses/rows.py", "mx.exp(mx.clip(log_ratio, -40.0, 40.0))",
          "mx.exp(log_ratio)", f"{LOSSES}::test_extreme_ratios_stay_finite"),
    Fault("exp overflows in the KL estimator", "rl/kl.py", "mx.clip(reference_logp_N - logp_N, -20.0, 20.0)",
          "reference_logp_N - logp_N", f"{LOSSES}::test_k3_does_not_overflow"),
    Fault("the first observation thrown away", "rl/rollout.py",
          "views.append(TurnView(state, scenario.observation(state),", 'views.append(TurnView(state, "",',
          "tests/rl/test_branching.py::test_a_branch_stands_in_the_world_that_its_record_says"),
    Fault("rollouts by the base", "rl/learner.py",
          '    began = time.perf_counter()\n    set_adapter(worker.policy.brain, job["adapter"])\n',
          "    began = time.perf_counter()\n", f"{LEARNER}::test_rollouts_use_the_adapter_of_their_job"),
    Fault("resume forgets the optimizer", "rl/keeping.py",
          'state.optimizer.load(self.tree.weights(node) / "optimizer.safetensors")', "pass",
          f"{TRAINER}::test_two_updates_straight_equal_one_a_stop_and_another"),
    Fault("resume re-seeds the dice", "rl/gathering.py", 'draws = f"{self.config.seed}/train/{number}"',
          'draws = f"{self.config.seed}/{state.attempt}/train/{number}"',
          f"{TRAINER}::test_two_updates_straight_equal_one_a_stop_and_another"),
    Fault("resume begins the learning rate anew", "rl/trainer.py", "rate_at(number, config.updates",
          "rate_at(number if not state.attempt else 1, config.updates",
          f"{TRAINER}::test_two_updates_straight_equal_one_a_stop_and_another"),
    Fault("logged log-probabilities that are NaN make the ratio 1", "rl/share.py",
          "and bool(np.isfinite(turn.logp_values).all())", "",
          "tests/rl/test_share.py::test_what_was_not_sampled_never_enters_the_ratio"),
    Fault("greedy turns in the ratio", "rl/share.py", "not turn.greedy\n        and not turn.fallback",
          "not turn.fallback", "tests/rl/test_share.py::test_what_was_not_sampled_never_enters_the_ratio"),
    Fault("a replayed episode of another shape", "rl/offline.py", "for turn in rescored(episode)]",
          "for turn in rescored(episode)[:-1]]",
          "tests/rl/test_offline.py::test_recorded_groups_read_back_with_what_was_sampled"),
    Fault("an adapter saved with lora_B all zero", "npc/adapters/__init__.py",
          "str(folder / WEIGHTS_FILE), tensors,",
          "str(folder / WEIGHTS_FILE), {k: v * (not k.endswith('lora_b')) for k, v in tensors.items()},",
          "tests/npc/test_models.py::test_a_saved_model_with_its_adapter_acts_alike"),
    Fault("an adapter fused into weights that round it away", "npc/adapters/fuse.py", "if lost > LOST_AT_MOST:",
          "if lost > 1e9:",
          "tests/npc/test_adapter_tools.py::"
          "test_a_fuse_that_would_round_the_adapter_away_is_refused_and_writes_nothing"),
    Fault("a shared key-value buffer written by one of its readers", "npc/generate.py",
          "self._cache: PrefixKV = []", "self._cache: PrefixKV = prefix",
          "tests/npc/test_generate.py::test_a_shared_prefix_is_left_as_it_was_for_those_who_read_it_next"),
    Fault("freed buffers kept for ever", "rl/learner.py", "    mx.clear_cache()  # else", "    # else",
          f"{LEARNER}::test_the_cache_of_freed_buffers_does_not_grow"),
    Fault("actors play by other weights than they were handed", "rl/players.py",
          "            set_adapter(brain, adapter)\n", "",
          "tests/rl/test_actors.py::test_with_one_actor_everything_is_as_in_this_process"),
    Fault("groups that are too old are learned from", "rl/actors.py", "if group.version.number < oldest]",
          "if group.version.number < 0]",
          "tests/rl/test_actors.py::test_a_slow_actor_costs_its_groups_where_they_have_grown_too_old"),
    Fault("the groups of a lost actor are left out", "rl/crew.py", "        self._queue.extendleft(reversed(tasks))\n",
          "", "tests/rl/test_crew.py::test_a_dead_players_work_is_done_by_another"),
    Fault("a worker that was killed comes back without what it had", "rl/pool.py",
          "for before, given in [*self._kept[worker], (job, payload)]:", "for before, given in [(job, payload)]:",
          "tests/rl/test_pool.py::test_a_killed_worker_is_started_again_with_what_it_had_and_its_job_is_done"),
    Fault("collapse goes unseen", "rl/health.py", "if divergence > config.kl_limit:", "if divergence < 0:",
          "tests/rl/test_health.py::test_kl_above_its_limit"),
    Fault("collapse is told and the broken policy goes on", "rl/trainer.py",
          "            self.keeper.go_to(state, back_to)\n", "",
          "tests/rl/test_rollback.py::test_a_collapse_goes_back_to_the_best_validated_node_and_on_with_a_smaller_step"),
]  # fmt: skip


def put_in(fault: Fault, root: Path) -> None:
    """Makes the fault in a copy of the source at `root`."""
    path = root / fault.file
    text = path.read_text(encoding="utf-8")
    if fault.old not in text:
        raise ValueError(f"{fault.file}: no {fault.old!r} in it any more")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def is_caught(fault: Fault) -> tuple[bool, str]:
    """Whether the fault's test fails with the fault in, and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "errand"
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".git", ".venv", "runs", "__pycache__", "docs"))
        put_in(fault, root)
        environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", fault.test],
                              cwd=root, env=environment, capture_output=True, text=True)  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 1, told[0] if told else (done.stdout + done.stderr).strip()[-200:]


def main(words: list[str]) -> int:
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    missed = 0
    for fault in chosen:
        caught, last = is_caught(fault)
        missed += not caught
        print(f"{'caught' if caught else 'MISSED'}  {fault.name}: {last}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
