"""What of the village is under a point of the picture."""

from __future__ import annotations

import math

import pygame

from game.sim.cast import RUNNER
from game.view.intents import Target
from game.view.picture import Picture
from game.view.snapshot import Figure
from game.view.sprites import PERSON_SIZE
from game.view.stage import Moment

REACH = 44  # source pixels round a visitor's tile that count as the place


def target_at(picture: Picture, moment: Moment, at: tuple[int, int]) -> Target | None:
    """The person, thing or place under a point of the picture that was last drawn, or None."""
    room, scene = picture.layout.village, picture.scene
    if not room.collidepoint(at):
        return None
    x, y = (at[0] - room.x) / picture.layout.zoom, (at[1] - room.y) / picture.layout.zoom
    near = [
        (math.hypot(body.centerx - x, body.centery - y), figure.name != RUNNER, figure.name, figure)
        for figure in moment.before.figures
        if figure.name in scene.spots and (body := _body(scene.spots[figure.name])).collidepoint(x, y)
    ]
    if near:
        figure = min(near)[3]
        return Target("person", figure.name, _place_of(picture, figure))
    thing = next(((item, place) for item, place, drawn in scene.items if drawn.collidepoint(x, y)), None)
    if thing is not None:
        return Target("item", *thing)
    for place in scene.village.places:
        if place.name in scene.areas and scene.areas[place.name].collidepoint(x, y):
            return Target("place", place.name, place.name)
    distances = [
        (math.hypot(tile.centerx - x, tile.centery - y), place.name)
        for place in scene.village.places
        for tile in [scene.tile_rect(place.x, place.y)]
    ]
    distance, name = min(distances)
    return Target("place", name, name) if distance <= REACH else None


def place_of(picture: Picture, moment: Moment) -> str:
    """Where the errand-runner stands: a place, or "" on the road."""
    return _place_of(picture, moment.before.figures[0])


def _place_of(picture: Picture, figure: Figure) -> str:
    place = picture.scene.village.place_at(figure.x, figure.y)
    return place.name if place is not None else ""


def _body(spot: pygame.Rect) -> pygame.Rect:
    """The source pixels of a person whose tile is drawn at `spot`."""
    width, height = PERSON_SIZE
    return pygame.Rect(spot.x, spot.bottom - height - 2, width, height + 2)
