"""What can't be had, and what the fronts turn into one line."""

from __future__ import annotations

from game.sim.village_map import MapError
from game.view.players import BrainFailed
from npc.errors import NpcError
from recorder import RecorderError
from rl.config import ConfigError
from rl.files import CheckpointError
from rl.policies import PolicyNameError
from scenarios.contract import ScenarioError


class BadUse(ValueError):
    """Something asked for can't be had: one line that names it and the remedy."""


# what a front turns into one line and exit code 2
USER_ERRORS = (
    BadUse, BrainFailed, CheckpointError, ConfigError, MapError, NpcError, PolicyNameError, RecorderError,
    ScenarioError,
)  # fmt: skip
