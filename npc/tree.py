"""Legal phrases as a trie of token ids, and its packing behind a prompt into one row.

Only *open* nodes (two or more children) ask the model anything: a node with one child has probability 1. So a
row holds the prompt and, behind it, the open nodes and their ancestors; tails that follow the last open node
are left out. The last prompt token is the root of the tree.

Shapes: B rows, T tokens a row, O open nodes of the whole batch, C children of an open node at most, A legal
actions at most, L open nodes on an action's path at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npc.errors import PolicyError
from npc.forward import MASKED
from npc.tokenizer import TextTokenizer


@dataclass(frozen=True)
class Layout:
    """The trie of one legal set; it depends on the phrases alone, so it is made once for each set.

    ``token_ids_N``: the tokens of the N nodes that are packed, parents before children. ``depth_N``: 1 for
    the root's children. ``ancestors_N_N``: ``[i, j]`` is true where packed node i sees packed node j (itself
    included). ``open_nodes``: for each open node its packed place (-1 = root) and its children's tokens.
    ``path_A``: for each action the (open node, child) pairs on its path. ``edge_of_token_A``: for each of an
    action's tokens the index of its pair in ``path_A``, or None where the token was the only child.
    ``ids_A``: the tokens, terminator included.
    """

    phrases: tuple[str, ...]
    ids_A: list[list[int]]
    token_ids_N: np.ndarray
    depth_N: np.ndarray
    ancestors_N_N: np.ndarray
    open_nodes: list[tuple[int, list[int]]]
    path_A: list[list[tuple[int, int]]]
    edge_of_token_A: list[list[int | None]]


@dataclass
class _Node:
    children: dict[int, _Node] = field(default_factory=dict)
    needed: bool = False
    open_index: int = -1


def build_layout(phrases: tuple[str, ...], ids_A: list[list[int]]) -> Layout:
    """The layout of ``phrases`` whose token ids, each closed by the terminator, are ``ids_A``."""
    if not phrases:
        raise PolicyError("no legal phrase: the policy can only choose from a list that is not empty")
    if len(set(phrases)) != len(phrases):
        twice = next(phrase for phrase in phrases if phrases.count(phrase) > 1)
        raise PolicyError(f"legal phrase {twice!r} is listed twice")
    if len(set(map(tuple, ids_A))) != len(ids_A):
        same = next((a, b) for b in range(len(ids_A)) for a in range(b) if ids_A[a] == ids_A[b])
        one, other = phrases[same[0]], phrases[same[1]]
        raise PolicyError(f"{one!r} and {other!r} have the same ids by this model's tokenizer: it can't tell which")
    root = _Node()
    for ids in ids_A:
        node = root
        for token in ids:
            node = node.children.setdefault(token, _Node())
    _mark_needed(root)

    tokens: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    open_nodes: list[tuple[int, list[int]]] = []

    def pack_node(node: _Node, place: int, depth: int) -> None:
        if len(node.children) > 1:
            node.open_index = len(open_nodes)
            open_nodes.append((place, list(node.children)))
        for token, child in node.children.items():
            if child.needed:
                tokens.append(token)
                depths.append(depth + 1)
                parents.append(place)
                pack_node(child, len(tokens) - 1, depth + 1)

    pack_node(root, -1, 0)
    ancestors = np.zeros((len(tokens), len(tokens)), dtype=bool)
    for place, parent in enumerate(parents):
        if parent >= 0:
            ancestors[place] = ancestors[parent]
        ancestors[place, place] = True

    paths: list[list[tuple[int, int]]] = []
    edges: list[list[int | None]] = []
    for ids in ids_A:
        node = root
        path: list[tuple[int, int]] = []
        edge: list[int | None] = []
        for token in ids:
            edge.append(len(path) if node.open_index >= 0 else None)
            if node.open_index >= 0:
                path.append((node.open_index, list(node.children).index(token)))
            node = node.children[token]
        paths.append(path)
        edges.append(edge)
    return Layout(
        phrases=phrases,
        ids_A=ids_A,
        token_ids_N=np.array(tokens, dtype=np.int32),
        depth_N=np.array(depths, dtype=np.int32),
        ancestors_N_N=ancestors,
        open_nodes=open_nodes,
        path_A=paths,
        edge_of_token_A=edges,
    )


def _mark_needed(node: _Node) -> bool:
    """A node needs a forward where it is open or has an open node below it."""
    below = [_mark_needed(child) for child in node.children.values()]
    node.needed = len(node.children) > 1 or any(below)
    return node.needed


class PhraseTable:
    """Phrases to token ids and legal sets to layouts, each made once and kept.

    A phrase is tokenised alone, behind its ``lead`` (a space, or nothing where an answer of a chat begins), and closed
    by the end token: so a phrase may be the beginning of another, and no token reaches across the border between prompt
    and phrase.
    """

    def __init__(
        self, tokenizer: TextTokenizer, lead: str = " ", keep: int = 50_000, keep_layouts: int = 2048
    ) -> None:
        self._tokenizer = tokenizer
        self._lead = lead
        self._keep = keep
        self._keep_layouts = keep_layouts  # a layout is some kilobytes, and a long training meets ever new legal sets
        self._ids: dict[str, list[int]] = {}
        self._layouts: dict[tuple[str, ...], Layout] = {}

    def ids(self, phrase: str) -> list[int]:
        found = self._ids.get(phrase)
        if found is None:
            said = self._tokenizer.encode(f"{self._lead}{phrase}")
            back = self._tokenizer.decode(said)
            if back.strip() != phrase.strip() or self._tokenizer.eos_id in said:
                raise PolicyError(f"this model's tokenizer turns the phrase {phrase!r} into {back!r}: it can't say it")
            found = [*said, self._tokenizer.eos_id]
            _put(self._ids, phrase, found, self._keep)
        return found

    def layout(self, legal: tuple[str, ...]) -> Layout:
        found = self._layouts.get(legal)
        if found is None:
            found = build_layout(legal, [self.ids(phrase) for phrase in legal])
            _put(self._layouts, legal, found, self._keep_layouts)
        return found


def _put(cache: dict, key: object, value: object, keep: int) -> None:
    if len(cache) >= keep:
        cache.pop(next(iter(cache)))
    cache[key] = value


@dataclass(frozen=True)
class PackedBatch:
    """One batch of turns, ready for one forward. All NumPy.

    ``asked_B_Q`` holds the places of each row's open nodes (0 fills up), and ``open_at_O`` indexes those B*Q
    states; ``child_token_O_C`` names each open node's children, with ``child_mask_O_C`` 0 where there is one
    and ``MASKED`` where there is none; ``path_B_A_L`` indexes the O*C log-probabilities of children, the
    extra index O*C standing for "adds nothing"; ``legal_B_A`` is true where there is an action.
    """

    tokens_B_T: np.ndarray
    positions_B_T: np.ndarray
    mask_B_T_T: np.ndarray
    asked_B_Q: np.ndarray
    open_at_O: np.ndarray
    child_token_O_C: np.ndarray
    child_mask_O_C: np.ndarray
    path_B_A_L: np.ndarray
    legal_B_A: np.ndarray
    layouts: list[Layout]

    @property
    def token_count(self) -> int:
        """Tokens of the batch that are not padding."""
        return int((self.positions_B_T >= 0).sum())


def pack(prompts: Sequence[Sequence[int]], layouts: Sequence[Layout], pad_id: int) -> PackedBatch:
    """Packs each prompt with its legal set's tree. Rows are padded on the right; pads see and are seen by
    nothing else.
    """
    rows = len(prompts)
    if rows != len(layouts):
        raise PolicyError(f"{rows} prompts but {len(layouts)} legal sets")
    if not rows:
        raise PolicyError("an empty batch: give one prompt or more")
    for row, prompt in enumerate(prompts):
        if not len(prompt):
            raise PolicyError(f"prompt {row} is empty: the per-turn text needs one token or more")
    length = max(len(prompt) + len(layout.token_ids_N) for prompt, layout in zip(prompts, layouts, strict=True))
    actions = max(len(layout.phrases) for layout in layouts)
    children = max((len(tokens) for layout in layouts for _, tokens in layout.open_nodes), default=1)
    longest = max((len(path) for layout in layouts for path in layout.path_A), default=1) or 1
    total_open = sum(len(layout.open_nodes) for layout in layouts)

    tokens_B_T = np.full((rows, length), pad_id, dtype=np.int32)
    positions_B_T = np.full((rows, length), -1, dtype=np.int32)
    mask_B_T_T = np.full((rows, length, length), MASKED, dtype=np.float32)
    most_open = max(1, max(len(layout.open_nodes) for layout in layouts))
    asked_B_Q = np.zeros((rows, most_open), dtype=np.int32)
    open_at_O = np.zeros(total_open, dtype=np.int32)
    child_token_O_C = np.zeros((total_open, children), dtype=np.int32)
    child_mask_O_C = np.full((total_open, children), MASKED, dtype=np.float32)
    nothing = total_open * children
    path_B_A_L = np.full((rows, actions, longest), nothing, dtype=np.int32)
    legal_B_A = np.zeros((rows, actions), dtype=bool)
    triangle = np.where(np.tri(length, dtype=bool), np.float32(0), np.float32(MASKED))
    opened = 0
    for row, (prompt, layout) in enumerate(zip(prompts, layouts, strict=True)):
        size, nodes = len(prompt), len(layout.token_ids_N)
        end = size + nodes
        tokens_B_T[row, :size] = prompt
        tokens_B_T[row, size:end] = layout.token_ids_N
        positions_B_T[row, :size] = np.arange(size)
        positions_B_T[row, size:end] = layout.depth_N + (size - 1)
        mask_B_T_T[row, :size, :size] = triangle[:size, :size]
        mask_B_T_T[row, size:end, :size] = 0
        mask_B_T_T[row, size:end, size:end][layout.ancestors_N_N] = 0
        pads = np.arange(end, length)
        mask_B_T_T[row, pads, pads] = 0
        first = opened
        for place, tokens in layout.open_nodes:
            asked_B_Q[row, opened - first] = size + place
            open_at_O[opened] = row * most_open + opened - first
            child_token_O_C[opened, : len(tokens)] = tokens
            child_mask_O_C[opened, : len(tokens)] = 0
            opened += 1
        for action, path in enumerate(layout.path_A):
            legal_B_A[row, action] = True
            for step, (node, child) in enumerate(path):
                path_B_A_L[row, action, step] = (first + node) * children + child
    return PackedBatch(
        tokens_B_T=tokens_B_T,
        positions_B_T=positions_B_T,
        mask_B_T_T=mask_B_T_T,
        asked_B_Q=asked_B_Q,
        open_at_O=open_at_O,
        child_token_O_C=child_token_O_C,
        child_mask_O_C=child_mask_O_C,
        path_B_A_L=path_B_A_L,
        legal_B_A=legal_B_A,
        layouts=list(layouts),
    )
