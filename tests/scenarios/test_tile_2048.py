"""tile_2048 is the game of 2048: its rules by hand, and against an implementation that others wrote."""

import random
from collections import Counter

import pytest
from term2048.board import Board as OtherBoard

import scenarios
from scenarios import ScenarioError
from scenarios.tile_2048 import MOVES, Slab, legal_moves, parse, slide, slide_row, spawn

GAME = scenarios.get("tile_2048")
OTHER_MOVES = {"up": OtherBoard.UP, "down": OtherBoard.DOWN, "left": OtherBoard.LEFT, "right": OtherBoard.RIGHT}


def slab(*rows: str, target: int = 8) -> Slab:
    """A slab from rows of runes ("2 0 4 0")."""
    cells = tuple(int(word).bit_length() - 1 if word != "0" else 0 for row in rows for word in row.split())
    return Slab(seed=1, target=target, cells=cells, paid=max(cells), turn=5)


@pytest.mark.parametrize(
    ("row", "slid"),
    [
        ((0, 0, 0, 0), (0, 0, 0, 0)),
        ((0, 1, 0, 2), (1, 2, 0, 0)),
        ((1, 1, 0, 0), (2, 0, 0, 0)),
        ((1, 0, 0, 1), (2, 0, 0, 0)),
        ((1, 1, 1, 0), (2, 1, 0, 0)),  # the pair nearer to the wall merges
        ((1, 1, 1, 1), (2, 2, 0, 0)),
        ((1, 1, 2, 0), (2, 2, 0, 0)),  # a rune that was just made does not merge again
        ((2, 1, 1, 0), (2, 2, 0, 0)),
        ((1, 2, 1, 2), (1, 2, 1, 2)),
    ],
)
def test_a_row_slides_and_merges_once(row: tuple[int, ...], slid: tuple[int, ...]) -> None:
    assert slide_row(row) == slid


def test_each_move_goes_its_own_way() -> None:
    cells = slab("2 0 0 2", "0 0 0 2", "0 4 0 0", "0 0 0 0").cells
    shown = {
        "left": slab("4 0 0 0", "2 0 0 0", "4 0 0 0", "0 0 0 0"),
        "right": slab("0 0 0 4", "0 0 0 2", "0 0 0 4", "0 0 0 0"),
        "up": slab("2 4 0 4", "0 0 0 0", "0 0 0 0", "0 0 0 0"),
        "down": slab("0 0 0 0", "0 0 0 0", "0 0 0 0", "2 4 0 4"),
    }
    assert {move: slide(cells, move) for move in MOVES} == {move: after.cells for move, after in shown.items()}


def test_against_another_implementation_on_thousands_of_boards() -> None:
    """term2048 (MIT): the same board after every move, and the same verdict on whether anything moves."""
    dice = random.Random(2048)
    stuck = 0
    for number in range(3000):
        fullness, best = dice.choice((0.3, 0.7, 1.0)), dice.choice((2, 6, 11))
        cells = tuple(dice.randint(1, best) if dice.random() < fullness else 0 for _ in range(15))
        cells = (*cells, dice.randint(0 if any(cells) else 1, 2))  # an empty board is none of the game's
        other = OtherBoard(goal=2**30)
        values = [2**rank if rank else 0 for rank in cells]
        rows = [values[at : at + 4] for at in range(0, 16, 4)]
        other.cells = [row[:] for row in rows]
        assert bool(legal_moves(cells)) == other.canMove(), (number, cells)
        stuck += not legal_moves(cells)
        for move in MOVES:
            other.cells = [row[:] for row in rows]
            other.move(OTHER_MOVES[move], add_tile=False)
            found = tuple(value.bit_length() - 1 if value else 0 for row in other.cells for value in row)
            assert slide(cells, move) == found, (number, cells, move)
            assert (move in legal_moves(cells)) == (found != cells)
    assert stuck > 10  # both verdicts were met


def test_a_game_against_another_implementation_move_by_move() -> None:
    """The new rune apart, which each draws for itself."""
    dice = random.Random(7)
    for seed in range(8):
        state = GAME.build(seed, {"target": "2048"})
        while GAME.ended(state) is None:
            move = dice.choice(GAME.legal(state))
            other = OtherBoard(goal=2**30)
            values = [2**rank if rank else 0 for rank in state.cells]
            other.cells = [values[at : at + 4] for at in range(0, 16, 4)]
            other.move(OTHER_MOVES[move], add_tile=False)
            GAME.apply(state, move)
            moved = [value.bit_length() - 1 if value else 0 for row in other.cells for value in row]
            ((rune, place),) = [(now, at) for at, (was, now) in enumerate(zip(moved, state.cells, strict=True))
                                if was != now]  # fmt: skip
            assert moved[place] == 0 and rune in (1, 2)


def test_a_tenth_of_the_new_runes_are_fours_and_every_field_gets_its_share() -> None:
    empty = (0,) * 16
    drawn = [spawn(empty, seed, turn) for seed in range(400) for turn in range(10)]
    runes = Counter(max(cells) for cells in drawn)
    places = Counter(cells.index(max(cells)) for cells in drawn)
    assert set(runes) == {1, 2}
    assert 0.08 < runes[2] / len(drawn) < 0.12
    assert len(places) == 16 and min(places.values()) > 0.7 * len(drawn) / 16


