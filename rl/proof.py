"""What the trainer proves of itself before its first step; it refuses to go on where a proof fails.

Each of these was somebody's silent fault: log-probabilities recomputed at another temperature or batch shape, weights
that get no gradient, a base that moves, rollouts that don't use the adapter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npc.adapters import get_adapter, set_adapter
from npc.mlx import mx
from npc.models import base_weights, hash_arrays
from rl.learner import Worker, gradient, keep, turn_gradient
from rl.optim import Optimizer

# The largest |log π recomputed − log π sampled| that rounding explains, by the precision of the base weights
TOLERANCE = {mx.float32: 5e-4, mx.float16: 5e-2, mx.bfloat16: 2e-1}


class ProofError(RuntimeError):
    """A proof failed: one line that says which, with the value found and the bound."""


def prove(worker: Worker, job: dict[str, Any]) -> dict[str, float | str]:
    """Runs all proofs on the share that was collected last, at the adapter `job["adapter"]`; returns what was found.

    Leaves the worker's weights as they were given. Raises ProofError.
    """
    adapter = job["adapter"]
    # `others_play` says that the share holds episodes which other weights recorded
    found: dict[str, float | str] = {}
    brain = worker.policy.brain
    if "credit" in job:
        keep(worker, job["credit"])
    share = worker.share
    if not share.turns:
        return {"skipped": "every group of this share was dead"}
    base_before = hash_arrays(base_weights(brain))

    # 1. what is recomputed is what was sampled, at τ and at the real batch shape, so the ratio is 1
    now = gradient(worker, {"adapter": adapter})
    tolerance = TOLERANCE[brain.precision]
    found["worst_log_ratio"] = now.worst_ratio
    # what other weights recorded has other probabilities now, and that is what the ratio is for
    if not job.get("others_play") and not now.worst_ratio <= tolerance:
        raise ProofError(
            f"recomputed log-probabilities differ from the sampled ones by {now.worst_ratio:.2e}, more than "
            f"{tolerance:.0e}: sampling and loss don't compute the same (temperature, mask or ids)"
        )

    # 2. every part of the adapter that can get gradient gets it: all of B, and A wherever its B is not zero
    for name, value in sorted(now.arrays.items()):
        if name.endswith("lora_a") and not np.any(adapter[name[:-1] + "b"]):
            continue
        if not np.any(value):
            raise ProofError(f"{name} gets no gradient: it is not a part of the forward that the loss goes through")
    if set(now.arrays) != set(adapter):
        raise ProofError("the gradient names other tensors than the adapter: something else than the adapter trains")

    # 3. a trial step moves the adapter and leaves the base bit-identical
    moved, norm = Optimizer().step(adapter, now.arrays, 1e-3)
    set_adapter(brain, moved)
    turns = share.turns[:8]
    batch = share.batch(slice(0, 8), None)
    *_, moved_logps = turn_gradient(worker.policy, turns, batch, worker.settings)
    found["gradient_norm"] = norm
    if hash_arrays(base_weights(brain)) != base_before:
        raise ProofError("the base weights changed in a trial step: they are not frozen")

    # 4. the rollouts use the adapter: without it the same turns have other probabilities
    set_adapter(brain, {name: np.zeros_like(value) for name, value in adapter.items()})
    *_, bare_logps = turn_gradient(worker.policy, turns, batch, worker.settings)
    set_adapter(brain, adapter)
    *_, given_logps = turn_gradient(worker.policy, turns, batch, worker.settings)
    used = any(np.any(value) for name, value in adapter.items() if name.endswith("lora_b"))
    found["adapter_changes_logps_by"] = _largest_change(given_logps, bare_logps)
    if used and found["adapter_changes_logps_by"] == 0.0:
        raise ProofError("zeroing the adapter changes no probability: the rollouts don't use it")
    found["step_changes_logps_by"] = _largest_change(given_logps, moved_logps)
    if found["step_changes_logps_by"] == 0.0:
        raise ProofError("a trial step changes no probability: the optimizer's weights are not those of the rollouts")
    if set(get_adapter(brain)) != set(adapter):
        raise ProofError("adapter tensors in memory are not those of the run")
    return found


def _largest_change(a: mx.array, b: mx.array) -> float:
    left, right = np.array(a), np.array(b)
    present = np.isfinite(left)
    return float(np.abs(left[present] - right[present]).max())
