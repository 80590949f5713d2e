"""A training farm as discrete events: workers that play, a driver that decodes, logs and learns, adapters under way.

Nothing is run here, and no clock is looked at: `simulate` takes what things cost and a farm's plan, and moves from one
event to the next. Same costs, plan and seed: same figures. Times are seconds, sizes bytes, a turn is one decision.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field

from benchmarks.events import Events, Meter, Station


@dataclass(frozen=True)
class Costs:
    """What was measured, of one process with one thread. `play_s` says what a turn costs when so many groups are played
    side by side; `turns` holds the lengths of groups as they were played."""

    play_s: dict[int, float]
    turns: tuple[int, ...]
    pack_s: float
    decode_s: float
    parcel_bytes: float
    log_s: float
    log_bytes: float
    credit_s: float
    learn_s: float  # all passes, and the reference
    passes: int
    step_s: float  # once an update: optimizer, hash, checkpoint
    adapter_bytes: int

    def playing(self, groups: int) -> float:
        """Seconds a turn where `groups` are played side by side: as with the next smaller number that was measured."""
        sizes = [size for size in self.play_s if size <= groups] or [min(self.play_s)]
        return self.play_s[max(sizes)]


@dataclass(frozen=True)
class Farm:
    """How a farm is laid out.

    `ahead` is `--max-lag`: groups of so many further updates are handed out while an update is learned from. With None
    every worker goes on by itself, with the newest adapter that it has, until the groups of one more update wait to be
    learned from. `decoders` 0: the learning thread decodes as well. `sharded`: every worker logs what it played; else
    the driver does. `ranks` share the gradient, and with `spread` the credit, too; they add up around a ring, or, with
    `halving`, by halves (recursive halving and doubling). `fanout` 0: the driver sends the adapter to every worker
    itself; else each worker passes it on to so many.
    """

    workers: int
    groups: int  # an update
    ahead: int | None = 0
    ranks: int = 1
    decoders: int = 0
    sharded: bool = False
    spread: bool = False
    halving: bool = False
    fanout: int = 0
    link: float = 125e6  # bytes a second, out of one machine
    latency: float = 0.5e-3
    jitter: float = 0.1  # spread of how fast workers are: sigma of a log-normal


@dataclass
class Found:
    """What came out, after the warm-up. `lags` counts groups by how many updates their version lay behind; shares are
    of the time that passed."""

    turns: int
    updates: int
    seconds: float
    lags: dict[int, int]
    worker_share: float
    driver_share: float
    decoder_share: float
    groups_played: int
    groups_learned: int
    groups_waiting: int

    @property
    def turns_per_s(self) -> float:
        return self.turns / self.seconds

    @property
    def update_s(self) -> float:
        return self.seconds / self.updates

    @property
    def lag(self) -> float:
        """The mean lag of what was learned from, in updates."""
        return sum(lag * count for lag, count in self.lags.items()) / sum(self.lags.values())

    def lag_at(self, share: float) -> int:
        """The lag that `share` of the groups don't exceed."""
        wanted, seen = share * sum(self.lags.values()), 0
        for lag in sorted(self.lags):
            seen += self.lags[lag]
            if seen >= wanted:
                return lag
        raise ValueError("nothing was learned from")


@dataclass
class Job:
    """Groups that one worker plays together, each a number of turns. `version` is that of the adapter that plays them,
    None for the newest that the worker has."""

    groups: list[int]
    version: int | None


