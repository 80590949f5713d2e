"""The brain: models, the closed-action policy, LoRA adapters. Knows no game rule."""
