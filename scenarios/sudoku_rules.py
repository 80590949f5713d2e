"""Sudoku's rules: candidates, solving, and puzzles with one solution. A grid is a tuple of size², row by row, 0 empty.

`size` is the number of digits, a square: 4 or 9; boxes are as wide as high. Sets of digits are bit masks, digit d being
bit d - 1.
"""

from __future__ import annotations

from functools import cache
from math import isqrt

from game.sim.rng import draw

Grid = tuple[int, ...]


@cache
def peers(size: int) -> tuple[tuple[int, ...], ...]:
    """For each cell, the other cells of its row, column and box."""
    box = isqrt(size)

    def together(a: int, b: int) -> bool:
        (row_a, col_a), (row_b, col_b) = divmod(a, size), divmod(b, size)
        in_box = (row_a // box, col_a // box) == (row_b // box, col_b // box)
        return a != b and (row_a == row_b or col_a == col_b or in_box)

    cells = range(size * size)
    return tuple(tuple(b for b in cells if together(a, b)) for a in cells)


@cache
def units(size: int) -> tuple[tuple[int, ...], ...]:
    """The cells of every row, column and box."""
    box = isqrt(size)
    rows = [tuple(range(row * size, (row + 1) * size)) for row in range(size)]
    columns = [tuple(range(column, size * size, size)) for column in range(size)]
    corners = [(row, column) for row in range(0, size, box) for column in range(0, size, box)]
    boxes = [
        tuple((row + r) * size + column + c for r in range(box) for c in range(box)) for row, column in corners
    ]
    return (*rows, *columns, *boxes)


def size_of(grid: Grid) -> int:
    return isqrt(len(grid))


def masks(grid: Grid) -> list[int]:
    """Which digits row, column and box still allow, as a mask for each cell; 0 for a filled one."""
    size = size_of(grid)
    found = []
    for cell, neighbours in enumerate(peers(size)):
        taken = 0
        for other in neighbours:
            if grid[other]:
                taken |= 1 << (grid[other] - 1)
        found.append(0 if grid[cell] else ((1 << size) - 1) & ~taken)
    return found


def digits(mask: int) -> tuple[int, ...]:
    return tuple(bit + 1 for bit in range(mask.bit_length()) if mask >> bit & 1)


def valid(grid: Grid) -> bool:
    """Whether no row, column or box holds a digit twice. Empty cells are allowed."""
    for unit in units(size_of(grid)):
        filled = [grid[cell] for cell in unit if grid[cell]]
        if len(set(filled)) != len(filled):
            return False
    return True


def solutions(grid: Grid, limit: int = 2, order: tuple[int, ...] = ()) -> list[Grid]:
    """At most `limit` solutions. Where there is a choice, digits are tried in `order` (by default from 1 on)."""
    size = size_of(grid)
    if not valid(grid):
        return []
    cells, allowed = list(grid), masks(grid)
    empty = [cell for cell, digit in enumerate(grid) if not digit]
    tried = order or tuple(range(1, size + 1))
    found: list[Grid] = []

    def search() -> None:
        best, least = -1, size + 1
        for cell in empty:
            if not cells[cell]:
                count = allowed[cell].bit_count()
                if count < least:
                    best, least = cell, count
                    if count <= 1:
                        break
        if best < 0:
            found.append(tuple(cells))
            return
        for digit in tried:
            bit = 1 << (digit - 1)
            if not allowed[best] & bit:
                continue
            cells[best] = digit
            touched = [other for other in peers(size)[best] if not cells[other] and allowed[other] & bit]
            for other in touched:
                allowed[other] ^= bit
            search()
            for other in touched:
                allowed[other] ^= bit
            cells[best] = 0
            if len(found) >= limit:
                return

    search()
    return found


def make_puzzle(seed: int, size: int, removed: int) -> tuple[Grid, Grid]:
    """(puzzle, its only solution): a full grid drawn from the seed, and `removed` of its cells emptied."""
    attempt = 0
    while True:
        solution = _full_grid(seed, size, attempt)
        grid, taken = list(solution), 0
        cells = sorted(range(size * size), key=lambda cell: draw(seed, "empty", attempt, "", cell))
        for cell in cells:
            if taken == removed:
                return tuple(grid), solution
            if _needs(grid, cell):
                continue
            grid[cell] = 0
            taken += 1
        if taken == removed:
            return tuple(grid), solution
        attempt += 1  # nothing more could be emptied: another grid


def _full_grid(seed: int, size: int, attempt: int) -> Grid:
    """A solved grid: its first row and the digits' order are drawn, the rest is filled in that order, then rows,
    columns and the diagonal are shuffled within what keeps it solved."""
    order = tuple(sorted(range(1, size + 1), key=lambda digit: draw(seed, "digit", attempt, "", digit)))
    first = sorted(range(1, size + 1), key=lambda digit: draw(seed, "row", attempt, "", digit))
    (filled,) = solutions((*first, *[0] * (size * size - size)), 1, order)
    box = isqrt(size)

    def shuffled_lines(stream: str) -> list[int]:
        bands = sorted(range(box), key=lambda band: draw(seed, f"{stream} bands", attempt, "", band))
        lines = [range(band * box, (band + 1) * box) for band in bands]
        return [n for band in lines for n in sorted(band, key=lambda line: draw(seed, stream, attempt, "", line))]

    rows, columns = shuffled_lines("rows"), shuffled_lines("columns")
    return tuple(filled[row * size + column] for row in rows for column in columns)


def _needs(grid: list[int], cell: int) -> bool:
    """Whether the puzzle would have another solution without this cell."""
    kept = grid[cell]
    try:
        for digit in digits(_allowed(grid, cell)):
            if digit != kept:
                grid[cell] = digit
                if solutions(tuple(grid), 1):
                    return True
        return False
    finally:
        grid[cell] = kept


def _allowed(grid: list[int], cell: int) -> int:
    size = isqrt(len(grid))
    mask = (1 << size) - 1
    for other in peers(size)[cell]:
        if grid[other]:
            mask &= ~(1 << (grid[other] - 1))
    return mask


def deduce(grid: Grid) -> tuple[int, int] | None:
    """(cell, digit) that follows at once: the only digit left for a cell, else the only cell of a row, column or box
    that is left for a digit. None where neither shows."""
    allowed = masks(grid)
    for cell, mask in enumerate(allowed):
        if mask.bit_count() == 1:
            return cell, mask.bit_length()
    for unit in units(size_of(grid)):
        for digit in range(1, size_of(grid) + 1):
            cells = [cell for cell in unit if allowed[cell] >> (digit - 1) & 1]
            if len(cells) == 1:
                return cells[0], digit
    return None
