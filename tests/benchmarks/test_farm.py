"""The simulated farm's arithmetic: what queueing theory and plain sums say, and that nothing gets lost."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from benchmarks.events import Events, Meter, Station
from benchmarks.farm import Costs, Farm, Run, simulate
from benchmarks.thousand import broadcasts, enough, ladder, play_rate, saturation, show, split, told, volumes

COSTS = Costs(
    play_s={1: 2e-3, 4: 1.5e-3, 16: 1e-3}, turns=(20, 40, 60), pack_s=2e-5, decode_s=3e-5, parcel_bytes=300.0,
    log_s=2e-5, log_bytes=250.0, credit_s=1e-5, learn_s=2e-3, passes=2, step_s=0.05, adapter_bytes=600_000,
)  # fmt: skip


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_station_waits_as_long_as_theory_says(load):
    """M/D/1: the mean wait is ρ s / (2 (1 − ρ)) (Pollaczek 1930, Khinchin 1932)."""
    events, dice, waits = Events(), random.Random(1), []
    station = Station(events, 1)

    def arrive() -> None:
        came = events.now
        station.ask(1.0, lambda: waits.append(events.now - came - 1.0))
        events.after(dice.expovariate(load), arrive)

    arrive()
    events.run(lambda: len(waits) >= 60_000)
    assert sum(waits) / len(waits) == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    assert station.meter.seconds() / events.now == pytest.approx(load, rel=0.02)


def test_a_station_has_so_many_servers_and_takes_the_urgent_first():
    events, ends = Events(), []
    station = Station(events, 2)
    for name, urgent in (("a", False), ("b", False), ("c", False), ("d", True)):
        station.ask(1.0, lambda name=name: ends.append((name, events.now)), urgent)
    events.run(lambda: False)
    assert ends == [("a", 1.0), ("b", 1.0), ("d", 2.0), ("c", 2.0)]
    assert station.meter.seconds() == 4.0


def test_a_meter_adds_up_who_is_at_work():
    events = Events()
    meter = Meter(events)
    for at, by in ((1.0, 2), (3.0, -1), (6.0, -1)):
        events.after(at, lambda by=by: meter.change(by))
    events.run(lambda: False)
    assert meter.seconds() == 2 * 2 + 3 * 1


def test_one_worker_in_step_takes_the_sum_of_all_steps():
    costs = replace(COSTS, turns=(40,))
    farm = Farm(workers=1, groups=1, ahead=0, jitter=0.0)
    found = simulate(costs, farm, 30)
    adapter = farm.latency + costs.adapter_bytes / farm.link
    playing = 40 * (costs.play_s[1] + costs.pack_s)
    travel = farm.latency + 40 * costs.parcel_bytes / farm.link
    driver = 40 * (costs.decode_s + costs.credit_s + costs.log_s + costs.learn_s) + costs.step_s
    assert found.update_s == pytest.approx(adapter + playing + travel + driver, rel=1e-9)
    assert found.turns == 20 * 40
    assert found.worker_share == pytest.approx(playing / found.update_s, rel=1e-9)
    assert found.driver_share == pytest.approx(driver / found.update_s, rel=1e-9)
    assert found.lags == {0: 20}


APART: dict[str, Any] = {"decoders": 2, "sharded": True, "ranks": 8, "spread": True, "halving": True, "fanout": 4}
FARMS = [Farm(workers, groups, ahead, **more) for workers in (1, 3, 40) for groups in (2, 16, 64)
         for ahead in (0, 1, 3, None) for more in ({}, APART)]  # fmt: skip


@pytest.mark.parametrize("farm", FARMS, ids=str)
def test_nothing_is_lost_and_nobody_works_more_than_all_the_time(farm):
    found = simulate(COSTS, farm, 24)
    assert found.groups_played == found.groups_learned + found.groups_waiting
    assert sum(found.lags.values()) == found.updates * farm.groups == 16 * farm.groups
    for share in (found.worker_share, found.driver_share, found.decoder_share):
        assert 0 < share <= 1 + 1e-9
    if farm.ahead is not None:
        assert max(found.lags) <= farm.ahead + 1  # a slow worker's group may come an update late
        assert found.lag <= farm.ahead + 1e-9
    assert 20 <= found.turns / sum(found.lags.values()) <= 60


def test_in_step_nothing_lags_and_ahead_all_does():
    assert simulate(COSTS, Farm(4, 16, ahead=0)).lags.keys() == {0}
    late = simulate(COSTS, Farm(4, 16, ahead=3))
    assert late.lag == pytest.approx(3, abs=0.1)


def test_where_the_driver_is_full_it_sets_the_pace():
    found = simulate(COSTS, Farm(64, 64, ahead=1))
    alone = COSTS.decode_s + COSTS.log_s + COSTS.credit_s + COSTS.learn_s
    assert found.driver_share > 0.99
    assert found.turns_per_s == pytest.approx(1 / (alone + COSTS.step_s / (64 * 40)), rel=0.03)


def test_where_learners_keep_up_the_workers_set_it():
    farm = Farm(64, 256, None, sharded=True, spread=True, halving=True, fanout=4, jitter=0.0, **enough(COSTS, 64))
    found = simulate(COSTS, farm)
    each = COSTS.play_s[1] + COSTS.pack_s + COSTS.log_s  # they play a group at a time
    assert found.worker_share > 0.9
    assert found.turns_per_s == pytest.approx(found.worker_share * 64 / each, rel=0.03)


def test_lag_is_what_is_under_way_counted_in_updates():
    """Little's law (1961): groups in the farm = groups a second × how long each stays."""
    farm = Farm(128, 16, None, ranks=64, decoders=4, sharded=True, spread=True, halving=True, fanout=4)
    found = simulate(COSTS, farm, 200)
    assert found.groups_waiting / farm.groups < found.lag < (found.groups_waiting + farm.workers) / farm.groups


