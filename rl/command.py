"""What the commands of `rl` share: KEY=VALUE options, and the one line that bad input gets."""

from __future__ import annotations

import argparse
import contextlib
import errno
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

BAD_USE = 2  # the exit codes
INTERRUPTED, TERMINATED = 130, 143  # by Ctrl-C, by SIGTERM


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


@dataclass
class Ending:
    """The exit code of a command that a signal ended."""

    code: int = INTERRUPTED


@contextlib.contextmanager
def sigterm_ends() -> Iterator[Ending]:
    """In the block SIGTERM does what Ctrl-C does, which ends a command cleanly, and is what the exit code tells.

    Only the main thread hears signals; in another one the block changes nothing.
    """
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return

    def end(*_: object) -> None:
        ending.code = TERMINATED
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield ending
    finally:
        signal.signal(signal.SIGTERM, before)


class CommandError(ValueError):
    """Bad use of a command; one line."""


def options_from(pairs: Sequence[str], flag: str = "--option") -> dict[str, str]:
    """`--option KEY=VALUE` pairs as a dict. Raises CommandError for one without "="."""
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise CommandError(f"{flag} {pair!r}: write it as KEY=VALUE")
        options[key] = value
    return options


def in_words(error: OSError) -> str:
    """What the operating system refused, as a line: which path, why, and what to do."""
    if error.filename is None or error.strerror is None:
        return str(error)
    remedy = "make room there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the path, or give another"
    return f"{error.filename}: {error.strerror}; {remedy}"


def fail(program: str, error: Exception) -> int:
    """Says in one line what is wrong; returns the exit code of bad use."""
    text = " ".join((in_words(error) if isinstance(error, OSError) else str(error)).split())
    print(f"python -m {program}: {text}", file=sys.stderr)
    return BAD_USE
