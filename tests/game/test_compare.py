"""Two villages with one seed and the same dice: each plays as it would alone, and waits for the other at the end."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from game.__main__ import main
from game.view.compare import Comparison, Side
from game.view.session import OVER
from rl.config import TrainConfig
from rl.files import write_run
from rl.policies import PolicyNameError
from rl.tree import Tree
from tests.game.fronts import FETCH, brains, make_session, make_tiny_model, play_turn


@pytest.fixture
def comparison() -> Iterator[Comparison]:
    made = Comparison(FETCH, {}, 4, ("teacher", "random"))
    yield made
    made.close()


def alone(brain: str, seed: int) -> list[dict[str, str]]:
    session = make_session(brain)
    session.start(seed)
    while session.ended is None:
        play_turn(session)
    return [turn.digest_after for turn in session.turns]


def digests(side: Side) -> list[dict[str, str]]:
    return [turn.digest_after for turn in side.session.turns]


def until_over(comparison: Comparison, frame_s: float = 0.2) -> None:
    for _ in range(100_000):
        if comparison.over:
            return
        comparison.advance(frame_s, onward=False)
    raise AssertionError("it did not end")


@pytest.mark.parametrize(("speed", "frame_s"), [(1, 0.2), (16, 0.05)])
def test_each_side_plays_as_it_would_alone(comparison: Comparison, speed: int, frame_s: float) -> None:
    comparison.speed = speed
    until_over(comparison, frame_s)
    assert [digests(side) for side in comparison.sides] == [alone("teacher", 4), alone("random", 4)]
    left, right = (side.session.begin for side in comparison.sides)
    assert left.digest_start == right.digest_start, "the same village"


def test_the_same_policy_twice_is_the_same_play() -> None:
    twice = Comparison(FETCH, {}, 6, ("random", "random"))
    until_over(twice)
    assert digests(twice.sides[0]) == digests(twice.sides[1]) and len(digests(twice.sides[0])) > 3


def test_who_is_done_first_waits_for_the_other_and_then_both_go_on(comparison: Comparison) -> None:
    teacher, other = comparison.sides
    while not teacher.over:
        comparison.advance(0.2)
    for _ in range(50):
        comparison.advance(0.2)
    assert teacher.over and not other.over and comparison.seed == 4
    until_over(comparison)
    comparison.paused = True
    for _ in range(50):
        comparison.advance(0.2)
    assert comparison.seed == 4, "paused at the end"
    comparison.pause()
    for _ in range(50):
        comparison.advance(0.2)
        if comparison.seed == 5:
            break
    assert [side.session.seed for side in comparison.sides] == [5, 5]
    assert all(side.session.phase != OVER for side in comparison.sides)


def test_the_next_seed_the_same_again_and_the_speeds(comparison: Comparison) -> None:
    comparison.advance(1.0)
    comparison.next()
    assert [side.session.seed for side in comparison.sides] == [5, 5]
    comparison.start(comparison.seed)
    assert all(side.session.turns == [] for side in comparison.sides)
    speeds = []
    for by in (-1, 1, 1, 1):
        comparison.faster(by)
        speeds.append(comparison.speed)
    assert speeds == [1, 4, 16, 16]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run folder with three checkpoints of a tiny model and one whose weights are gone; the second is the head."""
    from npc import adapters, models

    home = tmp_path_factory.mktemp("run")
    model = make_tiny_model(home).partition(":")[0]
    brain = models.load(model)
    adapters.attach(brain, rank=4, scale=2.0, seed=5)
    tree = Tree(home / "demo" / "checkpoints")
    for update, name in enumerate(("start", "u0001", "u0002", "u0003")):
        tensors = {key: value * 0 + 0.1 * update for key, value in adapters.get_adapter(brain).items()}
        adapters.set_adapter(brain, tensors)
        facts = {"update": update, "parent": None, "metrics": {"validation": 0.25 * update}, "pruned": update == 3}
        tree.add(name, facts, lambda place: adapters.save_adapter(brain, place, {}))
    tree.set_head("u0001")
    config = TrainConfig(scenario="fetch_item", model=model, adapter="somewhere")
    write_run(home / "demo", msgspec.to_builtins(config))
    return str(home / "demo")


