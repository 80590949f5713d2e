"""What any agent may rely on when it plays a scenario through Gymnasium."""

import random
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import scenarios
from rl.env import ErrandEnv
from scenarios import ScenarioError

IDS = ("Errand-v0", "Errand/fetch_item-v0")


def play(env: ErrandEnv, rng: random.Random, info: dict[str, Any]) -> list[Any]:
    """Plays random legal actions to the end; everything that the environment said on the way."""
    said: list[Any] = []
    over = False
    while not over:
        observation, reward, terminated, truncated, info = env.step(rng.choice(info["legal_actions"]))
        said.append((observation, reward, terminated, truncated, info, env.digest()))
        over = terminated or truncated
    return said


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasiums_own_checker_finds_nothing(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id).unwrapped)


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasiums_passive_checker_finds_nothing_in_legal_play(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(env_id, difficulty="2")
        rng = random.Random(0)
        for seed in range(10):
            observation, info = env.reset(seed=seed)
            over = False
            while not over:
                assert observation in env.observation_space
                assert all(phrase in env.action_space for phrase in info["legal_actions"])
                observation, reward, terminated, truncated, info = env.step(rng.choice(info["legal_actions"]))
                assert isinstance(reward, float)
                assert info["outcome_kind"] != "illegal"
                over = terminated or truncated


def test_the_module_can_be_named_in_make_and_needs_no_model_and_no_picture() -> None:
    code = (
        "import sys, gymnasium; env = gymnasium.make('rl.env:Errand-v0', difficulty='1'); env.reset(seed=1);"
        "print(sorted({'mlx', 'pygame', 'npc', 'recorder'} & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_environment_says_what_the_scenario_says() -> None:
    scenario = scenarios.get("fetch_item")
    env = ErrandEnv()
    rng = random.Random(4)
    for seed in range(20):
        state = scenario.build(seed)
        observation, info = env.reset(seed=seed)
        assert (observation, info["legal_actions"]) == (scenario.observation(state), scenario.legal(state))
        ended = None
        while ended is None:
            phrase = rng.choice((*info["legal_actions"], "sing"))
            outcome = scenario.apply(state, phrase)
            ended = outcome.ended
            observation, reward, terminated, truncated, info = env.step(phrase)
            assert observation == scenario.observation(state)
            assert env.digest() == scenario.digest(state)
            assert reward == sum(outcome.terms.values())
            facts = (info["terms"], info["outcome_kind"], info["ticks"], info["ended"])
            assert facts == (outcome.terms, outcome.kind, outcome.ticks, outcome.ended)
            assert info["legal_actions"] == (() if ended else scenario.legal(state))
            assert (terminated, truncated) == (ended == "success", ended == "turn_cap")


def test_a_proposal_that_is_not_legal_uses_up_the_turn_and_is_called_illegal() -> None:
    env = ErrandEnv()
    env.reset(seed=3)
    for turn, phrase in enumerate(("", "WAIT", "wait ", "go to the moon", "größer", "x" * 10_000), start=1):
        *_, info = env.step(phrase)
        assert info["outcome_kind"] == "illegal"
        assert env.turn == turn


def test_an_action_that_is_not_a_text_is_refused_and_costs_nothing() -> None:
    env = ErrandEnv()
    env.reset(seed=3)
    before = env.digest()
    with pytest.raises(ScenarioError, match="an action is a text"):
        env.step(0)  # type: ignore[arg-type]
    assert (env.digest(), env.turn) == (before, 0)


def test_there_is_no_autoreset() -> None:
    env = ErrandEnv()
    with pytest.raises(ResetNeeded, match="before reset"):
        env.step("wait")
    _, info = env.reset(seed=1)
    last = play(env, random.Random(1), info)[-1]
    assert last[2] or last[3]
    digest = env.digest()
    with pytest.raises(ResetNeeded, match="after the episode ended"):
        env.step("wait")
    assert env.digest() == digest
    env.reset(seed=1)
    assert env.turn == 0
    env.step("wait")


def test_a_seeded_reset_builds_that_world_and_an_unseeded_one_draws_another_of_the_train_split() -> None:
    env = ErrandEnv()
    train = env.scenario.splits["train"]
    drawn = []
    for _ in range(2):
        env.reset(seed=2_000_123)
        assert env.seed_of_world == 2_000_123
        drawn.append([env.reset()[1]["seed"] for _ in range(20)])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 20
    assert all(seed in train and type(seed) is int for seed in drawn[0])
    env.reset(seed=5)
    assert env.reset()[1]["seed"] != drawn[0][0]


def test_two_fresh_environments_draw_different_worlds() -> None:
    assert len({ErrandEnv().reset()[1]["seed"] for _ in range(5)}) > 1


@pytest.mark.parametrize("seed", [0, 2**63 - 1, np.int64(7)])
def test_any_whole_number_in_range_is_a_seed(seed: Any) -> None:
    env = ErrandEnv()
    assert env.reset(seed=seed)[1]["seed"] == int(seed)
    assert env.digest() == env.scenario.digest(env.scenario.build(int(seed)))


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "7", True])
def test_a_bad_seed_is_refused_and_the_running_episode_is_kept(seed: Any) -> None:
    env = ErrandEnv()
    env.reset(seed=1)
    env.step("wait")
    before = env.digest()
    with pytest.raises(ScenarioError, match="seed"):
        env.reset(seed=seed)
    assert (env.digest(), env.seed_of_world, env.turn) == (before, 1, 1)


