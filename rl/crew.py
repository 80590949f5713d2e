"""Players that may die: work is handed out to them, and handed out again where one is lost or slow.

What work gives depends on the work alone, so that it doesn't matter who does it and how often: who is first counts. How
players are started and reached is a `Backend`'s: see `rl.ray_backend`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from rl.pool import WorkerError

TRIES = 3  # how often work is handed out, and a player is started without coming up, before it is given up
START_S = 180.0  # how long the first players may take to come up
SLOW, SLOW_S = 3.0, 10.0  # times the usual, and seconds at least, from which on another does the work as well
USUAL = 32  # of how many pieces of work the usual time is the median


class PlayersError(ValueError):
    """No player can be had; one line that says why and what to do."""


class PlayerLost(Exception):
    """Raised by a backend: the player is gone, and its work with it. The text says how."""


class Backend(Protocol):
    """Starts players and carries work to them. Handles of players and of answers (hashable) are its own."""

    def start(self) -> Any:
        """Begins to start a player, and returns at once."""

    def introduction(self, player: Any) -> Any:
        """Asks a player who it is, which it answers once it is up."""

    def send(self, player: Any, work: Any) -> Any:
        """Hands work to a player, behind what it has."""

    def wait(self, answers: Sequence[Any], seconds: float) -> list[Any]:
        """Those of `answers` that are there (or never will be); none after `seconds`."""
        ...

    def answer(self, answer: Any) -> Any:
        """What was answered. Raises PlayerLost, or WorkerError where the work itself raised an error."""

    def put(self, adapter: Mapping[str, Any]) -> Any:
        """Hands an adapter to everybody, once; what is returned stands for it in work."""

    def stop(self, player: Any) -> None:
        """Ends a player, whatever it does."""

    def close(self) -> None:
        """Ends all."""


@dataclass
class Task:
    """Work that was handed in, and how often a player was lost while it did it. `again`: a second one does it too."""

    number: int
    work: Any
    tries: int = 0
    again: bool = False
    done: bool = False


@dataclass(frozen=True)
class Done:
    """Work that ended. `failed` says why it is given up after so many tries; then there is no answer."""

    number: int
    answer: Any
    failed: str = ""


@dataclass
class Member:
    """A place in the crew, and the player in it. `mail` is what it has been given and not answered, in order (None: to
    introduce itself); `since` is when it could begin with the first of it. `facts` is how it introduced itself."""

    place: int
    player: Any
    mail: deque[tuple[Task | None, Any]]
    since: float
    ready: bool = False
    facts: Any = None
    where: str = ""
    failed_starts: int = 0


@dataclass
class Crew:
    """`size` players, each with up to `depth` pieces of work at a time. `welcome` looks at an introduction and says
    where the player is (" on NODE"), or raises PlayersError for one that won't do. `patience` is how many seconds a
    piece of work may take; `weight` says how much there is to do in one, compared with others (0: there is no
    comparing it, and it is never slow)."""

    backend: Backend
    size: int
    patience: float
    say: Callable[[str], None]
    welcome: Callable[[Any], str] = lambda facts: ""
    weight: Callable[[Any], float] = lambda work: 1.0
    depth: int = 1
    clock: Callable[[], float] = time.monotonic
    start_s: float = START_S
    restarts: int = 0
    lost: list[Any] = field(default_factory=list)  # work that a player was lost over
    _members: list[Member] = field(default_factory=list)
    _queue: deque[Task] = field(default_factory=deque)
    _done: deque[Done] = field(default_factory=deque)
    _next: int = 0
    _pace: deque[float] = field(default_factory=lambda: deque(maxlen=USUAL))  # seconds for a weight of one
    _why: str = ""  # how the last player was lost

    def gather(self) -> None:
        """Starts everybody, and waits for them; goes on without those who are late. Raises PlayersError where nobody
        comes up."""
        self._members = [self._started(place) for place in range(self.size)]
        deadline = self.clock() + self.start_s
        while not all(member.ready for member in self._members):
            left = deadline - self.clock()
            if left <= 0:
                break
            self._step(left)
        late = [member.place for member in self._members if not member.ready]
        if len(late) == len(self._members):
            raise PlayersError(f"no actor came up within {self.start_s:g} s: is there a free CPU for one?")
        if late:
            self.say(f"{len(late)} of {self.size} actors are not up after {self.start_s:g} s; going on without them "
                     "until they are")  # fmt: skip

    def submit(self, work: Any) -> int:
        """Hands in a piece of work; the number that it will come back under."""
        self._next += 1
        self._queue.append(Task(self._next, work))
        self._dispatch()
        return self._next

    def next(self) -> Done:
        """Waits for a piece of work to end, in whichever order they do. Raises PlayersError where no player is left,
        and WorkerError where work raised an error."""
        while not self._done:
            self._dispatch()
            self._step(None)
        return self._done.popleft()

    def close(self) -> None:
        for member in self._members:
            self.backend.stop(member.player)
        self._members = []

    def _started(self, place: int, failed_starts: int = 0) -> Member:
        player = self.backend.start()
        mail: deque[tuple[Task | None, Any]] = deque([(None, self.backend.introduction(player))])
        return Member(place, player, mail, self.clock(), failed_starts=failed_starts)

    def _dispatch(self) -> None:
        """Hands out what waits, to whoever has least."""
        while self._queue:
            free = [member for member in self._members if member.ready and len(member.mail) < self.depth]
            if not free:
                return
            member = min(free, key=lambda one: len(one.mail))
            task = self._queue.popleft()
            if not member.mail:
                member.since = self.clock()
            member.mail.append((task, self.backend.send(member.player, task.work)))

    def _step(self, at_most: float | None) -> None:
        """Waits until a player answers, or has taken too long; `at_most` so many seconds."""
        heads = {member.mail[0][1]: member for member in self._members if member.mail}
        if not heads:
            raise WorkerError("there is no work to wait for")
        left = min(member.since + self._limit(member) for member in heads.values()) - self.clock()
        left = min([left, *(due - self.clock() for _, due in self._slow())])
        there = self.backend.wait(list(heads), max(0.0, left if at_most is None else min(left, at_most)))
        for answer in there:
            self._take(heads.pop(answer))
        for member in heads.values():
            if self.clock() - member.since >= self._limit(member):
                self._lose(member, f"gave no answer for {self._limit(member):g} s")
        for member, due in self._slow():
            if self.clock() >= due:
                self._second(member)

    def _slow(self) -> list[tuple[Member, float]]:
        """Who will count as slow, and when, while somebody else has nothing to do."""
        if self._queue or not self._pace or all(member.mail or not member.ready for member in self._members):
            return []
        found = []
        for member in self._members:
            task = member.mail[0][0] if member.mail else None
            if task is not None and not task.done and not task.again and self.weight(task.work):
                allowed = max(SLOW_S, SLOW * median(self._pace) * self.weight(task.work))
                found.append((member, member.since + allowed))
        return found

    def _second(self, slow: Member) -> None:
        """Hands what a slow player is at to one that has nothing to do, too."""
        task = slow.mail[0][0]
        free = [member for member in self._members if member.ready and not member.mail]
        if task is None or not free:
            return
        task.again = True
        self.lost.append(task.work)
        free[0].since = self.clock()
        free[0].mail.append((task, self.backend.send(free[0].player, task.work)))
        self.say(f"actor {slow.place}{slow.where} is slow: actor {free[0].place} plays what it is at as well")

    def _limit(self, member: Member) -> float:
        """How long a player may take for what it is at; coming up has a time of its own."""
        return self.patience if member.ready else max(self.patience, self.start_s)

    def _take(self, member: Member) -> None:
        task, answer = member.mail[0]
        try:
            value = self.backend.answer(answer)
        except PlayerLost as error:
            self._lose(member, str(error))
            return
        member.mail.popleft()
        took, member.since = self.clock() - member.since, self.clock()
        if task is None:
            member.where = self.welcome(value)
            member.ready, member.facts, member.failed_starts = True, value, 0
            return
        if self.weight(task.work):
            self._pace.append(took / self.weight(task.work))
        if not task.done:
            task.done = True
            self._done.append(Done(task.number, value))

    def _lose(self, member: Member, why: str) -> None:
        """Starts another player in the place of one that is lost; its work is handed out again."""
        self.backend.stop(member.player)
        self._why = why
        others = [task for one in self._members if one is not member for task, _ in one.mail]
        tasks = [task for task, _ in member.mail if task is not None and not task.done]
        for task in [task for task in tasks if task in others]:  # the other one goes on with it
            task.again = False
            tasks.remove(task)
        failed_starts = member.failed_starts + (not member.ready)
        if member.ready and tasks and tasks[0] is member.mail[0][0]:
            self.lost.append(tasks[0].work)
            tasks[0].tries += 1
            if tasks[0].tries == TRIES:
                told = f"given up after {TRIES} actors were lost over it; the last one {why}"
                tasks[0].done = True
                self._done.append(Done(tasks.pop(0).number, None, told))
        self._queue.extendleft(reversed(tasks))
        at = self._members.index(member)
        if failed_starts == TRIES:
            del self._members[at]
            self.say(f"actor {member.place} is given up: it did not come up {TRIES} times; {why}")
            if not self._members:
                raise PlayersError(f"no actor can be started: {self._why}")
            return
        self._members[at] = self._started(member.place, failed_starts)
        if member.ready:
            self.restarts += 1
            self.say(f"actor {member.place}{member.where} {why}: another is started in its place, and what it was at "
                     "is played again")  # fmt: skip
