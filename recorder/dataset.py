"""Logs as a training set: chosen episodes, groups, and batches of turns, streamed at constant memory."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Self

import msgspec

from recorder.batches import Batch, Row, batch_of, rows_of
from recorder.directory import superseded
from recorder.episode import LATEST, Episode
from recorder.errors import PrefixNotFoundError, RecorderError
from recorder.reader import Attempts, Reader
from recorder.records import EpisodeBegin, EpisodeEnd, Prefix
from recorder.shuffling import shuffled

Keep = Callable[[Episode], bool]

_BEGIN = frozenset(EpisodeBegin.__struct_fields__)
_END = frozenset(EpisodeEnd.__struct_fields__)


class Group(msgspec.Struct, frozen=True):
    """Episodes that started from one state. `size` is how many there were to be."""

    id: str
    size: int
    episodes: list[Episode]

    @property
    def whole(self) -> bool:
        """Whether all its episodes are here, each with every turn."""
        return len(self.episodes) == self.size and all(one.whole for one in self.episodes)


class DatasetError(RecorderError, ValueError):
    """A condition or a setting that there is not."""


class Dataset:
    """Episodes of one or more logs, read anew by every pass and never held together.

        data = Dataset("runs/demo/episodes.b22").where(scenario="fetch_item", purpose="training")
        for batch in data.batches(64, shuffle=0): ...

    `attempts`: "latest" leaves out what a resumed run went back behind and recorded again, in whichever of the logs
    the later attempt is. `rewards`: "latest", "recorded", or a reward version: then episodes that were not scored under
    it raise RewardVersionError where their rewards are needed (choose them with `keep`). Damage is passed over as by
    `Reader`; a log that can't be opened raises OpenError or NotALogError when the dataset is made.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        attempts: Attempts = "latest",
        rewards: str = LATEST,
        dictionaries: Collection[bytes] = (),
    ) -> None:
        several = [paths] if isinstance(paths, str | os.PathLike) else paths
        self.paths: tuple[str, ...] = tuple(str(os.fspath(one)) for one in several)
        if attempts not in ("latest", "all"):
            raise DatasetError(f"attempts is {attempts!r}; it can be 'latest' or 'all'")
        self.attempts = attempts
        self.rewards = rewards
        self._dictionaries = tuple(dictionaries)
        self._keeps: tuple[Keep, ...] = ()
        for _ in self._readers():
            pass

    def where(
        self,
        keep: Keep | None = None,
        *,
        min_return: float | None = None,
        max_return: float | None = None,
        whole: bool | None = None,
        **fields: Any,
    ) -> Dataset:
        """Those episodes that meet all conditions, of this call and of those before.

        `fields` are names of EpisodeBegin or EpisodeEnd with the value to have, or with a list, tuple or set of values
        of which to have one; a dict asks for these entries (`options={"difficulty": "2"}`). An episode that never
        ended has no field of EpisodeEnd, and fails such a condition. Returns are of the dataset's rewards, bounds
        included. Raises DatasetError for a field that there is not.
        """
        keeps = [*self._keeps]
        for name, wanted in fields.items():
            if name not in _BEGIN | _END:
                known = ", ".join(sorted(_BEGIN | _END))
                raise DatasetError(f"episodes have no field {name!r}; there are {known}, min_return, max_return, whole")
            keeps.append(_has(name, wanted))
        if whole is not None:
            keeps.append(lambda episode: episode.whole == whole)
        if min_return is not None:
            keeps.append(lambda episode: episode.total(self.rewards) >= min_return)
        if max_return is not None:
            keeps.append(lambda episode: episode.total(self.rewards) <= max_return)
        if keep is not None:
            keeps.append(keep)
        return self._with(tuple(keeps))

    def _with(self, keeps: tuple[Keep, ...]) -> Self:
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "_keeps": keeps}
        return other

    # ---------------------------------------------------------------- passes

    def __iter__(self) -> Iterator[Episode]:
        return self.episodes()

    def episodes(self) -> Iterator[Episode]:
        """The episodes, log by log, in the order in which they ended. Holds those that are open alone."""
        for _, episode in self._sourced():
            yield episode

    def groups(self, window: int = 4096) -> Iterator[Group]:
        """Episodes by EpisodeBegin.group, each group when its last episode has come.

        A group that lacks episodes is given when `window` others have come since its first, or at the end of the last
        log: it is not `whole` then. Episodes without a group are groups of their own.
        """
        if window < 1:
            raise DatasetError(f"window is {window}; it has to be a number of episodes above 0")
        waiting: OrderedDict[str, tuple[int, list[Episode]]] = OrderedDict()
        for number, episode in enumerate(self.episodes()):
            begin = episode.begin
            if not begin.group:
                yield Group("", 1, [episode])
                continue
            _, members = waiting.setdefault(begin.group, (number, []))
            members.append(episode)
            if len(members) >= begin.group_size:
                del waiting[begin.group]
                yield Group(begin.group, begin.group_size, members)
            while waiting and number - next(iter(waiting.values()))[0] >= window:
                name, (_, late) = waiting.popitem(last=False)
                yield Group(name, late[0].begin.group_size, late)
        for name, (_, left) in waiting.items():
            yield Group(name, left[0].begin.group_size, left)

    def batches(
        self, size: int, *, shuffle: int | None = None, buffer: int = 8192, drop_last: bool = False
    ) -> Iterator[Batch]:
        """Turns as NumPy arrays, `size` rows at a time, the last batch with what is left (unless `drop_last`).

        `shuffle` is a seed: rows come from a buffer of `buffer` turns in an order that the seed decides; another seed
        for each pass gives another order. Without it they come episode by episode. Raises RewardVersionError, and
        DatasetError for a size that is none.
        """
        if size < 1 or buffer < 1:
            raise DatasetError(f"size is {size} and buffer is {buffer}; both have to be above 0")
        rows: Iterator[Row] = self._rows()
        if shuffle is not None:
            rows = shuffled(rows, shuffle, buffer)
        chosen: list[Row] = []
        for row in rows:
            chosen.append(row)
            if len(chosen) == size:
                yield batch_of(chosen)
                chosen = []
        if chosen and not drop_last:
            yield batch_of(chosen)

    def prefix(self, digest: str) -> Prefix:
        """The static prefix of this hash, from whichever log has it. Raises PrefixNotFoundError."""
        for reader in self._readers():
            with contextlib.suppress(PrefixNotFoundError):
                return reader.prefix(digest)
        raise PrefixNotFoundError(f"no prefix {digest!r} in {', '.join(self.paths) or 'no log'}")

    # ---------------------------------------------------------------- inside

    def _readers(self) -> Iterator[Reader]:
        for path in self.paths:
            with Reader(path, dictionaries=self._dictionaries) as reader:
                yield reader

    def _sourced(self) -> Iterator[tuple[int, Episode]]:
        """Each episode that meets the conditions, with the number of its log."""
        attempts: dict[tuple[str, int], int] = {}
        if self.attempts == "latest" and len(self.paths) > 1:
            for reader in self._readers():
                for key, update in reader.attempts().items():
                    attempts[key] = min(update, attempts.get(key, update))
        for source, reader in enumerate(self._readers()):
            for episode in reader.episodes(self.attempts):
                if attempts and superseded(attempts, episode.begin):
                    continue
                if all(keep(episode) for keep in self._keeps):
                    yield source, episode

    def _rows(self) -> Iterator[Row]:
        groups = _Numbers()
        for source, episode in self._sourced():
            yield from rows_of(source, episode, groups(source, episode.begin), self.rewards)


class _Numbers:
    """Numbers for groups, from 0 up; the last 65,536 are remembered."""

    def __init__(self) -> None:
        self.known: OrderedDict[str, int] = OrderedDict()
        self.next = 0

    def __call__(self, source: int, begin: EpisodeBegin) -> int:
        number = self.known.get(begin.group) if begin.group else None
        if number is None:
            number, self.next = self.next, self.next + 1
            if begin.group:
                self.known[begin.group] = number
                if len(self.known) > 65_536:
                    self.known.popitem(last=False)
        return number


def _has(name: str, wanted: Any) -> Keep:
    def keep(episode: Episode) -> bool:
        record: EpisodeBegin | EpisodeEnd | None = episode.begin if name in _BEGIN else episode.end
        if record is None:
            return False
        value = getattr(record, name)
        if isinstance(wanted, dict):
            return isinstance(value, dict) and all(value.get(key) == one for key, one in wanted.items())
        if isinstance(wanted, list | tuple | set | frozenset):
            return value in wanted
        return bool(value == wanted)

    return keep
