"""sudoku: puzzles with one solution, a checker that others' code agrees with, and a wrong digit that ends it."""

import random

import pytest
from sudoku import Sudoku as OtherSudoku

import scenarios
from scenarios import ScenarioError
from scenarios.sudoku import EMPTY, parse, put
from scenarios.sudoku_rules import Grid, deduce, digits, make_puzzle, masks, solutions, valid

GAME = scenarios.get("sudoku")
LEVELS = [(size, level) for size in EMPTY for level in EMPTY[size]]


def other(grid: Grid) -> OtherSudoku:
    size = 4 if len(grid) == 16 else 9
    box = 2 if size == 4 else 3
    return OtherSudoku(box, box, board=[[n or None for n in grid[at : at + size]] for at in range(0, len(grid), size)])


def spoilt(solution: Grid, dice: random.Random) -> Grid:
    """A solved grid with some fields emptied and, mostly, a few digits changed or swapped."""
    grid = [digit if dice.random() < dice.choice((0.3, 0.7, 1.0)) else 0 for digit in solution]
    for _ in range(dice.choice((0, 0, 1, 1, 2, 4))):
        a, b = dice.sample(range(len(grid)), 2)
        if dice.random() < 0.5:
            grid[a], grid[b] = grid[b], grid[a]
        else:
            grid[a] = dice.randint(1, 4 if len(grid) == 16 else 9)
    return tuple(grid)


def test_the_checker_against_another_implementation_on_thousands_of_grids() -> None:
    """py-sudoku (MIT) says of each grid whether a digit stands twice in a row, column or box."""
    dice = random.Random(9)
    solved = {size: [make_puzzle(seed, size, 4)[1] for seed in range(20)] for size in (4, 9)}
    verdicts = {True: 0, False: 0}
    for number in range(4000):
        grid = spoilt(dice.choice(solved[dice.choice((4, 9))]), dice)
        assert valid(grid) == other(grid).validate(), (number, grid)
        verdicts[valid(grid)] += 1
    assert min(verdicts.values()) > 500


def test_solutions_against_another_implementation() -> None:
    for size, level in LEVELS:
        for seed in range(3 if size == "9" else 40):
            puzzle, solution = make_puzzle(seed, int(size), EMPTY[size][level])
            theirs = other(puzzle)
            assert not theirs.has_multiple_solutions()
            assert tuple(digit for row in theirs.solve().board for digit in row) == solution


@pytest.mark.parametrize(("size", "level"), LEVELS)
def test_a_puzzle_has_its_empty_fields_and_one_solution(size: str, level: str) -> None:
    grids = set()
    for seed in range(8):
        state = GAME.build(seed, {"size": size, "difficulty": level})
        assert state.given.count(0) == EMPTY[size][level]
        assert solutions(state.given, 3) == [state.solution] and valid(state.solution)
        grids.add(state.given)
    assert len(grids) == 8


def test_a_grid_that_contradicts_itself_has_no_solution_and_an_open_one_has_several() -> None:
    assert solutions((1, 1, *[0] * 14)) == []
    assert solutions((1, 2, 3, 0, 0, 0, 0, 4, *[0] * 8)) == []  # nothing fits the fourth field
    assert len(solutions((0,) * 16, 500)) == 288  # all 4x4 grids that there are


def test_what_follows_at_once_is_true() -> None:
    for size, level in LEVELS:
        state = GAME.build(3, {"size": size, "difficulty": level})
        found = deduce(state.given)
        assert found is not None and state.solution[found[0]] == found[1]
    assert deduce((0,) * 16) is None


def test_any_digit_may_be_tried_in_any_empty_field() -> None:
    state = GAME.build(5, {"size": "9", "difficulty": "hard"})
    empty = [cell for cell, digit in enumerate(state.given) if not digit]
    assert set(GAME.legal(state)) == {put(cell, 9, digit) for cell in empty for digit in range(1, 10)}
    assert len(GAME.legal(state)) == 450


