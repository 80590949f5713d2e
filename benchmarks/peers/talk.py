"""What the benchmark and the peers' scripts share: how they speak (one JSON object a line), and how steps are timed.

Imports nothing but the standard library: the script runs in the peer's own environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Talk:
    """The script's end. What libraries print goes to standard error from here on, so that only answers are answers."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))

    def say(self, **facts: Any) -> None:
        self._out.write(json.dumps(facts) + "\n")
        self._out.flush()

    def asked(self) -> bool:
        """Waits for the next question; False once there are no more."""
        return bool(sys.stdin.readline().strip())


def timed(step: Callable[[], object], seconds: float) -> float:
    """Steps a second of wall time, over about `seconds`."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        for _ in range(50):
            step()
        done += 50
    return done / spent
