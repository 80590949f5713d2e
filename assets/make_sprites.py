"""Write assets/sprites: a sheet for each person, the items and the marks. `python -m assets.make_sprites`.

PERSON.png  16 x 20 a picture; rows north, east, south, west; columns standing, left foot, right foot
items.png   16 x 16 a picture, in one row, in the order of assets.draw_items.ITEMS
marks.png   16 x 16 a picture, in one row, in the order of assets.draw_items.MARKS
life.png    16 x 16 a picture, in one row, in the order of assets.draw_life.LIFE
sails.png   48 x 64 a picture, in one row: the mill's sails at each step of a quarter turn
"""

from pathlib import Path

from assets.draw_items import ITEMS, MARKS, strip
from assets.draw_life import life, sails
from assets.draw_people import PEOPLE, sheet
from assets.pixels import write_png

FOLDER = Path(__file__).parent / "sprites"


def main() -> None:
    """Draw and write every sheet."""
    for name, look in PEOPLE.items():
        write_png(FOLDER / f"{name}.png", sheet(look))
    write_png(FOLDER / "items.png", strip(ITEMS))
    write_png(FOLDER / "marks.png", strip(MARKS))
    write_png(FOLDER / "life.png", life())
    write_png(FOLDER / "sails.png", sails())


if __name__ == "__main__":
    main()
