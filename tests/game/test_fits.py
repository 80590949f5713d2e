"""Nothing in the picture is cut off or written over something else, at small and at large sizes."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pygame
import pytest

from game.view import menu, panel, picture
from game.view.facts import Facts, facts_of
from game.view.layout import Layout
from game.view.menu import Menu
from game.view.panel import Panel
from game.view.person import PERSON
from game.view.picture import Picture, view_of
from game.view.session import Session
from game.view.stage import Stage
from game.view.text import Fonts
from tests.game.fronts import make_session, make_show, play_turn

SIZES = ((640, 480), (960, 540), (1320, 686), (1920, 1080), (2560, 1440))
LONG_NOTE = "the brain process ended unexpectedly (killed by signal 9), a second time; it can't be started again " * 2

Written = list[tuple[str, pygame.Rect]]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Every line that is written in panel, foot and menus from now on, with its rectangle."""
    lines: Written = []
    plain = panel.write

    def write(surface: pygame.Surface, font: object, text: str, *rest: object, **named: object) -> pygame.Rect:
        rect = plain(surface, font, text, *rest, **named)  # type: ignore[arg-type]
        if text:
            lines.append((text, rect))
        return rect

    for module in (panel, picture, menu):
        monkeypatch.setattr(module, "write", write)
    return lines


def moments() -> Iterator[tuple[Session, Stage]]:
    """Turns with much to see, remember and do, thinking, played and over, by a brain and by a person."""
    for seed in (2, 9):
        session = make_session("random", {"difficulty": "5"})
        session.start(seed)
        stage = Stage(session)
        yield session, stage
        for _ in range(9):
            play_turn(session)
            stage.finish()
            yield session, stage


def check(lines: Written, room: pygame.Rect) -> None:
    for text, rect in lines:
        assert room.contains(rect), f"{text!r} at {rect} leaves {room}"
    for (one, first), (other, second) in itertools.combinations(lines, 2):
        assert not first.inflate(0, -4).colliderect(second.inflate(0, -4)), f"{one!r} and {other!r} overlap"


@pytest.mark.parametrize("size", SIZES)
def test_the_panel_fits(size: tuple[int, int], written: Written) -> None:
    layout = Layout.of(size)
    drawn = Panel(layout.panel.size, Fonts(layout.scale))
    whole = pygame.Rect((0, 0), layout.panel.size)
    seen = 0
    for session, stage in moments():
        facts = facts_of(session, stage.revealed)
        for shown in (facts, replace(facts, note=LONG_NOTE), with_keys(facts)):
            written.clear()
            drawn.draw(shown, pointed=shown.choices[-1].phrase)
            check(written, whole)
            texts = [text for text, _ in written]
            assert not any(text.endswith("…") and "turns left" in text for text in texts)
            assert any(choice.phrase in texts for choice in shown.choices if choice.chosen or not session.turns)
            seen = max(seen, len(texts))
    assert seen > 40


def with_keys(facts: Facts) -> Facts:
    """As a person is asked."""
    return replace(facts, choices=tuple(replace(choice, key="0", prob=None) for choice in facts.choices))


@pytest.mark.parametrize("size", SIZES)
def test_the_foot_fits_whatever_is_said(size: tuple[int, int], written: Written) -> None:
    session = make_session("teacher")
    session.start(0)
    show = make_show(session)
    show.resize(size)
    status = "not recording: " + "/a/long/path" * 30 + ": No space left on device"
    view = replace(show.view(99.9), status=status, wrong=True)
    show.picture.draw(view)  # the panel is kept from now on
    written.clear()
    show.picture.draw(view)
    check(written, show.picture.layout.foot)
    texts = [text for text, _ in written]
    assert len(texts) == 3 and "frame p99 99.9 ms" in texts[0] and texts[1].startswith("not recor")
    assert any(text.endswith("help") for text in texts), "the line of keys is whole"


@pytest.mark.parametrize("size", SIZES)
def test_menus_and_help_fit(size: tuple[int, int], written: Written) -> None:
    session = make_session(PERSON)
    session.start(0)
    show = make_show(session)
    show.resize(size)
    surface = pygame.Surface(size)
    whole = surface.get_rect()
    lines = (*(f"give the lantern to {name}" for name in ("Mara", "Tom", "Bram")), "runs/" + "long" * 40)
    for at in ((0, 0), (size[0] - 1, size[1] - 1), (size[0] // 2, size[1] // 2)):
        written.clear()
        rows = menu.draw_menu(surface, show.picture.fonts, Menu("the lantern", lines, at, 1, ("1", "2", "3", "4")))
        check(written, whole)
        assert len(rows) == len(lines) and all(whole.contains(row) for row in rows)
    written.clear()
    menu.draw_help(surface, show.picture.layout.village, show.picture.fonts, show.help_lines())
    check(written, show.picture.layout.village)


@pytest.mark.parametrize("size", SIZES)
def test_bubbles_keep_clear_of_each_other_and_inside(size: tuple[int, int]) -> None:
    drawn = Picture(size)
    most = 0
    for session, stage in moments():
        drawn.draw(view_of(session, stage))
        for one, other in itertools.combinations(drawn.bubbles, 2):
            assert not one.colliderect(other)
        assert all(drawn.layout.village.contains(bubble) for bubble in drawn.bubbles)
        most = max(most, len(drawn.bubbles))
    assert most >= 2
