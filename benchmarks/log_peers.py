"""The recorders that `benchmarks.recorder` compares, each used as its own documentation shows, behind one face.

All of them are given the same structs and store every field of a turn. A call of `turn` is what the caller waits for.
"""

from __future__ import annotations

import gzip
import json
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from recorder import EpisodeBegin, EpisodeEnd, Reader, Turn, Writer
from recorder.export.parquet import ParquetFile
from recorder.export.rows import column_types
from recorder.records import as_plain

ROW_GROUP = 1024
"""Turns that Parquet keeps in memory before it writes them."""


class Peer(Protocol):
    """One recorder, writing into a folder of its own."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None: ...
    def begin(self, begin: EpisodeBegin) -> None: ...
    def turn(self, turn: Turn) -> None: ...
    def end(self, end: EpisodeEnd) -> None: ...
    def close(self) -> None: ...

    @staticmethod
    def readable(folder: Path) -> int:
        """Turns that its own reader gives after the writer was killed."""

    @staticmethod
    def opened(folder: Path) -> Callable[[int], int]:
        """Opens what was written; the function reads the episode of an id and returns its number of turns."""


class B22:
    """This project's log, as it is used everywhere in it."""

    name: ClassVar[str] = "b22"

    def __init__(self, folder: Path) -> None:
        self.log = Writer(folder / "log.b22")
        self.begin, self.turn, self.end = self.log.begin_episode, self.log.turn, self.log.end_episode
        self.close = self.log.close

    @staticmethod
    def readable(folder: Path) -> int:
        with Reader(folder / "log.b22") as reader:
            return sum(1 for _ in reader.turns("all"))

    @staticmethod
    def opened(folder: Path) -> Callable[[int], int]:
        reader = Reader(folder / "log.b22")
        return lambda number: len(reader.episode(number).turns)


class JsonGzip:
    """JSON lines through `gzip.open`, one line a record."""

    name: ClassVar[str] = "jsonl+gzip"

    def __init__(self, folder: Path) -> None:
        self.file = gzip.open(folder / "log.jsonl.gz", "wb", compresslevel=6)  # noqa: SIM115
        self.encode = msgspec.json.Encoder().encode

    def _line(self, kind: str, record: EpisodeBegin | Turn | EpisodeEnd) -> None:
        self.file.write(self.encode({"kind": kind, **as_plain(record)}) + b"\n")

    def begin(self, begin: EpisodeBegin) -> None:
        self._line("begin", begin)

    def turn(self, turn: Turn) -> None:
        self._line("turn", turn)

    def end(self, end: EpisodeEnd) -> None:
        self._line("end", end)

    def close(self) -> None:
        self.file.close()

    @staticmethod
    def readable(folder: Path) -> int:
        inflate = zlib.decompressobj(31)  # reads as far as there is something, unlike gzip.open
        text = inflate.decompress((folder / "log.jsonl.gz").read_bytes())
        return sum(json.loads(line)["kind"] == "turn" for line in text.split(b"\n")[:-1])

    @staticmethod
    def opened(folder: Path) -> Callable[[int], int]:
        def read(number: int) -> int:
            turns = 0
            with gzip.open(folder / "log.jsonl.gz", "rb") as lines:
                for line in lines:
                    record = msgspec.json.decode(line)
                    if record["episode"] == number:
                        turns += record["kind"] == "turn"
                        if record["kind"] == "end":
                            break
            return turns

        return read


class Mcap:
    """MCAP with zstd chunks of its default size, a channel for each kind of record, JSON messages.

    The log time is chosen so that its chunk index finds an episode.
    """

    name: ClassVar[str] = "mcap"
    SPAN = 1 << 20

    def __init__(self, folder: Path) -> None:
        from mcap.writer import CompressionType
        from mcap.writer import Writer as McapWriter

        self.file = (folder / "log.mcap").open("wb")
        self.log = McapWriter(self.file, compression=CompressionType.ZSTD)
        self.log.start()
        self.channels = {}
        for kind in ("begin", "turn", "end"):
            schema = self.log.register_schema(kind, "jsonschema", b'{"type": "object"}')
            self.channels[kind] = self.log.register_channel(kind, "json", schema)
        self.encode = msgspec.json.Encoder().encode
        self.at: dict[int, int] = {}

    def _message(self, kind: str, record: EpisodeBegin | Turn | EpisodeEnd) -> None:
        step = self.at.get(record.episode, 0)
        self.at[record.episode] = step + 1
        time = record.episode * self.SPAN + step
        self.log.add_message(
            channel_id=self.channels[kind], log_time=time, publish_time=time, data=self.encode(as_plain(record))
        )

    def begin(self, begin: EpisodeBegin) -> None:
        self._message("begin", begin)

    def turn(self, turn: Turn) -> None:
        self._message("turn", turn)

    def end(self, end: EpisodeEnd) -> None:
        self._message("end", end)
        del self.at[end.episode]

    def close(self) -> None:
        self.log.finish()
        self.file.close()

    @staticmethod
    def readable(folder: Path) -> int:
        from mcap.exceptions import McapError
        from mcap.reader import NonSeekingReader

        turns = 0
        with (folder / "log.mcap").open("rb") as file:
            try:
                for _ in NonSeekingReader(file).iter_messages(topics=["turn"], log_time_order=False):
                    turns += 1
            except McapError:  # the file ends before its end: what came before counts
                return turns
        return turns

    @staticmethod
    def opened(folder: Path) -> Callable[[int], int]:
        from mcap.reader import make_reader

        reader = make_reader((folder / "log.mcap").open("rb"))

        def read(number: int) -> int:
            first = number * Mcap.SPAN
            found = reader.iter_messages(topics=["turn"], start_time=first, end_time=first + Mcap.SPAN)
            return sum(1 for _, _, message in found if msgspec.json.decode(message.data))

        return read