def awake(comparison: Comparison) -> None:
    for side in comparison.sides:
        side.session.deadline_s = 120.0
        side.answer(0.05)


def test_the_slider_puts_another_checkpoint_to_play_on_the_same_seed(run: str) -> None:
    comparison = Comparison(FETCH, {}, 4, (f"{run}@start", run), deadline_s=120.0)
    left, right = comparison.sides
    assert [node.name for node in left.nodes] == ["start", "u0001", "u0002"], "none that has no weights"
    assert [node.success for node in left.nodes[1:]] == [0.25, 0.5]
    assert (left.node, right.node) == (0, 1)
    awake(comparison)
    begins = [side.session.begin for side in comparison.sides]
    before = brains()
    comparison.choose(1, 2)
    awake(comparison)
    assert right.policy == f"{run}@u0002" and right.node == 2 and comparison.note == ""
    assert len(brains()) == 2 and len(set(brains()) & set(before)) == 1, "the old brain is gone"
    assert [side.session.seed for side in comparison.sides] == [4, 4]
    for side in comparison.sides:
        side.session.play()
    assert right.session.begin.weights_hash not in ("", left.session.begin.weights_hash, begins[1].weights_hash)
    comparison.close()
    assert brains() == []


def test_a_checkpoint_that_is_gone_is_said_and_the_old_one_plays_on(run: str, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "demo"
    shutil.copytree(run, copy)
    comparison = Comparison(FETCH, {}, 4, ("teacher", str(copy)), deadline_s=120.0)
    shutil.rmtree(copy / "checkpoints" / "u0002")
    comparison.choose(1, 2)
    assert "no checkpoint 'u0002'" in comparison.note and comparison.sides[1].node == 1
    awake(comparison)
    comparison.close()


def test_a_brain_that_is_not_there_leaves_no_process_behind(run: str) -> None:
    with pytest.raises(PolicyNameError, match="nope"):
        Comparison(FETCH, {}, 4, (run, "nope"))
    assert brains() == []


def test_a_run_that_can_not_be_read_is_one_line(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    shutil.copytree(run, tmp_path / "demo")
    with (tmp_path / "demo" / "run.toml").open("a", encoding="utf-8") as settings:
        settings.write("sparkle = 3\n")
    name = str(tmp_path / "demo")
    for words in (["compare", "--seed", "1", "--left", name, "--right", "teacher"], ["--brain", name]):
        assert main([*words, "--headless", *([] if "compare" in words else ["--turns", "1"])]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "run.toml: no setting 'sparkle'" in said
    assert brains() == []


def test_headless_says_how_each_side_did(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--seed", "4", "--left", "random", "--right", "teacher", "--headless"]
    assert main(words) == 0
    left, right = capsys.readouterr().out.splitlines()
    assert left.startswith("left, random: turn_cap after 20 turns, reward ") and "success after" in right
    assert main([*words, "--json"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [result["policy"] for result in results] == ["random", "teacher"]
    assert [result["turns"] for result in results] == [len(alone("random", 4)), len(alone("teacher", 4))]


BAD = {
    "--seed -1": "a seed is a whole number from 0",
    "--left nope": "policy 'nope': no player",
    "--option difficulty=9": "choose one of 1, 2, 3, 4, 5",
    "--option difficulty": "write it as KEY=VALUE",
    "--scenario fetch_itm": "did you mean 'fetch_item'",
    "--deadline 0": "give a number of seconds above 0",
    "--save {tmp}/film.mp4": "ends in .webp or .png or .gif",
    "--save {tmp}/none/film.webp": "there is no folder",
    "--screenshot {tmp}/shot.gif": "ends in .png",
    "--size 10x10": "from 640x360 to 8192x8192 pixels",
    "--size big": "WIDTHxHEIGHT",
    "--speed 3": "--speed",
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_use_is_one_line(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = bad.format(tmp=tmp_path).split(" ")
    base = ["compare", "--seed", "1", "--left", "teacher", "--right", "teacher", "--headless"]
    try:
        code = main([*base, *words])
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert code == 2 and said.out == "" and list(tmp_path.iterdir()) == []
    assert said.err.count("\n") == 1 and BAD[bad] in said.err
