"""`python -m recorder info|cat|verify FILE...`: what a log holds, its turns, and whether it is whole."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from recorder import fields
from recorder.errors import RecorderError
from recorder.framing import Op
from recorder.reader import Reader
from recorder.records import EpisodeBegin, EpisodeEnd, Turn, as_plain
from recorder.resim import Replay, resim
from recorder.scan import Damage
from recorder.summary import Summary, summarize

GOOD, BAD_LOG, BAD_USE = 0, 1, 2
SHOWN = 20
"""Differences that `verify --resim` prints without --json."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m recorder",
        description="Look into .b22 logs.",
        epilog="Exit code: 0 good, 1 the log is damaged or its replay differs, 2 bad use.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="info|cat|verify")
    info = commands.add_parser("info", help="what a log holds and what state it is in")
    cat = commands.add_parser("cat", help="its turns, one a line")
    cat.add_argument(
        "--fields", metavar="A,B", help="these fields of turn, begin and end, as in executed,terms.found,seed"
    )
    cat.add_argument(
        "--attempts", choices=("latest", "all"), default="latest",
        help="latest leaves out what a resumed run recorded again (default: %(default)s)",
    )
    verify = commands.add_parser("verify", help="whether every record is there, and whether a replay agrees")
    verify.add_argument(
        "--resim", action="store_true", help="run the executed actions again and compare after every turn"
    )
    for command in (info, cat, verify):
        command.add_argument("files", nargs="+", metavar="FILE")
        command.add_argument("--json", action="store_true", help="JSON: one object a line")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    worst = GOOD
    try:
        columns = [fields.resolve(name.strip()) for name in _names(options)]
        for file in options.files:
            try:
                with Reader(file) as reader:
                    worst = max(worst, _run(options, reader, columns))
            except RecorderError as error:
                _say(str(error))
                worst = BAD_USE
        sys.stdout.flush()
    except fields.FieldError as error:
        _say(f"--fields: {error}")
        return BAD_USE
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return worst
    except KeyboardInterrupt:
        return 130
    return worst


def _names(options: argparse.Namespace) -> Sequence[str]:
    if options.command != "cat":
        return ()
    if options.fields is not None:
        return str(options.fields).split(",")
    return fields.DEFAULT if options.json else ()


def _say(text: str) -> None:
    print(_line(text), file=sys.stderr)


def _run(options: argparse.Namespace, reader: Reader, columns: list[fields.Field]) -> int:
    if options.command == "cat":
        return _cat(options, reader, columns)
    summary = summarize(reader)
    code = GOOD if summary.good else BAD_LOG
    if options.command == "info":
        print(_json(summary.plain()) if options.json else _info_text(summary))
        return code
    replay = None
    if options.resim:
        import scenarios

        replay = resim(reader, scenarios.get, _engine_version())
        code = code if replay.agrees else BAD_LOG
    if options.json:
        replayed = {} if replay is None else {"resim": msgspec.to_builtins(replay)}
        print(_json({**summary.plain(), "good": code == GOOD, **replayed}))
    else:
        print(_verify_text(summary, replay))
    return code


# -------------------------------------------------------------------- info and verify


def _info_text(summary: Summary) -> str:
    header = summary.header
    lines = [f"{summary.file}: {_end_text(summary)}"]
    if header is not None:
        made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(max(header.created_unix, 0), 2**37)))
        program = " ".join(part for part in (header.program, header.engine_version) if part)
        lines.append(f"  written by  {_line(program) or 'unknown'}, {made}, {_line(header.platform)}")
    lines += [
        f"  size        {summary.bytes:,} bytes, {summary.damage.records:,} records, "
        f"{summary.sessions} sessions",
        f"  episodes    {summary.episodes:,} ({summary.ended:,} ended, {summary.successes:,} successes, "
        f"{summary.abandoned:,} abandoned)",
        f"  turns       {summary.turns:,} ({summary.fallbacks:,} fallbacks)",
    ]
    for title, counts in (
        ("scenarios", summary.scenarios), ("policies", summary.policies), ("runs", summary.runs)
    ):
        named = {name: count for name, count in counts.items() if name}
        if named:
            lines.append(f"  {title:<11} " + ", ".join(f"{_line(n)} ({c:,})" for n, c in named.items()))
    return "\n".join(lines)


