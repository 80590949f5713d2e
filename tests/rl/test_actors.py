"""Rollouts by actors, without Ray: what is handed out, what comes back, and what is learned from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import rl.starting
import scenarios
from npc.mlx import mx
from npc.models import hash_arrays
from recorder import Reader
from rl.actors import Actors
from rl.command import CommandError
from rl.config import ON_RAY, ConfigError, TrainConfig
from rl.crew import PlayerLost, PlayersError
from rl.files import write_run
from rl.learner import play_plans
from rl.logbook import Author
from rl.parcels import pack_episodes
from rl.players import Facts, Player, Work
from rl.policies import find_adapter
from rl.pool import LocalPool, WorkerError
from rl.rollout import FAILED, Episode, Plan, play
from rl.runtime import Version, Workers
from rl.train import elsewhere, main, run_to_resume
from rl.train_options import arguments
from rl.trainer import Trainer
from tests.rl.making import Clumsy

FETCH = scenarios.get("fetch_item")
BRAIN: Any = SimpleNamespace(name="nano", base_hash="b", tokenizer_hash="t")
OPTIONS = FETCH.resolve_options({})


def groups_of(update: int, count: int = 4) -> list[list[Plan]]:
    return [[Plan(10 * update + g, OPTIONS, f"u{update}a0/g{g}", f"0/{update}/{g}/{n}") for n in range(2)]
            for g in range(count)]  # fmt: skip


def version(number: int) -> Version:
    adapter = {"x": np.full(2, number, dtype=np.float32)}
    return Version(number, adapter, Author(f"nano:u{number}"))


class Rules:
    """Actors that are rules, in this process. They answer in order, but for those in `asleep`; `loses` says over which
    work one is lost."""

    def __init__(self) -> None:
        self.facts = Facts(1, "here", FETCH.version, FETCH.source_hash, "b", "t")
        self.players = 0
        self.puts: list[dict[str, Any]] = []
        self.works: list[tuple[int, Work]] = []
        self.answers: list[tuple[int, Any]] = []
        self.asleep: set[int] = set()
        self.loses = lambda work: False
        self.lies = ""

    def start(self) -> int:
        self.players += 1
        return self.players - 1

    def introduction(self, player: int) -> int:
        return self._say(player, self.facts)

    def put(self, adapter: Mapping[str, Any]) -> Any:
        self.puts.append(dict(adapter))
        return len(self.puts) - 1

    def send(self, player: int, work: tuple[Any, Work]) -> int:
        token, plans = work
        self.works.append((player, plans))
        if self.loses(plans):
            return self._say(player, PlayerLost("died"))
        episodes = play(Clumsy(0.5), FETCH, plans.plans, plans.greedy)
        author = Author(plans.policy)
        if token is not None:
            tensors = {name: mx.array(value) for name, value in self.puts[token].items()}
            author = Author("", "nano", "", self.lies or hash_arrays(tensors), "b", "t")
        return self._say(player, (pack_episodes(episodes, author, FETCH), 2.0))

    def _say(self, player: int, what: Any) -> int:
        self.answers.append((player, what))
        return len(self.answers) - 1

    def wait(self, answers: Sequence[int], seconds: float) -> list[int]:
        return [one for one in answers if self.answers[one][0] not in self.asleep]

    def answer(self, answer: int) -> Any:
        what = self.answers[answer][1]
        if isinstance(what, Exception):
            raise what
        return what

    def stop(self, player: int) -> None: ...

    def close(self) -> None: ...


def actors(backend: Rules, lag: int = 0, size: int = 2) -> Actors:
    state = SimpleNamespace(episodes=[])
    return Actors(LocalPool(lambda: state), backend, FETCH, BRAIN, size, 600.0, lag, lambda line: None)


def names(shares: Sequence[Sequence[Episode]]) -> list[str]:
    return list(dict.fromkeys(episode.plan.group for share in shares for episode in share))


def test_an_adapter_is_handed_out_once_a_version_and_every_actor_has_a_share() -> None:
    backend = Rules()
    runtime = actors(backend)
    now = version(3)
    runtime.submit(groups_of(4), now)
    runtime.play([Plan(5, OPTIONS, "v", "d")], {"adapter": now.adapter, "greedy": True})
    taken = runtime.take(4, now, 3, more=False)
    assert len(backend.puts) == 1
    assert [sorted({plan.group for plan in work.plans}) for _, work in backend.works if work.training] == [
        ["u4a0/g0", "u4a0/g2"], ["u4a0/g1", "u4a0/g3"],
    ]  # fmt: skip
    assert names(taken.shares) == [f"u4a0/g{n}" for n in range(4)]
    assert taken.seconds == 2.0
    runtime.submit(groups_of(5), version(4))
    assert len(backend.puts) == 2


def test_the_learning_workers_hold_what_was_played() -> None:
    runtime = actors(Rules())
    state = runtime.pool._state  # type: ignore[union-attr]
    runtime.submit(groups_of(1), version(0))
    first = runtime.take(4, version(0), 0, more=False)
    assert state.episodes == first.shares[0]
    runtime.submit(groups_of(2, 1), version(0))
    more = runtime.take(1, version(0), 0, more=True)
    assert state.episodes == first.shares[0] + more.shares[0]


def test_evaluations_come_in_the_order_of_their_plans_and_rules_play_without_an_adapter() -> None:
    backend = Rules()
    runtime = actors(backend)
    plans = [Plan(seed, OPTIONS, f"t{seed}", f"d{seed}") for seed in range(5)]
    played = runtime.play(plans, {"policy": "teacher", "greedy": False})
    assert [episode.plan for episode in played] == plans and not backend.puts
    alone = play(Clumsy(0.5), FETCH, plans)
    assert [[t.executed for t in e.turns] for e in played] == [[t.executed for t in e.turns] for e in alone]
    with pytest.raises(WorkerError, match="actors play"):
        runtime.map(Actors.close, [{}])
    assert runtime.map(play_plans, []) == []


def test_groups_of_a_lost_actor_are_sampled_again_and_counted() -> None:
    backend = Rules()
    lost: list[Any] = []
    backend.loses = lambda work: not lost and not lost.append(work)  # type: ignore[func-returns-value]
    runtime = actors(backend)
    runtime.submit(groups_of(1), version(0))
    taken = runtime.take(4, version(0), 0, more=False)
    assert names(taken.shares) == [f"u1a0/g{n}" for n in range(4)]
    assert not any(episode.error for share in taken.shares for episode in share)
    assert runtime.losses() == {"restarts": 1, "resampled_groups": 2}
    assert runtime.losses() == {"restarts": 0, "resampled_groups": 0}


def test_groups_that_cost_every_actor_count_as_failed_and_measuring_does_not_go_on_without_them() -> None:
    backend = Rules()
    backend.loses = lambda work: work.plans[0].seed == 10
    runtime = actors(backend)
    runtime.submit(groups_of(1), version(0))
    taken = runtime.take(4, version(0), 0, more=False)
    (share,) = taken.shares
    failed = {episode.plan.group for episode in share if episode.ended == FAILED}
    assert failed == {"u1a0/g0", "u1a0/g2"} and len(share) == 8
    assert all(e.error and not e.turns and e.digest_start for e in share if e.ended == FAILED)
    with pytest.raises(WorkerError, match="could not be played: given up after 3"):
        runtime.play([Plan(10, OPTIONS, "v", "d")], {"policy": "teacher", "greedy": False})


def test_a_slow_actor_costs_its_groups_where_they_have_grown_too_old() -> None:
    """Two actors, a lag of one update; the second falls asleep with its share of update 1."""
    backend = Rules()
    runtime = actors(backend, lag=1)
    backend.asleep = {1}
    runtime.submit(groups_of(1), version(0))
    runtime.submit(groups_of(2), version(0))
    taken = runtime.take(4, version(0), 0, more=False)
    assert names(taken.shares) == ["u1a0/g0", "u1a0/g2", "u2a0/g0", "u2a0/g2"]
    backend.asleep = set()
    runtime.submit(groups_of(3), version(2))
    taken = runtime.take(4, version(2), 1, more=False)  # version 0 is too old by now
    played = {e.plan.group: v.number for v, episodes in taken.by_version for e in episodes}
    assert set(played.values()) == {2} and len(played) == 4
    rest = runtime.take(4, version(3), 2, more=False)
    every = set(played) | set(names(rest.shares))
    assert every == {f"u3a0/g{n}" for n in range(4)} | {"u1a0/g1", "u1a0/g3", "u2a0/g1", "u2a0/g3"}
    assert runtime.losses() == {"restarts": 0, "resampled_groups": 4}


def test_an_actor_that_plays_something_else_is_refused() -> None:
    backend = Rules()
    backend.facts = Facts(1, "node7", FETCH.version, "older", "b", "t")
    with pytest.raises(PlayersError, match="actor on node7 has source_hash 'older'"):
        actors(backend)
    backend = Rules()
    backend.lies = "0" * 32
    runtime = actors(backend)
    runtime.submit(groups_of(1), version(0))
    with pytest.raises(WorkerError, match="weights_hash is '0000"):
        runtime.take(4, version(0), 0, more=False)


class Here(Rules):
    """Players with the real model, in this process."""

    def start(self) -> Any:
        self.player = Player(self.how)
        return super().start()

    def introduction(self, player: int) -> int:
        return self._say(player, self.player.introduction())

    def send(self, player: int, work: tuple[Any, Work]) -> int:
        token, plans = work
        return self._say(player, self.player.play(None if token is None else self.puts[token], plans))


def trained(out: Path, monkeypatch: pytest.MonkeyPatch, **how: Any) -> tuple[Trainer, list[dict[str, Any]]]:
    def start(how: Any, size: int, address: str) -> Here:
        backend = Here()
        backend.how = how  # type: ignore[attr-defined]
        return backend

    monkeypatch.setattr(rl.starting, "RayBackend", start)
    how = {"updates": 3} | how
    config = TrainConfig(
        scenario="fetch_item", model="nano", adapter=find_adapter("nano", "fetch_item"), groups=2,
        group_size=4, passes=1, validate_every=3, validation_episodes=8, no_eval=True, workers=1, run_id="test", **how,
    )  # fmt: skip
    out.mkdir()
    trainer = Trainer(out, config, lambda line: None, resume=False)
    try:
        trainer.baselines()
        for _ in range(config.updates):
            trainer.one_update()
    finally:
        trainer.close()
    return trainer, trainer.state.metrics


def begins(out: Path) -> list[Any]:
    with Reader(out / "episodes.b22") as log:
        return [episode.begin for episode in log.episodes() if episode.begin.purpose == "train"]


def test_with_one_actor_everything_is_as_in_this_process(tmp_path, monkeypatch) -> None:
    ours, _ = trained(tmp_path / "local", monkeypatch, runtime="local", updates=2)
    theirs, lines = trained(tmp_path / "ray", monkeypatch, runtime="ray", actors=1, updates=2)
    assert isinstance(ours.runtime, Workers) and isinstance(theirs.runtime, Actors)
    for name, value in ours.state.adapter.items():
        assert np.array_equal(value, theirs.state.adapter[name])
    assert [line["lag_max"] for line in lines] == [0, 0]
    assert [(b.group, b.weights_hash, b.policy) for b in begins(tmp_path / "local")] == [
        (b.group, b.weights_hash, b.policy) for b in begins(tmp_path / "ray")
    ]


def test_groups_that_lag_are_told_by_version_and_the_ratio_takes_them_up(tmp_path, monkeypatch) -> None:
    out = tmp_path / "run"
    _, lines = trained(out, monkeypatch, runtime="ray", actors=1, max_lag=1)
    assert [(line["lag_mean"], line["lag_max"]) for line in lines] == [(0.0, 0), (1.0, 1), (1.0, 1)]
    logged = {(b.update, b.policy) for b in begins(out)}
    assert logged == {(1, "nano:u0"), (2, "nano:u0"), (3, "nano:u1")}
    hashes = {policy: {b.weights_hash for b in begins(out) if b.policy == policy} for policy in ("nano:u0", "nano:u1")}
    assert len(hashes["nano:u0"]) == len(hashes["nano:u1"]) == 1 and hashes["nano:u0"] != hashes["nano:u1"]
    # one pass an update: what the present version played has the ratio 1, what an older one played has not
    worst = [line["worst_log_ratio"] for line in lines]
    assert worst[0] < 1e-4 < 1e-2 < min(worst[1:])
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[1])["lag_max"] == 1


def test_without_ray_it_is_said_in_one_line_before_anything_is_made(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["--scenario", "fetch_item", "--runtime", "ray", "--smoke"]) == 2
    said = capsys.readouterr().err
    assert "ray is not installed; pip install 'errand[ray]'" in said and said.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--max-lag", "1"], "--max-lag 1: does nothing without --runtime ray"),
        (["--actors", "4"], "--actors 4: does nothing without --runtime ray"),
        (["--runtime", "local", "--workers", "3"], "--workers 3: does nothing without --runtime process or ray"),
        (["--runtime", "ray", "--actors", "0"], "--actors 0: 1 or more"),
        (["--runtime", "ray", "--actor-timeout", "0"], "--actor-timeout 0.0: a number above 0"),
        (["--runtime", "ray", "--max-lag", "-1"], "--max-lag -1: 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(words, says, capsys) -> None:
    assert main(["--scenario", "fetch_item", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_run_goes_on_elsewhere_than_it_began(tmp_path) -> None:
    began = TrainConfig(scenario="fetch_item", model="nano", adapter="a", runtime="ray", actors=4, max_lag=2,
                        ray_address="there:6379")  # fmt: skip
    words = ["--resume", "run"]
    assert elsewhere(began, arguments().parse_args(words)) == began
    here = elsewhere(began, arguments().parse_args([*words, "--runtime", "process"]))
    assert here == replace(began, runtime="process", **ON_RAY)
    more = elsewhere(here, arguments().parse_args([*words, "--runtime", "ray", "--actors", "8"]))
    assert more == replace(here, runtime="ray", actors=8)
    with pytest.raises(ConfigError, match="--actors 8: does nothing without --runtime ray"):
        elsewhere(began, arguments().parse_args([*words, "--runtime", "local", "--actors", "8"]))
    write_run(tmp_path, {"scenario": "fetch_item"})
    with pytest.raises(CommandError, match="leave out --max-lag"):
        run_to_resume(arguments().parse_args(["--resume", str(tmp_path), "--runtime", "ray", "--max-lag", "1"]))
