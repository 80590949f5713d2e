"""Imports run one way: rules, brain and recorder know nothing of each other, all else sits above them."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("game", "scenarios", "recorder", "npc", "rl", "assets", "benchmarks", "examples")

# part -> the parts that it may import besides itself; fronts, and what is not named here, may import all
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "game.sim": (),
    "npc": (),
    "recorder": (),
    "scenarios": ("game.sim",),
    "rl": ("scenarios", "npc", "recorder"),
}
MAY_SHOW_PICTURES = ("game.view", "game.__main__", "assets", "examples")

Imports = dict[str, set[str]]  # module -> what it imports, as dotted names


def module_name(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def our_modules(root: Path = ROOT) -> dict[str, Path]:
    files = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return {module_name(path, root): path for path in files}


def imported_names(source: str, module: str, is_package: bool) -> Iterator[str]:
    """Every dotted name that a source imports, wherever it stands: on top, in a function, as a string.

    A string counts when it is given to `import_module` or `__import__`. A source that gives them something
    else has a table of modules somewhere: there every string that spells a module of ours in full counts.
    `from a import b` gives "a.b", for b may be a module.
    """
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source)
    has_table = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = resolve_name("." * node.level + base, package)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield resolve_name(name.value, package) if name.value.startswith(".") else name.value
                else:
                    has_table = True
    if has_table:
        yield from (spelt for spelt in spelt_modules(tree) if spelt != module)


def spelt_modules(tree: ast.AST) -> Iterator[str]:
    """The strings that are a dotted name of ours, or one with ":attribute" behind it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            spelt = node.value.partition(":")[0]
            if spelt.partition(".")[0] in PACKAGES and spelt.replace(".", "").isidentifier():
                yield spelt


def imports_of(modules: dict[str, Path]) -> Imports:
    """What each module imports: ours as the nearest module of ours, others by their full name."""
    found: Imports = {}
    for module, path in modules.items():
        names = imported_names(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
        found[module] = {nearest_module(name, modules) for name in names} - {module}
    return found


def nearest_module(name: str, modules: dict[str, Path]) -> str:
    """`game.sim.world.World` is the module `game.sim.world`; what isn't ours stays as it is."""
    shorter = name
    while shorter and shorter not in modules:
        shorter = shorter.rpartition(".")[0]
    return shorter or name


def inside(module: str, part: str) -> bool:
    return module == part or module.startswith(part + ".")


def is_front(module: str) -> bool:
    return module.endswith("__main__") or inside(module, "game.view")


def upward(found: Imports) -> list[str]:
    """The imports that go against the order of the house, one line each."""
    lines = []
    for module, names in found.items():
        part = next((part for part in MAY_IMPORT if inside(module, part)), None)
        if part is None or is_front(module):
            continue
        for name in sorted(names):
            ours = name.partition(".")[0] in PACKAGES and name != "assets"  # anybody may read its files
            if ours and not any(inside(name, below) for below in (part, *MAY_IMPORT[part])):
                allowed = ", ".join((part, *MAY_IMPORT[part]))
                lines.append(f"{module} imports {name}; {part} may import only {allowed}")
    return lines


def circles(found: Imports) -> list[str]:
    """Each circle of imports once, as "a -> b -> a"."""
    lines: list[str] = []
    done: set[str] = set()

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            lines.append(" -> ".join([*way[way.index(module) :], module]))
            return
        if module in done:
            return
        for name in sorted(found.get(module, ())):
            if name in found:
                follow(name, [*way, module])
        done.add(module)

    for module in sorted(found):
        follow(module, [])
    return lines


@pytest.fixture(scope="module")
def found() -> Imports:
    return imports_of(our_modules())


def test_imports_run_one_way(found: Imports) -> None:
    assert not upward(found), "\n".join(upward(found))


def test_no_import_comes_round_to_where_it_began(found: Imports) -> None:
    assert not circles(found), "\n".join(circles(found))


def test_only_the_view_the_game_and_the_makers_of_pictures_import_pygame(found: Imports) -> None:
    guilty = [
        module
        for module, names in found.items()
        if any(inside(name, "pygame") for name in names)
        and not any(inside(module, allowed) for allowed in MAY_SHOW_PICTURES)
    ]
    assert not guilty


def test_nothing_but_the_fronts_imports_a_front(found: Imports) -> None:
    fronts = {module for module in found if is_front(module)}
    below = {module: names & fronts for module, names in found.items() if not is_front(module)}
    guilty = {module: names for module, names in below.items() if names and not inside(module, "benchmarks")}
    assert not guilty


def test_the_modules_were_found(found: Imports) -> None:
    """An empty list would pass every check above."""
    assert {"game.sim.world", "scenarios.fetch_item", "rl.env", "scenarios"} <= set(found)
    assert "game.sim.world" in found["scenarios.fetch_item"]
    assert "scenarios.fetch_item" in found["scenarios"]  # imported by name, from a table
    assert "scenarios" in found["rl.env"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("game.sim.a", "import scenarios.contract"),
        ("game.sim.a", "from game import view"),
        ("game.sim.a", "def f():\n    from npc import models"),
        ("npc.a", "from game.sim.world import World"),
        ("npc.a", "if 0:\n    import recorder.b as c"),
        ("recorder.a", "import importlib\nimportlib.import_module('rl.env')"),
        ("recorder.a", "__import__('npc')"),
        ("scenarios.a", "import importlib\nT = {'x': 'rl.env'}\nimportlib.import_module(T['x'])"),
        ("scenarios.a", "T = ['rl.env:ErrandEnv']\n__import__(T[0].partition(':')[0])"),
        ("game.sim.a", "from .. import view"),
        ("rl.a", "from game.sim.world import World"),
        ("rl.a", "from benchmarks import peers"),
    ],
)
def test_an_import_against_the_order_is_found_in_every_form(module: str, source: str) -> None:
    modules = {**our_modules(), module: ROOT}
    names = {nearest_module(name, modules) for name in imported_names(source, module, False)}
    assert upward({module: names})


def test_an_import_with_the_order_is_let_be() -> None:
    for module, source in (
        ("rl.a", "from scenarios import get\nimport npc.models, recorder, mlx.core\nfrom . import env"),
        ("scenarios.a", "from game.sim import world\nfrom importlib import resources\nimport assets"),
        ("recorder.__main__", "from rl import env\nimport game.view"),
        ("game.view.a", "import npc, rl.env"),
        ("recorder.a", "HINT = 'rl.train'"),  # a word for people, nothing is imported by it
    ):
        assert not upward({module: set(imported_names(source, module, False))})


def test_a_circle_is_found_and_named() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "os"}}) == ["b -> c -> b"]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