class Parquet:
    """Parquet with zstd, a row a turn; row groups of `ROW_GROUP` turns wait in memory."""

    name: ClassVar[str] = "parquet+zstd"
    BEGIN = ("scenario", "scenario_version", "seed", "policy", "group")

    def __init__(self, folder: Path) -> None:
        types = column_types()
        names = (*Turn.__struct_fields__, *self.BEGIN)
        self.file = ParquetFile(folder / "log.parquet", {name: types[name] for name in names}, group=ROW_GROUP, level=3)
        self.begins: dict[int, dict[str, Any]] = {}

    def begin(self, begin: EpisodeBegin) -> None:
        self.begins[begin.episode] = {name: getattr(begin, name) for name in self.BEGIN}

    def turn(self, turn: Turn) -> None:
        self.file.add({**as_plain(turn), **self.begins[turn.episode]})

    def end(self, end: EpisodeEnd) -> None:
        del self.begins[end.episode]

    def close(self) -> None:
        self.file.close()

    @staticmethod
    def readable(folder: Path) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return int(pq.ParquetFile(folder / "log.parquet").metadata.num_rows)
        except pa.ArrowInvalid:  # without its footer there is no Parquet file
            return 0

    @staticmethod
    def opened(folder: Path) -> Callable[[int], int]:
        import pyarrow.parquet as pq

        path = folder / "log.parquet"
        return lambda number: int(pq.read_table(path, filters=[("episode", "==", number)]).num_rows)


class Minari:
    """Minari's HDF5 storage: an episode is gathered in memory and written when it has ended."""

    name: ClassVar[str] = "minari"
    TEXTS = ("proposed", "outcome_kind", "outcome_text", "policy_note")
    NUMBERS = ("tau", "ticks", "fallback", "greedy", "decision_ms")
    RAGGED = ("prompt_ids", "sampled_ids", "logps", "legal", "probs", "terms", "digest_after")

    def __init__(self, folder: Path) -> None:
        import gymnasium.spaces as spaces
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_storage import MinariStorage

        text = spaces.Text(max_length=4096, min_length=0, charset="".join(map(chr, range(32, 127))))
        self.storage = MinariStorage.new(folder / "data", text, text)
        self.storage.update_metadata({"dataset_id": "bench-v0", "minari_version": minari.__version__})
        self.buffer, self.open = EpisodeBuffer, dict[int, tuple[EpisodeBegin, list[Turn]]]()
        self.encode = msgspec.json.Encoder().encode

    def begin(self, begin: EpisodeBegin) -> None:
        self.open[begin.episode] = (begin, [])

    def turn(self, turn: Turn) -> None:
        self.open[turn.episode][1].append(turn)

    def end(self, end: EpisodeEnd) -> None:
        begin, turns = self.open.pop(end.episode)
        if not turns:
            return
        rows = [as_plain(turn) for turn in turns]
        last = len(turns) - 1
        self.storage.update_episodes([
            self.buffer(
                seed=begin.seed, options={"group": begin.group, "policy": begin.policy, **begin.options},
                observations=[turn.observation for turn in turns] + [""],
                actions=[turn.executed for turn in turns],
                rewards=[turn.reward for turn in turns],
                terminations=[at == last for at in range(len(turns))],
                truncations=[False] * len(turns),
                infos={
                    **{name: [row[name] for row in rows] for name in (*self.TEXTS, *self.NUMBERS)},
                    **{name: [self.encode(row[name]).decode() for row in rows] for name in self.RAGGED},
                },
            )
        ])  # fmt: skip

    def close(self) -> None:
        pass  # every episode is closed when it is written

    @staticmethod
    def readable(folder: Path) -> int:
        from minari import MinariDataset

        try:
            return sum(len(episode.rewards) for episode in MinariDataset(folder / "data").iterate_episodes())
        except (OSError, KeyError, RuntimeError, ValueError):  # what it raises for a file that a kill left half-written
            return 0

    @staticmethod
    def opened(folder: Path) -> Callable[[int], int]:
        from minari import MinariDataset

        dataset = MinariDataset(folder / "data")
        return lambda number: len(dataset[number].rewards)


def missing(peer: type[Peer]) -> str:
    """Which library a recorder lacks here; "" where it can run."""
    needs = {"mcap": ("mcap",), "parquet+zstd": ("pyarrow",), "minari": ("minari", "h5py")}
    for module in needs.get(peer.name, ()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                __import__(module)
        except ImportError:
            return module
    return ""


PEERS: tuple[type[Peer], ...] = (B22, Mcap, Parquet, JsonGzip, Minari)
