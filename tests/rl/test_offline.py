"""Learning from logs: which will do, with which rewards, and that nothing but what was sampled has a ratio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import scenarios
from npc.adapters import get_adapter, save_adapter, set_adapter
from recorder import Amend, Reader, Writer, rescore
from rl.config import TrainConfig
from rl.learner import Settings, Worker, spread_now
from rl.logbook import Author, Logbook
from rl.losses import Limits
from rl.objective import Goal
from rl.offline import OfflineError, read_groups
from rl.policies import ModelPolicy, make_policy, parse_policy
from rl.record import author_of, group_plans
from rl.record import main as record
from rl.rollout import play
from rl.train import main
from rl.trainer import Trainer
from tests.rl.making import Clumsy, tiny_model

FETCH = scenarios.get("fetch_item")
OPTIONS = FETCH.resolve_options({})
SETTINGS = Settings("fetch_item", "nano", 16, 2.0, 1.0, Goal("grpo", Limits(0.2, 0.2, np.inf, 20), 0.0))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> tuple[str, str]:
    model, adapter = tiny_model(tmp_path_factory.mktemp("tiny"))
    return str(model), str(adapter)


@pytest.fixture(scope="module")
def policy(tiny) -> ModelPolicy:
    return make_policy(parse_policy(":".join(tiny)), FETCH)


@pytest.fixture(scope="module")
def log(tiny, tmp_path_factory) -> Path:
    """Six groups of four by the tiny model."""
    path = tmp_path_factory.mktemp("recorded") / "log.b22"
    args = ["--scenario", "fetch_item", "--episodes", "24", "--group-size", "4", "--policy", ":".join(tiny)]
    assert record([*args, "--out", str(path)]) == 0
    return path


def train(tiny: tuple[str, str], *args: str) -> int:
    model, adapter = tiny
    return main(["--scenario", "fetch_item", "--model", model, "--adapter", adapter, *args])


def test_recorded_groups_read_back_with_what_was_sampled(log, policy):
    found = read_groups([log], FETCH, policy.brain, 1.0)
    assert [len(group) for group in found.groups] == [4] * 6
    assert found.left_out == 0
    with Reader(log) as reader:
        kept = [turn for episode in reader.episodes() for turn in episode.turns]
    read = [turn for group in found.groups for episode in group for turn in episode.turns]
    assert [(t.prompt_ids, t.logps, t.terms) for t in read] == [(t.prompt_ids, t.logps, t.terms) for t in kept]
    assert all(len({e.plan.seed for e in group}) == 1 for group in found.groups)


def test_the_recorded_policy_itself_has_all_of_its_sample(log, policy):
    worker = Worker(SETTINGS, policy, FETCH, {})
    episodes = [e for group in read_groups([log], FETCH, policy.brain, 1.0).groups for e in group]
    found = spread_now(worker, episodes)
    assert found.by_turn == pytest.approx(1.0, abs=1e-4)
    assert found.by_episode == pytest.approx(1.0, abs=1e-3)


def rewritten(log: Path, path: Path, **how) -> Path:
    """The log with other facts about its episodes."""
    with Reader(log) as reader, Writer(path) as out:
        first = reader.episode(reader.episode_ids()[0])
        prefix = reader.prefix(first.begin.prefix_hash)
        out.add_prefix(prefix.text, prefix.token_ids, prefix.tokenizer_hash)
        if "prefix_hash" in how:
            how["prefix_hash"] = out.add_prefix("another prefix")
        for episode in reader.episodes():
            out.begin_episode(msgspec.structs.replace(episode.begin, **how))
            for turn in episode.turns:
                out.turn(turn)
            out.end_episode(episode.end)
    return path


@pytest.mark.parametrize(
    ("field", "value"),
    [("scenario", "other"), ("scenario_version", 99), ("source_hash", "0" * 16), ("base_hash", "0" * 32),
     ("tokenizer_hash", "0" * 32), ("prefix_hash", "0" * 32)],
)  # fmt: skip
def test_a_log_of_something_else_is_refused_in_one_line(tiny, log, tmp_path, capsys, field, value):
    other = rewritten(log, tmp_path / "other.b22", **{field: value})
    out = tmp_path / "run"
    assert train(tiny, "--offline", str(other), "--out", str(out)) == 2
    said = capsys.readouterr().err
    assert f"{field} is" in said and "other.b22" in said and said.count("\n") == 1
    assert not out.exists()


def test_held_out_seeds_are_never_learned_from(log, tmp_path, policy):
    other = rewritten(log, tmp_path / "other.b22", split="test")
    with pytest.raises(OfflineError, match=r"no group of whole episodes on train seeds .* rl\.record"):
        read_groups([other], FETCH, policy.brain, 1.0)


def test_another_temperature_is_refused(log, policy):
    with pytest.raises(OfflineError, match="sampled at tau 1; learn from it with --tau 1"):
        read_groups([log], FETCH, policy.brain, 0.7)


def test_rewards_are_those_amended(log, tmp_path, policy):
    path = tmp_path / "amended.b22"
    path.write_bytes(log.read_bytes())
    with Reader(path) as reader:
        first, second = reader.episode_ids()[:2]
    with Writer(path, append=True) as out:
        out.amend(Amend(episode=first, turn=0, terms={"time": 7.0}, author="a test"))
        out.amend(Amend(episode=second, terms={"time": -3.0}, author="a test"))
    plain = [e for group in read_groups([log], FETCH, policy.brain, 1.0).groups for e in group]
    found = [e for group in read_groups([path], FETCH, policy.brain, 1.0).groups for e in group]
    assert found[0].turns[0].terms["time"] == 7.0
    assert found[0].reward == pytest.approx(plain[0].reward + 7.005)
    assert sum(turn.terms["time"] for turn in found[1].turns) == pytest.approx(-3.0)
    assert found[2].reward == plain[2].reward


def test_rewards_are_those_of_the_last_scoring(log, tmp_path, policy):
    """Every take earns 2 and nothing else counts; what was amended before it is superseded."""
    path = tmp_path / "rescored.b22"
    path.write_bytes(log.read_bytes())
    with Reader(path) as reader, Writer(path, append=True) as out:
        out.amend(Amend(episode=reader.episode_ids()[0], terms={"time": -3.0}, author="a test"))
    rescore(path, lambda e: [{"take": 2.0 * t.executed.startswith("take")} for t in e.turns], "takes")
    found = [e for group in read_groups([path], FETCH, policy.brain, 1.0).groups for e in group]
    for episode in found:
        assert [t.reward for t in episode.turns] == [2.0 * t.executed.startswith("take") for t in episode.turns]
    assert sum(episode.reward for episode in found) > 0


def test_a_start_that_is_too_far_from_what_was_recorded_is_refused(tiny, log, tmp_path, policy, capsys):
    far = tmp_path / "far"
    before = {name: np.array(value) for name, value in get_adapter(policy.brain).items()}
    set_adapter(policy.brain, {name: -40 * value for name, value in before.items()})
    save_adapter(policy.brain, far, {})
    set_adapter(policy.brain, before)
    assert train((tiny[0], str(far)), "--offline", str(log), "--ess-floor", "0.99", "--out", str(tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert "effective sample size at the start" in said and "--ess-floor 0.99" in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def by_rules(path: Path, player) -> Path:
    """Groups that nobody sampled from a model."""
    plans = [plan for group in group_plans(FETCH, OPTIONS, 0, 2, 4) for plan in group]
    with Logbook(path, FETCH, "test", "rules") as out:
        out.add(play(player, FETCH, plans), Author("clumsy"), "train", "train")
    return path


def test_what_nobody_sampled_is_refused_without_imitation(tiny, tmp_path, capsys):
    path = by_rules(tmp_path / "rules.b22", Clumsy(0.5))
    assert train(tiny, "--offline", str(path), "--out", str(tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert "--imitation" in said and said.count("\n") == 1


def config(tiny: tuple[str, str], log: Path, **how) -> TrainConfig:
    return TrainConfig(
        scenario="fetch_item", model=tiny[0], adapter=tiny[1], updates=1, groups=6,
        validation_episodes=4, test_episodes=4, workers=1, run_id="test", offline=[str(log)], **how,
    )  # fmt: skip


def trained(out: Path, given: TrainConfig) -> tuple[Trainer, list[str]]:
    said: list[str] = []
    out.mkdir()
    trainer = Trainer(out, given, said.append, resume=False)
    trainer.baselines()
    trainer.one_update()
    trainer.close()
    return trainer, said


def test_an_offline_update_plays_nothing_and_steps(tiny, log, tmp_path):
    trainer, said = trained(tmp_path / "run", config(tiny, log))
    line = trainer.state.metrics[-1]
    assert line["replayed"] == 24 and line["episodes"] == 0
    assert line["gradient_norm"] > 0
    assert 0 < line["ess_episode"] <= line["ess_turn"] <= 1
    assert any("at the start: 100.0 % of the actions, 100.0 % of the episodes" in one for one in said)
    # it was recorded by the start itself, so the trainer's proof that the ratio is 1 holds for the log
    assert any(one.startswith("self-proof: worst_log_ratio") for one in said)
    with Reader(tmp_path / "run/episodes.b22") as reader:
        assert not any(e.begin.purpose == "train" for e in reader.episodes())


def test_online_and_offline_are_mixed(tiny, log, tmp_path):
    trainer, _ = trained(tmp_path / "run", config(tiny, log, replay_ratio=0.5))
    line = trainer.state.metrics[-1]
    assert line["replayed"] == 12 and line["episodes"] == 12


def test_all_recorded_groups_come_before_any_comes_again(tiny, log, tmp_path):
    (tmp_path / "run").mkdir()
    trainer = Trainer(tmp_path / "run", config(tiny, log), lambda line: None, resume=False)
    trainer.close()
    drawn = [e.plan.group for number in range(1, 7) for e in trainer.gathering._from_logs(number, 2)[0]]
    assert len(set(drawn[:24])) == 6 and len(set(drawn[24:])) == 6
    assert drawn[:24] != drawn[24:]


def test_demonstrations_are_imitated_without_a_ratio(tiny, tmp_path):
    path = by_rules(tmp_path / "rules.b22", Clumsy(0.3))
    trainer, _ = trained(tmp_path / "run", config(tiny, path, imitation=1.0))
    line = trainer.state.metrics[-1]
    assert line["gradient_norm"] > 0
    assert line["ess_turn"] is None and line["clip_fraction"] == 0.0


def test_training_ends_where_the_log_says_nothing_any_more(tiny, log, tmp_path):
    how = {"updates": 6, "ess_floor": 0.9999, "rate": 2e-2, "kl_limit": 1e9, "validate_every": 9}
    given = msgspec.structs.replace(config(tiny, log), **how)
    (tmp_path / "run").mkdir()
    said: list[str] = []
    trainer = Trainer(tmp_path / "run", given, said.append, resume=False)
    summary = trainer.run()
    trainer.close()
    assert trainer.state.metrics[-1]["ess_turn"] < 0.9999
    assert summary["updates"] < 6
    assert any("training ends here" in line and "--ess-floor 0.9999" in line for line in said)


def test_the_log_names_the_weights_that_played(log, policy):
    with Reader(log) as reader:
        begin = reader.episode(reader.episode_ids()[0]).begin
    own = author_of(policy, begin.policy, begin.model)
    assert begin.weights_hash == own.weights_hash
    assert replace(own, adapter="") == Author(begin.policy, begin.model, "", begin.weights_hash, begin.base_hash,
                                              begin.tokenizer_hash)  # fmt: skip


def test_groups_are_recorded_whole_and_that_is_said(tmp_path, capsys):
    words = ["--scenario", "fetch_item", "--policy", "random", "--group-size", "2", "--out"]
    assert record([*words, str(tmp_path / "three.b22"), "--episodes", "3"]) == 0
    assert "4 episodes in 2 groups (3 asked for; groups are whole) by random" in capsys.readouterr().out
    with Reader(tmp_path / "three.b22") as log:
        assert [episode.begin.group_size for episode in log.episodes()] == [2] * 4
    assert record([*words, str(tmp_path / "four.b22"), "--episodes", "4"]) == 0
    assert "4 episodes in 2 groups by random" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "says"),
    [(["--group-size", "1"], "--group-size 1"), (["--episodes", "0"], "--episodes 0"), (["--tau", "0"], "--tau 0"),
     (["--policy", "nobody"], "nobody"), (["--option", "difficulty=9"], "difficulty")],
)  # fmt: skip
def test_recording_badly_gets_one_line_and_exit_code_2(args, says, tmp_path, capsys):
    assert record(["--scenario", "fetch_item", "--out", str(tmp_path / "log.b22"), *args]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not (tmp_path / "log.b22").exists()
