"""What a log holds, as structs. Payloads are msgpack maps keyed by these field names.

Rules that keep old logs readable: a field is never renamed, re-typed or re-used; every field that is added
later has a default; a default never changes, because fields at their default aren't stored.
"""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
import numpy as np

from recorder.errors import RecordError
from recorder.framing import FORMAT, MINOR

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""An integer of 0 … 2⁶³−1: ids, counts and seeds."""

FLOAT32 = np.dtype("<f4")


def pack_floats(values: Iterable[float] | np.ndarray) -> bytes:
    """Little-endian float32 bytes, the stored form of log-probabilities and probabilities.

    Raises RecordError where a value isn't finite once it is a float32.
    """
    source = values if isinstance(values, np.ndarray) else list(values)
    with np.errstate(over="ignore"):
        array = np.asarray(source, dtype=FLOAT32)
    if not np.isfinite(array).all():
        raise RecordError(f"a value is not finite as float32: {source!r:.80}")
    return array.tobytes()


def unpack_floats(data: bytes) -> np.ndarray:
    """Read-only float32 array over bytes from `pack_floats`; bit for bit what was packed."""
    return np.frombuffer(data, dtype=FLOAT32)


def prefix_hash(text: str, token_ids: Sequence[int] = ()) -> str:
    """32 hex digits that name a static prefix: blake2b-128 over its text and its token ids."""
    plain = msgspec.msgpack.encode([text, [int(i) for i in token_ids]])
    return blake2b(plain, digest_size=16).hexdigest()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all records."""


