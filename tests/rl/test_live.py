"""The live panel: what it draws on a terminal, and that nothing but lines goes anywhere else."""

from __future__ import annotations

import io

from rich.console import Console

from rl.live import BLOCKS, View, blocks, figures


def line(update: int, success: float, **other: object) -> dict:
    return {"update": update, "success": success, "episodes": 64 * update, "validation": None, "reward": success,
            "kl": 0.1 * update, "entropy": 1.0, "dead_groups": update, "turns_per_s_rollout": 400.4,
            "turns_per_s_train": None, **other}  # fmt: skip


def drawn(thing: object) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(thing)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_blocks_go_from_the_lowest_to_the_highest() -> None:
    assert blocks([0, 1, 2, 3, 4, 5, 6, 7]) == BLOCKS
    assert blocks([0.0, None, 1.0]) == "▁·█"
    assert blocks([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"
    assert blocks([0.9, 1.0], 0.0, 1.0) == "██"
    assert blocks([3.0, 3.0]) == "▅▅"
    assert blocks([0.0, 0.0]) == "▁▁"
    assert blocks([None, None]) == "··"
    assert blocks([]) == ""
    assert blocks([-5.0, 9.0], 0.0, 1.0) == "▁█"


def test_the_figures_are_the_last_updates_and_the_best_validation() -> None:
    lines = [line(1, 0.2, validation=0.25), line(2, 0.5, validation=0.75), line(3, 0.4, validation=0.5)]
    shown = drawn(figures(lines))
    assert "40.0 % solved" in shown
    assert "best 75.0 % after update 2" in shown
    assert "0.300 nats a turn" in shown
    assert "400 turns/s played, – learned from" in shown
    assert "192 episodes" in shown
    assert blocks([0.2, 0.5, 0.4], 0.0, 1.0) in shown


def test_nothing_is_drawn_before_the_first_update() -> None:
    assert drawn(figures([])).strip() == ""


def test_a_terminal_gets_the_panel_under_the_lines() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, highlight=False)
    with View(console, "fetch_item [nano]", 16) as view:
        view.show("update 3", 2, 16)
        view.watch(line(2, 0.5))
        view.say("update 2/16 [done]")
    text = file.getvalue()
    assert "fetch_item [nano]" in text  # no markup is read out of names
    assert "50.0 % solved" in text and "2/16" in text and "update 3" in text
    assert "update 2/16 [done]" in text


def test_what_is_no_terminal_gets_the_lines_alone() -> None:
    file = io.StringIO()
    with View(Console(file=file, force_terminal=False, width=100), "title", 16) as view:
        view.show("update 3", 2, 16)
        view.watch(line(2, 0.5))
        view.say("update 2/16")
    assert file.getvalue() == "update 2/16\n"


def test_the_terminal_is_given_back_after_an_error() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100)
    try:
        with View(console, "title", 16):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert "\x1b[?25h" in file.getvalue()  # the cursor is shown again
