"""The map's and the people's pictures load and draw without a display, and show what the scripts drew."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pygame
import pytest

from assets import draw_items, draw_people, make_village
from assets.make_village import PLAN, make_map, make_tileset
from assets.pixels import canvas, rgba, write_png
from game.sim.village_map import MapError
from game.view import sprites, tiles
from scenarios.village_map import PLACE_NAMES


def pixels(surface: pygame.Surface) -> np.ndarray:
    """RGB of a surface, (height, width, 3), with transparent pixels black."""
    flat = pygame.Surface(surface.get_size())
    flat.blit(surface, (0, 0))
    return np.frombuffer(pygame.image.tobytes(flat, "RGB"), np.uint8).reshape(*surface.get_size()[::-1], 3)


def test_the_map_is_drawn_at_whole_scales() -> None:
    village = tiles.load_tiles()
    assert village.size(2) == (960, 640)
    once, twice = village.draw(1), village.draw(2)
    assert (pixels(twice)[::2, ::2] == pixels(once)).all()
    assert village.tile_rect(3, 4, 2) == pygame.Rect(96, 128, 32, 32)


def test_water_is_drawn_where_the_plan_has_it() -> None:
    drawn = pixels(tiles.load_tiles().draw(1))
    water = rgba("water")[:3]
    for y, line in enumerate(PLAN):
        for x, letter in enumerate(line):
            middle = drawn[y * 16 + 4 : y * 16 + 12, x * 16 + 4 : x * 16 + 12].reshape(-1, 3)
            share = float((middle == water).all(axis=1).mean())
            assert (share > 0.5) == (letter == "~"), (x, y, letter)


def test_the_committed_map_is_what_the_script_writes() -> None:
    village = tiles.load_tiles()
    data = make_map(make_tileset())
    for layer in data["layers"]:  # type: ignore[attr-defined]
        if layer["type"] == "tilelayer":
            assert list(itertools.chain(*village.layers[layer["name"]])) == layer["data"]
    assert make_village.PLACES == PLACE_NAMES


def test_the_view_names_what_the_scripts_draw() -> None:
    assert tuple(draw_people.PEOPLE) == sprites.PEOPLE
    assert draw_people.DIRECTIONS == sprites.DIRECTIONS
    assert tuple(draw_items.ITEMS) == sprites.ITEMS
    assert tuple(draw_items.MARKS) == sprites.MARKS


def test_every_sprite_is_there_and_no_two_look_the_same() -> None:
    loaded = sprites.Sprites(scale=2)
    pictures = {}
    for name in sprites.PEOPLE:
        for direction in sprites.DIRECTIONS:
            for step in range(3):
                picture = loaded.person(name, direction, step)
                assert picture.get_size() == (32, 40)
                pictures[name, direction, step] = picture
    for name in sprites.ITEMS:
        assert loaded.item(name).get_size() == (32, 32)
        pictures[name, "", 0] = loaded.item(name)
    for name in sprites.MARKS:
        pictures[name, "", 0] = loaded.mark(name)
    assert len({pygame.image.tobytes(picture, "RGBA") for picture in pictures.values()}) == len(pictures)


def test_people_stand_inside_their_tile_and_the_mark_is_above_the_head() -> None:
    loaded = sprites.Sprites(scale=2)
    tile = pygame.Rect(64, 96, 32, 32)
    x, y = loaded.person_corner(tile)
    assert x == tile.x and y + 40 == tile.bottom - 4
    assert loaded.mark_corner(tile)[1] < y
    assert loaded.thinking(4) is loaded.mark("thinking 2")
    assert [sprites.walking_step(half) for half in range(5)] == [1, 0, 2, 0, 1]


def test_a_sheet_of_another_size_and_a_file_that_is_no_picture_are_named(tmp_path: Path) -> None:
    write_png(tmp_path / "mara.png", canvas(16, 16))
    with pytest.raises(MapError, match=r"mara.png: the sheet is 16 x 16, not 48 x 80"):
        sprites.Sprites(folder=tmp_path)
    (tmp_path / "mara.png").write_text("no picture")
    with pytest.raises(MapError, match=r"mara.png: not a picture"):
        sprites.Sprites(folder=tmp_path)


def test_loading_opens_neither_window_nor_sound() -> None:
    code = (
        "import pygame; from game.view import sprites, tiles; tiles.load_tiles().draw(2); sprites.Sprites();"
        "assert not pygame.display.get_init(); assert not pygame.mixer.get_init()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
