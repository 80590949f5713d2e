"""The scenario contract and one file a scenario; `scenarios.get(name)` is how the rest finds them."""

from __future__ import annotations

from scenarios.contract import Scenario, ScenarioError, nearest

__all__ = ["Scenario", "ScenarioError", "get", "names"]

_MODULES = {
    "fetch_item": ("scenarios.fetch_item", "FetchItem"),
    "sudoku": ("scenarios.sudoku", "Sudoku"),
    "sudoku_code": ("scenarios.sudoku_code", "SudokuCode"),
    "tile_2048": ("scenarios.tile_2048", "Tile2048"),
}
_loaded: dict[str, Scenario] = {}


def names() -> tuple[str, ...]:
    """The scenarios that there are."""
    return tuple(_MODULES)


def get(name: str) -> Scenario:
    """The scenario called `name`. Raises ScenarioError, with the nearest name, where there is none."""
    if name not in _loaded:
        if name not in _MODULES:
            raise ScenarioError(f"no scenario {name!r}; {nearest(name, _MODULES)}")
        import importlib

        module, cls = _MODULES[name]
        _loaded[name] = getattr(importlib.import_module(module), cls)()
    return _loaded[name]
