"""Environment, rollouts, distillation, GRPO, evaluation, checkpoints, report."""
