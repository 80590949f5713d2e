"""Free text by models whose code is mlx-lm's: token after token, and logits for a loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npc.foreign import Foreign, PrefixIds, asked_logits, behind_prefix
from npc.forward import PrefixKV
from npc.mlx import mx
from npc.paths import padded


def text_logits(foreign: Foreign, rows: Sequence[Sequence[int]], asked_B_C: np.ndarray, prefix: PrefixKV) -> mx.array:
    """Logits (B, C, V) at places of rows of any lengths behind a prefix."""
    before = prefix.ids if isinstance(prefix, PrefixIds) else []
    seen = None if foreign.windows is None else behind_prefix(foreign, prefix)
    return asked_logits(foreign, padded([[*before, *row] for row in rows]), asked_B_C + len(before), seen)


class Writer:
    """Reads prompts, and then token after token. Each row is by itself, so that it may be of any length."""

    def __init__(self, foreign: Foreign, prefix: PrefixKV) -> None:
        self._foreign = foreign
        self._prefix = prefix
        self._rows: list[list[Any]] = []

    def read_prompts(self, prompts: Sequence[Sequence[int]]) -> mx.array:
        """Logits (B, V) after the prompts' last tokens."""
        from mlx_lm.models.cache import make_prompt_cache

        before = self._prefix.ids if isinstance(self._prefix, PrefixIds) else []
        for _ in prompts:
            whole = self._foreign.windows is None
            caches = make_prompt_cache(self._foreign.model) if whole else behind_prefix(self._foreign, self._prefix)
            self._rows.append(caches)
        return mx.concatenate([self._read(row, [*before, *prompt]) for row, prompt in enumerate(prompts)], axis=0)

    def read_next(self, tokens: Sequence[int]) -> mx.array:
        """Logits (B, V) after one more token in each row."""
        return mx.concatenate([self._read(row, [token]) for row, token in enumerate(tokens)], axis=0)

    def _read(self, row: int, ids: list[int]) -> mx.array:
        asked = np.array([[len(ids) - 1]])
        logits = asked_logits(self._foreign, np.array([ids], dtype=np.int32), asked, self._rows[row])[:, 0]
        if self._foreign.windows is not None:
            self._rows[row] = [one.grown(np.array([len(ids)])) for one in self._rows[row]]
        mx.eval(logits, [one.state for one in self._rows[row]])
        return logits
