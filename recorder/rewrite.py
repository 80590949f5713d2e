"""Logs written anew: several into one, or one into the newest form. Every record, nothing lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec.structs import replace

from recorder.appender import Appender
from recorder.codec import LEVEL
from recorder.dictionary import dictionary_hash, dictionary_id, shipped
from recorder.errors import DamagedLogError, OpenError, RecorderError
from recorder.framing import FORMAT, MINOR
from recorder.fresh import fresh
from recorder.reader import Reader
from recorder.records import (
    Amend,
    Dictionary,
    EpisodeBegin,
    EpisodeEnd,
    Footer,
    Gap,
    Header,
    Index,
    Prefix,
    Record,
    Schema,
    Turn,
)
from recorder.writer import INDEX_EVERY

_MADE_ANEW = (Schema, Dictionary, Index, Footer)
_LAST_ID = 2**63 - 1


class MergeError(RecorderError, ValueError):
    """Logs that can't be made into one; names the file."""


class Source(msgspec.Struct):
    """What became of one log."""

    path: str
    format: int
    """Of its first header; 0 where that is lost."""
    minor: int
    first_episode: int
    """What was added to each of its episode ids."""
    sessions: int = 0
    episodes: int = 0
    turns: int = 0
    amends: int = 0
    renamed_groups: int = 0
    """Groups that an earlier log has as well; here they got another name."""
    bytes: int = 0


class Rewritten(msgspec.Struct):
    """A log that was written anew."""

    out: str
    sources: list[Source]
    format: int = FORMAT
    minor: int = MINOR
    bytes: int = 0


def merge(paths: Sequence[Path], out: Path) -> Rewritten:
    """Several logs as one new log, in the order given.

    The first keeps its episode ids; those of each further log are raised above the largest before it. A group id
    that an earlier log has too gets the log's number behind it, so that no two groups become one. Headers (who
    wrote, when), AMENDs and GAPs go along; dictionaries, indexes and the schema are made anew.

    Raises MergeError for the same log twice or records that can't be renumbered, DamagedLogError for a damaged
    log, LogExistsError where `out` is there, and what opening raises. There is no `out` then.
    """
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = _stat(path)
        if status in seen:
            raise MergeError(f"{path}: is the same log as {seen[status]}; each goes in once")
        seen[status] = path
    return _rewrite(paths, out, check=False)


def migrate(path: Path, out: Path) -> Rewritten:
    """One log as a new log in the newest format, its episode ids and sessions as they are.

    What was written is read back and compared, record by record, before it gets its name. Raises as `merge`.
    """
    return _rewrite([path], out, check=True)