def test_a_wrong_digit_fails_the_game_and_no_more_moves_are_taken() -> None:
    state = GAME.build(1)
    cell = state.cells.index(0)
    GAME.apply(state, put(cell, 4, state.solution[cell], names=True))
    cell = state.cells.index(0)
    wrong = put(cell, 4, state.solution[cell] % 4 + 1, names=True)
    assert wrong in GAME.legal(state)
    outcome = GAME.apply(state, wrong)
    assert (outcome.kind, outcome.terms, outcome.ended) == ("wrong", {}, "wrong")
    assert GAME.legal(state) == () and GAME.observation(state).startswith("gone here ")
    after = GAME.digest(state)
    again = GAME.apply(state, wrong)
    assert (again.kind, again.ended) == ("illegal", "wrong")
    assert {part for part, value in GAME.digest(state).items() if value != after[part]} == {"turn"}


@pytest.mark.parametrize(("size", "level"), LEVELS)
def test_right_digits_earn_their_share_and_the_full_tablet_the_rest(size: str, level: str) -> None:
    state = GAME.build(2, {"size": size, "difficulty": level})
    total = 0.0
    for left in range(EMPTY[size][level], 0, -1):
        assert GAME.ended(state) is None and state.cells.count(0) == left
        outcome = GAME.apply(state, GAME.oracle(state))
        assert outcome.terms["place"] == pytest.approx(0.5 / EMPTY[size][level])
        assert ("solve" in outcome.terms) == (left == 1)
        total += sum(outcome.terms.values())
    assert GAME.ended(state) == "success" and total == pytest.approx(1.0)


@pytest.mark.parametrize("words", ["digits", "names"])
def test_the_marks_are_the_digits_that_are_still_allowed(words: str) -> None:
    for seed in range(10):
        state = GAME.build(seed, {"words": words})
        text = GAME.observation(state)
        for cell, mask in enumerate(masks(state.cells)):
            if not state.cells[cell]:
                assert state.solution[cell] in digits(mask)
                assert put(cell, 4, *digits(mask), names=words == "names") in text
        bare = GAME.observation(GAME.build(seed, {"marks": "no", "words": words}))
        assert text.startswith(bare) and text != bare
        assert GAME.retell(text) == text and GAME.retell(bare) == bare
        assert parse(text) == parse(bare) == state.cells
    with pytest.raises(ScenarioError, match="not an observation"):
        parse("board 1 2 3")


def test_the_teacher_solves_what_can_be_deduced() -> None:
    for size, level, least in (("4", "hard", 20), ("9", "medium", 8)):
        won = 0
        for seed in GAME.splits["validation"][: 20 if size == "4" else 8]:
            state = GAME.build(seed, {"size": size, "difficulty": level, "marks": "no"})
            while GAME.ended(state) is None:
                GAME.apply(state, GAME.teacher(None, GAME.observation(state))[0])
            won += GAME.ended(state) == "success"
        assert won >= least


def test_names_and_digits_are_one_game() -> None:
    for seed in range(20):
        by_name, by_digit = GAME.build(seed, {"words": "names"}), GAME.build(seed, {"words": "digits"})
        places = {put(cell, 4, digit, names=True): put(cell, 4, digit) for cell in range(16) for digit in range(1, 5)}
        while GAME.ended(by_name) is None:
            assert tuple(map(places.get, GAME.legal(by_name))) == GAME.legal(by_digit)
            phrase, _ = GAME.teacher(None, GAME.observation(by_name))
            assert GAME.teacher(None, GAME.observation(by_digit))[0] == places[phrase]
            assert GAME.apply(by_name, phrase).terms == GAME.apply(by_digit, places[phrase]).terms
        assert by_name.cells == by_digit.cells
    with pytest.raises(ScenarioError, match="no names for 9"):
        GAME.build(0, {"size": "9", "words": "names"})