def test_the_same_seed_gives_the_same_and_another_another():
    farm = Farm(16, 16, None)
    assert simulate(COSTS, farm, seed=1) == simulate(COSTS, farm, seed=1) != simulate(COSTS, farm, seed=2)


def test_how_long_an_adapter_is_under_way():
    one, farm = 600_000 / 125e6, Farm(100, 1)
    star = Run(COSTS, farm)
    assert star.delay(0) == pytest.approx(farm.latency + one)
    assert star.delay(99) == pytest.approx(farm.latency + 100 * one)
    tree = Run(COSTS, replace(farm, fanout=4))
    for worker, level in ((0, 1), (3, 1), (4, 2), (19, 2), (20, 3), (83, 3), (84, 4)):
        assert tree.delay(worker) == pytest.approx(level * (farm.latency + 4 * one)), worker


def test_how_long_learning_takes():
    costs, farm = replace(COSTS, turns=(40,)), Farm(8, 16, ranks=8)
    sent = 2 * costs.adapter_bytes * 7 / 8 / farm.link
    alone = 100 * (costs.log_s + costs.credit_s) + costs.step_s + 100 * costs.learn_s / 8
    assert Run(costs, farm).learning_s(100) == pytest.approx(alone + 2 * (14 * farm.latency + sent))
    halving = replace(farm, halving=True, spread=True, sharded=True)
    less = 100 * (costs.log_s + costs.credit_s * 7 / 8)
    assert Run(costs, halving).learning_s(100) == pytest.approx(alone - less + 2 * (6 * farm.latency + sent))


def test_the_plan_by_hand():
    assert play_rate(COSTS) == 1000
    (volume,) = volumes(COSTS, [1000])
    assert volume["turns_per_s"] == pytest.approx(1e6)
    assert volume["log_gb_per_hour"] == pytest.approx(900)
    assert volume["log_tb_per_day"] == pytest.approx(21.6)
    steps = {row["step"]: row for row in saturation(COSTS)}
    assert steps["learn"]["turns_per_s"] == pytest.approx(500)
    assert steps["learn"]["workers"] == pytest.approx(0.5)
    assert steps["all of it"]["us_per_turn"] == pytest.approx(2060)
    assert enough(COSTS, 1000) == {"ranks": 2500, "decoders": 38}
    shared = split(COSTS, 1000)
    assert shared["players"] == pytest.approx(1000 / 3)
    assert shared["turns_per_s"] == pytest.approx(1000 / (COSTS.play_s[16] + COSTS.learn_s))
    (row,) = broadcasts(COSTS, {"nano": 1_000_000}, 1000)
    assert row["star_s_1_gbit"] == pytest.approx(8.0005)
    assert row["tree_s_10_gbit"] == pytest.approx(5 * (0.0005 + 4 * 0.0008))


def test_every_remedy_is_one_more_and_none_makes_it_slower():
    rungs = [told(COSTS, farm) for _, farm in ladder(COSTS, 60, 128)]
    speeds = [rung["turns_per_s"] for rung in rungs]
    assert speeds[-1] > 10 * speeds[0]
    for before, after in pairwise(speeds):
        assert after > 0.9 * before


def test_the_tables_show_what_was_found():
    rungs = [{"name": name} | told(COSTS, farm) for name, farm in ladder(COSTS, 8, 16)]
    costs: dict[str, Any] = {name: getattr(COSTS, name) for name in COSTS.__dataclass_fields__}
    found = {"scenario": "s", "model": "m", "measured": {"costs": costs}, "volumes": volumes(COSTS, [8]),
             "broadcasts": broadcasts(COSTS, {"m": 1_000_000}, 8), "saturation": saturation(COSTS),
             "split": split(COSTS, 8), "lags": rungs, "ladder": rungs}  # fmt: skip
    out = io.StringIO()
    show(found, Console(file=out, width=200))
    for text in ("as built, 16 groups", "1,000 µs with 16 groups", "300 / 250 bytes", "2.00 learners a player"):
        assert text in out.getvalue()


@pytest.mark.slow
def test_the_command_measures_and_plans(tmp_path):
    command = [sys.executable, "-m", "benchmarks.thousand", "--quick", "--workers", "20", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    costs = found["measured"]["costs"]
    assert len(costs["turns"]) == 4 and all(value > 0 for value in costs["play_s"].values())
    assert found["ladder"][0]["workers"] == 20
    assert {row["model"] for row in found["broadcasts"]} == {"nano", "smollm2-135m"}
