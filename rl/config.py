"""What decides a run: the command line's values as one record, written to run.toml and read back by --resume."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from npc.catalog import NAMES, SMOLLM2
from scenarios.contract import nearest

CREDITS = ("episode", "turn", "state", "branch", "stage")  # see rl.credit
LOSS_NAMES = ("grpo", "bnpo", "dr_grpo", "dapo", "gspo", "cispo")  # see rl.losses
RUNTIMES = ("local", "process", "ray")  # see rl.runtime
CURRICULA = ("uniform", "seeds", "ladder")  # see rl.seeds

ON_RAY: dict[str, Any] = {"actors": 2, "ray_address": "", "max_lag": 0, "actor_timeout": 600.0}
"""Settings of `--runtime ray` alone, with their defaults."""

# what suits a model that the defaults weren't found for: a larger one wants a smaller rate, and its episodes cost more
MODEL_SETTINGS: dict[str, dict[str, int | float]] = {
    SMOLLM2: {"updates": 16, "rate": 4e-4, "validation_episodes": 100, "test_episodes": 200}
}
OTHER_MODELS: dict[str, int | float] = {"rate": 4e-4}  # of folders and the hub: real language models, likely


def suited_to(model: str) -> dict[str, int | float]:
    """The settings in which a model's training differs from that of the embedded one."""
    return MODEL_SETTINGS.get(model, {} if model in NAMES else OTHER_MODELS)


class ConfigError(ValueError):
    """A value that can't be used; one line that names the field."""


class TrainConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training run. `episodes` = updates * groups * group_size."""

    scenario: str
    model: str
    adapter: str
    options: dict[str, str] = {}
    seed: int = 0
    updates: int = 8
    groups: int = 16
    group_size: int = 4
    passes: int = 2
    rate: float = 1e-3
    warmup: int = 1
    max_norm: float = 1.0
    loss: str = "grpo"
    epsilon: float = 0.2
    epsilon_high: float = 0.2
    delta: float = 0.0  # 0: no bound
    kl_weight: float = 0.02
    entropy_weight: float = 0.0
    mask_truncated: bool = False
    resamples: int = 0
    curriculum: str = "uniform"
    curriculum_share: float = 0.5
    offline: list[str] = []
    replay_ratio: float = 1.0
    ess_floor: float = 0.2
    imitation: float = 0.0  # 0: turns that were not sampled are left out
    kl_limit: float = 3.0
    entropy_floor: float = 0.01
    repeat_limit: float = 0.6
    rollbacks: int = 4
    no_eval: bool = False  # leaves the test seeds alone
    tau: float = 1.0
    credit: str = "stage"
    trace: float = 0.5
    rank: int = 16
    scale: float = 2.0
    rows: int = 128
    workers: int = 2
    runtime: str = "process"
    actors: int = ON_RAY["actors"]
    ray_address: str = ON_RAY["ray_address"]  # empty: start a Ray here
    max_lag: int = ON_RAY["max_lag"]
    actor_timeout: float = ON_RAY["actor_timeout"]
    validate_every: int = 2
    validation_episodes: int = 200
    test_episodes: int = 256
    run_id: str = ""

    def check(self) -> None:
        """Raises ConfigError for the first value that makes no sense."""
        for name, low in (("updates", 1), ("groups", 1), ("group_size", 2), ("passes", 1), ("rank", 1), ("workers", 1),
                          ("rows", 1), ("validate_every", 1), ("validation_episodes", 1), ("test_episodes", 1),
                          ("warmup", 0), ("resamples", 0), ("rollbacks", 0), ("actors", 1),
                          ("max_lag", 0)):  # fmt: skip
            if getattr(self, name) < low:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: {low} or more")
        for name in ("rate", "epsilon", "epsilon_high", "max_norm", "kl_limit", "repeat_limit", "tau", "scale",
                     "actor_timeout"):  # fmt: skip
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: a number above 0")
        for name in ("kl_weight", "entropy_weight", "delta", "imitation", "entropy_floor"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: 0 or more")
        for name in ("trace", "curriculum_share", "replay_ratio", "ess_floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: from 0 to 1")
        if self.epsilon >= 1:
            raise ConfigError(f"--epsilon {self.epsilon}: below 1, since a ratio can't fall below 0")
        idle: dict[str, tuple[Any, bool, str]] = {
            "replay_ratio": (1.0, not self.offline, "--offline"), "ess_floor": (0.2, not self.offline, "--offline"),
            "curriculum_share": (0.5, self.curriculum == "uniform", "--curriculum seeds or ladder"),
        }  # fmt: skip
        idle |= {name: (default, self.runtime != "ray", "--runtime ray") for name, default in ON_RAY.items()}
        if self.workers > 1:
            idle["workers"] = (2, self.runtime == "local", "--runtime process or ray")
        for name, (default, unused, needs) in idle.items():
            if unused and getattr(self, name) != default:
                raise ConfigError(f"{_option(name)} {getattr(self, name)}: does nothing without {needs}")
        if self.offline and self.replay_ratio == 0:
            raise ConfigError("--replay-ratio 0.0: above 0, or leave out --offline")
        if 0 < self.delta < 1 + self.epsilon_high:
            raise ConfigError(f"--delta {self.delta}: above 1 + --epsilon-high, or 0 for no bound")
        for name, known in (("credit", CREDITS), ("loss", LOSS_NAMES), ("curriculum", CURRICULA),
                            ("runtime", RUNTIMES)):  # fmt: skip
            if getattr(self, name) not in known:
                raise ConfigError(f"{_option(name)} {getattr(self, name)!r}: choose one of {', '.join(known)}")
        if self.credit == "branch" and self.group_size < 3:
            raise ConfigError(f"--group-size {self.group_size}: --credit branch needs 3 or more, roots and branches")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def from_run(values: dict[str, Any], where: str) -> TrainConfig:
    """The config that run.toml holds. Raises ConfigError for an unknown or ill-typed field."""
    _check_names(values, where)
    try:
        config = msgspec.convert(values, TrainConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error
    config.check()
    return config


KEPT = ("scenario", "model", "adapter", "options", "seed", "tau", "rank", "scale", "validation_episodes",
        "test_episodes", "run_id")  # fmt: skip
"""What no branch may change: what is learned, from where, and what the run's figures are compared by."""


def with_settings(values: dict[str, Any], changes: dict[str, str], where: str) -> dict[str, Any]:
    """`changes`, as typed on a command line, to the settings `values` of a run, each as what it is (a number, a word).

    Raises ConfigError for a name that is unknown or may not change, and for a value that makes no sense.
    """
    _check_names(changes, "--set")
    kept = [name for name in changes if name in KEPT]
    if kept:
        raise ConfigError(f"--set {kept[0]}: stays the same for a whole run; start a new run for another one")
    try:
        typed = msgspec.convert(values | changes, TrainConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"--set on {where}: {error}") from error
    typed.check()
    return {name: getattr(typed, name) for name in changes}


def _check_names(values: Iterable[str], where: str) -> None:
    known = TrainConfig.__struct_fields__
    for name in values:
        if name not in known:
            raise ConfigError(f"{where}: no setting {name!r}; {nearest(name, known)}")
