"""What a thousand rollout workers would take: `python -m benchmarks.thousand [--model nano] [--workers 1000]`.

Measures what every step of a training costs here, in one process with one thread (benchmarks.costs), and lets a farm of
many such workers run as discrete events on those costs (benchmarks.farm). So the costs are measured, and everything
about many machines is simulated: the network is a bandwidth and a latency, and no machine ever fails.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import scenarios
from benchmarks.costs import PASSES, measured
from benchmarks.farm import Costs, Farm, Run, simulate
from npc.errors import NpcError
from rl.command import CommandError, Parser, fail
from rl.policies import PolicyNameError, find_adapter
from rl.pool import WorkerError
from scenarios.contract import ScenarioError

FULL, QUICK = {"groups": 16, "tries": 3}, {"groups": 4, "tries": 1}
GROUP_SIZE = 4
GIGABIT = 125e6  # bytes a second
SIZES = (2, 16, 128)  # workers, beside those asked for
BATCHES = (16, 64, 256, 1024, 4096)  # groups an update
HEADROOM = 1.25  # of learners and decoders over what the workers play, where lag is looked at
DAY = 86_400


def play_rate(costs: Costs) -> float:
    """Turns a second of one worker that plays as many groups side by side as were measured."""
    return 1 / costs.playing(max(costs.play_s))


def volumes(costs: Costs, workers: Sequence[int]) -> list[dict[str, float]]:
    """What workers that play all the time send and log."""
    found = []
    for count in workers:
        turns = count * play_rate(costs)
        logged = turns * costs.log_bytes
        found.append({"workers": count, "turns_per_s": turns, "log_gb_per_hour": 3600 * logged / 1e9,
                      "log_tb_per_day": DAY * logged / 1e12,
                      "parcels_mb_per_s": turns * costs.parcel_bytes / 1e6})  # fmt: skip
    return found


def broadcasts(costs: Costs, adapters: dict[str, int], workers: int) -> list[dict[str, Any]]:
    """How long until every worker has a new adapter: from the driver to each, or passed on to 4 by each."""
    found = []
    for name, size in adapters.items():
        row: dict[str, Any] = {"model": name, "bytes": size, "star_bytes": workers * size}
        for label, link in (("1", GIGABIT), ("10", 10 * GIGABIT)):
            for way, fanout in (("star", 0), ("tree", 4)):
                farm = Farm(workers, 1, fanout=fanout, link=link)
                row[f"{way}_s_{label}_gbit"] = Run(replace(costs, adapter_bytes=size), farm).delay(workers - 1)
        found.append(row)
    return found


def saturation(costs: Costs) -> list[dict[str, Any]]:
    """Each thing that a lone driver does for a turn: how many turns a second fill it, and how many workers that is."""
    rate = play_rate(costs)
    alone = {"decode": costs.decode_s, "log": costs.log_s, "credit": costs.credit_s, "learn": costs.learn_s}
    alone["all of it"] = sum(alone.values())
    return [{"step": name, "us_per_turn": 1e6 * seconds, "turns_per_s": 1 / seconds, "workers": 1 / seconds / rate}
            for name, seconds in alone.items()]  # fmt: skip


def enough(costs: Costs, workers: int) -> dict[str, int]:
    """Ranks and decoders that keep up with `workers` players, with some headroom."""
    turns = HEADROOM * workers * play_rate(costs)
    return {"ranks": max(1, math.ceil(turns * costs.learn_s)), "decoders": max(1, math.ceil(turns * costs.decode_s))}


def split(costs: Costs, processes: int) -> dict[str, float]:
    """So many processes in all, shared out so that those that learn keep up with those that play. It is also what they
    do where every one plays and learns (`mlx.launch`): processes / (seconds to play a turn + to learn from it)."""
    learners = costs.learn_s * play_rate(costs)
    players = processes / (1 + learners)
    return {"learners_per_player": learners, "processes": processes, "players": players,
            "learners": processes - players, "turns_per_s": players * play_rate(costs)}  # fmt: skip


def ladder(costs: Costs, workers: int, groups: int) -> list[tuple[str, Farm]]:
    """From what is built to what `workers` take, one remedy more in every line."""
    farm = Farm(workers, 16, ahead=1)
    found = [("as built, 16 groups an update", farm)]
    for name, more in (
        (f"{groups} groups an update", {"groups": groups}),
        ("workers log (merged later)", {"sharded": True}),
        ("decoding beside", {"decoders": enough(costs, workers)["decoders"]}),
        ("ranks share the gradient", {"ranks": enough(costs, workers)["ranks"]}),
        ("ranks credit their groups", {"spread": True}),
        ("sums by halves, not a ring", {"halving": True}),
        ("adapter passed on by workers", {"fanout": 4}),
        ("workers go on by themselves", {"ahead": None}),
    ):
        farm = replace(farm, **more)  # type: ignore[arg-type]
        found.append((f"+ {name}", farm))
    return found


def updates_for(farm: Farm) -> int:
    """Enough for what is under way to be renewed a few times."""
    return 30 + 3 * math.ceil(farm.workers / farm.groups)


def told(costs: Costs, farm: Farm) -> dict[str, Any]:
    """A farm's figures."""
    found = simulate(costs, farm, updates_for(farm))
    return asdict(farm) | {
        "turns_per_s": found.turns_per_s, "update_s": found.update_s, "worker_share": found.worker_share,
        "driver_share": found.driver_share, "decoder_share": found.decoder_share, "lag_mean": found.lag,
        "lag_p50": found.lag_at(0.5), "lag_p95": found.lag_at(0.95), "lag_max": max(found.lags),
        "adapter_mb_per_s": farm.workers * costs.adapter_bytes / found.update_s / 1e6,
        "log_tb_per_day": DAY * found.turns_per_s * costs.log_bytes / 1e12,
    }  # fmt: skip


