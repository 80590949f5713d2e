"""Pure rules of the village: no pygame, no model, no I/O."""
