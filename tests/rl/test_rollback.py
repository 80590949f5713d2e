"""A policy that collapses is taken back: to the best validated node, told, and on with a smaller step or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from rl.config import TrainConfig
from rl.health import SMALLER
from rl.policies import find_adapter
from rl.trainer import Trainer
from tests.rl.making import tiny_model


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> TrainConfig:
    model, adapter = tiny_model(tmp_path_factory.mktemp("tiny"))
    return TrainConfig(
        scenario="fetch_item", model=str(model), adapter=str(adapter), updates=3, groups=2, group_size=4, passes=1,
        validate_every=1, validation_episodes=4, test_episodes=4, workers=1, run_id="test", rate=0.05,
    )  # fmt: skip


def started(out: Path, config: TrainConfig, resume: bool = False) -> tuple[Trainer, list[str]]:
    said: list[str] = []
    out.mkdir(exist_ok=True)
    return Trainer(out, config, said.append, resume), said


def of(arrays) -> dict[str, bytes]:
    return {name: np.array(value).tobytes() for name, value in arrays.items()}


def collapsing(config: TrainConfig, **how) -> TrainConfig:
    """Any step at all is one too far."""
    return msgspec.structs.replace(config, kl_limit=1e-9, **how)


def test_a_collapse_goes_back_to_the_best_validated_node_and_on_with_a_smaller_step(given, tmp_path):
    trainer, said = started(tmp_path / "run", collapsing(given))
    before = of(trainer.state.adapter)
    trainer.baselines()
    trainer.one_update()
    line = trainer.state.metrics[-1]
    assert line["rolled_back_to"] == "start" and line["validation"] is None
    assert line["kl_after"] > 1e-9
    assert of(trainer.state.adapter) == before
    assert trainer.state.node == "start" and trainer.keeper.tree.head() == "start"
    assert any(text.startswith("roll-back: KL to the start is") and "back to start" in text for text in said)
    trainer.one_update()
    trainer.close()
    first, second = trainer.state.metrics
    assert second["learning_rate"] < SMALLER * first["learning_rate"] * 2.1  # the warm-up doubles it meanwhile
    # what collapsed is kept, beside the line that goes on
    assert trainer.keeper.tree.read("u0001")["rolled_back_to"] == "start"
    assert trainer.keeper.tree.read("u0002")["parent"] == "start"
    assert of(trainer.keeper.read_adapter("u0001")) != before


def test_too_many_roll_backs_stop_the_training_and_the_head_plays(given, tmp_path):
    trainer, said = started(tmp_path / "run", collapsing(given, rollbacks=1))
    summary = trainer.run()
    trainer.close()
    assert summary["updates"] == 2 and summary["head"] == "start"
    assert any("training ends here" in text and "--rollbacks 1" in text for text in said)
    assert summary["trained"] == summary["baseline"]


def test_a_run_stopped_after_a_roll_back_goes_on_as_the_straight_one(given, tmp_path):
    config = collapsing(given, rollbacks=9)
    straight, _ = started(tmp_path / "straight", config)
    straight.run()
    straight.close()
    halted, _ = started(tmp_path / "halted", config)
    halted.baselines()
    halted.one_update()
    halted.close()
    again, _ = started(tmp_path / "halted", config, resume=True)
    assert again.state.node == "start" and again.state.rate_scale == SMALLER
    again.run()
    again.close()
    for node in ("u0001", "u0002", "u0003"):
        assert of(again.keeper.read_adapter(node)) == of(straight.keeper.read_adapter(node))
    assert len(again.state.metrics) == 3


def test_a_gradient_that_is_no_number_takes_no_step(given, tmp_path, monkeypatch):
    trainer, said = started(tmp_path / "run", given)
    before = of(trainer.state.adapter)
    monkeypatch.setattr(trainer.state.optimizer, "step",
                        lambda weights, gradient, rate: ({n: v * np.nan for n, v in weights.items()}, float("nan")))
    trainer.baselines()
    trainer.one_update()
    trainer.close()
    assert of(trainer.state.adapter) == before
    assert any("roll-back: gradient_norm is nan" in text for text in said)
    assert trainer.state.metrics[-1]["gradient_norm"] is None


@pytest.mark.slow
def test_a_learning_rate_a_hundred_times_too_high_ends_in_a_roll_back_that_is_told(tmp_path):
    config = TrainConfig(
        scenario="fetch_item", model="nano", adapter=find_adapter("nano", "fetch_item"), updates=6, rate=0.1,
        validation_episodes=100, test_episodes=100, run_id="test",
    )  # fmt: skip
    trainer, said = started(tmp_path / "run", config)
    summary = trainer.run()
    trainer.close()
    assert any(text.startswith("roll-back: ") for text in said)
    # never worse than what it started from
    assert summary["trained"]["success"] >= summary["baseline"]["ci_low"]