def run(args: argparse.Namespace) -> dict[str, Any]:
    scenario = scenarios.get(args.scenario)
    if args.workers < 1:
        raise CommandError(f"--workers {args.workers}: 1 or more")
    found = measured(scenario, args.model, group_size=GROUP_SIZE, **(QUICK if args.quick else FULL))
    costs = found.costs
    counts = sorted({*SIZES, args.workers})
    adapters = {args.model: costs.adapter_bytes} | {
        model: _adapter_bytes(find_adapter(model, args.scenario)) for model in ("nano", "smollm2-135m")
        if model != args.model
    }  # fmt: skip
    many = max(BATCHES)
    return {
        "scenario": scenario.name, "model": args.model, "measured": asdict(found),
        "volumes": volumes(costs, counts), "broadcasts": broadcasts(costs, adapters, args.workers),
        "saturation": saturation(costs), "split": split(costs, args.workers),
        "lags": [told(costs, Farm(count, groups, ahead=None, sharded=True, spread=True, halving=True, fanout=4,
                              **enough(costs, count)))
                 for count in counts for groups in BATCHES],
        "ladder": [{"name": name} | told(costs, farm) for name, farm in ladder(costs, args.workers, many)],
    }  # fmt: skip


def _adapter_bytes(folder: str) -> int:
    """What the tensors of an adapter take as float32, as they travel."""
    from npc.errors import AdapterError
    from npc.models import read_safetensors

    tensors = read_safetensors(Path(folder) / "adapters.safetensors", AdapterError)
    return sum(4 * value.size for value in tensors.values())


# ------------------------------------------------------------------------------------------------------------- tables


