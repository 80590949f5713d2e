"""Pictures one after the other as a file: WebP, APNG or GIF, by the ending of its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pygame
from PIL import Image

SUFFIXES = (".webp", ".png", ".gif")
SAMPLES = 6  # pictures that a GIF's palette is made from
LAST_MS = 2000  # the last picture stays for so long before it begins anew

# what Pillow is told besides: nothing is lost but colours in a GIF; more effort makes it no
# smaller, only slower, and whole pictures in between (kmax apart) make it half as big again
_SAVE: dict[str, dict[str, Any]] = {
    ".webp": {"format": "WEBP", "lossless": True, "quality": 40, "method": 1, "kmin": 9, "kmax": 10_000},
    ".png": {"format": "PNG", "default_image": False},
    ".gif": {"format": "GIF", "optimize": False, "disposal": 1},
}


def save_animation(frames: Iterable[pygame.Surface], path: Path, frames_per_s: int) -> int:
    """Writes the frames, endlessly repeated; equal ones in a row become one that stays longer. Returns their number.

    The file is put in its place when it is whole. Raises OSError where it can't be written, ValueError without frames.
    """
    pictures: list[Image.Image] = []
    times: list[int] = []
    before = b""
    for frame in frames:
        pixels = pygame.image.tobytes(frame, "RGB")
        if pixels == before:
            times[-1] += round(1000 / frames_per_s)
            continue
        pictures.append(Image.frombytes("RGB", frame.get_size(), pixels))
        times.append(round(1000 / frames_per_s))
        before = pixels
    if not pictures:
        raise ValueError(f"{path}: there is nothing to show")
    times[-1] = LAST_MS
    suffix = path.suffix.lower()
    beside = path.with_name(f".{path.name}.unfinished")
    try:
        if suffix == ".gif":
            pictures = list(_with_palette(pictures))
        pictures[0].save(
            beside, save_all=True, append_images=pictures[1:], duration=times, loop=0, **_SAVE[suffix]
        )
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return len(pictures)


def _with_palette(pictures: list[Image.Image]) -> Iterator[Image.Image]:
    """All in the colours that serve a few of them best: one palette, so that nothing flickers."""
    some = [pictures[at * (len(pictures) - 1) // (SAMPLES - 1)] for at in range(SAMPLES)]
    width, height = some[0].size
    sheet = Image.new("RGB", (width, height * SAMPLES))
    for at, picture in enumerate(some):
        sheet.paste(picture, (0, at * height))
    palette = sheet.quantize(255, dither=Image.Dither.NONE)
    return (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
