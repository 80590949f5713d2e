"""sudoku: a ward tablet whose empty fields want the right digits.

Mission
    Fill every empty field, so that each row, column and box holds each digit once. There is exactly one way.
What is seen
    The tablet row by row, 0 for an empty field, and (option `marks`) what row, column and box still allow in each
    empty field, written as the action that would put it there; fields with the fewest digits left stand last.
Actions
    `row R column C put D`: any digit in any empty field. A wrong one is legal to try. On the small tablet rows, columns
    and digits go by the village's names (`dock Mara bread`), which the embedded model knows.
What goes wrong
    A wrong digit breaks the ward: the episode has failed, and the tablet takes no more digits.
Reward
    `place` 0.5 for all right digits together, each its equal share; `solve` 0.5 for the full tablet.
Ending
    "success" when the tablet is full, "wrong" after a wrong digit, "turn_cap" after 60 turns (which only illegal
    proposals can use up).
Options
    `size`: 4 for small models, or 9. `difficulty`: how many fields are empty: easy, medium, hard are 4, 8, 10 of the
    16, or 20, 40, 50 of the 81. `marks`: whether the candidates are shown; for 9 they make the text long. `words`:
    digits, names (for size 4), or auto, which is names for 4 and digits for 9.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from scenarios import sudoku_rules as rules
from scenarios.contract import Option, Outcome, RewardTerm, ScenarioError, check_seed, hash_source
from scenarios.plain import PlainScenario
from scenarios.sudoku_rules import Grid

EMPTY = {"4": {"easy": 4, "medium": 8, "hard": 10}, "9": {"easy": 20, "medium": 40, "hard": 50}}
PLACE, SOLVE = 0.5, 0.5
FAILED = "failed"
ROWS, COLUMNS = ("dock", "inn", "mill", "well"), ("Mara", "Tom", "Nell", "Bram")
DIGITS = ("none", "bread", "fish", "rope", "book")  # 0 to 4, for those who know no digits
HERE, GONE = "here", "gone"  # what `board` and `failed` are called then


class Tablet(msgspec.Struct):
    """A puzzle in one moment. `cells` holds what was given and what was put; `wrong` says that the last was wrong."""

    seed: int
    size: int
    marks: bool
    given: Grid
    solution: Grid
    cells: Grid
    names: bool = False
    wrong: bool = False
    turn: int = 0


class Sudoku(PlainScenario):
    __doc__ = __doc__

    name = "sudoku"
    version = 3
    engine_version = "1"
    turn_cap = 60
    state_type = Tablet
    reward_terms = (
        RewardTerm("place", "right digits, each an equal share", 0.0, PLACE),
        RewardTerm("solve", "the tablet is full", 0.0, SOLVE),
    )
    options = (
        Option("size", "4", tuple(EMPTY), "how many digits, rows and columns"),
        Option("difficulty", "medium", ("easy", "medium", "hard"), "how many fields are empty"),
        Option("marks", "yes", ("yes", "no"), "whether the digits that are still allowed are shown"),
        Option("words", "auto", ("auto", "digits", "names"), "how rows, columns and digits are called"),
    )
    splits = {  # noqa: RUF012
        "train": range(1_000_000),
        "validation": range(1_000_000, 1_010_000),
        "test": range(2_000_000, 2_001_000),
    }
    prefix = "Fill the board : in each row , column and box each digit once . A wrong one and it is over ."
    vocabulary = tuple(dict.fromkeys((*prefix.split(), "board", "then", "row", "column", "put", FAILED,
                                      *(str(n) for n in range(10)), *ROWS, *COLUMNS, *DIGITS, HERE, GONE)))  # fmt: skip

    @cached_property
    def source_hash(self) -> str:
        return hash_source(rules, sys.modules[__name__])

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Tablet:
        check_seed(seed)
        chosen = self.resolve_options(options)
        size = int(chosen["size"])
        names = chosen["words"] == "names" or (chosen["words"] == "auto" and size == len(ROWS))
        if names and size != len(ROWS):
            raise ScenarioError(f"sudoku: option words=names goes with size={len(ROWS)}; there are no names for {size}")
        given, solution = rules.make_puzzle(seed, size, EMPTY[chosen["size"]][chosen["difficulty"]])
        return Tablet(seed, size, chosen["marks"] == "yes", given, solution, given, names)

    def observation(self, state: Tablet) -> str:
        return text_of(state.cells, state.marks, state.wrong, state.names)

    def retell(self, observation: str) -> str:
        words = observation.split(" ")
        names, wrong = named(observation), words[0] in (FAILED, GONE)
        cells = parse(observation)
        marks = len(words) - wrong > 1 + len(cells) + (0 if names else rules.size_of(cells) - 1)
        return text_of(cells, marks, wrong, names)

    def credit_key(self, observation: str) -> tuple[str, ...]:
        return (str(parse(observation).count(0)),)

    def situation(self, observation: str) -> str:
        cells = parse(observation)
        told = f"{cells.count(0)} of {len(cells)} fields are empty"
        if observation.startswith((FAILED, GONE)):
            return f"{told}, and one holds a wrong digit"
        allowed = rules.masks(cells)
        sure = sum(allowed[cell].bit_count() == 1 for cell, digit in enumerate(cells) if not digit)
        return f"{told}, {sure} of them allow one digit alone"

    def mission(self, observation: str) -> str:
        size = rules.size_of(parse(observation))
        return f"fill the tablet of {size} by {size}"

    def legal(self, state: Tablet) -> tuple[str, ...]:
        if state.wrong:
            return ()
        empty = [cell for cell, digit in enumerate(state.cells) if not digit]
        digits = range(1, state.size + 1)
        return tuple(put(cell, state.size, digit, names=state.names) for cell in empty for digit in digits)

    def apply(self, state: Tablet, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        state.turn += 1
        if phrase not in self.legal(state):
            return self.illegal(state, phrase, {})
        cell, digit = meant(phrase, state.size, state.names)
        state.cells = (*state.cells[:cell], digit, *state.cells[cell + 1 :])
        state.wrong = digit != state.solution[cell]
        if on_tick is not None:
            on_tick(state)
        if state.wrong:
            return Outcome("wrong", f"{digit} is wrong there: the ward breaks", 1, {}, self.ended(state))
        terms = {"place": PLACE / state.given.count(0)}
        left = state.cells.count(0)
        if not left:
            terms["solve"] = SOLVE
        return Outcome("placed", f"{digit} is right, {left} fields are left", 1, terms, self.ended(state))

    def ended(self, state: Tablet) -> str | None:
        if state.wrong:
            return "wrong"
        if 0 not in state.cells:
            return "success"
        return "turn_cap" if state.turn >= self.turn_cap else None

    def oracle(self, state: Tablet) -> str:
        cell = state.cells.index(0)
        return put(cell, state.size, state.solution[cell], names=state.names)

    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        """The field with the fewest digits left, where it is one; else what follows at once, else a guess there."""
        grid, names = parse(observation), named(observation)
        size, allowed, last = rules.size_of(grid), rules.masks(grid), by_choice(grid)[-1]
        if allowed[last].bit_count() == 1:
            return put(last, size, *rules.digits(allowed[last]), names=names), memory
        found = rules.deduce(grid)
        if found is None:  # a field for which nothing is left is given any digit: the game is lost there
            found = last, (rules.digits(allowed[last]) or (1,))[0]
        return put(found[0], size, found[1], names=names), memory


def text_of(cells: Grid, marks: bool, wrong: bool, names: bool = False) -> str:
    """The observation: the tablet, and the marks of its empty fields while there is something to put."""
    size = rules.size_of(cells)
    words = [GONE if names else FAILED] if wrong else []
    if names:
        words += [HERE, *(DIGITS[digit] for digit in cells)]
    else:
        rows = (" ".join(map(str, cells[at : at + size])) for at in range(0, size * size, size))
        words += ["board", " then ".join(rows)]
    if marks and not wrong:
        allowed = rules.masks(cells)
        words += [put(cell, size, *rules.digits(allowed[cell]), names=names) for cell in by_choice(cells)]
    return " ".join(words)


def named(observation: str) -> bool:
    """Whether an observation uses names for digits."""
    return observation.startswith((HERE, GONE))


def by_choice(cells: Grid) -> list[int]:
    """The empty fields, those with the fewest digits left last: what can be put at once stands nearest to the cue."""
    allowed = rules.masks(cells)
    return sorted((c for c, digit in enumerate(cells) if not digit), key=lambda c: (-allowed[c].bit_count(), c))


def put(cell: int, size: int, *digits: int, names: bool = False) -> str:
    """The phrase that puts a digit there; with several, the field's marks."""
    row, column = divmod(cell, size)
    if names:
        return " ".join([ROWS[row], COLUMNS[column], *(DIGITS[digit] for digit in digits)])
    return " ".join(["row", str(row + 1), "column", str(column + 1), "put", *map(str, digits)])


def meant(phrase: str, size: int, names: bool) -> tuple[int, int]:
    """(cell, digit) of a legal phrase."""
    if names:
        row, column, digit = phrase.split(" ")
        return ROWS.index(row) * size + COLUMNS.index(column), DIGITS.index(digit)
    _, row, _, column, _, digit = phrase.split(" ")
    return (int(row) - 1) * size + int(column) - 1, int(digit)


def parse(observation: str) -> Grid:
    """The tablet that an observation shows. Raises ScenarioError where it shows none."""
    words = observation.split(" ")
    if named(observation):
        grid = [str(DIGITS.index(word)) for word in words[words.index(HERE) + 1 :][:16] if word in DIGITS]
    else:
        words = words[1:] if words[0] == FAILED else words
        end = words.index("row") if "row" in words else len(words)
        grid = [word for word in words[1:end] if word != "then"] if words[0] == "board" else []
    if len(grid) not in (16, 81) or not all(len(word) == 1 and word.isdigit() for word in grid):
        raise ScenarioError(f"sudoku: not an observation: {observation[:80]!r}")
    return tuple(map(int, grid))
