"""python -m rl.play counts what training would get, for every scenario."""

import json

import pytest
from msgspec.structs import replace

import scenarios
from recorder import Reader
from rl.play import main, own_policy, trainable
from tests.rl.making import tiny_model


def played(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    model, _ = tiny_model(tmp_path_factory.mktemp("tiny"))
    return str(model)


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_can_be_played_by_a_model(name: str, tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = played(capsys, "--scenario", name, "--policy", tiny, "--episodes", "2")
    scenario = scenarios.get(name)
    low, top = (sum(getattr(term, bound) for term in scenario.reward_terms) for bound in ("low", "top"))
    assert len(found["episodes"]) == 2
    for one in found["episodes"]:
        assert low - 1e-9 <= one["reward"] <= top + 1e-9
        assert one["reward"] == pytest.approx(sum(one["terms"].values()))
        assert one["trainable_turns"] <= one["turns"] <= scenario.turn_cap
        assert one["trainable_turns"] or scenario.free_text  # a text that was cut off trains nothing
        assert one["prompt_tokens"] > 0 < one["sampled_tokens"] and not one["error"]


def test_a_group_starts_from_one_seed_and_a_dead_one_has_nothing_to_train_on(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--scenario", "sudoku", "--policy", tiny, "--episodes", "24", "--group-size", "2")
    found = played(capsys, *words)
    groups: dict[str, list[dict]] = {}
    for one in found["episodes"]:
        groups.setdefault(one["group"], []).append(one)
    assert [len(group) for group in groups.values()] == [2] * 12
    states = set()
    for group in groups.values():
        assert len({one["seed"] for one in group}) == 1
        is_dead = len({round(one["reward"], 9) for one in group}) == 1
        assert all((one["trainable_turns"] == 0) == is_dead for one in group)
        states.add(is_dead)
    assert states == {True, False}  # chance made both
    assert found["trainable_turns"] == sum(one["trainable_turns"] for one in found["episodes"])
    assert played(capsys, *words)["episodes"] == found["episodes"]


def test_rules_sample_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = played(capsys, "--scenario", "tile_2048", "--option", "target=32", "--policy", "oracle")
    assert (found["success"], found["reward"], found["trainable_turns"], found["sampled_tokens"]) == (1.0, 1.0, 0, 0)
    assert main(["--scenario", "tile_2048", "--option", "target=32", "--policy", "random"]) == 0
    out = capsys.readouterr().out
    for word in ("reward", "turns", "trainable", "tokens", "nothing was sampled by a model"):
        assert word in out


def test_a_turn_without_a_choice_trains_nothing() -> None:
    from rl.policies import ScriptedPolicy
    from rl.rollout import Plan, play

    scenario = scenarios.get("sudoku")
    (episode,) = play(ScriptedPolicy("oracle", scenario), scenario, [Plan(1, {}, "g", "d")])
    episode.turns = [replace(turn, sampled_ids=[1]) for turn in episode.turns]
    assert trainable([episode]) == [8]
    episode.turns[0] = replace(episode.turns[0], legal=episode.turns[0].legal[:1])
    assert trainable([episode]) == [7]
    episode.turns[1] = replace(episode.turns[1], legal=[])  # a free text, and one that was cut off
    episode.turns[2] = replace(episode.turns[2], legal=[], policy_note="truncated")
    assert trainable([episode]) == [6]


def test_episodes_are_kept_in_a_log_and_a_log_that_is_there_is_left_alone(
    tiny: str, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "played.b22"
    words = ("--scenario", "sudoku", "--policy", tiny, "--episodes", "3", "--record", str(log))
    found = played(capsys, *words)
    with Reader(log) as reader:
        episodes = list(reader.episodes())
    assert [e.end.total_reward for e in episodes] == [one["reward"] for one in found["episodes"]]
    assert all(turn.sampled_ids for e in episodes for turn in e.turns)
    assert main([*words]) == 2
    assert str(log) in capsys.readouterr().err


def test_the_scenarios_own_adapter_plays_where_one_ships() -> None:
    assert own_policy(scenarios.get("fetch_item")) == "nano:fetch_item"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scenario", "tile_204"), "did you mean 'tile_2048'"),
        (("--scenario", "tile_2048", "--option", "target=3"), "choose one of 32"),
        (("--scenario", "tile_2048", "--episodes", "0"), "--episodes 0: 1 or more"),
        (("--scenario", "tile_2048", "--group-size", "0"), "--group-size 0: 1 or more"),
        (("--scenario", "tile_2048", "--first", "1000000"), "1000000 seeds"),
        (("--scenario", "tile_2048", "--policy", "nobody"), "policy 'nobody'"),
        (("--scenario", "tile_2048", "--tau", "0"), "--tau 0"),
    ],
)
def test_bad_use_gets_one_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
