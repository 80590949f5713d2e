"""First steps from a teacher: by rules, from a log, from a server, and on the student's own play."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import httpx
import numpy as np
import pytest

import scenarios
from npc.adapters import attach, get_adapter
from npc.adapters.tools import check_not_nothing, inspect
from recorder import Reader
from rl import distill, evaluate
from rl import play as playing
from rl import record as recording
from rl.demonstrations import (
    DemonstrationError,
    Example,
    demonstration_plans,
    label,
    read_examples,
    read_labels,
    record,
    record_labelled,
)
from rl.files import folder_for
from rl.imitation import demonstrations, imitate, mean_loss
from rl.logbook import Author, Logbook
from rl.policies import ModelPolicy, ScriptedPolicy
from rl.rollout import Plan, play
from tests.rl.making import Clumsy

FETCH = scenarios.get("fetch_item")
OPTIONS = FETCH.resolve_options({})
EASY = FETCH.resolve_options({"difficulty": "1"})
QUICK = ["--held-out", "4", "--validation", "8", "--max-epochs", "2"]


class Noting:
    """A teacher that counts how many episodes it was made to begin."""

    def __init__(self):
        self.teacher = ScriptedPolicy("teacher", FETCH)
        self.begun = 0

    def decide(self, turns, uniforms):
        self.begun += sum(turn.memory is None for turn in turns)
        return self.teacher.decide(turns, uniforms)


def run(*words, scenario="fetch_item"):
    return distill.main(["--scenario", scenario, *map(str, words)])


def plans(count, start=0):
    return [Plan(seed, OPTIONS, f"g{seed}", f"d{seed}") for seed in range(start, start + count)]


def test_the_teachers_play_is_logged_and_not_played_twice(tmp_path):
    teacher, path = Noting(), tmp_path / "t.b22"
    many = demonstration_plans(FETCH, OPTIONS, 5, 0)
    assert record(teacher, Author("teacher"), FETCH, many, "train", path, "r", 5, few=2) >= 5
    begun = teacher.begun
    assert record(teacher, Author("teacher"), FETCH, many, "train", path, "r", 5, few=2) >= 5
    assert teacher.begun == begun
    record(teacher, Author("teacher"), FETCH, many, "train", path, "r", begun + 1, few=2)
    assert teacher.begun > begun
    with pytest.raises(DemonstrationError, match="holds play of 'teacher', not of 'oracle'"):
        record(teacher, Author("oracle"), FETCH, many, "train", path, "r", 1)


def test_examples_are_the_turns_that_were_chosen(tmp_path):
    path = tmp_path / "t.b22"
    with Logbook(path, FETCH, "test", "r") as log:
        log.add(play(Clumsy(0.5), FETCH, plans(6)), Author("human"), "play", "train")
        log.add(play(ScriptedPolicy("teacher", FETCH), FETCH, plans(2, 50)), Author("teacher"), "play", "train")
        held = FETCH.splits["test"][0]
        log.add(play(ScriptedPolicy("teacher", FETCH), FETCH, plans(1, held)), Author("teacher"), "play", "test")
    every = read_examples([path], FETCH, soft=True, solved=False)
    assert len(every) == 8  # never the test seed
    human = read_examples([path], FETCH, soft=False, solved=False, only={"policy": "human"})
    assert len(human) == 6
    for example in human[0]:
        assert sorted(set(example.target_A.tolist())) == [0.0, 1.0] and example.target_A.sum() == 1
    with Reader(path) as log:
        turn = log.episode(0).turns[0]
    np.testing.assert_array_equal(every[0][0].target_A, turn.prob_values)
    assert human[0][0].legal[int(np.argmax(human[0][0].target_A))] == turn.executed
    assert len(read_examples([path], FETCH, soft=True, count=3, solved=False)) == 3


def test_a_fallbacks_turns_and_lost_turns_are_no_example(tmp_path):
    import msgspec

    (episode,) = play(ScriptedPolicy("teacher", FETCH), FETCH, plans(1))
    count = len(episode.turns)
    episode.turns[0] = msgspec.structs.replace(episode.turns[0], fallback=True)
    episode.turns[1] = msgspec.structs.replace(episode.turns[1], proposed="I think", executed="I think")
    path = tmp_path / "t.b22"
    with Logbook(path, FETCH, "test", "r") as log:
        log.add([episode], Author("teacher"), "play", "train")
    (examples,) = read_examples([path], FETCH, soft=False)
    assert len(examples) == count - 2


def test_a_log_of_other_rules_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.b22"
    with Logbook(path, FETCH, "test", "r") as log:
        log.add(play(ScriptedPolicy("teacher", FETCH), FETCH, plans(1)), Author("teacher"), "play", "train")
    monkeypatch.setitem(vars(FETCH), "source_hash", "0" * 16)
    with pytest.raises(DemonstrationError, match="under other rules"):
        read_examples([path], FETCH, soft=False)
    monkeypatch.setattr(FETCH, "version", 99)
    with pytest.raises(DemonstrationError, match="version 1, not of fetch_item version 99"):
        read_examples([path], FETCH, soft=False)


@pytest.mark.parametrize("kind", ["teacher", "oracle"])
def test_labels_are_what_the_teacher_would_have_done_there(tmp_path, kind):
    path = tmp_path / "on.b22"
    teacher = ScriptedPolicy(kind, FETCH)
    student = ScriptedPolicy("random", FETCH)
    episodes = record_labelled(student, teacher, Author("random"), kind, FETCH, plans(3), path)
    found = label(teacher, FETCH, episodes)
    state = FETCH.build(1)
    memory = None
    for number, turn in enumerate(episodes[1].turns):
        assert FETCH.observation(state) == turn.observation
        if kind == "oracle":
            phrase = FETCH.oracle(state)
        else:
            phrase, memory = FETCH.teacher(memory, turn.observation)
        assert found[1][number][0] == phrase
        FETCH.apply(state, turn.executed)
    examples = read_labels(path, FETCH)
    assert len(examples) == sum(len(episode.turns) for episode in episodes)
    assert examples[0].target_A.tolist() == found[0][0][1].tolist()


def tiny_policy():
    from npc.models import load

    brain = load("nano")
    attach(brain, 2, 2.0, 0)
    return ModelPolicy(brain, FETCH.prefix)


def test_the_loss_is_the_cross_entropy_by_hand():
    policy = tiny_policy()
    state = FETCH.build(0)
    legal = FETCH.legal(state)
    target_A = np.zeros(len(legal), dtype=np.float32)
    target_A[:2] = 0.75, 0.25
    shown = demonstrations([Example(FETCH.observation(state), legal, target_A)], policy)
    (decision,) = policy.closed.decide([FETCH.observation(state)], [legal])
    wanted = -(0.75 * np.log(decision.probs[0]) + 0.25 * np.log(decision.probs[1]))
    assert mean_loss(policy, shown) == pytest.approx(wanted, rel=1e-4)


def test_ctrl_c_keeps_the_best_so_far():
    policy = tiny_policy()
    episodes = play(ScriptedPolicy("teacher", FETCH), FETCH, plans(2))
    examples = [Example(t.observation, tuple(t.legal), np.array(t.prob_values)) for e in episodes for t in e.turns]
    shown = demonstrations(examples, policy)
    at_epoch = {}

    def heard(epoch, loss, best):
        at_epoch[epoch] = {name: np.array(value) for name, value in get_adapter(policy.brain).items()}
        if epoch == 2:
            raise KeyboardInterrupt

    learned = imitate(policy, shown, shown, 1e-3, 0, 5, 50, heard)
    assert learned.interrupted and learned.epochs == 2 and learned.losses[1] < learned.losses[0]
    for name, value in get_adapter(policy.brain).items():
        np.testing.assert_array_equal(np.array(value), at_epoch[2][name])


def test_the_command_teaches_and_says_so(tmp_path, capsys):
    assert run("--episodes", 3, "--out", tmp_path / "a", "--json", *QUICK) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["demonstrations"] == 3 and 0 <= line["ci_low"] <= line["success"] <= line["ci_high"]
    facts = inspect(tmp_path / "a")
    check_not_nothing(facts)
    assert facts.provenance["teacher"] == "teacher" and facts.provenance["figures"]["n"] == 8
    # a person's log of the same play teaches as well, and on-policy play goes on from there
    log = f"log:{tmp_path / 'a' / 'demonstrations.b22'}"
    assert run("--teacher", log, "--episodes", 2, "--out", tmp_path / "b", *QUICK) == 0
    assert "2 demonstrations" in capsys.readouterr().out
    assert run("--episodes", 1, "--on-policy", 4, "--rounds", 2, "--out", tmp_path / "c", "--json", *QUICK) == 0
    line = json.loads(capsys.readouterr().out)
    with Reader(tmp_path / "c" / "on_policy.b22") as log:
        labelled = list(log.episodes())
        assert len(labelled) == 4 and all(episode.begin.weights_hash for episode in labelled)
        first, last = labelled[0].begin, labelled[-1].begin
        assert first.weights_hash != last.weights_hash  # the second round was played by what the first had taught
        extra = sum(len(episode.turns) for episode in labelled)
    with Reader(tmp_path / "c" / "demonstrations.b22") as log:
        solved = next(episode for episode in log.episodes() if episode.end and episode.end.success)
    assert line["turns"] == extra + len(solved.turns)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--teacher", "nobody"], "nobody"),
        (["--student", "nano9"], "nano9"),
        (["--teacher", "log:nowhere.b22"], "no file nowhere.b22"),
        (["--teacher", "log:{junk}"], "not a .b22 log"),
        (["--teacher", "http:nowhere"], "write http:URL"),
        (["--teacher", "http:http://127.0.0.1:1/v1"], "no answer"),
        (["--curve", "1,x"], "--curve"),
        (["--episodes", "0"], "--episodes 0"),
        (["--teacher", "random", "--episodes", "1", "--held-out", "1"], "was solved"),
        (["--option", "difficulty=9"], "difficulty"),
        (["--only", "colour=red", "--teacher", "log:{log}"], "--only colour"),
        (["--teacher", "log:{log}", "--on-policy", "3"], "can't be asked"),
    ],
)
def test_bad_use_gets_one_line_and_exit_code_2(tmp_path, capsys, monkeypatch, words, says):
    monkeypatch.setattr("time.sleep", lambda _: None)
    log = tmp_path / "t.b22"
    record(ScriptedPolicy("teacher", FETCH), Author("teacher"), FETCH, plans(2), "train", log, "r")
    (tmp_path / "junk.b22").write_bytes(bytes(range(256)) * 9)
    words = [word.format(log=log, junk=tmp_path / "junk.b22") for word in words]
    assert run("--out", tmp_path / "o" / "p", *QUICK, *words) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and "Traceback" not in err
    if says == "was solved":  # what was played stays, solved or not
        assert (tmp_path / "o" / "p" / "demonstrations.b22").is_file()
    else:
        assert not (tmp_path / "o").exists(), "nothing was recorded, so nothing stays"


@pytest.mark.parametrize("command", ["record", "play", "evaluate"])
def test_a_server_that_is_not_there_leaves_no_log(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    main = {"record": recording.main, "play": playing.main, "evaluate": evaluate.main}[command]
    flag = "--out" if command == "record" else "--record"
    words = ["--scenario", "fetch_item", "--policy", "http:http://127.0.0.1:1/v1", "--episodes", "4"]
    assert main([*words, flag, str(tmp_path / "a.b22")]) == 2
    assert "no answer" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_is_taken_away_again_only_where_it_was_made_and_nothing_is_in_it(tmp_path):
    (tmp_path / "there").mkdir()
    for place in (tmp_path / "there", tmp_path / "there/a/b"):
        with folder_for(place):
            assert place.is_dir()
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with folder_for(tmp_path / "a" / "b"):
        (tmp_path / "a" / "x").write_text("")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "there", "x"]


def test_a_log_that_was_there_stays(tmp_path):
    log = tmp_path / "t.b22"
    with Logbook(log, FETCH, "test", "r") as book:
        book.add(play(ScriptedPolicy("teacher", FETCH), FETCH, plans(1)), Author("teacher"), "x", "train")
    with Logbook(log, FETCH, "test", "r", append=True):
        pass  # nothing is recorded this time
    with Reader(log) as found:
        assert len(list(found.episodes())) == 1


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


@pytest.fixture
def server():
    """mlx-lm's own server on loopback, with the embedded model and the adapter that ships."""
    port = free_port()
    assets = Path(str(resources.files("assets")))
    command = [sys.executable, "-m", "mlx_lm.server", "--model", assets / "models" / "nano", "--adapter-path",
               assets / "adapters" / "nano" / "fetch_item", "--host", "127.0.0.1", "--port", port]  # fmt: skip
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=5)
                break
            except httpx.TransportError:
                assert process.poll() is None, "mlx_lm.server ended by itself"
                time.sleep(0.1)
        yield f"http:http://127.0.0.1:{port}/v1/completions"
    finally:
        process.terminate()
        process.wait(10)


