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


class Clock:
    """Seconds, of the wall and of the processor, since it was made; `others` adds processor seconds of helpers."""

    def __init__(self, others: Callable[[], float] = lambda: 0.0) -> None:
        self._others = others
        self._wall, self._cpu = time.perf_counter(), time.process_time() + others()

    def read(self, part: str) -> dict[str, float]:
        """What has passed, as `PART_s` and `PART_cpu_s`."""
        wall = time.perf_counter() - self._wall
        return {f"{part}_s": wall, f"{part}_cpu_s": time.process_time() + self._others() - self._cpu}


def rest(loop: dict[str, float], rollout: dict[str, float]) -> dict[str, float]:
    """A round's parts: what of its loop wasn't rollout is update."""
    update = {f"update{end}": loop[f"loop{end}"] - rollout[f"rollout{end}"] for end in ("_s", "_cpu_s")}
    return {**loop, **rollout, **update}


def timed(step: Callable[[], object], seconds: float) -> float:
    """Steps a second of processor time, over about `seconds`: one thread that never waits."""
    done, began = 0, time.process_time()
    while (spent := time.process_time() - began) < seconds:
        for _ in range(50):
            step()
        done += 50
    return done / spent