def test_a_game_begins_with_two_runes() -> None:
    for seed in range(50):
        assert GAME.build(seed).cells.count(0) == 14


def test_a_move_that_changes_nothing_is_not_legal_and_uses_up_the_turn() -> None:
    state = slab("2 4 0 0", "0 0 0 0", "0 0 0 0", "0 0 0 0")
    assert GAME.legal(state) == ("down", "right")
    before = state.cells
    outcome = GAME.apply(state, "left")
    assert (outcome.kind, outcome.terms, state.cells, state.turn) == ("illegal", {}, before, 6)


def test_the_game_is_over_when_nothing_moves() -> None:
    full = ("2 4 2 4", "4 2 4 2", "2 4 2 4", "4 2 4 8")
    assert (GAME.legal(slab(*full)), GAME.ended(slab(*full))) == ((), "stuck")
    last = slab("2 4 2 4", "4 2 4 2", "2 4 2 4", "4 2 4 4")
    assert GAME.legal(last) == MOVES and GAME.ended(last) is None


def test_the_target_wins_and_ends_the_game() -> None:
    state = slab("16 16 0 0", "0 0 0 0", "0 0 0 0", "0 0 0 0", target=5)
    assert GAME.ended(state) is None
    outcome = GAME.apply(state, "left")
    assert (outcome.ended, GAME.legal(state)) == ("success", ())
    assert outcome.terms["tile"] == pytest.approx(1 - 4 / 5)


@pytest.mark.parametrize("target", ["64", "128"])
def test_an_episode_earns_log2_of_its_best_rune_over_log2_of_the_target(target: str) -> None:
    earned = set()
    for seed in range(20):
        state, dice, total = GAME.build(seed, {"target": target}), random.Random(seed), 0.0
        while GAME.ended(state) is None:
            total += GAME.apply(state, dice.choice(GAME.legal(state))).terms["tile"]
        share = max(state.cells) / (int(target).bit_length() - 1)
        assert total == pytest.approx(min(1.0, share))
        assert (GAME.ended(state) == "success") == (share >= 1)
        earned.add(GAME.ended(state))
    assert earned == {"success", "stuck"}


def test_the_text_says_the_slab_and_reads_back() -> None:
    state = slab("2 0 4 0", "0 0 0 0", "1024 0 0 0", "0 0 0 128")
    text = "target 256 row 2 0 4 0 row 0 0 0 0 row 1024 0 0 0 row 0 0 0 128"
    assert GAME.observation(state) == text
    assert parse(text) == (8, state.cells)
    with pytest.raises(ScenarioError, match="not an observation"):
        parse("target 256 row 2 0 4")


def test_the_marks_say_what_each_legal_move_would_merge() -> None:
    state = slab("2 2 4 4", "2 0 0 0", "0 0 0 0", "0 0 0 0")
    rows = "target 256 row 2 2 4 4 row 2 0 0 0 row 0 0 0 0 row 0 0 0 0"
    marked = f"{rows} merge up 1 down 1 left 2 right 2"
    assert GAME.observation(state) == GAME.retell(marked) == marked
    assert parse(marked) == parse(rows) == (8, state.cells)
    state.marks = False
    assert GAME.observation(state) == GAME.retell(rows) == rows
    assert GAME.retell(f"{rows} merge up 7") == marked  # what marks say follows from the rows


def test_the_marks_name_the_legal_moves_in_every_state_that_is_met() -> None:
    met = Counter()
    for seed in range(6):
        state, dice = GAME.build(seed, {"target": "64"}), random.Random(seed)
        while GAME.ended(state) is None:
            marks = GAME.observation(state).split(" merge ")[1].split(" ")
            assert tuple(marks[::2]) == GAME.legal(state)
            for move, count in zip(marks[::2], marks[1::2], strict=True):
                runes, after = (sum(rank > 0 for rank in cells) for cells in (state.cells, slide(state.cells, move)))
                assert runes - after == int(count)
                met[count] += 1
            GAME.apply(state, dice.choice(GAME.legal(state)))
        assert "merge" not in GAME.observation(state)
    assert {"0", "1", "2"} <= set(met) <= set("012345678")


def test_a_merge_shows_in_the_stage_that_turns_are_compared_by() -> None:
    state = slab("2 2 4 8", "0 0 0 0", "0 0 0 0", "0 0 0 0")
    before = GAME.credit_key(GAME.observation(state))
    merged, moved = GAME.clone(state), GAME.clone(state)
    GAME.apply(merged, "left")
    GAME.apply(moved, "down")
    assert before == GAME.credit_key(GAME.observation(merged)) == ("12",)
    assert GAME.credit_key(GAME.observation(moved)) == ("11",)


def test_chance_the_teacher_and_the_oracle() -> None:
    def wins(player: str, seeds: range) -> int:
        won = 0
        for seed in seeds:
            state, dice = GAME.build(seed), random.Random(seed)
            while GAME.ended(state) is None:
                if player == "random":
                    move = dice.choice(GAME.legal(state))
                elif player == "teacher":
                    move, _ = GAME.teacher(None, GAME.observation(state))
                else:
                    move = GAME.oracle(state)
                GAME.apply(state, move)
            won += GAME.ended(state) == "success"
        return won

    seeds = GAME.splits["test"]
    assert wins("oracle", seeds[:12]) == 12
    assert wins("teacher", seeds[:20]) >= 19
    assert wins("random", seeds[:40]) <= 10
