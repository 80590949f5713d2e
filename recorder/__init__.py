"""The .b22 log: one append-only file a session, which is both the replay and the training set.

    with Writer("episodes.b22") as log:
        log.begin_episode(EpisodeBegin(episode=0, scenario="fetch_item", scenario_version=1, seed=0))
        log.turn(Turn(episode=0, turn=0, observation="...", proposed="wait", executed="wait"))
        log.end_episode(EpisodeEnd(episode=0, ended="turn_cap", success=False, turns=1, total_reward=0.0))
    with Reader("episodes.b22") as log:
        for episode in log.episodes():
            ...

The format is specified in docs/b22-format.md.
"""

from recorder.errors import (
    ClosedError,
    DamagedLogError,
    DictionaryError,
    EpisodeNotFoundError,
    EpisodeStateError,
    LockedError,
    LogExistsError,
    NotALogError,
    OpenError,
    PayloadError,
    PrefixNotFoundError,
    ReadError,
    RecorderError,
    RecordError,
    RecordTooLargeError,
    SyncFailedError,
    UnsupportedFormatError,
    WriteFailedError,
)
from recorder.framing import Op
from recorder.reader import Episode, Reader
from recorder.records import (
    Amend,
    EpisodeBegin,
    EpisodeEnd,
    Header,
    Prefix,
    Turn,
    pack_floats,
    prefix_hash,
    unpack_floats,
)
from recorder.scan import Damage
from recorder.writer import Writer

__all__ = [
    "Amend",
    "ClosedError",
    "Damage",
    "DamagedLogError",
    "DictionaryError",
    "Episode",
    "EpisodeBegin",
    "EpisodeEnd",
    "EpisodeNotFoundError",
    "EpisodeStateError",
    "Header",
    "LockedError",
    "LogExistsError",
    "NotALogError",
    "Op",
    "OpenError",
    "PayloadError",
    "Prefix",
    "PrefixNotFoundError",
    "ReadError",
    "Reader",
    "RecordError",
    "RecordTooLargeError",
    "RecorderError",
    "SyncFailedError",
    "Turn",
    "UnsupportedFormatError",
    "WriteFailedError",
    "Writer",
    "pack_floats",
    "prefix_hash",
    "unpack_floats",
]
