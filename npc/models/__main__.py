"""The models that go by a name: `python -m npc.models list`, `pull smollm2-135m`, `check smollm2-135m`."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import scenarios
from npc import catalog
from npc.errors import ModelError, PolicyError
from npc.hub import cached_ids, hub_folder, is_hub_id
from npc.models import Brain
from rl.command import INTERRUPTED, Parser, ended, fail

PLAYS, TURNS = 40, 20  # episodes of random play, and turns of each, whose words are tried on a tokenizer


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments().parse_args(argv)
    try:
        if args.command == "list":
            return show_list(args.json)
        if args.command == "pull" and is_hub_id(args.name):
            print(f"{args.name}: in {hub_folder(args.name)}")
            return 0
        if args.command == "pull":
            from npc.fetch import pull

            pull(args.name, Path(args.file) if args.file else None, lambda line: print(line, flush=True), args.again)
            return 0
        return check(args.name)
    except ModelError as error:
        return fail("npc.models", error)
    except KeyboardInterrupt:
        print("stopped; nothing was changed", file=sys.stderr)
        return INTERRUPTED


def arguments() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m npc.models", description=(__doc__ or "").split(":")[0] + ".")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="the models by name, and which of them are on this machine")
    listing.add_argument("--json", action="store_true", help="one object a line")
    pulling = commands.add_parser("pull", help="fetch a model into the cache, once")
    pulling.add_argument("name", help=f"{', '.join(catalog.WHEELS)}, or an id of the hub (org/name)")
    pulling.add_argument("--from", dest="file", metavar="FILE", help="its wheel, where it was fetched by other means")
    pulling.add_argument("--again", action="store_true", help="replace what is there")
    checking = commands.add_parser("check", help="prove that a model says here what its file says")
    checking.add_argument("name", help=f"{', '.join(catalog.NAMES)}, a model folder, or an id of the hub")
    return parser


def show_list(as_json: bool) -> int:
    for name in catalog.NAMES[1:]:
        folder, there = catalog.model_folder(name), catalog.is_there(name)
        wheel = catalog.WHEELS.get(name)
        about = f"{wheel.about}, {wheel.licence}" if wheel else "the embedded model, 0.9 M parameters, MIT"
        if as_json:
            print(json.dumps({"name": name, "there": there, "folder": str(folder), "about": about}))
        else:
            state = str(folder) if there else f"not on this machine: python -m npc.models pull {name}"
            print(f"{name:14} {about}\n{'':14} {state}")
    for name in cached_ids():
        if as_json:
            print(json.dumps({"name": name, "there": True, "folder": str(hub_folder(name)), "about": "of the hub"}))
        else:
            print(f"{name}\n{'':14} of the hub, in its cache")
    if not as_json:
        name, why = catalog.resolve(catalog.AUTO)
        print(f"{catalog.AUTO:14} {name} here ({why})")
    return 0


def check(name: str) -> int:
    """Loads the model and says of every proof what it found. Raises ModelError for one that fails."""
    from npc import proving
    from npc.models import load

    brain = load(name)
    print(f"weights: whole, {brain.base_hash}")
    if brain.name not in catalog.NAMES:
        return check_any(brain)
    words = proving.check_round_trip(brain.tokenizer, village_texts())
    foreign = proving.check_round_trip(brain.tokenizer, proving.unicode_texts(brain.tokenizer, 500))
    print(f"tokenizer: {words} texts of the village and {foreign} from all over Unicode come back as they were")
    if brain.tokenizer.unspeakable:
        print(f"tokenizer: refuses what needs one of the bytes {brain.tokenizer.unspeakable.hex(' ')}: it has no token")
    if brain.name in catalog.WHEELS:
        worst = proving.prove(brain, proving.read_reference(catalog.model_folder(brain.name)))
        print(f"log-probabilities: at most {worst:.4f} from a float64 computation (tolerance {proving.TOLERANCE})")
        said = proving.answer(brain)
        print(f"answer: {proving.QUESTION} {said}")
        if proving.ANSWER not in said:
            raise ModelError(f"{brain.name}: that answer doesn't name {proving.ANSWER}; pull the model --again")
    print(f"{brain.name} is as it should be")
    return 0


def check_any(brain: Brain) -> int:
    """The proofs for a model that is none of ours: it can speak every scenario's actions, and decides as the plain
    forward of mlx-lm does, one phrase after the other."""
    from npc import proving

    print(f"model: {proving.describe(brain)}")
    for name in scenarios.names():
        brain.check_speaks(scenarios.get(name).vocabulary)
    print(f"tokenizer: can speak the words of {', '.join(scenarios.names())}")
    print(f"prompt: {brain.form.name}" + (", by its chat template" if brain.form.template else ""))
    scenario = scenarios.get(scenarios.names()[0])
    states = [scenario.build(seed, scenario.resolve_options({})) for seed in list(scenario.splits["train"][:3])]
    turns = [(scenario.observation(state), scenario.legal(state)) for state in states]
    try:
        worst, bound = proving.prove_decisions(brain, scenario.prefix, turns)
    except PolicyError as error:
        raise ModelError(f"{brain.name}: {error}") from error
    print(f"decisions: probabilities at most {worst:.1e} from mlx-lm's plain forward (tolerance {bound})")
    print(f"{brain.name} is as it should be")
    return 0


def village_texts() -> list[str]:
    """Every word of every scenario, and what random play reads and says, as the prompt holds it: behind a space."""
    dice = random.Random("words")
    found: dict[str, None] = {}
    for name in scenarios.names():
        scenario = scenarios.get(name)
        found |= dict.fromkeys([scenario.prefix, *(f" {word}" for word in scenario.vocabulary)])
        for seed in scenario.splits["train"][:PLAYS]:
            state = scenario.build(seed, scenario.resolve_options({}))
            for _ in range(TURNS):
                phrases = scenario.legal(state)
                found |= dict.fromkeys(f" {text}" for text in (scenario.observation(state), *phrases))
                if not phrases or scenario.apply(state, dice.choice(phrases)).ended is not None:
                    break
    return list(found)


if __name__ == "__main__":
    sys.exit(ended("npc.models", main))
