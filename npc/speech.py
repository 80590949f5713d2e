"""A spoken line for flavour: asking, thanking, grumbling. It decides nothing, is never logged as play, earns nothing.

The base model speaks, without its adapter, which was taught to act and not to talk. A model with a small vocabulary of
its own (`nano`) can't; whoever shows lines has others ready for that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from npc.adapters.layers import places, put
from npc.generate import generate
from npc.mlx import mx
from npc.models import Brain
from npc.reading import prefix_of, reading_of

LONGEST = 60  # characters of a line
TOKENS = 24
TAU = 0.8
SPEAKS_FROM = 4096  # tokens in a vocabulary that can say what it likes

EXAMPLES = """\
What villagers say, in a few plain words.
Anna asks Peter where the ladder is: "Peter, have you seen the ladder anywhere?"
Peter thanks Anna for the cheese: "Oh, how kind! I was so hungry."
Anna grumbles that the gate is locked: "Locked again. Who has the key now?"
Peter brought Anna the wrong book: "This is not my book, but I like the picture."
"""


def can_speak(brain: Brain) -> bool:
    """Whether the model knows more words than a village needs."""
    return brain.tokenizer.vocab_size >= SPEAKS_FROM


class Speaker:
    """Says lines. The base weights are read at the first one, beside the adapted ones that decide."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain
        self._ready: tuple | None = None  # a Llama's joined weights are those of the base ever after
        tokenizer = brain.tokenizer
        texts = ((i, tokenizer.decode([i])) for i in range(tokenizer.vocab_size))
        self._stops = [i for i, text in texts if '"' in text or "\n" in text or i == tokenizer.eos_id]

    def line(self, situation: str, seed: int, going: Callable[[], bool] = lambda: True) -> str:
        """What is said in a `situation` ("Tom asks Mara for the rope"), or "" where nothing fit to show was said, or
        `going` put an end to it between two tokens."""
        tokenizer = self._brain.tokenizer
        dice = random.Random(f"speech/{seed}")
        stopped = False

        def still() -> bool:
            nonlocal stopped
            stopped = stopped or not going()
            return not stopped

        with base_alone(self._brain):
            if self._ready is None:
                base = reading_of(self._brain.model)
                self._ready = (base, prefix_of(base, tokenizer.encode(EXAMPLES)))
                mx.eval(base.arrays(), list(self._ready[1]))
            base, prefix = self._ready
            (said,) = generate(base, prefix, [tokenizer.encode(f'{situation}: "')], self._stops, TOKENS, TAU,
                               lambda *_: dice.random(), 0.9, still)  # fmt: skip
        return "" if stopped else trim(tokenizer.decode(said.ids))


def trim(text: str) -> str:
    """The first sentence or two of what was said, up to the closing quote: one printable line of at most LONGEST
    characters that ends where a sentence does, else "" (half a sentence is no line)."""
    said = text.split("\n")[0].split('"')[0].split("<|")[0].strip()
    if not said.isprintable():
        return ""
    ends = [at + 1 for at, letter in enumerate(said[:LONGEST]) if letter in ".!?…"]
    closed = '"' in text.split("\n")[0]
    if closed and len(said) <= LONGEST:
        return said
    return said[: ends[-1]] if ends else ""


@contextmanager
def base_alone(brain: Brain) -> Iterator[None]:
    """The model as if it had no adapter, inside the block. Changes no weight and no version."""
    found = places(brain.model) if brain.adapter is not None else []
    put([(place, place.linear) for place in found])
    try:
        yield
    finally:
        put([(place, place.module) for place in found])
