"""The distilled starts that ship: each is of the rules as they are, plays, and leaves something to learn."""

import json
import random
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import scenarios
from rl.policies import TurnView, make_policy, parse_policy
from scenarios.tile_2048 import MOVES, Tile2048, merges

HOME = Path(str(resources.files("assets") / "adapters" / "nano"))
TILE = scenarios.get("tile_2048")


@pytest.mark.parametrize("name", sorted(path.name for path in HOME.iterdir()))
def test_a_start_was_made_for_the_version_that_it_is_used_with(name: str) -> None:
    made = json.loads((HOME / name / "provenance.json").read_text())
    scenario = scenarios.get(name)
    assert (made["scenario"], made["scenario_version"]) == (name, scenario.version)
    assert made["options"] == scenario.resolve_options({})
    assert made["split"] == "train" and made["command"].startswith("python -m rl.distill ")
    assert made["figures"]["success"] < 0.6, "little is left to learn from such a start"


def test_the_start_of_tile_2048_leans_towards_moves_that_merge_and_is_not_sure() -> None:
    assert isinstance(TILE, Tile2048)
    views, best = [], []
    for seed in range(3):
        state, dice = TILE.build(seed), random.Random(seed)
        while TILE.ended(state) is None:
            legal = TILE.legal(state)
            counts = np.array([merges(state.cells, move) for move in legal])
            if counts.max() > counts.min():
                views.append(TurnView(TILE.clone(state), TILE.observation(state), legal))
                best.append(counts == counts.max())
            TILE.apply(state, dice.choice(legal))
    policy = make_policy(parse_policy("nano:tile_2048"), TILE)
    decisions = policy.decide(views, [0.5] * len(views))
    at_best = np.mean([np.array(d.probs)[most].sum() for d, most in zip(decisions, best, strict=True)])
    by_chance = np.mean([most.mean() for most in best])
    assert len(views) > 100
    assert by_chance + 0.03 < at_best < 0.9
    left = [d.probs[2] for d, view in zip(decisions, views, strict=True) if view.legal == MOVES]
    assert len(left) > 50 and np.std(left) > 0.03, "what it does depends on the slab"
