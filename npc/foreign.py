"""The forward of models whose code is mlx-lm's: any architecture that takes token ids and a cache, and nothing else.

Such a model takes no mask and no positions, but it asks its cache for both. So the tree of legal phrases is evaluated
in two steps: the prompts, behind the shared prefix, and then each path of the tree as a row of its own behind its
prompt. Where a model keeps something else than keys and values (a recurrent state), nothing is shared: prefix, prompt
and path become one plain row. Rows are padded on the right, where a causal model's answers don't depend on it.

Shapes: B questions, R rows, T tokens a row, Q places asked of a row, V vocabulary, O open nodes, C children of one at
most, G key-value heads, S tokens seen, K head dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from npc.mlx import mx, nn
from npc.paths import Rows, paths_of
from npc.tree import Layout, PackedBatch

NEVER = 1 << 30  # the place of a pad: behind every query
TRUNKS = ("model", "transformer", "backbone")  # what mlx-lm calls all of a model but its output layer


@dataclass(frozen=True)
class Foreign:
    """A model of mlx-lm. ``windows``: for each cache it uses how far back that one reaches (None: to the start), or
    None where nothing can be shared by rows. ``steps``: whether each row may begin at a place of its own, so that the
    paths of a tree can share their prompt; else they share the prefix alone."""

    model: Any
    windows: tuple[int | None, ...] | None
    steps: bool = True

    def arrays(self) -> list[mx.array]:
        """Nothing is computed from the parameters ahead of a forward."""
        return []


class PrefixIds(list):
    """A prefix that nothing can be kept of: its ids are put before each row. Holds no keys and values."""

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__()
        self.ids = list(ids)


class Seen:
    """What a layer's tokens see beside themselves, in the place of one of mlx-lm's caches.

    ``parts`` are (keys, values), each (R or 1, G, S, K), ``places`` (R or 1, S) where their tokens stand, ``offset``
    where the new tokens begin: a number, or one a row.
    """

    def __init__(
        self,
        window: int | None,
        parts: Sequence[tuple[mx.array, mx.array]] = (),
        places: np.ndarray | None = None,
        offset: int | np.ndarray = 0,
    ) -> None:
        self._window = window
        self._parts = parts
        self._places = np.zeros((1, 0), dtype=np.int32) if places is None else places
        self._start_R = np.atleast_1d(np.asarray(offset, dtype=np.int32))
        self.offset: Any = offset if isinstance(offset, int) else mx.array(self._start_R)
        self._new: tuple[mx.array, mx.array] | None = None

    def grown(self, sizes_R: np.ndarray, rows_R: mx.array | None = None) -> Seen:
        """What comes after the tokens of the last forward, of which row R has ``sizes_R`` that are not padding. With
        ``rows_R``, row R goes on from that one of its rows. What was seen before must have been the same for all."""
        keys, values = self.new()
        length = self._places.shape[1]
        places = np.arange(keys.shape[2])[None]
        places = np.where(places < sizes_R[:, None], length + places, NEVER)
        places = np.concatenate([np.broadcast_to(self._places, (len(sizes_R), length)), places], axis=1)
        if rows_R is None and len(sizes_R) == 1:
            return Seen(self._window, [self._all], places, length + int(sizes_R[0]))
        parts = [self._all] if rows_R is None else [*self._parts, (keys[rows_R], values[rows_R])]
        return Seen(self._window, parts, places, length + sizes_R)

    @property
    def state(self) -> list[tuple[mx.array, mx.array]]:
        """All that is kept, to be evaluated."""
        return list(self._parts)

    def new(self) -> tuple[mx.array, mx.array]:
        """Keys and values of the last forward's tokens."""
        assert self._new is not None
        return self._new

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """All keys and values, (R, G, S + T, K), the new ones last."""
        self._new = (keys, values)
        rows = keys.shape[0]
        wide = [[mx.broadcast_to(part, (rows, *part.shape[1:])) for part in pair] for pair in self._parts]
        keys = mx.concatenate([*(pair[0] for pair in wide), keys], axis=2)
        self._all = (keys, mx.concatenate([*(pair[1] for pair in wide), values], axis=2))
        return self._all

    def make_mask(self, N: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """Which of the tokens seen, and of the N new ones, each new token sees: bool (R or 1, 1, N, S + N), or the
        word that mlx-lm has for the plain case."""
        window = window_size or self._window
        plain = isinstance(self.offset, int) and window is None
        if plain and not return_array:
            return None if N == 1 else "causal"
        own_R_N = self._start_R[:, None] + np.arange(N)
        rows = max(len(own_R_N), len(self._places))
        parts = [np.broadcast_to(part, (rows, part.shape[1])) for part in (self._places, own_R_N)]
        keys_R_S = np.concatenate(parts, axis=1)
        mask = own_R_N[:, :, None] >= keys_R_S[:, None]
        if window is not None:
            mask = mask & (own_R_N[:, :, None] < keys_R_S[:, None] + window)
        return mx.array(mask[:, None])


def asked_logits(foreign: Foreign, tokens_R_T: np.ndarray, asked_R_Q: np.ndarray, seen: list[Seen] | None) -> mx.array:
    """Logits (R, Q, V) at the places ``asked_R_Q`` of each row. Only those go through the output layer, where the
    model is built of a trunk and one."""
    rows = mx.arange(len(tokens_R_T))[:, None]
    asked = mx.array(asked_R_Q.astype(np.int32))
    with _picking(foreign.model, lambda states: states[rows, asked]) as picked:
        logits = foreign.model(mx.array(tokens_R_T), cache=seen)
    return logits if picked else logits[rows, asked]


@contextmanager
def _picking(model: Any, pick: Any) -> Iterator[list[bool]]:
    """Lets ``pick`` choose among what the model's trunk gives, before the output layer. What it yields stays empty
    where there is no trunk to be found."""
    while "language_model" in model:
        model = model["language_model"]
    name = next((name for name in TRUNKS if name in model), None)
    picked: list[bool] = []
    if name is None:
        yield picked
        return
    trunk = model[name]

    class Picking:
        def __call__(self, *given: Any, **named: Any) -> Any:
            states = trunk(*given, **named)
            if not isinstance(states, mx.array):
                return states
            picked.append(True)
            return pick(states)

        def __getattr__(self, attribute: str) -> Any:
            return getattr(trunk, attribute)

    vars(model)[name] = Picking()  # found before the module of that name, which stays where it is
    try:
        yield picked
    finally:
        del vars(model)[name]


def prefix_of_foreign(foreign: Foreign, ids: Sequence[int]) -> list[tuple[mx.array, mx.array]]:
    """Keys and values (1, G, S, K) of a prefix for every cache of the model, or its ids where they can't be shared."""
    if not len(ids):
        return []
    if foreign.windows is None:
        return PrefixIds(ids)
    seen = [Seen(window) for window in foreign.windows]
    asked_logits(foreign, np.array([list(ids)], dtype=np.int32), np.array([[len(ids) - 1]]), seen)
    return [one.new() for one in seen]


def behind_prefix(foreign: Foreign, prefix: list[tuple[mx.array, mx.array]]) -> list[Seen]:
    """The caches of a model whose rows begin behind a prefix."""
    assert foreign.windows is not None
    length = prefix[0][0].shape[2] if prefix else 0
    parts = [[pair] for pair in prefix] or [[] for _ in foreign.windows]
    places = np.arange(length)[None]
    return [Seen(window, part, places, length) for window, part in zip(foreign.windows, parts, strict=True)]


def child_logits(foreign: Foreign, packed: PackedBatch, prefix: list[tuple[mx.array, mx.array]]) -> mx.array:
    """Logits (O, C) of each open node's children, padding included."""
    rows = Rows(packed)
    seen = None if foreign.windows is None else behind_prefix(foreign, prefix)
    if seen is None or not foreign.steps:
        before = prefix.ids if isinstance(prefix, PrefixIds) else []
        tokens_R_T, asked_R_Q, at_O = rows.whole(before)
        return _children(asked_logits(foreign, tokens_R_T, asked_R_Q, seen), at_O, packed.child_token_O_C)
    roots = asked_logits(foreign, rows.prompts_B_T, rows.sizes_B[:, None] - 1, seen)
    found = _children(roots, rows.row_of_root, packed.child_token_O_C[rows.roots])
    if not rows.paths:
        return found[mx.array(np.argsort(rows.roots).astype(np.int32))]
    sizes_R = rows.sizes_B[rows.question_R]
    behind = [one.grown(sizes_R, mx.array(rows.question_R)) for one in seen]
    tokens_R_T, asked_R_Q, at_O = rows.tails()
    deeper = _children(asked_logits(foreign, tokens_R_T, asked_R_Q, behind), at_O, packed.child_token_O_C[rows.deeper])
    order = np.argsort(np.concatenate([rows.roots, rows.deeper]))
    return mx.concatenate([found, deeper], axis=0)[mx.array(order.astype(np.int32))]


def width_of(foreign: Foreign) -> int:
    """How many numbers the linear layers of the widest block give for a token."""
    blocks: list[int] = []
    for block in foreign.model.layers:
        modules = [module for _, module in block.named_modules() if isinstance(module, nn.Linear | nn.QuantizedLinear)]
        blocks.append(sum(module.weight.shape[0] for module in modules))
    return max(blocks)


def packed_tokens(foreign: Foreign, layout: Layout, prompt: int, prefix: int) -> int:
    """How many tokens a question takes in a forward, with a prompt and a prefix of so many."""
    paths = paths_of(layout)
    if foreign.windows is None or not foreign.steps:
        before = prefix if foreign.windows is None else 0
        return max(1, len(paths)) * (before + prompt + max(map(len, paths), default=0))
    return prompt + len(paths) * max(map(len, paths), default=0)


def _children(logits_R_Q_V: mx.array, at_O: np.ndarray, child_token_O_C: np.ndarray) -> mx.array:
    width = logits_R_Q_V.shape[-1]
    flat = logits_R_Q_V.reshape(-1)
    return flat[mx.array(at_O.astype(np.int64)[:, None] * width + child_token_O_C)]
