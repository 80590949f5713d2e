"""Discrete events: what happens when, and who is at work meanwhile. No clock is looked at; times are seconds."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial


class Events:
    """What will happen, in order of time; what was planned first comes first at the same time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + seconds, self._number, what))

    def run(self, done: Callable[[], bool]) -> None:
        """Until `done`, or until nothing is planned any more."""
        while self._heap and not done():
            self.now, _, what = heapq.heappop(self._heap)
            what()


class Meter:
    """How many are at work, added up over time."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.working = 0
        self._busy, self._since = 0.0, 0.0

    def change(self, by: int) -> None:
        self._busy, self._since = self.seconds(), self.events.now
        self.working += by

    def seconds(self) -> float:
        """What was worked until now, by all together."""
        return self._busy + (self.events.now - self._since) * self.working


class Station:
    """`servers` that each do one thing at a time; what is urgent goes before what came first."""

    def __init__(self, events: Events, servers: int) -> None:
        self.events = events
        self.servers = servers
        self.meter = Meter(events)
        self._urgent: deque[tuple[float, Callable[[], None]]] = deque()
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()

    def ask(self, seconds: float, then: Callable[[], None], urgent: bool = False) -> None:
        """Has something done that takes `seconds`, and calls `then`."""
        (self._urgent if urgent else self._queue).append((seconds, then))
        self._begin()

    def _begin(self) -> None:
        while self.meter.working < self.servers and (self._urgent or self._queue):
            seconds, then = (self._urgent or self._queue).popleft()
            self.meter.change(+1)
            self.events.after(seconds, partial(self._end, then))

    def _end(self, then: Callable[[], None]) -> None:
        self.meter.change(-1)
        then()
        self._begin()
