"""sudoku_code: write a program that restores ward tablets it has not seen.

Mission
    Write `def strategy(board, initial)`. It is called again and again with a Sudoku tablet, and answers with the next
    digit to put: (row, column, number).
What is seen
    The tablet's size, 4 or 9, and nothing of the tablet itself: that is kept for the trial.
Actions
    One free text: the program, plain or in a fenced block. `board` and `initial` are lists of rows, 0 for an empty
    field; rows and columns count from 0.
What goes wrong
    A program that imports or reaches outside is not run at all. One that raises, runs too long, takes too much memory,
    answers with something else, or puts a wrong digit, is stopped there.
Reward
    `valid` 0.1: a function of that name and form whose first answer is a digit for an empty field. `clean` 0.1: it is
    that, and reaches for nothing outside. `solve` 0.8: each right digit its equal share of 0.6, the whole tablet 0.2.
Ending
    After the one turn: "success" when the tablet is full, else "unsolved"; "failed" where nothing was earned.
Options
    `size`: 4 or 9. `difficulty`: how many fields are empty, as in sudoku.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from scenarios import code_sandbox as sandbox
from scenarios import sudoku_rules as rules
from scenarios.contract import FreeText, Option, Outcome, RewardTerm, ScenarioError, check_seed, hash_source
from scenarios.plain import PlainScenario
from scenarios.sudoku import EMPTY
from scenarios.sudoku_rules import Grid

VALID, CLEAN, STEPS, WHOLE = 0.1, 0.1, 0.6, 0.2
SECONDS = 10.0  # for all calls of one trial together
FUNCTION, ARGUMENTS = "strategy", 2

SOLVER = '''\
def strategy(board, initial):
    size = len(board)
    box = 2 if size == 4 else 3
    def allowed(cells, row, col):
        taken = set(cells[row])
        for other in range(size):
            taken.add(cells[other][col])
        top, left = row // box * box, col // box * box
        for r in range(top, top + box):
            for c in range(left, left + box):
                taken.add(cells[r][c])
        return [number for number in range(1, size + 1) if number not in taken]
    def fewest(cells):
        best = None
        for row in range(size):
            for col in range(size):
                if cells[row][col] == 0:
                    options = allowed(cells, row, col)
                    if best is None or len(options) < len(best[2]):
                        best = (row, col, options)
                        if len(options) < 2:
                            return best
        return best
    def solve(cells):
        best = fewest(cells)
        if best is None:
            return True
        row, col, options = best
        for number in options:
            cells[row][col] = number
            if solve(cells):
                return True
        cells[row][col] = 0
        return False
    row, col, options = fewest(board)
    if len(options) == 1:
        return (row, col, options[0])
    cells = [list(line) for line in board]
    solve(cells)
    return (row, col, cells[row][col])
'''

LEARNER = '''\
def strategy(board, initial):
    size = len(board)
    box = 2 if size == 4 else 3
    best = None
    for row in range(size):
        for col in range(size):
            if board[row][col] == 0:
                taken = set(board[row])
                for other in range(size):
                    taken.add(board[other][col])
                for r in range(row // box * box, row // box * box + box):
                    for c in range(col // box * box, col // box * box + box):
                        taken.add(board[r][c])
                options = [number for number in range(1, size + 1) if number not in taken]
                if best is None or len(options) < best[0]:
                    best = (len(options), row, col, options[0] if options else 1)
    return best[1:]
'''


class Trial(msgspec.Struct):
    """A tablet that waits for a program. `answer` is what was written, `right` how many digits it put right."""

    seed: int
    size: int
    given: Grid
    solution: Grid
    answer: str = ""
    valid: bool = False
    right: int = 0
    turn: int = 0


class SudokuCode(PlainScenario):
    __doc__ = __doc__

    name = "sudoku_code"
    version = 1
    engine_version = "1"
    turn_cap = 1
    state_type = Trial
    free_text = FreeText(max_tokens=700)
    reward_terms = (
        RewardTerm("valid", "a function of that form whose first answer can be put", 0.0, VALID),
        RewardTerm("clean", "and it reaches for nothing outside", 0.0, CLEAN),
        RewardTerm("solve", "right digits, each an equal share of 0.6, and 0.2 for the whole", 0.0, STEPS + WHOLE),
    )
    options = (
        Option("size", "4", tuple(EMPTY), "how many digits, rows and columns"),
        Option("difficulty", "medium", ("easy", "medium", "hard"), "how many fields are empty"),
    )
    splits = {  # noqa: RUF012
        "train": range(1_000_000),
        "validation": range(1_000_000, 1_010_000),
        "test": range(2_000_000, 2_001_000),
    }
    prefix = (
        "Write a Python function strategy(board, initial) that plays Sudoku. board and initial are lists of rows of "
        "numbers, 0 is an empty field. Return (row, column, number) for the next empty field, counting from 0. "
        "No imports."
    )
    vocabulary = tuple(dict.fromkeys((*prefix.split(), "size", "4", "9", "done")))

    @cached_property
    def source_hash(self) -> str:
        return hash_source(rules, sandbox, type(self))

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Trial:
        check_seed(seed)
        chosen = self.resolve_options(options)
        size = int(chosen["size"])
        given, solution = rules.make_puzzle(seed, size, EMPTY[chosen["size"]][chosen["difficulty"]])
        return Trial(seed, size, given, solution)

    def observation(self, state: Trial) -> str:
        return f"size {state.size}" + (" done" if state.turn else "")

    def situation(self, observation: str) -> str:
        return "the program was tried" if _shown(observation)[1:] else "no program yet"

    def mission(self, observation: str) -> str:
        size = _shown(observation)[0]
        return f"write a program that fills tablets of {size} by {size}"

    def legal(self, state: Trial) -> tuple[str, ...]:
        return ()  # free text

    def apply(self, state: Trial, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        state.turn += 1
        state.answer = phrase[: sandbox.LONGEST + 1]
        code = sandbox.code_in(state.answer)
        text = self._try(state, code)
        if on_tick is not None:
            on_tick(state)
        empty = state.given.count(0)
        terms = {}
        if state.valid:
            solved = state.right == empty
            terms = {"valid": VALID, "clean": CLEAN, "solve": STEPS * state.right / empty + (WHOLE if solved else 0.0)}
        return Outcome("ran" if state.valid else "refused", text, 1, terms, self.ended(state))

    def _try(self, state: Trial, code: str) -> str:
        """Runs the program on the tablet until it is full or something is wrong; says how it went."""
        if not sandbox.defines(code, FUNCTION, ARGUMENTS):
            return "there is no function strategy(board, initial) in it that can be read"
        if found := sandbox.objections(code):
            return f"it reaches outside ({', '.join(found)}) and was not run"
        cells, began = list(state.given), time.monotonic()
        try:
            with sandbox.Program(code) as program:
                while 0 in cells:
                    if time.monotonic() - began > SECONDS:
                        return f"it took more than {SECONDS:g} seconds; {state.right} digits were right"
                    rows, first = _rows(tuple(cells), state.size), _rows(state.given, state.size)
                    answer = program.call(FUNCTION, board=rows, initial=first)
                    cell = _cell(answer, state.size)
                    if cell is None or cells[cell]:
                        return f"it answered with no empty field and a digit; {state.right} digits were right"
                    state.valid = True
                    if answer[2] != state.solution[cell]:
                        return f"a wrong digit after {state.right} right ones"
                    cells[cell] = answer[2]
                    state.right += 1
        except sandbox.Fault as fault:
            return f"it was stopped: {fault}"[:200]
        return "the tablet is full"

    def ended(self, state: Trial) -> str | None:
        if not state.turn:
            return None
        if state.right == state.given.count(0):
            return "success"
        return "unsolved" if state.valid else "failed"

    def oracle(self, state: Trial) -> str:
        return SOLVER

    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        """Puts what the fewest digits are left for, and guesses where there are several."""
        return LEARNER, memory


def _shown(observation: str) -> list[str]:
    """What an observation says: the size, and "done" once a program was tried. Raises ScenarioError for another."""
    words = observation.split(" ")
    if words[0] != "size" or len(words) not in (2, 3):
        raise ScenarioError(f"sudoku_code: not an observation: {observation[:80]!r}")
    return words[1:]


def _rows(grid: Grid, size: int) -> list[list[int]]:
    return [list(grid[at : at + size]) for at in range(0, size * size, size)]


def _cell(answer: Any, size: int) -> int | None:
    """The cell that an answer names, where it is three whole numbers in range; else None."""
    if type(answer) not in (tuple, list) or len(answer) != 3 or any(type(value) is not int for value in answer):
        return None
    row, column, number = answer
    return row * size + column if 0 <= row < size and 0 <= column < size and 1 <= number <= size else None