def test_a_model_behind_a_server_teaches(server, tmp_path, capsys):
    words = ["--teacher", server, "--episodes", 2, "--held-out", 4, "--validation", 8, "--max-epochs", 2, "--json",
             "--option", "difficulty=1", "--out", tmp_path / "a"]  # fmt: skip
    assert run(*words) == 0
    line = json.loads(capsys.readouterr().out)
    costs = line["teacher_costs"]
    with Reader(tmp_path / "a" / "demonstrations.b22") as log:
        shown = list(log.episodes())
    assert line["demonstrations"] == 2 and costs["prompt_tokens"] > 0
    assert all(episode.begin.policy == server for episode in shown)
    lost = sum(turn.executed not in turn.legal for episode in shown for turn in episode.turns)
    assert lost <= costs["refused"]
    check_not_nothing(inspect(tmp_path / "a"))
    assert run(*words) == 0  # all of it is in the log by now: nothing is asked again
    assert json.loads(capsys.readouterr().out)["teacher_costs"]["requests"] == 0


def test_it_does_not_write_into_a_training_run_and_plays_nothing_for_a_student_that_is_not_there(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text("")
    assert run("--out", tmp_path / "run", *QUICK) == 2
    assert "training run" in capsys.readouterr().err
    assert run("--out", tmp_path / "o", "--student", "nobody", *QUICK) == 2
    assert not (tmp_path / "o").exists()
