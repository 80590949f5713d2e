"""A batch of prompts with their trees of phrases as plain rows: prompts, and the paths of the trees.

Shapes: B questions, R rows, T tokens a row, Q places asked of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npc.tree import Layout, PackedBatch


class Rows:
    """The prompts of a batch, and the paths of their trees, as rows. ``roots`` and ``deeper`` are the open nodes that
    the prompt's last token answers, and the others."""

    def __init__(self, packed: PackedBatch) -> None:
        nodes = np.array([len(layout.token_ids_N) for layout in packed.layouts])
        self.sizes_B = ((packed.positions_B_T >= 0).sum(axis=1) - nodes).astype(np.int32)
        self._prompts = [row[:size].tolist() for row, size in zip(packed.tokens_B_T, self.sizes_B, strict=True)]
        self.prompts_B_T = padded(self._prompts)
        self.paths: list[list[int]] = []
        questions: list[int] = []
        roots, root_rows, deeper = [], [], []
        self._asked: list[tuple[int, int]] = []  # (path, place on it) of each deeper node
        opened = 0
        for question, layout in enumerate(packed.layouts):
            first = len(self.paths)
            chains = paths_of(layout)
            where = {node: (first + at, depth) for at, chain in enumerate(chains) for depth, node in enumerate(chain)}
            self.paths += [layout.token_ids_N[chain].tolist() for chain in chains]
            questions += [question] * len(chains)
            for place, _ in layout.open_nodes:
                if place < 0:
                    roots.append(opened)
                    root_rows.append(question)
                else:
                    deeper.append(opened)
                    self._asked.append(where[place])
                opened += 1
        self.question_R = np.array(questions, dtype=np.int32)
        self.roots, self.deeper = np.array(roots, dtype=np.int32), np.array(deeper, dtype=np.int32)
        self.row_of_root = np.array(root_rows, dtype=np.int32)

    def tails(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The paths alone as rows: tokens (R, T), the places asked (R, Q), and which of those R * Q answers each
        deeper node."""
        return (padded(self.paths), *_asked(self._asked, len(self.paths)))

    def whole(self, before: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Prefix, prompt and path in one row; what is asked is of all open nodes, in their order."""
        rows: list[list[int]] = []
        first_row, row_of_path = [], {}
        for question, prompt in enumerate(self._prompts):
            first_row.append(len(rows))
            own = np.flatnonzero(self.question_R == question).tolist()
            for path in own:
                row_of_path[path] = len(rows)
                rows.append([*before, *prompt, *self.paths[path]])
            if not own:
                rows.append([*before, *prompt])
        starts = self.sizes_B + len(before)
        asked = {int(o): (first_row[q], int(starts[q]) - 1) for o, q in zip(self.roots, self.row_of_root, strict=True)}
        for o, (path, depth) in zip(self.deeper, self._asked, strict=True):
            asked[int(o)] = (row_of_path[path], int(starts[self.question_R[path]]) + depth)
        return (padded(rows), *_asked([asked[o] for o in range(len(asked))], len(rows)))


def _asked(places: list[tuple[int, int]], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, place) pairs as places (R, Q), 0 filling up, and each pair's index among the R * Q."""
    counts = [0] * rows
    for row, _ in places:
        counts[row] += 1
    most = max(1, *counts)
    asked_R_Q = np.zeros((rows, most), dtype=np.int32)
    at = np.zeros(len(places), dtype=np.int32)
    taken = [0] * rows
    for index, (row, place) in enumerate(places):
        asked_R_Q[row, taken[row]] = place
        at[index] = row * most + taken[row]
        taken[row] += 1
    return asked_R_Q, at


def paths_of(layout: Layout) -> list[list[int]]:
    """From the root to each leaf of what is packed, the nodes on the way."""
    seen_by_others = layout.ancestors_N_N.sum(axis=0) > 1
    return [np.flatnonzero(layout.ancestors_N_N[leaf]).tolist() for leaf in np.flatnonzero(~seen_by_others)]


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    out = np.zeros((len(rows), max(map(len, rows))), dtype=np.int32)
    for at, row in enumerate(rows):
        out[at, : len(row)] = row
    return out
