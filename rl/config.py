"""What decides a run: the command line's values as one record, written to run.toml and read back by --resume."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from scenarios.contract import nearest

CREDITS = ("episode", "turn", "stage")  # see rl.credit


class ConfigError(ValueError):
    """A value that can't be used; one line that names the field."""


class TrainConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training run. `episodes` = updates * groups * group_size."""

    scenario: str
    model: str
    adapter: str
    options: dict[str, str] = {}
    seed: int = 0
    updates: int = 16
    groups: int = 16
    group_size: int = 4
    passes: int = 2
    rate: float = 1e-3
    warmup: int = 1
    clip: float = 0.2
    kl_weight: float = 0.02
    tau: float = 1.0
    credit: str = "stage"
    trace: float = 0.5
    rank: int = 16
    scale: float = 2.0
    workers: int = 2
    validate_every: int = 2
    validation_episodes: int = 200
    test_episodes: int = 256
    run_id: str = ""

    def check(self) -> None:
        """Raises ConfigError for the first value that makes no sense."""
        for name, low in (("updates", 1), ("groups", 1), ("group_size", 2), ("passes", 1), ("rank", 1), ("workers", 1),
                          ("validate_every", 1), ("validation_episodes", 1), ("test_episodes", 1)):  # fmt: skip
            if getattr(self, name) < low:
                raise ConfigError(f"--{name.replace('_', '-')} {getattr(self, name)}: {low} or more")
        for name in ("rate", "clip", "tau", "scale"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"--{name.replace('_', '-')} {getattr(self, name)}: a number above 0")
        if not 0 <= self.trace <= 1:
            raise ConfigError(f"--trace {self.trace}: from 0 to 1")
        if not 0 <= self.kl_weight < math.inf:
            raise ConfigError(f"--kl-weight {self.kl_weight}: 0 or more")
        if self.credit not in CREDITS:
            raise ConfigError(f"--credit {self.credit!r}: choose one of {', '.join(CREDITS)}")


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
