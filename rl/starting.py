"""The runtime that a config asks for."""

from __future__ import annotations

from npc.models import Brain
from rl.actors import Actors
from rl.config import TrainConfig
from rl.keeping import Say
from rl.learner import Settings, remembered, set_up
from rl.players import Start
from rl.pool import LocalPool, Pool
from rl.ranks import RankPool, Ranks
from rl.ray_backend import RayBackend
from rl.runtime import Runtime, Workers
from scenarios.contract import Scenario


def start_runtime(config: TrainConfig, settings: Settings, brain: Brain, scenario: Scenario, say: Say,
                  ranks: Ranks) -> Runtime:  # fmt: skip
    """Starts who plays and who learns. `brain` has the adapter that the run starts from. Raises PlayersError."""
    args = (settings, config.adapter)
    # ranks side by side want a process even for one worker: it takes one thread of the processor
    alone = config.runtime == "local" or (config.workers == 1 and ranks.here == 1)
    own = LocalPool(set_up, args) if alone else Pool(config.workers, set_up, args, remembered, say)
    pool = RankPool(ranks, own)
    if config.runtime != "ray":
        return Workers(pool)
    try:
        lora = brain.adapter or {}
        start = Start(config.scenario, config.model, lora["rank"], lora["scale"], config.tau, settings.branched)
        backend = RayBackend(start, config.actors, config.ray_address)
        try:
            return Actors(pool, backend, scenario, brain, config.actors, config.actor_timeout, config.max_lag, say)
        except BaseException:
            backend.close()
            raise
    except BaseException:
        pool.close()
        raise
