"""A log read while it is being written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from recorder.framing import Op
from recorder.scan import Damage, Frame, Source

POLL = 0.2
"""Seconds between two looks at a file that has nothing new."""


def follow(
    source: Source, damage: Damage, poll: float = POLL, stop: Callable[[], bool] | None = None
) -> Iterator[Frame]:
    """All intact records from the beginning of the file, and then those that come, in order.

    What stands at the end and is no whole record (yet) is waited for. Without `stop`, it is over when the log is
    closed: its last record is a FOOTER. With it, when `stop()` says so, which is asked whenever nothing new is there.
    """
    offset = expected = 0
    op: int | None = None
    while True:
        for frame in source.frames(damage, offset, expected=expected, final=False):
            offset, expected, op = frame.end, frame.sequence + 1, frame.op
            yield frame
        if source.grow():
            continue
        if (stop is None and op == Op.FOOTER and offset == source.size) or (stop is not None and stop()):
            return
        time.sleep(poll)
