"""Code that a model wrote reads nothing, writes nothing, connects to nothing, outlives nothing."""

from __future__ import annotations

import os
import socket
import time

import pytest

from scenarios import code_sandbox
from scenarios.code_sandbox import KILL_AFTER, SECONDS, Fault, Program, code_in, defines, objections

HEAD = "def strategy(board, initial):\n"

GOOD = HEAD + """\
    for row in range(len(board)):
        for col in range(len(board)):
            if board[row][col] == 0:
                return (row, col, max(1, len([cell for cell in board[row] if cell])))
"""

# what each tries; every one of them is objected to before it runs, and is harmless when it is run all the same
ESCAPES = {
    "reads a file": "    return open('{secret}').read()",
    "writes a file": "    open('{target}', 'w').write('x')",
    "imports os": "    import os\n    return os.listdir('/')",
    "imports by name": "    return __import__('os').system('touch {target}')",
    "imports from": "    from pathlib import Path\n    return Path('{secret}').read_text()",
    "walks attributes": "    return ().__class__.__bases__[0].__subclasses__()",
    "walks by text": "    return getattr((), '__cla' + 'ss__')",
    "spells it": "    return '_' + '_class_' + '_', board.__class__",
    "f-string": "    return f'{{board.__class__.__mro__}}'",
    "format": "    return '{{0.__class__.__init__.__globals__}}'.format(strategy)",
    "format_map": "    return '{{x.__class__}}'.format_map({{'x': board}})",
    "traceback": "    try:\n        1 / 0\n    except Exception as e:\n        return e.__traceback__.tb_frame",
    "traceback without dunder": "    try:\n        1 / 0\n    except Exception as e:\n        return e.tb_frame",
    "generator frame": "    g = (x for x in board)\n    return g.gi_frame.f_back.f_globals",
    "code object": "    return strategy.__code__.co_consts",
    "globals": "    return globals()['solution']",
    "vars": "    return vars()",
    "builtins": "    return __builtins__",
    "eval": "    return eval(\"__import__('os')\")",
    "exec": "    exec('import socket')",
    "compile": "    return compile('1', 'x', 'eval')",
    "type": "    return type('X', (), {{}})",
    "connects": "    import socket\n    return socket.create_connection(('127.0.0.1', {port}))",
    "forks": "    import os\n    while True:\n        os.fork()",
    "subprocess": "    import subprocess\n    subprocess.Popen(['touch', '{target}'])",
    "thread": "    import threading\n    threading.Thread(target=strategy).start()",
    "ctypes": "    import ctypes\n    return ctypes.string_at(0)",
    "gc": "    import gc\n    return gc.get_objects()",
    "signal": "    import signal\n    signal.alarm(0)",
    "exit": "    exit()",
    "breakpoint": "    breakpoint()",
    "input": "    return input()",
    "id": "    return id(board)",
    "super": "    return super()",
}

# what each does wrong without reaching anywhere: it is run, and stopped
BURDENS = {
    "loops": "    while True:\n        pass",
    "recurses": "    return strategy(board, initial)",
    "allocates": "    x = []\n    while True:\n        x.append('a' * 100000)",
    "one big text": "    return 'a' * 10 ** 10",
    "one big number": "    return 10 ** 10 ** 9",
    "shifts": "    return 1 << 10 ** 12",
    "big range": "    return sorted(range(10 ** 9))",
    "nested lists": "    x = []\n    while True:\n        x = [x]",
    "prints": "    while True:\n        print('x' * 1000)",
    "raises": "    raise ValueError('no')",
    "raises an exit": "    raise SystemExit(0)",
    "divides": "    return 1 // 0",
    "undefined": "    return solution",
    "backtracks badly": "    return [a for a in range(10 ** 5) for b in range(10 ** 5)]",
}


@pytest.fixture
def here(tmp_path):
    (tmp_path / "secret").write_text("the solution")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    names = {"secret": tmp_path / "secret", "target": tmp_path / "target", "port": listener.getsockname()[1]}
    yield names, tmp_path, listener
    listener.close()


