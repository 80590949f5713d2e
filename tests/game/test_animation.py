"""Animations as files: every frame is there, in its time, and a failure leaves what was there."""

from pathlib import Path

import pygame
import pytest
from PIL import Image

from game.view.animation import LAST_MS, SUFFIXES, save_animation

COLOURS = [(200, 40, 40), (40, 200, 40), (40, 200, 40), (40, 40, 200)]


def frames() -> list[pygame.Surface]:
    made = []
    for at, colour in enumerate(COLOURS):
        surface = pygame.Surface((40, 24))
        surface.fill((12, 13, 18))
        surface.fill(colour, (at // 2 * 8, 4, 8, 8))
        made.append(surface)
    return made


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_frame_is_in_the_file_in_its_time(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"film{suffix}"
    expected = [frame.get_at((at // 2 * 8 + 2, 6))[:3] for at, frame in enumerate(frames())]
    expected[2:] = [expected[3]]
    surfaces = frames()
    surfaces[2] = surfaces[1]  # equal to the one before it: shown longer, not twice
    assert save_animation(surfaces, path, 10) == 3
    with Image.open(path) as film:
        assert film.size == (40, 24) and getattr(film, "n_frames", 1) == 3
        seen, times = [], []
        for at in range(3):
            film.seek(at)
            film.load()
            times.append(film.info["duration"])
            seen.append(film.convert("RGB").getpixel(((0, 0, 8)[at] + 2, 6)))
    assert seen == expected, "no frame is lost or changed"
    assert times == [100, 200, LAST_MS]


def test_what_can_not_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "film.webp"
    path.write_bytes(b"an older film")
    with pytest.raises(ValueError, match="nothing to show"):
        save_animation([], path, 10)

    def broken() -> object:
        yield frames()[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_animation(broken(), path, 10)  # type: ignore[arg-type]
    with pytest.raises(OSError):
        save_animation(frames(), tmp_path / "none" / "film.webp", 10)
    assert [file.name for file in tmp_path.iterdir()] == ["film.webp"] and path.read_bytes() == b"an older film"