@dataclass
class Run:
    """A farm at work."""

    costs: Costs
    farm: Farm
    seed: int = 0
    events: Events = field(default_factory=Events)
    version: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(f"farm/{self.seed}")
        self.speed = [math.exp(self.dice.gauss(0.0, self.farm.jitter)) for _ in range(self.farm.workers)]
        self.driver = Station(self.events, 1)
        self.decoders = Station(self.events, self.farm.decoders) if self.farm.decoders else self.driver
        self.published = [0.0]  # when each version was there
        self.jobs: deque[Job] = deque()  # handed out, and nobody is at them
        self.idle = deque(range(self.farm.workers))
        self.held: deque[int] = deque()  # workers that wait until less waits to be learned from
        self.arrived: deque[tuple[int, int]] = deque()  # (version, turns) of groups that were decoded
        self.handed = 0  # the last update that groups were handed out for
        self.learning = False
        self.played = self.learned = 0
        self.turns = 0
        self.playing = Meter(self.events)
        self.lags: dict[int, int] = {}
        self.under_way = 0  # groups between a worker's end and their place among what has arrived
        self.at_learner = 0

    def start(self) -> None:
        if self.farm.ahead is None:
            for _ in range(self.farm.workers):
                self.jobs.append(self._job(1, None))
            self._begin()
        else:
            self._hand_out()

    # -- workers ----------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """The groups of the updates up to `ahead` further ones, in shares for all workers, to be played by the present
        version."""
        assert self.farm.ahead is not None
        shares = min(self.farm.workers, self.farm.groups)
        for _ in range(self.handed, self.version + 1 + self.farm.ahead):
            for share in range(shares):
                size = self.farm.groups // shares + (share < self.farm.groups % shares)
                self.jobs.append(self._job(size, self.version))
        self.handed = self.version + 1 + self.farm.ahead
        self._begin()

    def _job(self, size: int, version: int | None) -> Job:
        return Job([self.dice.choice(self.costs.turns) for _ in range(size)], version)

    def _begin(self) -> None:
        while self.jobs and self.idle:
            self._play(self.idle.popleft(), self.jobs.popleft())

    def _play(self, worker: int, job: Job) -> None:
        delay = self.delay(worker)
        if job.version is None:
            wait, version = 0.0, self.version
            while version and self.published[version] + delay > self.events.now:
                version -= 1
        else:
            version = job.version
            wait = max(0.0, self.published[version] + delay - self.events.now)
        turns = sum(job.groups)
        costs = self.costs
        each = costs.playing(len(job.groups)) + costs.pack_s + (costs.log_s if self.farm.sharded else 0.0)
        seconds = turns * each * self.speed[worker]

        def begin() -> None:
            self.playing.change(+1)
            self.events.after(seconds, lambda: self._sent(worker, job, version))

        self.events.after(wait, begin)

    def _sent(self, worker: int, job: Job, version: int) -> None:
        self.playing.change(-1)
        self.played += len(job.groups)
        self.under_way += len(job.groups)
        turns = sum(job.groups)
        travel = self.farm.latency + turns * self.costs.parcel_bytes / self.farm.link
        decode = turns * self.costs.decode_s
        self.events.after(travel, lambda: self.decoders.ask(decode, lambda: self._decoded(worker, job, version)))
        if self.farm.ahead is not None:
            self.idle.append(worker)
            self._begin()

    def delay(self, worker: int) -> float:
        """Seconds from when a version is there until `worker` has it."""
        one = self.costs.adapter_bytes / self.farm.link
        if not self.farm.fanout:
            return self.farm.latency + (worker + 1) * one
        level, first = 1, self.farm.fanout
        while worker >= first:
            level += 1
            first += self.farm.fanout**level
        return level * (self.farm.latency + self.farm.fanout * one)

    # -- driver -----------------------------------------------------------------------------------------------------

    def _decoded(self, worker: int, job: Job, version: int) -> None:
        self.under_way -= len(job.groups)
        self.arrived += [(version, turns) for turns in job.groups]
        if self.farm.ahead is None:  # only now may the worker go on: what waits at the driver is bounded
            self.held.append(worker)
        self._learn()
        self._go_on()

    def _go_on(self) -> None:
        """Lets workers that play by themselves go on, as long as not too much waits."""
        while self.held and len(self.arrived) <= self.farm.groups:
            self.jobs.append(self._job(1, None))
            self.idle.append(self.held.popleft())
            self._begin()

    def _learn(self) -> None:
        if self.learning or len(self.arrived) < self.farm.groups:
            return
        self.learning = True
        self.at_learner = self.farm.groups
        batch = [self.arrived.popleft() for _ in range(self.farm.groups)]
        turns = sum(group for _, group in batch)
        self.driver.ask(self.learning_s(turns), lambda: self._learned(batch, turns), urgent=True)

    def learning_s(self, turns: int) -> float:
        """Seconds that the driver is at an update of so many turns."""
        costs, farm = self.costs, self.farm
        alone = turns * (0.0 if farm.sharded else costs.log_s) + costs.step_s
        credit = turns * costs.credit_s / (farm.ranks if farm.spread else 1)
        rounds = 2 * (math.ceil(math.log2(farm.ranks)) if farm.halving else farm.ranks - 1)
        sent = 2 * costs.adapter_bytes * (farm.ranks - 1) / farm.ranks
        adding = costs.passes * (rounds * farm.latency + sent / farm.link)
        return alone + credit + turns * costs.learn_s / farm.ranks + adding

    def _learned(self, batch: list[tuple[int, int]], turns: int) -> None:
        for version, _ in batch:
            lag = self.version - version
            self.lags[lag] = self.lags.get(lag, 0) + 1
        self.version += 1
        self.published.append(self.events.now)
        self.learned += len(batch)
        self.turns += turns
        self.learning, self.at_learner = False, 0
        if self.farm.ahead is not None:
            self._hand_out()
        self._learn()
        self._go_on()


def simulate(costs: Costs, farm: Farm, updates: int = 60, seed: int = 0) -> Found:
    """`updates` updates, of which the first third is left out as warm-up."""
    run = Run(costs, farm, seed)
    run.start()
    warm = updates // 3
    run.events.run(lambda: run.version >= warm)
    began, turns = run.events.now, run.turns
    meters = (run.playing, run.driver.meter, run.decoders.meter)
    before = [meter.seconds() for meter in meters]
    run.lags = {}
    run.events.run(lambda: run.version >= updates)
    seconds = run.events.now - began
    playing, driving, decoding = (meter.seconds() - was for meter, was in zip(meters, before, strict=True))
    return Found(
        turns=run.turns - turns, updates=updates - warm, seconds=seconds, lags=dict(sorted(run.lags.items())),
        worker_share=playing / seconds / farm.workers, driver_share=driving / seconds,
        decoder_share=decoding / seconds / run.decoders.servers,
        groups_played=run.played, groups_learned=run.learned,
        groups_waiting=run.under_way + len(run.arrived) + run.at_learner,
    )  # fmt: skip
