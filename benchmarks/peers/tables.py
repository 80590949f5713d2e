"""What was measured, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.peers.figures import GOALS, PARTS, in_words, reached


def show(found: Mapping[str, Any]) -> None:
    """The tables for people."""
    console = Console(highlight=False, width=110, soft_wrap=True)
    table = Table(title=f"turns a second, {found['model']}, {found['ours']['turns']:.0f} turns a round, "
                  f"{found['rounds']} rounds: median (range)", title_justify="left")  # fmt: skip
    for name in ("", *PARTS):
        table.add_column(name)
    for name in ("ours", "trl", "mlx_lm_lora", "mlx_lm_lora_plain"):
        if name in found:
            table.add_row(name.replace("_", "-"), *(in_words(found[name][f"{part}_turns_per_s"]) for part in PARTS))
    for name in ("trl", "mlx_lm_lora"):
        if name in found:
            each = ("rollout", "train", "loop")
            table.add_row(f"ours / {name.replace('_', '-')}",
                          *(in_words(found[f"{part}_vs_{name}_range"]) + "x" for part in each))
            table.add_row("  by processor time", *(f"{found[f'{part}_vs_{name}_cpu']:.2f}x" for part in each))
    console.print(table)
    console.print(f"tokens put through the layers for a turn of an update: ours {found['ours']['tokens_a_turn']:.0f}, "
                  f"without sharing {found['tokens_a_turn_unshared']:.0f}")
    for name in ("trl", "mlx_lm_lora"):
        if name in found:
            rollout, update = found[name]["matmul_share_rollout"], found[name]["matmul_share_update"]
            console.print(f"{name.replace('_', '-')}'s share of the matmul rate, by processor time, for what it puts "
                          f"through: rollout {rollout:.2f}, update {update:.2f}")
    table = Table(title="steps a second of processor time with a text observation, one process", title_justify="left")
    table.add_column("")
    table.add_column("steps/s", justify="right")
    for name, each in found["worlds"].items():
        table.add_row(name, in_words(each, ",.0f"))
    console.print(table)
    console.print("rollouts with nano, shares of processor time by call: " + ", ".join(
        f"{name} {each['median']:.3f}" for name, each in found["env_share_by_call"].items()
    ))  # fmt: skip
    console.print(f"shares of the matmul rate by processor time: rollout {found['matmul_share_rollout_cpu']:.2f}, "
                  f"update {found['matmul_share_update_cpu']:.2f}")
    for figure, (what, goal, least) in GOALS.items():
        value = found[figure]
        if value is None:
            console.print(f"{figure}: {what}: no figure ({found['reasons'][figure]})")
        else:
            word = "reached" if reached(figure, value) else "missed"
            bound = "at least" if least else "at most"
            console.print(f"{figure}: {what}: {value:.3g} (goal: {bound} {goal:g}): {word}")
