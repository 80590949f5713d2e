"""Writes the golden playthrough of the village again: python -m tests.game.golden.regenerate

As `tests.scenarios.golden.regenerate` does for the other scenarios.
"""

from pathlib import Path

from tests.scenarios.golden.regenerate import Play
from tests.scenarios.golden.regenerate import playthrough as play

GOLDEN = Path(__file__).with_name("fetch_item_seed_7.txt")
PLAY = Play(seed=7, detours={0: "sing a song", 1: "wait", 3: "fourth", 4: "last", 6: "take the moon"})


def playthrough() -> str:
    """The file's text: the teacher's play of one seed, with a few detours, illegal ones among them."""
    return play("fetch_item", PLAY, "python -m tests.game.golden.regenerate")


if __name__ == "__main__":
    GOLDEN.write_text(playthrough(), encoding="utf-8")
    print(f"wrote {GOLDEN.name}")
