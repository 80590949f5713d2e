"""Looks into a run's checkpoint tree and changes it: `python -m rl.checkpoints RUN tree`.

Every update is a node. Any node can become the head, which is what plays, or the start of a branch, which is what
`python -m rl.train --resume RUN` then goes on with.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npc.errors import NpcError
from rl.command import INTERRUPTED, CommandError, Parser, ended, fail, options_from
from rl.config import ConfigError, with_settings
from rl.files import CheckpointError, beside, is_run, read_run, write_through
from rl.tree import WEIGHTS, Branch, Tree, branch_of
from rl.tree_view import drawn, facts_of

BEST = "best"


def branch(run: Path, tree: Tree, node: str, pairs: Sequence[str]) -> Branch:
    """Begins a branch at `node`. A finished run is open again after it; its answer is kept beside, by the old line."""
    settings = with_settings(read_run(run), options_from(pairs, "--set"), str(run / "run.toml"))
    updates = settings.get("updates", read_run(run).get("updates", 0))
    tree.weights(node)
    if tree.read(node)["update"] >= updates:
        raise CommandError(f"{node} has made all {updates} updates, so nothing is left to train; choose an earlier node"
                           f" or give it more with --set updates=N")  # fmt: skip
    old = tree.line().branch
    begun = tree.start_branch(node, settings)
    summary = run / "summary.json"
    if summary.is_file():
        os.replace(summary, run / f"summary-{f'b{old}' if old else 'trunk'}.json")
    return begun


def export(run: Path, tree: Tree, node: str, out: Path) -> dict[str, Any]:
    """Copies a node's adapter with its provenance into the new folder `out`; returns the provenance.

    Raises CommandError for a folder that is there, CheckpointError where the adapter isn't what its provenance names.
    """
    source = tree.weights(node)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CommandError(f"--out {out}: already there and not an empty folder; name another one")
    try:
        origin = json.loads((source / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{source / 'provenance.json'}: not readable ({error})") from error
    verify(source / WEIGHTS[0], origin.get("weights_hash"))
    facts = tree.read(node)
    origin |= {"node": node, "parent": facts.get("parent"), "episodes": facts.get("episodes", 0),
               "validation": tree.scores().get(node), "settings": read_run(run)}  # fmt: skip
    with beside(out) as unfinished:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name in WEIGHTS[:2]:
            shutil.copyfile(source / name, unfinished / name)
        (unfinished / WEIGHTS[2]).write_text(json.dumps(origin, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        write_through(unfinished)
        os.replace(unfinished, out)  # an empty folder gives way
    return origin


def verify(path: Path, weights_hash: object) -> None:
    """Raises CheckpointError where a file's tensors aren't those that `weights_hash` names."""
    from npc.models import hash_arrays, read_safetensors  # loads MLX, which no other command needs

    if hash_arrays(read_safetensors(path, CheckpointError)) != weights_hash:
        raise CheckpointError(f"{path}: not the tensors that its provenance names; the file is damaged")


def arguments() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m rl.checkpoints", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("run", metavar="RUN", type=Path, help="a run folder")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("tree", help="all nodes, and which is the head")
    show = commands.add_parser("show", help="all that a node holds")
    show.add_argument("node", metavar="NODE")
    head = commands.add_parser("head", help="which node plays, or choose it")
    head.add_argument("--set", metavar="NODE", help="the new head; training leaves it alone until --set best")
    begin = commands.add_parser("branch", help="let the next --resume go on from a node")
    begin.add_argument("node", metavar="NODE")
    begin.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                       help="a setting of this branch alone, as in rate=3e-4")  # fmt: skip
    prune = commands.add_parser("prune", help="throw away weights that nothing needs; metrics and tree stay")
    prune.add_argument("--keep", action="append", default=[], metavar="NODE", help="may be given several times")
    prune.add_argument("--dry-run", action="store_true", help="only say which")
    out = commands.add_parser("export", help="an adapter with its provenance, ready to be used elsewhere")
    out.add_argument("--out", required=True, metavar="FOLDER", type=Path)
    out.add_argument("--node", metavar="NODE", help="default: the head")
    for command in (parser, *commands.choices.values()):
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
    return parser


def run_command(args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Does what was asked; (what --json prints, lines for people)."""
    run: Path = args.run
    if not is_run(run):
        raise CommandError(f"{run}: no run.toml in it, so it is no run folder")
    tree = Tree(run / "checkpoints")
    again = f"python -m rl.train --resume {shlex.quote(str(run))}"
    match args.command:
        case "tree":
            found = facts_of(tree)
            return found, drawn(found)
        case "show":
            tree.read(args.node) if tree.has(args.node) else tree.weights(args.node)
            node = {"node": args.node, "branch": branch_of(args.node), "folder": str(tree.folder(args.node)),
                    "path": tree.path(args.node), **tree.read(args.node)}  # fmt: skip
            return node, _lines(node)
        case "head":
            if args.set == BEST:
                tree.release_head()
            elif args.set is not None:
                tree.set_head(args.set, by_hand=True)
            by_hand = tree.head_by_hand()
            told = f"{tree.head()} ({'chosen by hand' if by_hand else 'the best on validation seeds'})"
            return {"head": tree.head(), "head_by_hand": by_hand}, [told]
        case "branch":
            begun = branch(run, tree, args.node, args.set)
            changed = "".join(f", {key} = {value}" for key, value in begun.settings.items())
            told = f"branch {begun.branch} begins at {begun.start}{changed}; go on with: {again}"
            return {"branch": begun.branch, "from": begun.start, "settings": begun.settings, "command": again}, [told]
        case "prune":
            for name in args.keep:
                tree.weights(name)
            if args.dry_run:
                stays = tree.needed() | set(args.keep)
                gone = [n for n in tree.names() if n not in stays and not tree.read(n).get("pruned")]
                return {"would_prune": gone}, [f"would prune {', '.join(gone) or 'nothing'}"]
            gone, freed = tree.prune(args.keep)
            return {"pruned": gone, "bytes": freed}, [f"pruned {', '.join(gone) or 'nothing'}, {freed:,} bytes freed"]
        case _:
            name = args.node or tree.head()
            export(run, tree, name, args.out)
            return {"node": name, "out": str(args.out)}, [f"{name} is in {args.out}"]


def _lines(node: dict[str, Any]) -> list[str]:
    lines = [f"{key}: {value if not isinstance(value, list) else ' → '.join(map(str, value))}"
             for key, value in node.items() if not isinstance(value, dict)]  # fmt: skip
    return lines + [f"  {key}: {value}" for key, value in (node.get("metrics") or {}).items()]


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    try:
        found, lines = run_command(args)
    except (CheckpointError, CommandError, ConfigError, NpcError, OSError) as error:
        return fail("rl.checkpoints", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    if getattr(args, "json", False):
        print(json.dumps(found))
    else:
        print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(ended("rl.checkpoints", main))