def show(found: dict[str, Any], console: Console) -> None:
    costs, workers = found["measured"]["costs"], found["ladder"][0]["workers"]
    plays = ", ".join(f"{1e6 * seconds:,.0f} µs with {size} group{'s' if size != 1 else ''} side by side"
                      for size, seconds in costs["play_s"].items())  # fmt: skip
    measured = Table("measured, one process with one thread", "", title=f"{found['scenario']}, {found['model']}")
    for name, value in (
        ("playing a turn", plays),
        ("packing / decoding a turn", f"{1e6 * costs['pack_s']:,.1f} / {1e6 * costs['decode_s']:,.1f} µs"),
        ("a turn under way / in the log", f"{costs['parcel_bytes']:,.0f} / {costs['log_bytes']:,.0f} bytes"),
        ("logging / crediting a turn", f"{1e6 * costs['log_s']:,.1f} / {1e6 * costs['credit_s']:,.1f} µs"),
        (f"learning from a turn, {PASSES} passes", f"{1e6 * costs['learn_s']:,.0f} µs"),
        ("optimizer and packing, an update", f"{1e3 * costs['step_s']:,.1f} ms"),
        ("the adapter", f"{costs['adapter_bytes'] / 1e6:,.2f} MB"),
        ("turns of a group", f"{sum(costs['turns']) / len(costs['turns']):.1f}"),
    ):
        measured.add_row(name, value)
    console.print(measured)
    _table(console, f"{workers} workers that play all the time, and fewer", found["volumes"], {
        "workers": "{:,.0f}", "turns_per_s": "{:,.0f}", "log_gb_per_hour": "{:,.2f}", "log_tb_per_day": "{:,.3f}",
        "parcels_mb_per_s": "{:,.2f}"})  # fmt: skip
    _table(console, f"seconds until {workers} workers have a new adapter", found["broadcasts"], {
        "model": "{}", "bytes": "{:,}", "star_s_1_gbit": "{:,.2f}", "star_s_10_gbit": "{:,.2f}",
        "tree_s_1_gbit": "{:,.2f}", "tree_s_10_gbit": "{:,.2f}"})  # fmt: skip
    _table(console, "where a lone driver is full", found["saturation"], {
        "step": "{}", "us_per_turn": "{:,.1f}", "turns_per_s": "{:,.0f}", "workers": "{:,.1f}"})  # fmt: skip
    console.print("{learners_per_player:.2f} learners a player; of {processes:,} processes in all, {players:,.0f} play "
                  "and {learners:,.0f} learn, {turns_per_s:,.0f} turns a second".format(**found["split"]))  # fmt: skip
    _table(console, "lag in updates, workers going on by themselves, learners keeping up", found["lags"], {
        "workers": "{:,}", "groups": "{:,}", "lag_mean": "{:.2f}", "lag_p50": "{}", "lag_p95": "{}", "lag_max": "{}",
        "update_s": "{:,.2f}", "worker_share": "{:.0%}"})  # fmt: skip
    _table(console, f"{workers} workers, one remedy more in every line", found["ladder"], {
        "name": "{}", "ranks": "{:,}", "decoders": "{:,}", "turns_per_s": "{:,.0f}", "worker_share": "{:.1%}",
        "driver_share": "{:.0%}", "lag_mean": "{:.2f}", "lag_p95": "{}", "update_s": "{:,.2f}",
        "adapter_mb_per_s": "{:,.0f}", "log_tb_per_day": "{:,.2f}"})  # fmt: skip


def _table(console: Console, title: str, rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="left" if name in ("name", "model", "step") else "right")
    for row in rows:
        table.add_row(*(form.format(row[name]) for name, form in columns.items()))
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m benchmarks.thousand", description=(__doc__ or "").split(":")[0] + ".")
    parser.add_argument("--scenario", default="fetch_item")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--workers", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"measure {QUICK['groups']} groups once (default: "
                        f"{FULL['groups']} groups, the best of {FULL['tries']} times)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    args = parser.parse_args(argv)
    try:
        found = run(args)
    except (ScenarioError, NpcError, PolicyNameError, CommandError, OSError) as error:
        return fail("benchmarks.thousand", error)
    except WorkerError as error:
        print(f"python -m benchmarks.thousand: {error}", file=sys.stderr)
        return 1
    show(found, Console(highlight=False, width=max(140, Console().width)))  # tables of many columns
    if args.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
