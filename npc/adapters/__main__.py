"""Looks at LoRA adapters: list, show, diff, verify, fuse. `python -m npc.adapters --help`"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from npc.adapters import load_adapter
from npc.adapters.fuse import DTYPES, fuse
from npc.adapters.tools import AdapterFacts, check_not_nothing, difference, find, inspect
from npc.errors import NpcError
from npc.models import load
from npc.policy import ClosedPolicy
from rl.command import Parser, ended, fail
from rl.config import ConfigError
from rl.files import CheckpointError, is_run
from rl.policies import PolicyNameError, parse_policy

SAYS_NO = 1  # the exit code for an adapter that is nothing, or another one
SHIPPED = Path(str(resources.files("assets") / "adapters"))


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except (NpcError, PolicyNameError, CheckpointError, ConfigError, OSError) as error:
        return fail("npc.adapters", error)


def folder_of(name: str) -> str:
    """The folder of an adapter: a folder as it is, or what a policy's name holds, as in nano:fetch_item or runs/demo.

    Raises PolicyNameError where there is none.
    """
    if Path(name).is_dir() and not is_run(Path(name)):
        return name
    if ":" in name or "@" in name or is_run(Path(name)):
        adapter = parse_policy(name).adapter
        if adapter is None:
            raise PolicyNameError(f"{name}: names no adapter; give MODEL:ADAPTER")
        return adapter
    known = ", ".join(":".join(folder.relative_to(SHIPPED).parts) for folder in find(SHIPPED))
    raise PolicyNameError(f"{name}: no such adapter folder; what ships goes by its model and name: {known}")


def list_(args: argparse.Namespace) -> int:
    roots = args.folder or [str(SHIPPED)]
    for root in roots:
        for folder in find(root):
            facts = inspect(folder)
            if args.json:
                print(json.dumps(_facts(facts)))
            else:
                origin = facts.provenance
                print(f"{folder}: for {origin.get('model', 'an unnamed model')}, {origin.get('scenario', '-')}, "
                      f"rank {facts.rank}, {facts.bytes / 1e6:.2f} MB, change {facts.norm:.3g}")  # fmt: skip
    return 0


def show(args: argparse.Namespace) -> int:
    facts = inspect(folder_of(args.adapter))
    if args.json:
        print(json.dumps(_facts(facts)))
        return 0
    print(f"{facts.folder}: rank {facts.rank}, scale {facts.scale:g}, {facts.parameters:,} parameters as "
          f"{facts.dtype}, {facts.bytes:,} bytes")  # fmt: skip
    print(f"weights {facts.weights_hash}")
    for name, value in facts.provenance.items():
        print(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}")
    print("norm of the change by layer:")
    for layer, norm in facts.norms.items():
        print(f"  {norm:9.4f}  {layer}" + ("  (nothing)" if layer in facts.zero else ""))
    print(f"  {facts.norm:9.4f}  in all")
    return 0


def diff(args: argparse.Namespace) -> int:
    found = difference(folder_of(args.left), folder_of(args.right))
    if args.json:
        print(json.dumps({"equal": found.equal, "relative": found.total_relative, "cosine": found.total_cosine,
                          "layers": {name: {"relative": value, "cosine": found.cosine[name]}
                                     for name, value in found.relative.items()},
                          "provenance": found.provenance}))  # fmt: skip
        return 0 if found.equal else SAYS_NO
    for name, (left, right) in found.provenance.items():
        print(f"{name}: {left!r} | {right!r}")
    if found.equal:
        print("the tensors are equal, bit for bit")
        return 0
    print("difference of the changes, relative to the larger; cosine between them:")
    for layer, value in found.relative.items():
        print(f"  {value:7.4f}  {found.cosine[layer]:+.4f}  {layer}")
    print(f"  {found.total_relative:7.4f}  {found.total_cosine:+.4f}  in all")
    return SAYS_NO


def verify(args: argparse.Namespace) -> int:
    """Not nothing, loads strictly, and moves the model's probabilities."""
    facts = inspect(folder_of(args.adapter))
    try:
        check_not_nothing(facts)
    except NpcError as error:
        print(f"python -m npc.adapters: {error}", file=sys.stderr)
        return SAYS_NO
    brain = load(args.model or str(facts.provenance.get("model", "")))
    policy = ClosedPolicy(brain, "")
    packed = policy.pack([policy.encode("a b")], [("go", "stay", "turn back")])
    before = policy.logps(packed)
    load_adapter(brain, facts.folder)
    moved = float(abs(policy.logps(packed) - before).max())
    if moved == 0:
        print(f"python -m npc.adapters: {facts.folder}: the model answers as without it", file=sys.stderr)
        return SAYS_NO
    print(f"{facts.folder}: good; {len(facts.norms)} layers, change {facts.norm:.3g}, moves a probe's "
          f"log-probabilities by {moved:.3g}")  # fmt: skip
    return 0


def fuse_(args: argparse.Namespace) -> int:
    out = Path(args.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise NpcError(f"{out}: is there already; give a new folder")
    facts = inspect(folder_of(args.adapter))
    brain = load(args.model or str(facts.provenance.get("model", "")))
    load_adapter(brain, facts.folder)
    done = fuse(brain, out, args.dtype)
    print(f"{done.folder}: {facts.provenance.get('model', args.model)} with {facts.folder} melted in, as {done.dtype}; "
          f"rounding took {100 * done.lost:.2g} % of the change")  # fmt: skip
    return 0


def _facts(facts: AdapterFacts) -> dict[str, Any]:
    return {
        "folder": str(facts.folder), "rank": facts.rank, "scale": facts.scale, "parameters": facts.parameters,
        "bytes": facts.bytes, "dtype": facts.dtype, "weights_hash": facts.weights_hash, "norm": facts.norm,
        "norms": facts.norms, "zero": list(facts.zero), "provenance": facts.provenance,
    }  # fmt: skip


def _parser() -> Parser:
    what = "a folder, MODEL:NAME for one that ships, or a run (RUN, RUN@NODE)"
    codes = "Exit codes: 0 good, 1 the adapter says no (nothing in it, or they differ), 2 bad use."
    parser = Parser(prog="python -m npc.adapters", description="Looks at LoRA adapters.", epilog=codes)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, doc: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=doc, description=doc)
        made.set_defaults(run=run)
        return made

    one = command("list", list_, "the adapters below folders (without one: those that ship)")
    one.add_argument("folder", nargs="*")
    one.add_argument("--json", action="store_true", help="one object a line")
    one = command("show", show, "an adapter's facts, provenance and the size of its change by layer")
    one.add_argument("adapter", help=what)
    one.add_argument("--json", action="store_true")
    one = command("diff", diff, "how far two adapters of one base lie apart")
    one.add_argument("left", help=what)
    one.add_argument("right", help=what)
    one.add_argument("--json", action="store_true")
    one = command("verify", verify, "that it is not nothing, belongs to its model and acts")
    one.add_argument("adapter", help=what)
    one.add_argument("--model", help="a model (default: the one its provenance names)")
    one = command("fuse", fuse_, "base and adapter as one model folder; refuses what rounding would destroy")
    one.add_argument("adapter", help=what)
    one.add_argument("--model", help="a model (default: the one its provenance names)")
    one.add_argument("--out", required=True, help="a new folder")
    one.add_argument("--dtype", choices=list(DTYPES), default="float32", help="default: %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(ended("npc.adapters", main))
