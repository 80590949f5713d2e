"""`python -m scenarios list|show|check|new NAME`: what there is, what it is like, if it is sound, and a new one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import scenarios
from npc.errors import NpcError
from rl.checkpoints import CheckpointError
from rl.command import INTERRUPTED, CommandError, Parser, ended, fail, options_from
from rl.play import own_policy
from rl.policies import PolicyNameError
from scenarios import ScenarioError
from scenarios.conformance import Finding, check
from scenarios.contract import Scenario
from scenarios.template import write_new

FAILED = 1
MARKS = {True: "ok  ", False: "FAIL", None: "    "}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 good, 1 a check failed, 2 bad use."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except (ScenarioError, CommandError, PolicyNameError, CheckpointError, NpcError, OSError) as error:
        return fail("scenarios", error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m scenarios", description=(__doc__ or "").split("`")[2].strip(": \n"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    asked = "a name, or module:Class for one of your own"

    one = commands.add_parser("list", help="the scenarios that there are")
    one.add_argument("--json", action="store_true", help="one JSON object a line")
    one.set_defaults(run=_list)

    one = commands.add_parser("show", help="mission, options, rewards, and how an episode begins")
    one.add_argument("name", metavar="NAME", help=asked)
    one.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the scenario")
    one.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    one.add_argument("--json", action="store_true", help="one JSON object")
    one.set_defaults(run=_show)

    one = commands.add_parser("check", help="put it through what every scenario must hold to")
    one.add_argument("name", metavar="NAME", help=asked)
    one.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the scenario")
    one.add_argument("--seeds", type=int, default=12, help="seeds a check (default: %(default)s)")
    one.add_argument("--policy", help="whose rewards are to spread (default: nano with the scenario's adapter)")
    one.add_argument("--no-model", action="store_true", help="leave out what needs a model")
    one.add_argument("--json", action="store_true", help="one JSON object a finding")
    one.set_defaults(run=_check)

    one = commands.add_parser("new", help="write a working scenario and its test, to be changed into yours")
    one.add_argument("name", metavar="NAME", help="in small letters, as in night_watch")
    one.add_argument("--out", default=".", metavar="DIR", help="where to write (default: here)")
    one.set_defaults(run=_new)
    return parser


def _list(args: argparse.Namespace) -> int:
    for name in scenarios.names():
        scenario = scenarios.get(name)
        what = _headline(scenario)
        options = {option.name: option.default for option in scenario.options}
        if args.json:
            print(json.dumps({"name": name, "version": scenario.version, "what": what, "options": options}))
        else:
            settings = " ".join(f"{key}={value}" for key, value in options.items())
            print(f"{name:12} {what}\n{'':12} version {scenario.version}; {settings}")
    return 0


def _show(args: argparse.Namespace) -> int:
    scenario = scenarios.get(args.name)
    options = scenario.resolve_options(options_from(args.option))
    state = scenario.build(args.seed, options)
    facts: dict[str, Any] = {
        "name": scenario.name, "version": scenario.version, "source_hash": scenario.source_hash,
        "turn_cap": scenario.turn_cap, "options": [msgspec.to_builtins(option) for option in scenario.options],
        "reward_terms": [msgspec.to_builtins(term) for term in scenario.reward_terms],
        "splits": {name: [seeds.start, seeds.stop] for name, seeds in scenario.splits.items()},
        "prefix": scenario.prefix, "seed": args.seed, "observation": scenario.observation(state),
        "legal": list(scenario.legal(state)), "doc": type(scenario).__doc__ or "",
    }  # fmt: skip
    if args.json:
        print(json.dumps(facts))
        return 0
    print(facts["doc"].strip())
    print(f"\nversion {scenario.version}, source {scenario.source_hash}, at most {scenario.turn_cap} turns\n\noptions")
    for option in scenario.options:
        print(f"  {option.name}={option.default}   {option.doc}: {', '.join(option.choices)}")
    print("\nreward terms, with what they can come to in an episode")
    for term in scenario.reward_terms:
        print(f"  {term.name}   {term.doc}: {term.low:g} to {term.top:g}")
    print("\nseeds")
    for name, seeds in scenario.splits.items():
        print(f"  {name}   {seeds.start} to {seeds.stop - 1}")
    print(f"\nseed {args.seed} begins\n  prefix       {scenario.prefix}\n  observation  {facts['observation']}")
    print(f"  legal        {', '.join(facts['legal'])}")
    return 0


def _check(args: argparse.Namespace) -> int:
    from rl.scenario_check import NAMES, check_all

    if args.seeds < 1:
        raise CommandError(f"--seeds {args.seeds}: 1 or more")
    if args.no_model and args.policy:
        raise CommandError("--policy and --no-model: give one of them")
    scenario = scenarios.get(args.name)
    options = scenario.resolve_options(options_from(args.option))
    policy = None if args.no_model else args.policy or own_policy(scenario)
    findings = check(scenario, options, args.seeds)
    skipped = {}
    # a scenario that breaks the contract would break the rest in ways that hide the cause
    if all(finding.ok is not False for finding in findings):
        findings += check_all(scenario, options, args.seeds, policy)
        if policy is None:
            skipped = {NAMES[-1]: "it needs a model"}
    else:
        skipped = dict.fromkeys(NAMES, "not before the checks above pass")
    findings += [Finding(name, None, f"skipped: {why}") for name, why in skipped.items()]
    for finding in findings:
        print(json.dumps(msgspec.to_builtins(finding)) if args.json else _told(finding))
    failed, passed = (sum(finding.ok is ok for finding in findings) for ok in (False, True))
    if not args.json:
        left = f"; {len(skipped)} skipped: {', '.join(skipped)}" if skipped else ""
        print(f"{scenario.name}: " + (f"{failed} of {failed + passed} checks failed" if failed else "sound") + left)
    return FAILED if failed else 0


def _told(finding: Finding) -> str:
    return f"{MARKS[finding.ok]} {finding.name:24} {finding.text}"


def _new(args: argparse.Namespace) -> int:
    scenario, test = write_new(args.name, Path(args.out))
    print(f"wrote {scenario.path} and {test}\n")
    print("next, in that folder:")
    for words in ("scenarios check", "rl.play --episodes 8 --group-size 4 --scenario", "rl.train --scenario"):
        print(f"  python -m {words} {scenario.spec}")
    return 0


def _headline(scenario: Scenario) -> str:
    """The first line of its page, without the name."""
    first = (type(scenario).__doc__ or "").strip().split("\n")[0]
    return first.removeprefix(f"{scenario.name}: ")


if __name__ == "__main__":
    sys.exit(ended("scenarios", main))

