"""The village's nouns: places, items and characters, in the order that every list keeps."""

from __future__ import annotations

PLACES = ("dock", "inn", "market", "mill", "well", "chapel", "forge", "bakery", "garden", "tower")

ITEMS = (
    "lantern", "rope", "bread", "fish", "book", "key",
    "hammer", "apple", "candle", "bottle", "basket", "flute",
)  # fmt: skip

# name -> what they do all day (shown in the docs and by the view)
CHARACTERS = {
    "Mara": "innkeeper: the inn, and the market for supplies",
    "Tom": "fisher: the dock, and the market to sell",
    "Nell": "baker: the bakery, and the mill for flour",
    "Bram": "guard: walks a round of all places; nothing is taken in his sight",
    "Pip": "child: takes things that lie about, or out of the runner's hands, and leaves them elsewhere",
    "Ada": "reeve: calls people away from where they wait",
    "Olin": "peddler: picks things up, carries them round, sets them down at the market; hands over what is asked",
}

RUNNER = "runner"
# who may ask for something: those who can be found again when Ada or Pip are left out of the world
ASKERS = ("Mara", "Tom", "Nell", "Bram", "Olin")

# home and second place of those with a two-place day
ROUTINES = {"Mara": ("inn", "market"), "Tom": ("dock", "market"), "Nell": ("bakery", "mill"),
            "Ada": ("tower", "chapel")}  # fmt: skip
