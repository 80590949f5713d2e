"""The losses by name: each a pure function of `Rows`, one a file."""

from rl.losses.bnpo import BNPO
from rl.losses.cispo import CISPO
from rl.losses.dapo import DAPO
from rl.losses.dr_grpo import DR_GRPO
from rl.losses.grpo import GRPO
from rl.losses.gspo import GSPO
from rl.losses.rows import Counts, Limits, Loss, Rows

__all__ = ["LOSSES", "Counts", "Limits", "Loss", "Rows"]

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (GRPO, BNPO, DR_GRPO, DAPO, GSPO, CISPO)}
