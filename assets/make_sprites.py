"""Write assets/sprites: a sheet for each person, the items and the marks. `python -m assets.make_sprites`.

PERSON.png  16 x 20 a picture; rows north, east, south, west; columns standing, left foot, right foot
items.png   16 x 16 a picture, in one row, in the order of assets.draw_items.ITEMS
marks.png   16 x 16 a picture, in one row, in the order of assets.draw_items.MARKS
"""

from pathlib import Path

from assets.draw_items import ITEMS, MARKS, strip
from assets.draw_people import PEOPLE, sheet
from assets.pixels import write_png

FOLDER = Path(__file__).parent / "sprites"


def main() -> None:
    """Draw and write every sheet."""
    for name, look in PEOPLE.items():
        write_png(FOLDER / f"{name}.png", sheet(look))
    write_png(FOLDER / "items.png", strip(ITEMS))
    write_png(FOLDER / "marks.png", strip(MARKS))


if __name__ == "__main__":
    main()