def _end_text(summary: Summary) -> str:
    damage = summary.damage
    state = _damage_text(damage, summary.incomplete) if not summary.good else "good"
    if summary.clean:
        return f"{state}; closed"
    torn = f", {damage.torn_bytes:,} bytes of an unfinished record" if damage.torn_bytes else ""
    return f"{state}; unclean end{torn} (readable)"


def _damage_text(damage: Damage, incomplete: int) -> str:
    parts = []
    if damage.bad_regions:
        parts.append(
            f"{damage.bad_bytes:,} bytes in {damage.bad_regions} places, "
            f"first at offset {damage.first_bad_offset}"
        )
    for count, what in (
        (damage.missing, "records missing"),
        (damage.out_of_sequence, "records out of sequence"),
        (damage.undecodable, f"records undecodable (first: {damage.first_error})"),
        (damage.orphan_turns, "turns without their episode"),
        (incomplete, "episodes with lost turns"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    return "damaged: " + ", ".join(parts)


def _verify_text(summary: Summary, replay: Replay | None) -> str:
    lines = [
        f"{summary.file}: {_end_text(summary)}",
        f"  {summary.damage.records:,} records, {summary.episodes:,} episodes, {summary.turns:,} turns",
    ]
    if replay is not None:
        lines += [f"  note: {_line(note)}" for note in replay.notes]
        lines += [f"  {_line(str(difference))}" for difference in replay.differences[:SHOWN]]
        if len(replay.differences) > SHOWN:
            lines.append(f"  and {len(replay.differences) - SHOWN:,} more; --json gives them all")
        lines.append(
            f"  replay: {replay.episodes:,} episodes, {replay.compared:,} turns compared, "
            f"{len(replay.differences):,} episodes differ, {replay.unrecorded:,} turns without a digest, "
            f"{replay.unreachable:,} not reached"
        )
    return "\n".join(lines)


def _engine_version() -> str:
    try:
        return importlib.metadata.version("errand")
    except importlib.metadata.PackageNotFoundError:
        return ""


# -------------------------------------------------------------------- cat


def _cat(options: argparse.Namespace, reader: Reader, columns: list[fields.Field]) -> int:
    ends = _ends(reader) if any(column.source == "end" for column in columns) else {}
    hidden = 0
    for begin, turn in reader.steps("all"):
        if options.attempts == "latest" and begin is not None and reader.superseded(begin):
            hidden += 1
            continue
        if not columns:
            print(_turn_text(begin, turn))
            continue
        values = _values(columns, begin, turn, ends.get(turn.episode))
        if options.json:
            print(_json(values))
        else:
            texts = (one if isinstance(one, str) else _json(one) for one in values.values())
            print("\t".join(_line(text) for text in texts))
    if hidden:
        _say(f"{reader.path}: {hidden:,} turns of abandoned attempts left out; --attempts all prints them")
    if reader.damage.damaged:
        _say(f"{reader.path}: {_damage_text(reader.damage, 0)}; every turn that can be read was printed")
        return BAD_LOG
    return GOOD


def _ends(reader: Reader) -> dict[int, EpisodeEnd]:
    found = (record for _, record in reader.records({Op.EPISODE_END}))
    return {end.episode: end for end in found if isinstance(end, EpisodeEnd)}


def _values(
    columns: list[fields.Field], begin: EpisodeBegin | None, turn: Turn, end: EpisodeEnd | None
) -> dict[str, Any]:
    plain = {"turn": fields.plain_turn(turn)}
    if begin is not None:
        plain["begin"] = as_plain(begin)
    if end is not None:
        plain["end"] = as_plain(end)
    return {column.name: column.value(plain) for column in columns}


def _turn_text(begin: EpisodeBegin | None, turn: Turn) -> str:
    where = f"{begin.scenario} seed {begin.seed}" if begin is not None else "episode lost"
    action = turn.executed if turn.proposed == turn.executed else f"{turn.proposed} -> {turn.executed}"
    marks = "".join(f" ({name})" for name in ("fallback", "greedy") if getattr(turn, name))
    outcome = ": ".join(part for part in (turn.outcome_kind, turn.outcome_text) if part)
    return _line(f"{turn.episode} {turn.turn}  {where}  {action}{marks}  [{outcome}]  {turn.reward:+.3f}")


def _json(value: Any) -> str:
    """One line. NaN and infinity, which JSON can't hold, don't get past the reader."""
    return json.dumps(value, allow_nan=False)


def _line(text: str) -> str:
    """Text that stays on one line, whatever it holds."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


if __name__ == "__main__":
    sys.exit(main())
