"""Policies by name: each kind plays, and what names nothing gets one clear line."""

from pathlib import Path

import pytest

import scenarios
from rl.files import write_run
from rl.policies import ModelPolicy, PolicyNameError, ScriptedPolicy, TurnView, make_policy, parse_policy
from rl.rollout import Plan, play
from rl.tree import Tree
from tests.rl.making import tiny_model

FETCH = scenarios.get("fetch_item")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    model, adapter = tiny_model(tmp_path_factory.mktemp("tiny"))
    return str(model), str(adapter)


@pytest.fixture(scope="module")
def run(tiny: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run folder with two nodes, whose head is the second."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    folder.mkdir()
    write_run(folder, {"scenario": "fetch_item", "model": tiny[0], "adapter": tiny[1]})
    tree = Tree(folder / "checkpoints")
    for update, name in enumerate(("start", "u0001")):
        tree.add(name, {"update": update}, lambda place: _copy(Path(tiny[1]), place))
    tree.set_head("u0001")
    return str(folder)


def _copy(source: Path, place: Path) -> None:
    for path in source.iterdir():
        (place / path.name).write_bytes(path.read_bytes())


def view(seed: int = 2_000_000) -> TurnView:
    state = FETCH.build(seed)
    return TurnView(state, FETCH.observation(state), FETCH.legal(state))


@pytest.mark.parametrize("name", ["random", "teacher", "oracle"])
def test_scripted_players_by_name(name: str) -> None:
    spec = parse_policy(name)
    assert spec.kind == name
    (decision,) = make_policy(spec, FETCH).decide([view()], [0.5])
    assert decision.phrase in view().legal
    assert sum(decision.probs) == pytest.approx(1)
    assert decision.prompt_ids == []


def test_random_is_as_likely_to_do_any_legal_thing() -> None:
    turn = view()
    count = len(turn.legal)
    uniforms = [(i + 0.5) / count for i in range(count)]
    decisions = ScriptedPolicy("random", FETCH).decide([turn] * count, uniforms)
    assert tuple(decision.phrase for decision in decisions) == turn.legal


def test_a_bare_model_folder(tiny: tuple[str, str]) -> None:
    spec = parse_policy(tiny[0])
    assert (spec.kind, spec.model, spec.adapter) == ("model", tiny[0], None)
    policy = make_policy(spec, FETCH)
    assert isinstance(policy, ModelPolicy)
    (decision,) = policy.decide([view()], [0.3])
    assert decision.phrase in view().legal


def test_a_model_with_an_adapter_acts_otherwise_than_without(tiny: tuple[str, str]) -> None:
    spec = parse_policy(f"{tiny[0]}:{tiny[1]}")
    assert (spec.model, spec.adapter) == tiny
    (bare,) = make_policy(parse_policy(tiny[0]), FETCH).decide([view()], [0.3])
    (adapted,) = make_policy(spec, FETCH).decide([view()], [0.3])
    assert bare.probs != adapted.probs


def test_a_run_is_its_head_and_a_node_can_be_named(tiny: tuple[str, str], run: str) -> None:
    assert parse_policy(run).adapter == f"{run}/checkpoints/u0001"
    spec = parse_policy(f"{run}@start")
    assert (spec.model, spec.adapter) == (tiny[0], f"{run}/checkpoints/start")
    assert isinstance(make_policy(spec, FETCH), ModelPolicy)


def test_a_model_plays_whole_episodes(run: str) -> None:
    plans = [Plan(seed, {}, f"g{seed}", f"d{seed}") for seed in (5, 6)]
    for episode in play(make_policy(parse_policy(run), FETCH), FETCH, plans):
        assert episode.ended in ("success", "turn_cap")
        for turn in episode.turns:
            assert turn.executed in turn.legal
            assert turn.logprob == pytest.approx(_logp(turn), abs=1e-4)


def _logp(turn) -> float:
    import math

    return math.log(turn.prob_values[turn.legal.index(turn.executed)])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("randm", "did you mean 'random'"),
        ("oracel", "did you mean 'oracle'"),
        ("nanno", "did you mean 'nano'"),
        ("what is this", "there is random, teacher, oracle, auto, nano"),
        ("", "there is random, teacher, oracle"),
        ("nano@u0001", "not a run folder"),
        ("nano:no_such_adapter", "none of that name ships for nano"),
        ("nano:", "no such folder"),
    ],
)
def test_what_names_nothing_gets_one_line(text: str, told: str) -> None:
    with pytest.raises(PolicyNameError) as caught:
        parse_policy(text)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_slip_in_the_name_of_a_run_is_told(run: str) -> None:
    with pytest.raises(PolicyNameError, match=f"did you mean '{run}'"):
        parse_policy(run.removesuffix("demo") + "demmo")


def test_an_unknown_node_is_told_with_those_that_there_are(run: str) -> None:
    with pytest.raises(PolicyNameError, match="no checkpoint 'u0009'; there is start, u0001"):
        parse_policy(f"{run}@u0009")
