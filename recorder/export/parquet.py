"""Rows to Parquet files, a group of rows at a time."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recorder.export.rows import ExportError, Row, column_types, library

GROUP = 4096
"""Rows that are written together."""

LEVEL = 9


class ParquetFile:
    """A Parquet file that takes rows one by one; zstd, and a dictionary for every column that gains by one.

    Dicts become lists of (name, value), which every reader of Parquet takes.
    """

    def __init__(
        self, path: Path, columns: dict[str, Any] | None = None, *, group: int = GROUP, level: int = LEVEL
    ) -> None:
        pa = library("pyarrow")
        self._pa = pa
        self._columns = column_types() if columns is None else columns
        self._schema = pa.schema([(name, _type(pa, hint)) for name, hint in self._columns.items()])
        self._dicts = [name for name, hint in self._columns.items() if typing.get_origin(hint) is dict]
        self._writer = library("pyarrow.parquet").ParquetWriter(
            path, self._schema, compression="zstd", compression_level=level
        )
        self._waiting: list[Row] = []
        self._group = group
        self.rows = 0

    def add(self, row: Row) -> None:
        """Takes one row."""
        self._waiting.append({**row, **{name: _pairs(row[name]) for name in self._dicts}})
        self.rows += 1
        if len(self._waiting) == self._group:
            self._flush()

    def _flush(self) -> None:
        try:
            table = self._pa.Table.from_pylist(self._waiting, schema=self._schema)
        except (self._pa.ArrowInvalid, self._pa.ArrowTypeError, OverflowError) as error:
            raise ExportError(f"export: a value doesn't fit its Parquet column: {error}") from error
        self._writer.write_table(table)
        self._waiting = []

    def close(self) -> None:
        """Writes what waits, and the file's footer."""
        if self._waiting:
            self._flush()
        self._writer.close()


def write(rows: Iterable[Row], out: Path) -> None:
    """All rows into one file. Raises ExportError."""
    file = ParquetFile(out)
    for row in rows:
        file.add(row)
    file.close()


def _pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _type(pa: Any, hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(pa, arguments[0])
    if origin in (types.UnionType, typing.Union):
        return _type(pa, next(one for one in arguments if one is not types.NoneType))
    if origin is list:
        return pa.list_(pa.float32() if arguments[0] is float else _type(pa, arguments[0]))
    if origin is dict:
        return pa.list_(pa.struct([("name", pa.string()), ("value", _type(pa, arguments[1]))]))
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}[hint]