class Header(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Who writes from here on. First record of a file, and again where an append begins."""

    format: Natural = FORMAT
    minor: Natural = 0
    engine_version: str = ""
    created_unix: float = 0.0
    program: str = ""
    python: str = ""
    platform: str = ""
    msgspec: str = ""
    notes: dict[str, str] = {}
    dictionaries: dict[str, str] = {}

    @classmethod
    def here(cls, program: str = "", engine_version: str = "", notes: dict[str, str] | None = None) -> Header:
        """A header of this moment, interpreter and machine."""
        return cls(
            minor=MINOR,
            engine_version=engine_version,
            created_unix=time.time(),
            program=program,
            python=platform.python_version(),
            platform=f"{sys.platform}-{platform.machine()}",
            msgspec=msgspec.__version__,
            notes=notes or {},
        )


class Schema(Record, frozen=True, kw_only=True, omit_defaults=True):
    """JSON Schema of all records as the writer knew them, for readers in other languages."""

    json: str


class Dictionary(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A zstd dictionary that frames of this file name by `id`."""

    id: Natural
    data: bytes


class Prefix(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A static prompt prefix, stored once by hash and named by episodes."""

    hash: str
    text: str
    token_ids: list[int] = []
    tokenizer_hash: str = ""


class EpisodeBegin(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What an episode starts from: enough to build its first state again, and to know who plays.

    A fork goes on from turn `fork_turn` of episode `fork_of` of the same log; the turns before are copies.
    """

    episode: Natural
    scenario: str
    scenario_version: Natural
    seed: Natural
    source_hash: str = ""
    options: dict[str, str] = {}
    group: str = ""
    group_size: Natural = 1
    run: str = ""
    update: Natural = 0
    attempt: Natural = 0
    policy: str = ""
    model: str = ""
    adapter: str = ""
    weights_hash: str = ""
    base_hash: str = ""
    tokenizer_hash: str = ""
    engine_version: str = ""
    prefix_hash: str = ""
    split: str = ""
    purpose: str = ""
    digest_start: dict[str, str] = {}
    created_unix: float = 0.0
    fork_of: Natural | None = None
    fork_turn: Natural = 0


class Turn(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One decision, a sample that can be trained on as it stands.

    `turn` counts from 0. `prompt_ids` is the part after the static prefix (EpisodeBegin.prefix_hash).
    `logps` and `probs` are little-endian float32 bytes: the log-probabilities of what was sampled, at `tau`,
    and the probability of every phrase of `legal`, in its order. `executed` is what the scenario was given.
    `player` is who decided where that is not the episode's policy: "human" for a person at the controls (always, so
    that demonstrations can be told), or the policy that had decided a turn before a fork took it over.
    """

    episode: Natural
    turn: Natural
    observation: str
    proposed: str
    executed: str
    prompt_ids: list[int] = []
    sampled_ids: list[int] = []
    logps: bytes = b""
    tau: float = 0.0
    legal: list[str] = []
    probs: bytes = b""
    outcome_kind: str = ""
    outcome_text: str = ""
    ticks: Natural = 0
    terms: dict[str, float] = {}
    fallback: bool = False
    greedy: bool = False
    digest_after: dict[str, str] = {}
    decision_ms: float = 0.0
    policy_note: str = ""
    player: str = ""

    @property
    def logp_values(self) -> np.ndarray:
        """float32 (sampled steps,): `logps` as an array, bit for bit."""
        return unpack_floats(self.logps)

    @property
    def prob_values(self) -> np.ndarray:
        """float32 (legal phrases,): `probs` as an array, bit for bit."""
        return unpack_floats(self.probs)

    @property
    def logprob(self) -> float:
        """Log-probability of the whole action: the sum over `logps`, in float64."""
        return math.fsum(self.logp_values.tolist())

    @property
    def reward(self) -> float:
        """Sum of this turn's reward terms."""
        return math.fsum(self.terms.values())


class EpisodeEnd(Record, frozen=True, kw_only=True, omit_defaults=True):
    """How an episode ended. `turns` is how many were recorded; `terms` sums each reward term over them."""

    episode: Natural
    ended: str
    success: bool
    turns: Natural
    total_reward: float
    terms: dict[str, float] = {}
    wall_s: float = 0.0


class Amend(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A late reward or label for an episode, or for one turn of it. Nothing is rewritten.

    A term or label given here stands in place of the one of that name; a later AMEND wins over an earlier.
    `turn_terms` scores the whole episode again: a column of numbers for each term, place t for turn t. It stands in
    place of all terms of all turns, and its sums in place of the end's. `reward_version` names the rules it was
    scored by.
    """

    episode: Natural
    turn: Natural | None = None
    terms: dict[str, float] = {}
    labels: dict[str, str] = {}
    author: str = ""
    created_unix: float = 0.0
    reward_version: str = ""
    turn_terms: dict[str, list[float]] = {}


class Gap(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Something of an episode is known to be missing from here on, so that its absence is no damage of this file.

    Written where recording goes on after records that could not be written, and by `recover`. `turn` is the first turn
    that is missing, `lost` how many are; None stands for the episode's begin.
    """

    episode: Natural
    turn: Natural | None = None
    lost: Natural = 0
    reason: str = ""
    created_unix: float = 0.0


class Spot(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Where, within the stretch that one INDEX covers, the records of one episode begin.

    `turns` holds differences: the first to Index.start, each further one to the one before.
    """

    episode: Natural
    begin: Natural | None = None
    turns: list[int] = []
    end: Natural | None = None
    amends: list[int] = []
    gaps: list[int] = []


class Attempt(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The first update that one attempt of a run recorded."""

    run: str
    attempt: Natural
    first_update: Natural


class Branch(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An INDEX, by its offset, with the least and the largest id of the episodes that it knows of.

    `first` and `last` are about everything but AMENDs, `amend_first` and `amend_last` about these; None where there is
    nothing of the kind.
    """

    index: Natural
    first: Natural | None = None
    last: Natural | None = None
    amend_first: Natural | None = None
    amend_last: Natural | None = None


class Counts(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What the file holds before an INDEX.

    `ids` are the ids of its episodes as ranges: a start and the number after the end, by turns. `left_out` says that
    there were too many ranges or names to be listed here.
    """

    records: Natural = 0
    turns: Natural = 0
    fallbacks: Natural = 0
    episodes: Natural = 0
    ended: Natural = 0
    successes: Natural = 0
    amends: Natural = 0
    gaps: Natural = 0
    sessions: Natural = 0
    indexes: Natural = 0
    scenarios: dict[str, int] = {}
    policies: dict[str, int] = {}
    runs: dict[str, int] = {}
    ids: list[int] = []
    left_out: bool = False


class Index(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Where everything lies between `start` (the end of the previous INDEX, or 0) and this record.

    `levels` leads to all earlier INDEX records: see recorder/lookup.py. With `counts`, it is about the whole file up to
    here, and `attempts` and `prefixes` are as well.
    """

    start: Natural
    previous: Natural | None = None
    spots: list[Spot] = []
    attempts: list[Attempt] = []
    prefixes: dict[str, int] = {}
    dictionaries: dict[str, int] = {}
    levels: list[list[Branch]] = []
    counts: Counts | None = None


class Footer(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Written by a clean close. Counts are over the whole file, earlier footers included."""

    format: Natural = FORMAT
    index: Natural | None = None
    records: Natural = 0
    episodes: Natural = 0
    turns: Natural = 0
    closed_unix: float = 0.0


def as_plain(record: Record) -> dict[str, Any]:
    """A record as JSON-ready values; float32 bytes become lists of numbers."""
    plain: dict[str, Any] = msgspec.structs.asdict(record)
    for name in ("logps", "probs"):
        if name in plain:
            plain[name] = unpack_floats(plain[name]).tolist()
    return plain
