"""The table of faults is in step with the source: every fault can still be put in, and its test is there.

That each one is caught is what `python -m tests.rl.faults` shows, and the slow test here.
"""

from __future__ import annotations

import ast

import pytest

from tests.rl.faults import FAULTS, ROOT, Fault, is_caught


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_can_be_put_in_and_its_test_is_there(fault: Fault) -> None:
    source = (ROOT / fault.file).read_text(encoding="utf-8")
    assert fault.old in source and fault.old != fault.new
    ast.parse(source.replace(fault.old, fault.new))
    file, _, name = fault.test.partition("::")
    tests = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tests.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_caught(fault: Fault) -> None:
    caught, last = is_caught(fault)
    assert caught, last
