"""The brain: models, the closed-action policy, LoRA adapters, the brain process. Knows no game rule.

A brain takes a static prefix, an observation text and the legal phrases, and gives back a decision with its
probabilities. Nothing is imported here, so that a process can load its BLAS before MLX (see :mod:`npc.mlx`).
"""
