"""The commands of `python -m recorder`, one a module: each has `add(commands)`, which sets `run(options) -> int`."""
