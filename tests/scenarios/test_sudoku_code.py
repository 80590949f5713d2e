"""Programs that a model might write, and what they earn: only what they put right."""

from __future__ import annotations

import pytest

import scenarios
from rl.env import ErrandEnv
from rl.policies import ScriptedPolicy
from rl.rollout import Plan, play
from scenarios.sudoku_code import CLEAN, LEARNER, SOLVER, STEPS, VALID
from tests.scenarios.test_code_sandbox import BURDENS, ESCAPES, HEAD

CODE = scenarios.get("sudoku_code")
EASY = CODE.resolve_options({"difficulty": "easy"})
FULL = {"valid": 0.1, "clean": 0.1, "solve": 0.8}


def tried(text, seed=0, **options):
    state = CODE.build(seed, options)
    outcome = CODE.apply(state, text)
    assert outcome.ended == CODE.ended(state) is not None
    assert sum(outcome.terms.values()) <= 1 + 1e-9
    return outcome, state


@pytest.mark.parametrize("text", [SOLVER, f"Gladly.\n```python\n{SOLVER}```\nThis solves it.", "\n\n" + SOLVER])
def test_a_good_program_earns_everything(text):
    outcome, state = tried(text)
    assert outcome.ended == "success" and outcome.terms == pytest.approx(FULL)
    assert state.right == state.given.count(0)


@pytest.mark.parametrize("size", ["4", "9"])
@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_the_oracles_program_solves_every_tablet(size, difficulty):
    for seed in range(3):
        assert tried(CODE.oracle(None), seed, size=size, difficulty=difficulty)[0].ended == "success"


def test_the_teachers_program_guesses_and_so_fails_on_some():
    found = [tried(LEARNER, seed, size="9", difficulty="hard")[0] for seed in range(8)]
    assert {outcome.ended for outcome in found} == {"success", "unsolved"}
    partly = next(outcome for outcome in found if outcome.ended == "unsolved")
    assert VALID + CLEAN < sum(partly.terms.values()) < 1


@pytest.mark.parametrize("attempt", ESCAPES)
def test_no_escape_earns_anything(attempt, tmp_path):
    code = HEAD + ESCAPES[attempt].format(secret=tmp_path / "s", target=tmp_path / "t", port=1)
    outcome, _ = tried(code)
    assert outcome.terms == {} and outcome.ended == "failed" and "reaches outside" in outcome.text
    assert not list(tmp_path.iterdir())
    # nor where the rest of the program is good
    outcome, _ = tried(SOLVER.replace("    size = len(board)\n", ESCAPES[attempt].format(
        secret="s", target=tmp_path / "t", port=1) + "\n    size = len(board)\n", 1))  # fmt: skip
    assert outcome.terms == {} and not list(tmp_path.iterdir())


@pytest.mark.parametrize("burden", BURDENS)
def test_what_is_stopped_before_its_first_digit_earns_nothing(burden):
    outcome, _ = tried(HEAD + BURDENS[burden])
    assert outcome.terms == {} and outcome.ended == "failed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would fill in the digits one by one.",
        "def strategy(board):\n    return (0, 0, 1)",
        HEAD + "    return None",
        HEAD + "    return (0, 0)",
        HEAD + "    return (0, 0, 1, 2)",
        HEAD + "    return (True, True, True)",
        HEAD + "    return (0.0, 0.0, 1.0)",
        HEAD + "    return '012'",
        HEAD + "    return (-1, 0, 1)",
        HEAD + "    return (0, 0, 99)",
        HEAD + "    return (10 ** 40, 0, 1)",
        HEAD + "    x = []\n    x.append(x)\n    return x",
        HEAD + "    return strategy",
        "strategy = 1",
        SOLVER + "strategy = None\n",
    ],
)
def test_what_is_no_strategy_earns_nothing(text):
    outcome, state = tried(text)
    assert outcome.terms == {} and outcome.ended == "failed" and state.right == 0


def test_a_program_that_changes_what_it_is_given_changes_nothing_here():
    spoiler = SOLVER.replace("    size = len(board)\n", "    initial[0][0] = 9\n    size = len(board)\n", 1).replace(
        "    row, col, options = fewest(board)",
        "    row, col, options = fewest(board)\n    old = board[row][col]\n    board[row][col] = 0", 1)  # fmt: skip
    outcome, _ = tried(spoiler)
    assert outcome.ended == "success"


def test_a_digit_where_one_stands_already_ends_the_trial():
    code = HEAD + """\
    for row in range(4):
        for col in range(4):
            if initial[row][col]:
                return (row, col, initial[row][col])
"""
    outcome, state = tried(code)
    assert outcome.terms == {} and state.right == 0


def test_the_solution_cannot_be_remembered_from_an_earlier_call():
    code = "seen = []\n" + HEAD + """\
    seen.append([list(row) for row in board])
    return (len(seen), 0, 1)
"""
    outcome, _ = tried(code)
    assert outcome.ended in ("failed", "unsolved") and sum(outcome.terms.values()) < VALID + CLEAN + STEPS


def test_reward_grows_with_every_right_digit():
    def stops_after(count):
        limit = f"    calls.append(1)\n    if len(calls) > {count}:\n        return (0, 0, 0)\n"
        return "calls = []\n" + SOLVER.replace("    size = len(board)\n", limit + "    size = len(board)\n", 1)

    earned = [sum(tried(stops_after(count))[0].terms.values()) for count in range(9)]
    assert earned == sorted(earned) and len(set(earned)) == len(earned)
    assert earned[0] == 0 and earned[8] == pytest.approx(1)


def test_the_trial_is_the_same_each_time_and_the_observation_hides_it():
    for text in (SOLVER, LEARNER, HEAD + BURDENS["loops"]):
        (first, a), (second, b) = tried(text, 5), tried(text, 5)
        assert first.terms == second.terms and CODE.digest(a) == CODE.digest(b)
    observations = {CODE.observation(CODE.build(seed, EASY)) for seed in range(20)}
    assert observations == {"size 4"}


def test_it_plays_in_rollouts_and_in_the_environment():
    plans = [Plan(seed, EASY, f"g{seed}", f"d{seed}") for seed in range(3)]
    for kind, wins in (("oracle", 3), ("teacher", 3), ("random", 0)):
        episodes = play(ScriptedPolicy(kind, CODE), CODE, plans)
        assert sum(episode.success for episode in episodes) == wins
        assert all(len(episode.turns) == 1 and episode.turns[0].legal == [] for episode in episodes)
    env = ErrandEnv("sudoku_code")
    _, info = env.reset(seed=0)
    assert info["legal_actions"] == ()
    assert env.action_space.contains(SOLVER)
    _, reward, terminated, truncated, _ = env.step(SOLVER)
    assert reward == pytest.approx(1) and terminated and not truncated
