"""Pixel art in NumPy: the palette, a few brushes and a PNG writer, for the scripts that draw the assets.

An image is a uint8 array of shape (height, width, 4), RGBA, alpha 0 or 255. Colours are names of PALETTE.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

TILE = 16

PALETTE: dict[str, str] = {
    "ink": "2a2438",
    "shade": "3a3450",
    "white": "f4ecd8",
    "grass": "4d7350",
    "grass light": "5f8859",
    "grass dark": "3f6148",
    "leaf": "3c6a4e",
    "leaf light": "5a8f56",
    "leaf dark": "2c4d45",
    "pine": "2f5a52",
    "pine light": "437a62",
    "pine dark": "234440",
    "path": "b89a70",
    "path light": "cbb085",
    "path dark": "98805f",
    "cobble": "938d99",
    "cobble light": "aea8b0",
    "cobble dark": "716c7f",
    "water": "36598a",
    "water light": "4d7cab",
    "water dark": "2c4874",
    "foam": "9cc3cf",
    "sand": "d0b98a",
    "sand light": "e0cc9e",
    "sand dark": "b09a72",
    "wood": "83603f",
    "wood light": "a57d54",
    "wood dark": "5a4033",
    "stone": "8d8999",
    "stone light": "afabb8",
    "stone dark": "646076",
    "plaster": "dccba6",
    "plaster dark": "b8a586",
    "lit": "ffdc82",
    "lit dark": "f0a94c",
    "ember": "ff8a3c",
    "red": "b24a45",
    "red light": "cf6a57",
    "red dark": "863a42",
    "orange": "c98443",
    "orange light": "e2a65e",
    "orange dark": "9a6038",
    "blue": "5a64a0",
    "blue light": "7c88c0",
    "blue dark": "434978",
    "slate": "565c73",
    "slate light": "757c92",
    "slate dark": "3e4258",
    "teal": "3f8a8a",
    "teal light": "64b0a6",
    "teal dark": "2d6470",
    "purple": "7a5290",
    "purple light": "9d74b2",
    "purple dark": "573c70",
    "green": "5c9148",
    "green light": "86b85c",
    "green dark": "41703f",
    "yellow": "e8c04e",
    "yellow dark": "bd8f38",
    "pink": "d98a9c",
    "pink dark": "a8627c",
    "skin": "efc39a",
    "skin dark": "cb9470",
    "brown skin": "a8734f",
    "brown skin dark": "845640",
    "hair": "5d4032",
    "hair grey": "b9b4b8",
    "silver": "c9ced8",
    "silver dark": "8a91a5",
    "bread": "d9994c",
    "bread light": "f0bf74",
    "bread dark": "a5693a",
}


def rgba(colour: str) -> tuple[int, int, int, int]:
    """The RGBA of a name of PALETTE."""
    code = PALETTE[colour]
    return int(code[0:2], 16), int(code[2:4], 16), int(code[4:6], 16), 255


def canvas(width: int, height: int) -> Image:
    """A transparent image."""
    return np.zeros((height, width, 4), dtype=np.uint8)


def rect(image: Image, x: int, y: int, width: int, height: int, colour: str) -> None:
    """Fill a rectangle, clipped to the image."""
    image[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = rgba(colour)


def frame(image: Image, x: int, y: int, width: int, height: int, colour: str) -> None:
    """The one-pixel border of a rectangle."""
    rect(image, x, y, width, 1, colour)
    rect(image, x, y + height - 1, width, 1, colour)
    rect(image, x, y, 1, height, colour)
    rect(image, x + width - 1, y, 1, height, colour)


def dots(image: Image, points: Iterable[tuple[int, int]], colour: str) -> None:
    """Single pixels; those outside the image are left out."""
    height, width = image.shape[:2]
    for x, y in points:
        if 0 <= x < width and 0 <= y < height:
            image[y, x] = rgba(colour)


def line(image: Image, start: tuple[int, int], end: tuple[int, int], colour: str) -> None:
    """A one-pixel line, both ends included."""
    (x0, y0), (x1, y1) = start, end
    steps = max(abs(x1 - x0), abs(y1 - y0), 1)
    dots(
        image,
        ((x0 + round((x1 - x0) * i / steps), y0 + round((y1 - y0) * i / steps)) for i in range(steps + 1)),
        colour,
    )


def disc(image: Image, x: float, y: float, radius: float, colour: str) -> None:
    """A filled circle round (x, y), in pixel centres."""
    rows, columns = np.ogrid[: image.shape[0], : image.shape[1]]
    image[(columns - x) ** 2 + (rows - y) ** 2 <= radius * radius] = rgba(colour)


def drawing(rows: Sequence[str], key: Mapping[str, str]) -> Image:
    """An image from text, a character a pixel: "." and " " are transparent, others are looked up in `key`."""
    image = canvas(max(len(row) for row in rows), len(rows))
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            if letter not in ". ":
                image[y, x] = rgba(key[letter])
    return image


def paste(image: Image, stamp: Image, x: int, y: int) -> None:
    """Lay the opaque pixels of `stamp` over the image at (x, y); the stamp must fit."""
    target = image[y : y + stamp.shape[0], x : x + stamp.shape[1]]
    opaque = stamp[..., 3] > 0
    target[opaque] = stamp[opaque]


def outlined(image: Image, colour: str = "ink") -> Image:
    """A copy in which every transparent 4-neighbour of an opaque pixel has the colour."""
    opaque = image[..., 3] > 0
    near = np.zeros_like(opaque)
    near[1:] |= opaque[:-1]
    near[:-1] |= opaque[1:]
    near[:, 1:] |= opaque[:, :-1]
    near[:, :-1] |= opaque[:, 1:]
    result = image.copy()
    result[near & ~opaque] = rgba(colour)
    return result


def grain(x: int, y: int, salt: int) -> int:
    """A fixed pseudo-random number 0 ... 99 for a pixel, so that textures come out the same each time."""
    value = (x * 374761393 + y * 668265263 + salt * 2147483647) & 0xFFFFFFFF
    value = ((value ^ (value >> 13)) * 1274126177) & 0xFFFFFFFF
    return (value ^ (value >> 16)) % 100


def speckle(image: Image, salt: int, colour: str, percent: int) -> None:
    """Sprinkle single pixels of the colour over the whole image."""
    height, width = image.shape[:2]
    dots(image, [(x, y) for y in range(height) for x in range(width) if grain(x, y, salt) < percent], colour)


def write_png(path: Path, image: Image) -> None:
    """Write an 8-bit RGBA PNG."""
    height, width = image.shape[:2]
    rows = b"".join(b"\0" + image[y].tobytes() for y in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )
