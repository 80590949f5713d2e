"""Pictures and films as files, for the fronts: what can't be written is said before anything is played."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from game.view.errors import BadUse
from game.view.stage import SPEEDS
from rl.files import why_not_writable

if TYPE_CHECKING:
    import pygame

    from game.view.show import Show

GOOD, FAILED = 0, 1
FRAMES_PER_S = 10
SPEED = 4  # of a film
FILM = (".webp", ".png", ".gif")
PICTURE = (".png",)
NARROWEST, LOWEST, LARGEST = 640, 360, 8192  # below, there is no room for the panel's words


def prepare_pygame(dummy: bool) -> None:
    """Before pygame is first imported: no greeting on standard output, and with `dummy` no display."""
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"
    if dummy:
        os.environ["SDL_VIDEODRIVER"] = "dummy"


def show_window(show: Show, size: tuple[int, int] | None) -> int:
    """Runs a show in a window, of that size if one is given, until it is closed; the exit code.

    Raises BadUse where no window can be opened.
    """
    import pygame

    from game.view.window import Window

    try:
        window = Window(show, size=size)
    except pygame.error as error:
        raise BadUse(f"no window can be opened ({error}); --save and --screenshot work without one") from error
    try:
        window.run()
    finally:
        window.close()
    return GOOD


def check_target(option: str, path: Path | None, endings: tuple[str, ...]) -> None:
    """Raises BadUse for a place or an ending that won't do."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise BadUse(f"{option} {path}: give a name that ends in {' or '.join(endings)}")
    if not path.parent.is_dir():
        raise BadUse(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise BadUse(f"{option} {path}: there is a folder of that name; give another place")
    if why := why_not_writable(path.parent):
        raise BadUse(f"{option} {path}: can't be written there ({why}); give another place")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every command takes that can write pictures without a window."""
    parser.add_argument("--screenshot", metavar="FILE.png", type=Path, help="write a picture, without a window")
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="write it all as a film, without a window: .webp, .png (APNG) or .gif"
    )
    parser.add_argument("--speed", type=int, choices=SPEEDS, help="default: 1 in the window, 4 in a film")
    parser.add_argument("--size", metavar="WxH", type=size_of, help="of the picture or the window, in pixels")


def check_options(given: argparse.Namespace) -> None:
    """Raises BadUse for what `add_options` can't have."""
    check_target("--screenshot", given.screenshot, PICTURE)
    check_target("--save", given.save, FILM)


def save_picture(path: Path, draw: Callable[[], pygame.Surface]) -> int:
    """Draws and writes a PNG; the exit code."""
    import pygame

    try:
        pygame.image.save(draw(), str(path))
    except (OSError, pygame.error) as error:
        return _failed(path, error)
    return GOOD


def save_film(path: Path, frames: Iterator[pygame.Surface]) -> int:
    """Writes the frames, `FRAMES_PER_S` a second; the exit code."""
    from game.view.animation import save_animation

    try:
        count = save_animation(frames, path, FRAMES_PER_S)
    except OSError as error:
        return _failed(path, error)
    print(f"{path}: {count} pictures, {path.stat().st_size / 1e6:.2f} MB")
    return GOOD


def _failed(path: Path, error: Exception) -> int:
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    print(f"{path}: the picture can't be written: {why}", file=sys.stderr)
    return FAILED


def size_of(text: str) -> tuple[int, int]:
    """"1320x686" as two numbers of pixels. Raises ArgumentTypeError for what is none, or too small or big."""
    numbers = text.lower().split("x")
    if len(numbers) != 2 or not all(part.isascii() and part.isdigit() for part in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form WIDTHxHEIGHT, as in 1320x686")
    width, height = map(int, numbers)
    if not (NARROWEST <= width <= LARGEST and LOWEST <= height <= LARGEST):
        raise argparse.ArgumentTypeError(f"{text!r}: from {NARROWEST}x{LOWEST} to {LARGEST}x{LARGEST} pixels")
    return width, height