def children():
    """Processes below this one."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        found.add(int(name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


@pytest.mark.parametrize("attempt", ESCAPES)
def test_an_escape_is_objected_to_and_reaches_nothing_even_when_run(attempt, here):
    names, folder, listener = here
    code = HEAD + ESCAPES[attempt].format(**names)
    assert objections(code)
    began = time.monotonic()
    result = None
    try:
        with Program(code) as program:
            result = program.call("strategy", board=[[0]], initial=[[0]])
    except Fault:
        pass
    assert time.monotonic() - began < KILL_AFTER + 5
    assert sorted(path.name for path in folder.iterdir()) == ["secret"]
    assert "the solution" not in repr(result)
    with pytest.raises(TimeoutError):
        listener.accept()


@pytest.mark.parametrize("burden", BURDENS)
def test_a_burden_ends_in_a_fault_in_time_and_the_next_program_runs(burden, capfd):
    code = HEAD + BURDENS[burden]
    assert not objections(code)
    began = time.monotonic()
    with pytest.raises(Fault), Program(code) as program:
        program.call("strategy", board=[[0]], initial=[[0]])
    assert time.monotonic() - began < KILL_AFTER + 5
    with Program(GOOD) as program:
        assert program.call("strategy", board=[[0]], initial=[[0]]) == (0, 0, 1)
    out, err = capfd.readouterr()
    assert out == "" and err == ""


def test_sleeping_and_the_clock_take_no_time_and_tell_nothing():
    code = HEAD + "    import time\n    time.sleep(60)\n    return time.time()"
    began = time.monotonic()
    answers = set()
    for _ in range(2):
        with Program(code) as program:
            answers.add(program.call("strategy", board=[], initial=[]))
    assert time.monotonic() - began < SECONDS + 5 and len(answers) == 1


def test_dice_are_the_same_each_time():
    code = HEAD + "    import random\n    return random.random()"
    answers = set()
    for _ in range(2):
        with Program(code) as program:
            answers.add(program.call("strategy", board=[], initial=[]))
    assert len(answers) == 1


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="counts processes by /proc")
def test_nothing_is_left_running():
    with Program(GOOD):
        pass
    before = children()
    for code in (HEAD + BURDENS["loops"], HEAD + BURDENS["allocates"]):
        with pytest.raises(Fault), Program(code) as program:
            program.call("strategy", board=[], initial=[])
    with Program(GOOD):
        pass
    assert len(children()) <= len(before)


def test_what_one_program_leaves_another_does_not_find():
    with Program(HEAD + "    return 1\nfound = [1]") as program:
        assert program.call("strategy", board=[], initial=[]) == 1
    with pytest.raises(Fault), Program(HEAD + "    return found") as program:
        program.call("strategy", board=[], initial=[])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1", "x = 1"),
        ("Here:\n```python\nx = 1\n```\nand\n```\ny = 2\n```", "x = 1"),
        ("```\nx = 1\n", "x = 1"),
        ("", ""),
    ],
)
def test_the_program_in_a_reply(text, code):
    assert code_in(text) == code


@pytest.mark.parametrize(
    ("code", "is_one"),
    [
        (GOOD, True),
        ("def strategy(board):\n    return 1", False),
        ("def other(board, initial):\n    return 1", False),
        ("strategy = lambda board, initial: 1", False),
        ("def strategy(board, initial):\nreturn", False),
        ("async def strategy(board, initial):\n    return 1", False),
        ("x = " + "(" * 3000, False),
        ("x = " + "-" * 5000 + "1", False),
        ("\0", False),
        (GOOD + "#" * code_sandbox.LONGEST, False),
        ("", False),
    ],
)
def test_what_counts_as_the_function(code, is_one):
    assert defines(code, "strategy", 2) is is_one


def test_a_plain_strategy_meets_no_objection():
    assert objections(GOOD) == []
