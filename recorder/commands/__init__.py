"""The commands of `python -m recorder`, one a module: each has `add(commands)`, which brings `run(options) -> int`."""