def test_options_stay_in_force_over_resets_until_new_ones_are_given() -> None:
    env = ErrandEnv(difficulty=1)
    given = {"difficulty": "1", "without": "nobody"}
    for reset in ({"seed": 1}, {}, {"seed": 2, "options": {}}):
        assert env.reset(**reset)[1]["options"] == given  # type: ignore[arg-type]
    given["without"] = "Pip"
    for reset in ({"options": {"without": "Pip"}}, {"seed": 1}, {}):
        assert env.reset(**reset)[1]["options"] == given  # type: ignore[arg-type]
    env.reset(seed=9)
    assert env.digest() == env.scenario.digest(env.scenario.build(9, given))
    with pytest.raises(ScenarioError, match="did you mean 'difficulty'"):
        env.reset(options={"dificulty": "2"})
    assert env.reset()[1]["options"] == given


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"scenario": "fetch_itm"}, "did you mean 'fetch_item'"),
        ({"dificulty": "1"}, "did you mean 'difficulty'"),
        ({"difficulty": 6}, "choose one of 1, 2, 3, 4, 5"),
    ],
)
def test_bad_arguments_name_the_remedy(arguments: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ScenarioError, match=remedy):
        ErrandEnv(**arguments)


def test_a_group_starts_from_one_identical_state() -> None:
    env = ErrandEnv(difficulty=3)
    env.reset(seed=11)
    _, _, _, _, info = env.step("wait")
    saved = env.clone()
    start = saved.digest()
    plays = []
    for _ in range(3):
        env.restore(saved)
        assert (env.digest(), env.turn, env.seed_of_world, env.options) == (start, 1, 11, saved.options)
        plays.append(play(env, random.Random(2), info))
        assert saved.digest() == start
    assert plays[0] == plays[1] == plays[2]
    assert play(saved, random.Random(2), info) == plays[0]
    env.restore(env.clone())
    with pytest.raises(ResetNeeded):
        env.step("wait")


def test_a_clone_takes_the_generator_along_and_shares_nothing() -> None:
    env = ErrandEnv()
    env.reset(seed=8)
    twin = env.clone()
    assert [env.reset()[1]["seed"] for _ in range(3)] == [twin.reset()[1]["seed"] for _ in range(3)]
    env.reset(options={"difficulty": "5"})
    assert twin.options["difficulty"] == "3"
    assert ErrandEnv().clone().turn == 0
