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

from recorder.dataset import Batch, Dataset, Group
from recorder.episode import Episode
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
    RewardVersionError,
    SyncFailedError,
    UnsupportedFormatError,
    WriteFailedError,
)
from recorder.framing import Op
from recorder.losses import Status
from recorder.reader import Reader
from recorder.records import (
    Amend,
    EpisodeBegin,
    EpisodeEnd,
    Gap,
    Header,
    Prefix,
    Turn,
    pack_floats,
    prefix_hash,
    unpack_floats,
)
from recorder.salvage import Recovery, recover
from recorder.scan import Damage
from recorder.scoring import Rescored, rescore
from recorder.writer import Writer

__all__ = [
    "Amend",
    "Batch",
    "ClosedError",
    "Damage",
    "DamagedLogError",
    "Dataset",
    "DictionaryError",
    "Episode",
    "EpisodeBegin",
    "EpisodeEnd",
    "EpisodeNotFoundError",
    "EpisodeStateError",
    "Gap",
    "Group",
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
    "Recovery",
    "Rescored",
    "RewardVersionError",
    "Status",
    "SyncFailedError",
    "Turn",
    "UnsupportedFormatError",
    "WriteFailedError",
    "Writer",
    "pack_floats",
    "prefix_hash",
    "recover",
    "rescore",
    "unpack_floats",
]
