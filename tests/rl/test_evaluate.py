"""python -m rl.evaluate: the same seeds for both, intervals, a log, and one line for what is wrong."""

import json
import shlex
from pathlib import Path

import pytest

from game.__main__ import main as play_in_game
from recorder import Reader
from rl.evaluate import main, tau_of
from rl.evaluation import plans_for
from rl.policies import make_policy, parse_policy
from rl.rollout import play
from rl.statistics import paired_difference, wilson
from tests.rl.making import FETCH, fake_run, tiny_model


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["--scenario", "fetch_item", "--workers", "1", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    model, adapter = tiny_model(tmp_path_factory.mktemp("tiny"))
    return str(model), str(adapter)


def test_scripted_policies_on_the_same_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--policy", "oracle", "--against", "random", "--episodes", "20")
    oracle, chance = found["policies"]
    assert (oracle["policy"], oracle["mode"], oracle["success"], oracle["n"]) == ("oracle", "", 1.0, 20)
    assert (oracle["ci_low"], oracle["ci_high"]) == wilson(20, 20)
    wins = round(chance["success"] * 20)
    (difference,) = found["differences"]
    assert (difference["of"], difference["against"]) == ("oracle", "random")
    assert difference["difference"] == pytest.approx(1 - wins / 20)
    expected = paired_difference([True] * wins + [False] * (20 - wins), [True] * 20)
    assert (difference["ci_low"], difference["ci_high"]) == pytest.approx(expected[1:])
    assert (difference["gained"], difference["lost"]) == (20 - wins, 0)
    assert difference["mcnemar_p"] == pytest.approx(2.0 ** (1 - (20 - wins)))
    assert (found["split"], found["first_seed"], found["last_seed"]) == ("test", 2_000_000, 2_000_019)


def test_a_model_plays_sampled_and_greedy_and_each_is_compared_with_its_like(
    tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, adapter = tiny
    policy = f"{model}:{adapter}"
    found = run(capsys, "--policy", policy, "--against", model, "--episodes", "4")
    assert [(one["policy"], one["mode"]) for one in found["policies"]] == [
        (policy, "sampled"), (policy, "greedy"), (model, "sampled"), (model, "greedy"),
    ]  # fmt: skip
    assert [(one["of"], one["against"]) for one in found["differences"]] == [
        (f"{policy} sampled", f"{model} sampled"), (f"{policy} greedy", f"{model} greedy"),
    ]  # fmt: skip


def test_greedy_alone_and_a_scripted_one_beside_it(tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--policy", tiny[0], "--against", "teacher", "--episodes", "3", "--greedy")
    assert [one["mode"] for one in found["policies"]] == ["greedy", ""]
    assert len(found["differences"]) == 1


def test_terms_actions_and_outcomes_are_those_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "played.b22"
    found = run(capsys, "--policy", "random", "--episodes", "12", "--record", str(path))["policies"][0]
    with Reader(path) as log:
        episodes = list(log.episodes())
    turns = [turn for episode in episodes for turn in episode.turns]
    assert sum(found["actions"].values()) == sum(found["outcomes"].values()) == len(turns)
    assert found["actions"]["go"] == sum(turn.executed.startswith("go ") for turn in turns)
    assert found["terms"]["time"] == pytest.approx(-0.005 * len(turns) / 12)
    assert found["terms"]["find"] == pytest.approx(sum(turn.terms.get("find", 0) for turn in turns) / 12)
    assert sum(found["terms"].values()) == pytest.approx(found["mean_reward"])


def test_every_way_of_failing_has_an_example_that_failed_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "played.b22"
    found = run(capsys, "--policy", "random", "--episodes", "12", "--record", str(path))["policies"][0]
    assert sum(way["count"] for way in found["failures"]) == 12 - round(12 * found["success"])
    with Reader(path) as log:
        for way in found["failures"]:
            words = shlex.split(way["command"])
            assert words[:5] == ["python", "-m", "game", "replay", str(path)]
            example = log.episode(int(words[-1]))
            assert example.begin.seed == way["seed"]
            assert example.end is not None and not example.end.success
            assert way["way"].startswith(example.end.ended)
    picture = tmp_path / "example.png"
    assert play_in_game([*shlex.split(found["failures"][0]["command"])[3:], "--screenshot", str(picture)]) == 0
    assert picture.stat().st_size > 10_000


def test_an_example_that_is_not_recorded_is_shown_by_a_command_that_the_game_takes(
    tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(capsys, "--policy", tiny[0], "--episodes", "2", "--option", "difficulty=5", "--greedy")["policies"][0]
    words = shlex.split(found["failures"][0]["command"])
    assert words[:3] == ["python", "-m", "game"]
    assert play_in_game([*words[3:], "--headless", "--turns", "1", "--json"]) == 0
    played = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert played["seed"] == found["failures"][0]["seed"]
    assert words[words.index("--option") + 1] == "difficulty=5" and words.count("--option") == 1


def test_slices_play_every_difficulty_on_the_same_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--policy", "teacher", "--against", "random", "--episodes", "6", "--slices", "--slice-episodes", "5"]
    found = run(capsys, *words)
    slices = found["slices"]
    assert (slices["option"], slices["episodes"]) == ("difficulty", 5)
    assert [part["choice"] for part in slices["choices"]] == ["1", "2", "3", "4", "5"]
    for part in slices["choices"]:
        teacher = play(make_policy(parse_policy("teacher"), FETCH),
                       FETCH, plans_for(FETCH, "test", 5, {"difficulty": part["choice"]}, "0/"))  # fmt: skip
        assert part["policies"][0]["success"] == sum(e.success for e in teacher) / 5
        assert part["policies"][0]["mean_turns"] == sum(len(e.turns) for e in teacher) / 5
        assert part["differences"][0]["of"] == "teacher"
    assert main(["--scenario", "fetch_item", *words]) == 0
    assert "By difficulty, 5 seeds each" in capsys.readouterr().out
    words.remove("--slices")
    other = run(capsys, *words, "--slice-by", "without")["slices"]
    assert other["option"] == "without" and "Pip" in [part["choice"] for part in other["choices"]]


def test_workers_change_nothing(tiny: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--scenario", "fetch_item", "--policy", tiny[0], "--episodes", "5", "--json"]
    found = []
    for workers in ("1", "2"):
        assert main([*words, "--workers", workers]) == 0
        found.append(json.loads(capsys.readouterr().out)["policies"])
    assert found[0] == found[1]


def test_the_same_dice_give_the_same_play_and_other_dice_another(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--policy", "random", "--episodes", "30"]
    first, again, other = (run(capsys, *words, "--seed", seed)["policies"] for seed in ("0", "0", "1"))
    assert first == again
    assert first != other


def test_the_log_holds_every_episode(tiny: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "played.b22"
    found = run(capsys, "--policy", tiny[0], "--against", "teacher", "--episodes", "3", "--split", "validation",
                "--record", str(path))  # fmt: skip
    with Reader(path) as log:
        assert log.clean
        episodes = list(log.episodes())
        begins = [episode.begin for episode in episodes]
        assert log.prefix(begins[0].prefix_hash).text == FETCH.prefix
    assert [begin.purpose for begin in begins] == ["evaluate sampled"] * 3 + ["evaluate greedy"] * 3 + ["evaluate"] * 3
    assert {begin.split for begin in begins} == {"validation"}
    assert [begin.seed for begin in begins[:3]] == [1_000_000, 1_000_001, 1_000_002]
    assert begins[0].weights_hash and begins[0].base_hash and not begins[-1].weights_hash
    assert all(episode.whole for episode in episodes)
    assert found["policies"][2]["success"] == sum(e.end.success for e in episodes[6:] if e.end) / 3


def test_a_run_is_sampled_at_its_own_temperature_unless_told(tmp_path: Path) -> None:
    folder = fake_run(tmp_path / "run", episodes=1, updates=1)
    text = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(text.replace("tau = 1.0", "tau = 0.7"))
    assert tau_of(str(folder), None) == 0.7
    assert tau_of(f"{folder}@start", None) == 0.7
    assert tau_of(str(folder), 1.5) == 1.5
    assert tau_of("nano", None) == 1.0


def test_a_broken_scenario_counts_as_failed_and_is_told(monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    def broken(*_: object) -> None:
        raise RuntimeError("a rule is missing")

    monkeypatch.setattr(type(FETCH), "apply", broken)
    found = run(capsys, "--policy", "teacher", "--episodes", "2")
    assert (found["policies"][0]["errors"], found["policies"][0]["success"]) == (2, 0.0)
    assert main(["--scenario", "fetch_item", "--policy", "teacher", "--episodes", "2"]) == 0
    assert "raised an error in 2 episodes" in " ".join(capsys.readouterr().out.split())


def test_the_table_shows_success_and_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "fetch_item", "--policy", "oracle", "--against", "teacher", "--episodes", "10"]) == 0
    shown = capsys.readouterr().out
    assert "100.0 %" in shown and "72.2 to 100.0" in shown
    assert "oracle against teacher, paired on the same seeds" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--scenario", "fetch_itm", "--policy", "random"], "did you mean 'fetch_item'"),
        (["--policy", "randm"], "did you mean 'random'"),
        (["--policy", "random", "--against", "techer"], "did you mean 'teacher'"),
        (["--policy", "random", "--episodes", "501"], "the test split has 500 seeds"),
        (["--policy", "random", "--episodes", "0"], "0 episodes asked for"),
        (["--policy", "random", "--option", "dificulty=3"], "did you mean 'difficulty'"),
        (["--policy", "random", "--option", "difficulty=9"], "choose one of 1, 2, 3, 4, 5"),
        (["--policy", "random", "--option", "difficulty"], "write it as KEY=VALUE"),
        (["--policy", "random", "--tau", "0"], "--tau 0.0: above 0"),
        (["--policy", "random", "--tau", "nan"], "--tau nan: above 0"),
        (["--policy", "random", "--workers", "0"], "--workers 0: 1 or more"),
        (["--policy", "random", "--slice-by", "dificulty"], "did you mean 'difficulty'"),
        (["--policy", "random", "--slice-episodes", "8"], "does nothing without --slices or --slice-by"),
        (["--policy", "random", "--slices", "--slice-episodes", "0"], "0 episodes asked for"),
        (["--policy", "random", "--seed", "-1"], "seed -1"),
        (["--policy", "random", "--record", "no/such/folder/x.b22"], "no/such/folder"),
    ],
)
def test_bad_input_gets_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = [] if "--scenario" in words else ["--scenario", "fetch_item"]
    assert main([*scenario, *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_damaged_model_is_told_by_the_worker_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken").mkdir()
    words = ["--scenario", "fetch_item", "--policy", str(tmp_path / "broken"), "--episodes", "2"]
    assert main([*words, "--workers", "1"]) == 2
    error = capsys.readouterr().err
    assert "broken/config.json: missing" in error
    assert error.count("\n") == 1


def test_an_existing_log_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "played.b22"
    path.write_bytes(b"something of mine")
    words = ["--scenario", "fetch_item", "--policy", "random", "--episodes", "2", "--record", str(path)]
    assert main(words) == 2
    assert path.read_bytes() == b"something of mine"
    assert "already there" in capsys.readouterr().err


def test_sampled_play_is_the_trainers_play() -> None:
    """The dice are keyed as the trainer keys its test, so that both give the same figure for the same weights."""
    plans = plans_for(FETCH, "test", 3, {}, "5/")
    assert [plan.draws for plan in plans] == [f"5/test/{2_000_000 + i}" for i in range(3)]


def test_a_server_that_is_not_there_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rl.remote.time.sleep", lambda seconds: None)
    words = ["--scenario", "fetch_item", "--policy", "http:http://127.0.0.1:9/v1", "--episodes", "1"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "127.0.0.1:9" in error and error.count("\n") == 1
