"""What test_ranks lets every rank do: `python -m tests.rl.ranked FOLDER`, once a rank, with the ring's environment.

FOLDER holds batch.msgpack, groups of recorded episodes; each rank leaves rank0.json, rank1.json … and its gradient.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rl.credit import Credited
from rl.learner import Gradient, Settings, give, gradient, set_up
from rl.losses import Limits
from rl.objective import Goal
from rl.optim import Optimizer
from rl.policies import find_adapter
from rl.pool import LocalPool
from rl.ranks import RankPool, Ranks
from rl.ring import join, leave
from rl.rollout import Episode

SETTINGS = Settings("fetch_item", "nano", 16, 2.0, 1.0, Goal("grpo", Limits(0.2, 0.2, np.inf, 20), kl_weight=0.05))


def workers_own() -> LocalPool:
    return LocalPool(set_up, (SETTINGS, find_adapter("nano", "fetch_item")))


def reference(worker: Any, _: None) -> dict[str, np.ndarray]:
    return worker.reference


def moved_on(adapter: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Another policy than the one that played, so that ratio, clip and KL do work."""
    dice = np.random.default_rng(1)
    return {name: value + 0.01 * dice.standard_normal(value.shape, dtype=np.float32) for name, value in adapter.items()}


def credit_of(episodes: list[Episode]) -> list[Credited | None]:
    """Every second turn good and every other one bad; the group on seed 1 is dead."""
    return [None if episode.plan.seed == 1 else Credited(1.0 - 2.0 * (np.arange(len(episode.turns)) % 2))
            for episode in episodes]  # fmt: skip


def update(pool: RankPool, groups: list[list[Episode]], adapter: dict[str, np.ndarray]) -> Gradient:
    """The gradient of whole groups, given to one worker after the other."""
    shares: list[list[Episode]] = [[] for _ in range(pool.workers)]
    for number, group in enumerate(groups):
        shares[number % pool.workers] += group
    pool.map(give, shares)
    return pool.total(gradient, [{"adapter": adapter, "credit": credit_of(share)} for share in shares], adapter)


def whoami(state: Any, payload: int) -> list[int]:
    return [state["rank"], payload]


def fails_on_three(state: Any, payload: int) -> int:
    if payload == 3:
        raise ValueError("three is too much")
    return payload


def said_by(what: Any) -> str:
    """What the error says that calling `what` raises; empty without one."""
    try:
        what()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(folder: Path, ranks: Ranks) -> None:
    found: dict[str, Any] = {"rank": ranks.rank, "size": ranks.size, "here": ranks.here}
    found["gathered"] = [len(one) for one in ranks.gather(b"x" * (3 + 70_000 * ranks.rank))]
    found["first"] = ranks.first(lambda: {"made by": ranks.rank}, dict[str, int])
    plain = RankPool(ranks, LocalPool(lambda: {"rank": ranks.rank}))
    found["map"] = plain.map(whoami, list(range(5)))
    found["failed"] = said_by(lambda: plain.map(fails_on_three, [1, 2, 3, 4]))
    found["first failed"] = said_by(lambda: ranks.first(lambda: 1 // 0, int))
    found["after"] = plain.map(whoami, [7])
    found["agree"] = said_by(lambda: ranks.agree("thing", {"x": np.ones(3)}))
    nearly = np.nextafter(np.ones(3, np.float32), np.float32(1 + ranks.rank))
    found["differ"] = said_by(lambda: ranks.agree("thing", {"x": nearly}))

    groups = msgspec.msgpack.decode((folder / "batch.msgpack").read_bytes(), type=list[list[Episode]])
    own = workers_own()
    adapter = moved_on(own.map(reference, [None])[0])
    total = update(RankPool(ranks, own), groups, adapter)
    mean = {name: value / np.float32(total.counts.episodes) for name, value in total.arrays.items()}
    moved, _ = Optimizer().step(adapter, mean, 1e-3)
    found["agree on the step"] = said_by(lambda: ranks.agree("adapter", moved))
    found |= {"counts": [total.counts.episodes, total.counts.rows], "loss": total.loss, "kl": total.kl,
              "entropy": total.entropy, "tokens": total.tokens}  # fmt: skip
    np.savez(folder / f"gradient{ranks.rank}.npz", **total.arrays)
    np.savez(folder / f"moved{ranks.rank}.npz", **moved)

    if ranks.rank == 0:  # the others leave
        found["left"] = said_by(lambda: [ranks.gather(b"") for _ in range(3)])
    (folder / f"rank{ranks.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    ranks = join()
    main(Path(sys.argv[1]), ranks)
    leave(0)
