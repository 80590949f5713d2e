"""How to do a run again: its commands, and the machine that its figures come from."""

from __future__ import annotations

import os
import platform
import shlex
from importlib import metadata

import scenarios
from rl.config import TrainConfig
from rl.run_folder import Run


def commands(run: Run) -> list[tuple[str, str]]:
    """(what it does, command) for everything that a run's page shows."""
    folder = shlex.quote(str(run.folder))
    seed = f" --seed {run.config.seed}" if run.config.seed else ""
    options = "".join(f" --option {shlex.quote(f'{k}={v}')}" for k, v in _own_options(run.config).items())
    evaluate = f"python -m rl.evaluate --scenario {run.config.scenario}{options} --policy {folder}"
    return [
        ("the same training once more", f"python -m rl.train --config {folder}/run.toml --out runs/again"),
        ("the figures above, from the checkpoints",
         f"{evaluate} --against {folder}@start --episodes {run.config.test_episodes}{seed}"),
        ("watch it", f"python -m game --brain {folder}"),
        ("its checkpoints, and how to go on from one", f"python -m rl.checkpoints {folder} tree"),
        ("its turns, one a line", f"python -m recorder cat {folder}/episodes.b22"),
    ]  # fmt: skip


def machine_facts(run: Run) -> list[tuple[str, str]]:
    """(name, value): what the run itself noted, and, apart from it, where this is asked."""
    facts = []
    if run.header is not None:
        facts.append(("played on", f"{run.header.platform}, Python {run.header.python}"))
        facts.append(("version of the rules", run.header.engine_version))
    facts.append(("processes that played and learned", str(run.config.workers)))
    trained = [line for line in run.metrics if line["turns_per_s_train"] is not None]
    if trained:
        played, learned = (
            sum(line[name] for line in trained) / len(trained) for name in ("turns_per_s_rollout", "turns_per_s_train")
        )
        facts.append(("turns a second, mean of all updates", f"{played:.0f} played, {learned:.0f} learned from"))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("errand", "mlx", "numpy"))
    here = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, {versions}"
    facts.append(("this page was made on", here))
    return facts


def _own_options(config: TrainConfig) -> dict[str, str]:
    defaults = {option.name: option.default for option in scenarios.get(config.scenario).options}
    return {key: value for key, value in config.options.items() if defaults.get(key) != value}