def _stat(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OpenError(f"{path}: can't be opened: {reason}") from error
    return status.st_dev, status.st_ino


def _rewrite(paths: Sequence[Path], out: Path, check: bool) -> Rewritten:
    _no_damage(paths)
    done = Rewritten(str(out), [])
    with fresh(out) as part:
        with Reader(paths[0]) as reader:
            first = reader.header or Header()
        dictionary = shipped()
        log = Appender(
            part, _renewed(first), append=False, dictionary=dictionary, policy="episode",
            sync_every=1.0, level=LEVEL, index_every=INDEX_EVERY,
        )  # fmt: skip
        copy = _Copy(log, dictionary)
        try:
            for path in paths:
                with Reader(path) as reader:
                    done.sources.append(copy.take(reader))
            log.close()
        except BaseException:
            log.abandon()
            raise
        if check:
            _compare(paths[0], part)
        done.bytes = part.stat().st_size
    return done


def _no_damage(paths: Sequence[Path]) -> None:
    """Before anything is written. Raises DamagedLogError."""
    for path in paths:
        with Reader(path) as reader:
            damage = reader.check()
        if damage.damaged:
            raise DamagedLogError(f"{path}: damaged; recover it first: python -m recorder recover {path} --out NEW")
        if not damage.records:
            raise MergeError(f"{path}: empty: no record was ever written whole")
        if damage.skipped_unknown:
            raise MergeError(
                f"{path}: holds {damage.skipped_unknown:,} records of a later version, which would be lost; "
                "use the program that wrote it"
            )


def _renewed(header: Header, dictionaries: dict[str, str] | None = None) -> Header:
    """A header as it is written today: who wrote, and when, stays; what speaks of the file's form is new."""
    return replace(header, format=FORMAT, minor=MINOR, dictionaries=dictionaries or {})


class _Copy:
    """Puts the records of one log after another into a new one."""

    def __init__(self, log: Appender, dictionary: bytes | None) -> None:
        self.log = log
        self.dictionaries = {} if dictionary is None else {str(dictionary_id(dictionary)): dictionary_hash(dictionary)}
        """As every header of the new log names them."""
        self.begun = False
        """Whether the first header, with which the new log begins, has gone by."""
        self.free = 0
        """The lowest episode id above all that were used."""
        self.groups: set[str] = set()
        self.prefixes: set[str] = set()
        self.number = 0

    def take(self, reader: Reader) -> Source:
        """All records of one log."""
        self.number += 1
        format, minor = (reader.header.format, reader.header.minor) if reader.header else (0, 0)
        source = Source(str(reader.path), format, minor, self.free, bytes=reader.size)
        mine: dict[str, str] = {}
        for _, record in reader.records():
            if isinstance(record, Header):
                source.sessions += 1
                if not self.begun:
                    self.begun = True
                    continue
                record = _renewed(record, self.dictionaries)
            elif isinstance(record, _MADE_ANEW):
                continue
            elif isinstance(record, Prefix):
                self._prefix(record)
                continue
            else:
                record = self._renumbered(record, source, mine)
            self.log.ready()
            self.log.put(record)
        self.groups.update(mine.values())
        source.renamed_groups = sum(new != old for old, new in mine.items())
        self.free = max(self.free, self.log.episodes.above)
        return source

    def _prefix(self, prefix: Prefix) -> None:
        if prefix.hash not in self.prefixes:
            self.prefixes.add(prefix.hash)
            self.log.ready()
            self.log.put(prefix)
            self.log.put(prefix)  # as a writer does: one bad byte loses no prefix
        self.log.repeat(prefix)

    def _renumbered(self, record: Record, source: Source, mine: dict[str, str]) -> Record:
        if not isinstance(record, EpisodeBegin | Turn | EpisodeEnd | Amend | Gap):
            raise MergeError(f"{source.path}: holds a {type(record).__name__}, which this program can't renumber")
        number = record.episode + source.first_episode
        if number > _LAST_ID:
            raise MergeError(
                f"{source.path}: episode {record.episode} would become {number}, above the largest id; "
                "name this log first"
            )
        match record:
            case EpisodeBegin():
                source.episodes += 1
                if record.group and record.group not in mine:
                    mine[record.group] = self._group(record.group)
                return replace(record, episode=number, group=mine.get(record.group, ""))
            case Turn():
                source.turns += 1
            case Amend():
                source.amends += 1
        return replace(record, episode=number)

    def _group(self, name: str) -> str:
        new, number = name, self.number
        while new in self.groups:
            new = f"{name}~{number}"
            number += 1
        return new


def _compare(source: Path, part: Path) -> None:
    """Raises MergeError where a record doesn't read back as it was."""
    with Reader(source) as old, Reader(part) as new:
        for a, b in zip_longest(_content(old), _content(new)):
            if a != b:
                raise MergeError(
                    f"{source}: {type(a or b).__name__} of episode {getattr(a or b, 'episode', '-')} does not read "
                    "back as it was; nothing was written"
                )


def _content(reader: Reader) -> Iterator[Record]:
    for _, record in reader.records():
        if isinstance(record, Header):
            yield _renewed(record)
        elif not isinstance(record, (*_MADE_ANEW, Prefix)):
            yield record
