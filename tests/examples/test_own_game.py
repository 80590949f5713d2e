"""The game of docs/embedding.md plays, its log can be played again, and its keeper learns, without the village."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import scenarios
from examples import own_game
from recorder import Reader
from rl import distill, train

SPEC = "examples.own_game:Shop"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """First steps that were broken off early, so that there is something left to learn."""
    folder = tmp_path_factory.mktemp("start")
    words = ["--scenario", SPEC, "--episodes", "1", "--max-epochs", "8", "--validation", "8", "--out", str(folder)]
    assert distill.main(words) == 0
    return folder


def test_the_whole_game_is_short():
    assert len(Path(own_game.__file__).read_text(encoding="utf-8").splitlines()) <= 150


def test_every_seed_can_be_solved_and_only_what_is_wanted_earns():
    shop = scenarios.get(SPEC)
    for seed in range(50):
        state, earned, memory = shop.build(seed), 0.0, None
        while shop.ended(state) is None:
            phrase, memory = shop.teacher(memory, shop.observation(state))
            earned += sum(shop.apply(state, phrase).terms.values())
        assert shop.ended(state) == "success" and earned == 1.0
    state = shop.build(0)
    wrong = next(place for place, item in zip(own_game.SHELVES, state.stock, strict=True) if item != state.wants)
    item = state.stock[own_game.SHELVES.index(wrong)]
    steps = (f"go to the {wrong}", f"take the {item}", "go to the inn", f"give the {item} to {state.customer}")
    assert [shop.apply(state, step).terms for step in steps] == [{}, {}, {}, {}] and shop.ended(state) == "wrong"


def test_the_keeper_learns_by_the_trainer_as_it_is(start, tmp_path):
    words = ["--scenario", SPEC, "--adapter", str(start), "--out", str(tmp_path / "run"), "--updates", "4",
             "--groups", "8", "--validation-episodes", "16", "--test-episodes", "64"]  # fmt: skip
    assert train.main(words) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["scenario"] == SPEC
    assert summary["trained"]["ci_low"] > summary["baseline"]["ci_high"]


def test_the_game_plays_and_its_log_can_be_played_again(start, tmp_path):
    log = tmp_path / "shop.b22"
    words = ["-m", "examples.own_game", "--brain", f"nano:{start}", "--customers", "2", "--record", str(log)]
    dummy = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
    done = subprocess.run([sys.executable, *words], env=os.environ | dummy, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with Reader(log) as reader:
        episodes = list(reader.episodes())
    assert len(episodes) == 2 and all(episode.whole for episode in episodes)
    assert [episode.begin.seed for episode in episodes] == [2_000_000, 2_000_001]
    verify = [sys.executable, "-m", "recorder", "verify", "--resim", str(log)]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
