"""`python -m recorder` called in this process."""

from __future__ import annotations

import pytest

from recorder.__main__ import main


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, what was printed, what was said on stderr."""
    try:
        code = main([str(one) for one in arguments])
    except SystemExit as stopped:  # argparse
        code = int(stopped.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err
