"""`python -m recorder COMMAND FILE...`: looks into .b22 logs, checks, mends, joins and exports them."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from recorder.commands import cat, diff, export, info, ls, merge, migrate, recover, show, stats, tail, verify
from recorder.commands.common import BAD_USE, GOOD, INTERRUPTED, Parser, failed, say
from recorder.errors import RecorderError

NAMES = "info|ls|show|cat|tail|verify|recover|diff|stats|merge|export|migrate"


def _stages() -> verify.Stages:
    import scenarios

    return scenarios.get


def parser() -> Parser:
    """The whole command line."""
    root = Parser(
        prog="python -m recorder",
        description="Look into .b22 logs, check, mend, join and export them.",
        epilog="Every command has --help. Exit code: 0 good (an unclean end without damage is good), 1 the file says "
        "no (damage, divergence), 2 bad use, 3 done with loss.",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar=NAMES)
    for module in (info, ls, show, cat, tail):
        module.add(commands)
    verify.add(commands, _stages)
    for module in (recover, diff, stats, merge, export, migrate):
        module.add(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = int(options.carry_out(options))
        sys.stdout.flush()
    except RecorderError as error:
        return failed(error)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _discard_output()
        return GOOD
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        say(f"python -m recorder {options.command}: {error.filename or 'output'}: {error.strerror}")
        _discard_output()
        return BAD_USE
    return code


def _discard_output() -> None:
    """What is still to be printed goes nowhere, so that the interpreter's own flush at exit doesn't fail."""
    with contextlib.suppress(io.UnsupportedOperation):  # a stdout that is no file is not flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
