"""The scenario contract and one file a scenario; `scenarios.get(name)` is how the rest finds them.

A name is one of this package's scenarios, one that another installed package offers under the entry point group
`errand.scenarios` (`bell = "their_module:Bell"`), or `module:Class` itself, for a file that is just being written.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points

from scenarios.contract import Scenario, ScenarioError, nearest

__all__ = ["GROUP", "Scenario", "ScenarioError", "get", "names"]

GROUP = "errand.scenarios"
_OURS = {
    "fetch_item": "scenarios.fetch_item:FetchItem",
    "sudoku": "scenarios.sudoku:Sudoku",
    "sudoku_code": "scenarios.sudoku_code:SudokuCode",
    "tile_2048": "scenarios.tile_2048:Tile2048",
    "trade_chain": "scenarios.trade_chain:TradeChain",
}
_loaded: dict[str, Scenario] = {}


def names() -> tuple[str, ...]:
    """The scenarios that there are, this package's first."""
    return (*_OURS, *sorted(_theirs()))


def get(name: str) -> Scenario:
    """The scenario called `name`, a name of `names()` or "module:Class". Its `name` is then this one, so that workers,
    logs and run folders find it again.

    Raises ScenarioError: with the nearest name where there is none, with the reason where it can't be loaded.
    """
    if name not in _loaded:
        found = _class(name)()
        found.name = name
        _loaded[name] = found
    return _loaded[name]


def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _OURS}


def _class(name: str) -> type[Scenario]:
    spec, whose = name, f"scenario {name!r}"
    if ":" not in name:
        theirs = _theirs()
        if name in theirs:
            spec = theirs[name].value
            dist = theirs[name].dist
            whose = f"scenario {name!r} of the package {dist.name if dist else '?'}"
        elif name in _OURS:
            spec = _OURS[name]
        else:
            raise ScenarioError(f"no scenario {name!r}; {nearest(name, names())}; one of your own is module:Class")
    module_name, _, class_name = spec.partition(":")
    try:
        module = importlib.import_module(module_name.strip())
    except (ImportError, ValueError) as error:
        raise ScenarioError(f"{whose}: {module_name!r} can't be imported ({error})") from error
    found = getattr(module, class_name.strip(), None)
    if not (isinstance(found, type) and issubclass(found, Scenario)):
        known = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Scenario)]
        hint = nearest(class_name, known) if known else "it has no subclass of Scenario"
        raise ScenarioError(f"{whose}: {module_name} has no scenario {class_name!r}; {hint}")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise ScenarioError(f"{whose}: {class_name} lacks {', '.join(missing)}")
    return found
