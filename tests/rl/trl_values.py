"""TRL's own losses on fixed tensors, in which a sequence is an episode and a token is a turn.

    python -m tests.rl.trl_values > tests/rl/golden/trl_losses.json     (where torch and trl are installed)

`GRPOTrainer._compute_loss` is run as it is, on an object that has the settings and nothing else; the model's forward is
replaced by the tensor of log-probabilities.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

LOGP = [[-0.3, -1.2, -0.7, -2.5], [-0.1, -0.9, -1.6, -0.4], [-2.0, -0.05, -0.6, -1.1]]
BEHAVIOUR = [[-0.6, -1.0, -0.7, -1.0], [-0.5, -0.2, -1.9, -0.4], [-0.9, -0.3, -0.9, -2.6]]
REFERENCE = [[-0.5, -1.5, -0.9, -2.0], [-0.2, -0.6, -1.0, -0.8], [-1.2, -0.4, -0.6, -1.4]]
MASK = [[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]]  # episodes of 3, 4 and 2 turns
ADVANTAGE = [1.3, -0.8, -0.5]
BY_TURN = [[1.3, 0.2, -0.4, 0.0], [-0.8, 0.6, -1.1, 0.3], [-0.5, 0.9, 0.0, 0.0]]
TURN_CAP = 6

CASES: dict[str, dict[str, Any]] = {
    f"{loss}{'/delta' if delta else ''}{'/by turn' if by_turn else ''}": {
        "loss": loss, "epsilon": low, "epsilon_high": high, "delta": delta, "by_turn": by_turn,
    }
    for loss, low, high in (("grpo", 0.2, 0.2), ("bnpo", 0.2, 0.2), ("dr_grpo", 0.2, 0.2), ("dapo", 0.2, 0.28),
                            ("gspo", 0.05, 0.08), ("cispo", 0.2, 0.5))
    for delta in ((None, 1.5) if loss != "cispo" else (None,))
    for by_turn in (False, True)
}  # fmt: skip


def compute() -> dict[str, Any]:
    """case -> loss and its gradient by log-probability, as TRL has them."""
    import torch
    from trl.trainer.grpo_trainer import GRPOTrainer

    found = {}
    for name, case in CASES.items():
        logp = torch.tensor(LOGP, dtype=torch.float64, requires_grad=True)
        mask = torch.tensor(MASK)
        sequence = case["loss"] == "gspo"
        itself = SimpleNamespace(
            top_entropy_quantile=1.0, off_policy_mask_threshold=None, beta=0.0, use_vllm=False, aux_loss_enabled=False,
            importance_sampling_level="sequence" if sequence else "token",
            loss_type="grpo" if sequence else case["loss"], epsilon_low=case["epsilon"],
            # TRL's bound of CISPO is of the ratio itself
            epsilon_high=case["epsilon_high"] + (1 if case["loss"] == "cispo" else 0),
            args=SimpleNamespace(delta=case["delta"], steps_per_generation=1, use_bias_correction_kl=False),
            max_completion_length=TURN_CAP, current_gradient_accumulation_steps=1, _entropy_bonus_enabled=False,
            model=SimpleNamespace(training=True), _metrics={"train": defaultdict(list)},
            accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, gather_for_metrics=lambda x: x,
                                        reduce=lambda x, reduction: x, sync_gradients=True),
            _get_per_token_logps_and_entropies=lambda *a, logp=logp, **k: (logp, torch.zeros_like(logp), None),
        )  # fmt: skip
        inputs = {
            "prompt_ids": torch.zeros((3, 1), dtype=torch.long), "prompt_mask": torch.ones((3, 1), dtype=torch.long),
            "completion_ids": torch.zeros((3, 4), dtype=torch.long), "completion_mask": mask,
            "advantages": torch.tensor(BY_TURN if case["by_turn"] else ADVANTAGE, dtype=torch.float64),
            "old_per_token_logps": torch.tensor(BEHAVIOUR, dtype=torch.float64), "num_items_in_batch": mask.sum(),
        }  # fmt: skip
        loss = GRPOTrainer._compute_loss(itself, None, inputs)
        loss.backward()
        found[name] = {"loss": loss.item(), "gradient": logp.grad.tolist()}
    return found


if __name__ == "__main__":
    import trl

    json.dump({"made with": f"trl {trl.__version__}", "cases": compute()}, sys.stdout, indent=1)
    print()
