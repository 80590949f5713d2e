"""What the commands of `rl` share: KEY=VALUE options, and the one line that bad input gets."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

BAD_USE = 2  # the exit codes
FULL = (errno.ENOSPC, errno.EDQUOT)
UNPRINTED = (errno.EPIPE, *FULL)  # why standard output takes no more
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
    remedy = "make room there" if error.errno in FULL else "check the path, or give another"
    return f"{error.filename}: {error.strerror}; {remedy}"


def ended(program: str, main: Callable[[], int]) -> int:
    """Runs a command to its end, all that it printed included; its exit code."""
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        return fail(program, error)
    return code


def fail(program: str, error: Exception) -> int:
    """Says in one line what is wrong; returns the exit code of bad use.

    A reader of the output that has seen enough, and closed its end, is nothing wrong.
    """
    if isinstance(error, OSError) and error.filename is None and error.errno in UNPRINTED:
        with contextlib.suppress(io.UnsupportedOperation):  # a stdout that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest goes, at exit the buffer's
        if isinstance(error, BrokenPipeError):
            return 0
        error = OSError(error.errno, error.strerror, "output")
    text = " ".join((in_words(error) if isinstance(error, OSError) else str(error)).split())
    print(f"python -m {program}: {text}", file=sys.stderr)
    return BAD_USE
