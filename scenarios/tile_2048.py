"""tile_2048: the game of 2048 on a rune slab in the tower.

Mission
    Bring one rune of the slab to the target, by sliding all runes up, down, left or right.
What is seen
    The target and the slab's four rows, from above; 0 is an empty field. Then (option `marks`), behind the word
    "merge", each move that can be made, with the number of pairs that it would merge. That follows from the rows; a
    small model learns from it, since it can't find the pairs of a column by itself.
Actions
    `up`, `down`, `left`, `right`: those that would move something.
What goes wrong
    After every move a new rune appears on a random empty field: a 2 in 90 of 100 moves, else a 4. When nothing can be
    moved any more, the game is over.
Reward
    `tile`: log2 of the best rune over log2 of the target, 0 to 1. It is paid as it grows, what the slab starts with on
    the first move, so that an episode's sum says how far it came.
Ending
    "success" when a rune reaches the target, "stuck" when nothing moves, "turn_cap" after 2000 turns (the slab is
    stuck or solved long before, unless turns go by with illegal proposals).
Options
    `target`: 32 to 2048. `marks`: whether it is shown what each move would merge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import msgspec

from game.sim.rng import below, chance
from scenarios.contract import Option, Outcome, RewardTerm, ScenarioError, check_seed
from scenarios.plain import PlainScenario

MOVES = ("up", "down", "left", "right")
MERGE = "merge"
SIDE = 4
FOURS = 10  # of 100 new runes are a 4
TARGETS = ("32", "64", "128", "256", "512", "1024", "2048")

Board = tuple[int, ...]  # 16 ranks, row by row: 0 is empty, r is the rune 2**r


class Slab(msgspec.Struct):
    """A game in one moment."""

    seed: int
    target: int  # a rank
    cells: Board
    paid: int = 0  # the rank that the reward term has paid for
    turn: int = 0
    marks: bool = True


class Tile2048(PlainScenario):
    __doc__ = __doc__

    name = "tile_2048"
    version = 2
    engine_version = "1"
    turn_cap = 2000
    state_type = Slab
    reward_terms = (RewardTerm("tile", "log2 of the best rune over log2 of the target", 0.0, 1.0),)
    options = (
        Option("target", "256", TARGETS, "the rune that wins"),
        Option("marks", "yes", ("yes", "no"), "whether what each move would merge is shown"),
    )
    splits = {  # noqa: RUF012
        "train": range(1_000_000),
        "validation": range(1_000_000, 1_010_000),
        "test": range(2_000_000, 2_001_000),
    }
    prefix = "Slide the runes of the board in the tower : two that are the same merge . Bring one to the target ."
    # games are long, and learning from a turn costs more than playing it: few make a batch, which is learned from once;
    # a move is credited with what it changes at once, and may end up far from the start
    training = {"updates": 20, "groups": 8, "passes": 1, "rate": 7e-4, "trace": 0.0, "kl_weight": 0.002,  # noqa: RUF012
                "validate_every": 5, "validation_episodes": 100}  # fmt: skip
    vocabulary = tuple(dict.fromkeys((*MOVES, "target", "row", MERGE, *(str(n) for n in range(9)),
                                      *(str(2**n) for n in range(1, 12)), *prefix.split())))  # fmt: skip

    def build(self, seed: int, options: Mapping[str, str] | None = None) -> Slab:
        check_seed(seed)
        chosen = self.resolve_options(options)
        target = int(chosen["target"]).bit_length() - 1
        cells: Board = (0,) * SIDE * SIDE
        for first in (-1, 0):
            cells = spawn(cells, seed, first)
        return Slab(seed, target, cells, marks=chosen["marks"] == "yes")

    def observation(self, state: Slab) -> str:
        return text_of(state.target, state.cells, state.marks)

    def retell(self, observation: str) -> str:
        target, cells = parse(observation)
        return text_of(target, cells, MERGE in observation.split(" "))

    def credit_key(self, observation: str) -> tuple[str, ...]:
        """How many fields are empty. A move that merges shows in that at once, in the best rune much later; the best
        rune is no part of the stage, since its steps, few and far between, would drown what single moves change."""
        return (str(parse(observation)[1].count(0)),)

    def situation(self, observation: str) -> str:
        return told(parse(observation)[1])

    def mission(self, observation: str) -> str:
        return f"bring a rune to {2 ** parse(observation)[0]}"

    def legal(self, state: Slab) -> tuple[str, ...]:
        return () if max(state.cells) >= state.target else legal_moves(state.cells)

    def apply(self, state: Slab, phrase: str, on_tick: Callable[[Any], None] | None = None) -> Outcome:
        state.turn += 1
        if phrase not in self.legal(state):
            return self.illegal(state, phrase, {})
        state.cells = spawn(slide(state.cells, phrase), state.seed, state.turn)
        reached = min(max(state.cells), state.target)
        terms = {"tile": (reached - state.paid) / state.target}
        state.paid = reached
        if on_tick is not None:
            on_tick(state)
        return Outcome("moved", told(state.cells), 1, terms, self.ended(state))

    def ended(self, state: Slab) -> str | None:
        if max(state.cells) >= state.target:
            return "success"
        if not legal_moves(state.cells):
            return "stuck"
        return "turn_cap" if state.turn >= self.turn_cap else None

    def oracle(self, state: Slab) -> str:
        """Looks ahead with the runes that will appear; further when it gets narrow."""
        room = state.cells.count(0)
        return best_move(state, 2 if room > 5 else 3 if room > 2 else 5)

    def teacher(self, memory: Any, observation: str) -> tuple[str, Any]:
        """The move after which the slab looks best."""
        _, cells = parse(observation)
        return max(legal_moves(cells), key=lambda move: looks(slide(cells, move))), memory


@cache
def slide_row(row: tuple[int, ...]) -> tuple[int, ...]:
    """A row slid to its beginning: equal neighbours merge, from the beginning on, and no rune merges twice."""
    runes = [rank for rank in row if rank]
    slid: list[int] = []
    at = 0
    while at < len(runes):
        if at + 1 < len(runes) and runes[at] == runes[at + 1]:
            slid.append(runes[at] + 1)
            at += 2
        else:
            slid.append(runes[at])
            at += 1
    return (*slid, *[0] * (len(row) - len(slid)))


def slide(cells: Board, move: str) -> Board:
    """The slab after a move, before the new rune appears."""
    if move in ("up", "down"):
        a, b, c, d = (_slide_line(cells[at::SIDE], move == "down") for at in range(SIDE))
        return tuple(rank for row in zip(a, b, c, d, strict=True) for rank in row)
    rows = (_slide_line(cells[at : at + SIDE], move == "right") for at in range(0, SIDE * SIDE, SIDE))
    return tuple(rank for row in rows for rank in row)


def _slide_line(line: tuple[int, ...], backwards: bool) -> tuple[int, ...]:
    return slide_row(line[::-1])[::-1] if backwards else slide_row(line)


def legal_moves(cells: Board) -> tuple[str, ...]:
    """The moves that change something, in the order of MOVES."""
    return tuple(move for move in MOVES if slide(cells, move) != cells)


def spawn(cells: Board, seed: int, turn: int) -> Board:
    """A new rune on a random empty field, drawn by seed and turn."""
    empty = [at for at, rank in enumerate(cells) if rank == 0]
    at = empty[below(len(empty), seed, "field", turn)]
    rank = 2 if chance(FOURS, seed, "four", turn) else 1
    return (*cells[:at], rank, *cells[at + 1 :])


def merges(cells: Board, move: str) -> int:
    """How many pairs a move merges."""
    return slide(cells, move).count(0) - cells.count(0)


def text_of(target: int, cells: Board, marks: bool = True) -> str:
    """The observation; `target` is a rank. Marks stand last, nearest to the answer, while there is something to do."""
    runes = [str(2**rank) if rank else "0" for rank in cells]
    words = ["target", str(2**target)]
    for at in range(0, SIDE * SIDE, SIDE):
        words += ["row", *runes[at : at + SIDE]]
    moves = legal_moves(cells) if marks and max(cells) < target else ()
    if moves:
        words.append(MERGE)
    for move in moves:
        words += [move, str(merges(cells, move))]
    return " ".join(words)


def told(cells: Board) -> str:
    """A slab in plain words."""
    return f"the best rune is {2 ** max(cells)}, {cells.count(0)} fields are empty"


def parse(observation: str) -> tuple[int, Board]:
    """(target as a rank, slab) that an observation shows. Raises ScenarioError where it shows none."""
    words = [word for word in observation.partition(f" {MERGE} ")[0].split(" ") if word not in ("row", "target")]
    if len(words) != 1 + SIDE * SIDE or not all(word.isdigit() for word in words):
        raise ScenarioError(f"tile_2048: not an observation: {observation[:80]!r}")
    target, *cells = (max(0, int(word).bit_length() - 1) for word in words)
    return target, tuple(cells)


@lru_cache(maxsize=1 << 16)
def _line_looks(line: tuple[int, ...]) -> int:
    """A line is good when it has room, holds neighbours that can merge, and rises or falls from end to end."""
    rise = fall = 0
    for a, b in pairwise(line):
        if a > b:
            fall += a**3 - b**3
        else:
            rise += b**3 - a**3
    pairs = sum(a == b and a > 0 for a, b in pairwise(line))
    return 60 * line.count(0) + 80 * pairs - 2 * min(rise, fall)


def looks(cells: Board) -> int:
    """How promising a slab looks: its rows and columns (`_line_looks`)."""
    rows = sum(_line_looks(cells[at : at + SIDE]) for at in range(0, SIDE * SIDE, SIDE))
    return rows + sum(_line_looks(cells[at::SIDE]) for at in range(SIDE))


def best_move(state: Slab, depth: int) -> str:
    """The first of `depth` moves that lead to the best-looking slab, knowing where new runes appear."""
    turn = state.turn + 1
    return max(legal_moves(state.cells), key=lambda move: _ahead(slide(state.cells, move), state, turn, depth))


def _ahead(slid: Board, state: Slab, turn: int, depth: int) -> int:
    if max(slid) >= state.target:
        return 1_000_000 + depth
    if depth <= 1:
        return looks(slid)
    cells = spawn(slid, state.seed, turn)
    after = (slide(cells, move) for move in MOVES)
    found = [_ahead(board, state, turn + 1, depth - 1) for board in after if board != cells]
    return max(found, default=turn - 1_000_000)
