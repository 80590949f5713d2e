"""The speed benchmark counts the work that had to be done, and no more."""

from __future__ import annotations

import json

import pytest

from benchmarks import speed
from rl.learner import Settings, set_up
from rl.objective import Goal
from rl.policies import find_adapter
from rl.rollout import Plan


@pytest.fixture(scope="module")
def worker():
    return set_up(Settings("fetch_item", "nano", 0, 0.0, 1.0, Goal("grpo", speed.LIMITS, 0.02)),
                  find_adapter("nano", "fetch_item"))  # fmt: skip


def measured(worker, members):
    options = worker.scenario.resolve_options({"difficulty": "1"})
    # equal dice: all members of the group play the very same episode
    return speed.measure(worker, {"plans": [Plan(0, options, "g", "same") for _ in range(members)]})


def test_the_operations_are_those_of_the_linear_layers_over_what_was_asked(worker):
    found = measured(worker, 1)
    config = worker.policy.brain.config
    inner = config.num_attention_heads * config.head_dim
    layer = config.hidden_size * (4 * inner + 3 * config.intermediate_size)  # q k v o, gate up down
    tokens = sum(
        len(turn.prompt_ids) + len(worker.policy.closed.table.layout(tuple(turn.legal)).token_ids_N)
        for turn in worker.episodes[0].turns
    )
    assert found["play_operations"] == 2 * config.num_hidden_layers * layer * tokens
    assert found["train_operations"] == 3 * found["play_operations"]


def test_what_siblings_ask_alike_counts_once(worker):
    one, four = measured(worker, 1), measured(worker, 4)
    assert four["turns"] == 4 * one["turns"]
    assert (four["play_operations"], four["train_operations"]) == (one["play_operations"], one["train_operations"])


def test_the_command_prints_a_table_and_one_object(capsys):
    few = ["--groups", "2", "--group-size", "2", "--option", "difficulty=1", "--workers", "3"]
    assert speed.main([*few, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert found["workers"] == 2
    assert all(0 < found[f"matmul_share_{part}{of}"] < 1 for part in ("rollout", "update") for of in ("", "_cpu"))
    assert any("rollout" in line for line in lines)
    assert speed.main(["--workers", "0"]) == 2
    assert "--workers 0: 1 or more" in capsys.readouterr().err
