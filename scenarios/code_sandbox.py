"""Runs a function that a model wrote, where it can touch nothing: no files, network, imports, clock or process.

Two walls stand one behind the other. `objections` reads the text and names what reaches outside; such code is not run
at all. What is run is run by Monty (package `pydantic-monty`, extra `code`), an interpreter of its own without
CPython's object graph, in a worker process that is killed when it outlives its time; its memory and depth are bounded,
what it prints is thrown away, and its clock and dice stand still, so that a run can be repeated.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import datetime
import re
from typing import Any

LONGEST = 6000  # characters of code that are looked at
SECONDS = 1.0  # for one call
MEMORY = 48 << 20  # bytes
DEPTH = 200  # calls within calls
PRINTED = 1 << 16  # characters that a call may print before it is stopped
KILL_AFTER = 3.0  # seconds after which the process is killed, whatever it says of itself

OUTSIDE = {  # names of builtins and modules that lead out of a function
    "__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals", "help", "id",
    "input", "locals", "memoryview", "object", "open", "quit", "setattr", "super", "type", "vars",
    "asyncio", "builtins", "ctypes", "gc", "importlib", "inspect", "io", "os", "pathlib", "signal", "socket",
    "subprocess", "sys", "threading",
}  # fmt: skip
FRAMES = ("tb_", "gi_", "cr_", "f_", "co_", "func_")  # attributes by which CPython's frames are reached


class SandboxMissing(RuntimeError):
    """The interpreter isn't installed; one line."""


class Fault(Exception):
    """The code did something that ends it: raised, ran out of time or memory, or gave back what can't be read."""


def code_in(text: str) -> str:
    """The program in a reply: its first fenced block, else the whole text."""
    fenced = re.search(r"```[a-zA-Z0-9_+-]*[ \t]*\n(.*?)(?:```|\Z)", text, re.DOTALL)
    return (fenced.group(1) if fenced else text).strip("\n")


def defines(code: str, name: str, arguments: int) -> bool:
    """Whether the code can be read and defines, at its top, a plain function of so many arguments."""
    tree = _parse(code)
    if tree is None:
        return False
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return len(found) == 1 and len(found[0].args.posonlyargs) + len(found[0].args.args) == arguments


def objections(code: str) -> list[str]:
    """What in the code reaches outside: imports, names and attributes that lead there, texts that spell them."""
    tree = _parse(code)
    if tree is None:
        return ["cannot be read"]
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                found.add("imports")
            case ast.Name(id=name) if name in OUTSIDE or name.startswith("__"):
                found.add(name)
            case ast.Attribute(attr=name) if name.startswith(("_", *FRAMES)) or name in ("format", "format_map"):
                found.add(f".{name}")
            case ast.Constant(value=str() | bytes() as text) if "__" in repr(text):
                found.add("a text with __")
    return sorted(found)


def _parse(code: str) -> ast.Module | None:
    if len(code) > LONGEST or "\0" in code:
        return None
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Program:
    """Code in its own session. Use it as a context manager; `call` may be used many times. Raises Fault where the code
    can't even be loaded, SandboxMissing without the interpreter."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._printed = 0

    def __enter__(self) -> Program:
        monty = _monty()
        limits = monty.ResourceLimits(max_feed_duration_secs=SECONDS, max_memory=MEMORY, max_recursion_depth=DEPTH,
                                      max_suspensions=1000, max_total_sleep_secs=0.0)  # fmt: skip
        policy = monty.OSPolicy(sleep="zero", datetime=datetime.datetime(2000, 1, 1), random_start={"seed": 0})
        self._checkout = _pool().checkout(limits=limits, os_policy=policy)
        self._session = self._checkout.__enter__()
        try:
            self._run(self._code, {})
        except Fault:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        monty = _monty()
        with contextlib.suppress(monty.MontyError):  # a worker that was killed can't be given back; there is another
            self._checkout.__exit__(None, None, None)

    def call(self, function: str, **arguments: Any) -> Any:
        """The function's result as plain values. Raises Fault."""
        return self._run(f"{function}({', '.join(arguments)})", arguments)

    def _run(self, code: str, inputs: dict[str, Any]) -> Any:
        monty = _monty()
        self._printed = 0
        try:
            return self._session.feed_run(code, inputs=inputs, print_callback=self._swallow)
        except monty.MontyError as error:
            raise Fault(" ".join(str(error).split())[:200] or type(error).__name__) from error
        except (Overflowing, RecursionError, ValueError, TypeError, MemoryError) as error:
            raise Fault(f"{type(error).__name__}: {str(error)[:150]}") from error

    def _swallow(self, _stream: str, text: str) -> None:
        self._printed += len(text)
        if self._printed > PRINTED:
            raise Overflowing(f"printed more than {PRINTED} characters")


class Overflowing(Exception):
    """The code prints without end."""


_POOL: list[Any] = []


def _monty() -> Any:
    try:
        import pydantic_monty
    except ImportError as error:
        raise SandboxMissing(
            "sudoku_code runs what a model wrote in pydantic-monty, which is not installed: pip install 'errand[code]'"
        ) from error
    return pydantic_monty


def _pool() -> Any:
    """One worker a process, kept warm, replaced when it was killed and after a number of programs."""
    if not _POOL:
        pool = _monty().Monty(min_processes=1, max_processes=1, request_timeout=KILL_AFTER, checkout_timeout=30.0,
                              max_checkouts_per_worker=200)  # fmt: skip
        pool.__enter__()
        _POOL.append(pool)
        atexit.register(lambda: _POOL and _POOL.pop().__exit__(None, None, None))
    return _POOL[0]
