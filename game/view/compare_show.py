"""A comparison in the window: two villages, a strip of facts under each, and a slider over a run's checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pygame
from pygame import Rect

from game.view import strip
from game.view.compare import Comparison, Side
from game.view.facts import facts_of
from game.view.layout import MAP
from game.view.menu import draw_help
from game.view.picture import BORDER
from game.view.scene import Scene
from game.view.show import Control, Point, keys_line
from game.view.stage import Moment
from game.view.text import DARK, DIM, GOLD, INK, RED, Fonts, fit, wrap, write
from game.view.tiles import load_tiles
from game.view.words import Words
from scenarios.village_map import load_village

BETWEEN, FOOT = 6, 26  # pixels at scale 1
SETTLES_S = 0.35  # a checkpoint plays when the slider has rested on it for so long
STILL_S, STILL_TICKS = 0.5, 16  # in a film, what moves of itself and the light change only so often
LEFT_BUTTON = 1
MARGIN = 12
WORDS = 0.82  # of the words in the villages, which are small here, to those under them
SLIDER_KEYS = (
    (0, "left", (pygame.K_a, pygame.K_d), "a d"),
    (1, "right", (pygame.K_LEFT, pygame.K_RIGHT), "arrows"),
)


@dataclass(frozen=True)
class Places:
    """Where things are: for each side the village and the strip under it; the foot below both."""

    scale: float
    villages: tuple[Rect, Rect]
    strips: tuple[Rect, Rect]
    foot: Rect

    @classmethod
    def of(cls, size: tuple[int, int], slider: bool) -> Places:
        """For a picture of `size`; the villages at a whole-number zoom where that fits well."""
        width, height = size
        rows = strip.HEIGHT + (strip.SLIDER if slider else 0)
        wanted = first_size(slider)
        scale = min(max(min(width / wanted[0], height / wanted[1]), 0.78), 4.0)
        between, low, foot = round(BETWEEN * scale), round(rows * scale), round(FOOT * scale)
        column = (width - between) // 2
        zoom = max(min(column / MAP[0], (height - low - foot) / MAP[1]), 0.05)
        zoom = float(int(zoom)) if zoom >= 1 and int(zoom) >= 0.8 * zoom else zoom
        drawn = (max(round(MAP[0] * zoom), 1), max(round(MAP[1] * zoom), 1))
        villages, strips = [], []
        for left in (0, column + between):
            room = Rect(left, 0, column, max(height - low - foot, 1))
            village = Rect((0, 0), drawn)
            village.center = room.center
            villages.append(village)
            strips.append(Rect(left, height - low - foot, column, low))
        return cls(scale, (villages[0], villages[1]), (strips[0], strips[1]), Rect(0, height - foot, width, foot))


def first_size(slider: bool) -> tuple[int, int]:
    """Both villages at zoom 1, words at scale 1."""
    return 2 * MAP[0] + BETWEEN, MAP[1] + strip.HEIGHT + (strip.SLIDER if slider else 0) + FOOT


class CompareShow:
    """Satisfies `show.Show`. With `still`, for a film: no keys, and little that moves only to be looked at."""

    done = False

    def __init__(self, comparison: Comparison, still: bool = False) -> None:
        self.comparison = comparison
        self._still = still
        self._sliders = any(side.nodes for side in comparison.sides) and not still
        tiles = load_tiles()
        self._scenes = [Scene(load_village(), tiles) for _ in comparison.sides]
        self.helped = False
        self._held = -1  # the side whose slider the pointer holds
        self._wanted: tuple[int, int] | None = None  # side and checkpoint that the slider was moved to
        self._rested_s = 0.0
        self.controls = self._make_controls()
        self.first_size = first_size(self._sliders)
        if still:
            self.first_size = (self.first_size[0], self.first_size[1] - FOOT)
        self.resize(self.first_size)

    def resize(self, size: tuple[int, int]) -> None:
        foot = FOOT if self._still else 0
        self.places = Places.of((size[0], size[1] + foot), self._sliders)
        self._surface = pygame.Surface(size)
        self.fonts = Fonts(self.places.scale)
        self._words = Words(Fonts(self.places.scale * WORDS))
        self._strip = strip.Strip(self.fonts)

    # -- playing ------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """One frame of so many seconds; a slider that has come to rest puts its checkpoint to play."""
        if self._wanted is not None:
            self._rested_s += seconds
            if self._rested_s >= SETTLES_S:
                (side, node), self._wanted = self._wanted, None
                self.comparison.choose(side, node)
        self.comparison.advance(seconds)

    def wait(self, seconds: float) -> None:
        self.comparison.wait(seconds)

    def _make_controls(self) -> tuple[Control, ...]:
        act = self.comparison
        plus, minus = (pygame.K_PLUS, pygame.K_KP_PLUS, pygame.K_EQUALS), (pygame.K_MINUS, pygame.K_KP_MINUS)
        controls = [
            Control((pygame.K_SPACE,), "space", "pause, or go on", act.pause, "pause"),
            Control(plus, "+", "faster", lambda: act.faster(1), "faster"),
            Control(minus, "−", "slower", lambda: act.faster(-1), "slower"),
            Control((pygame.K_r,), "r", "this seed again", lambda: act.start(act.seed), "again"),
            Control((pygame.K_TAB, pygame.K_n), "tab", "the next seed", act.next, "next seed"),
        ]
        for side, name, keys, shown in SLIDER_KEYS:
            if act.sides[side].nodes:
                doc, brief = f"the checkpoint before or after, of the run on the {name}", f"{name} run"
                controls += [
                    Control(keys[:1], shown, doc, lambda side=side: self._move(side, -1), brief),  # type: ignore[misc]
                    Control(keys[1:], shown, "", lambda side=side: self._move(side, 1)),  # type: ignore[misc]
                ]
        page = (pygame.K_h, pygame.K_F1, pygame.K_QUESTION)
        controls.append(Control(page, "h", "this page of keys", self._help, "keys"))
        return tuple(controls)

    def _help(self) -> None:
        self.helped = not self.helped

    def _node(self, side: int) -> int:
        """The checkpoint that the slider of a side stands on."""
        if self._wanted is not None and self._wanted[0] == side:
            return self._wanted[1]
        return self.comparison.sides[side].node

    def _move(self, side: int, by: int) -> None:
        self._want(side, self._node(side) + by)

    def _want(self, side: int, node: int) -> None:
        count = len(self.comparison.sides[side].nodes)
        self._wanted, self._rested_s = (side, min(max(node, 0), count - 1)), 0.0

    # -- pointer and keys ---------------------------------------------------------------------------------------

    def press(self, key: int) -> bool:
        """Escape closes the page of keys, if it is open."""
        if key == pygame.K_ESCAPE and self.helped:
            self.helped = False
            return True
        return False

    def click(self, at: Point, button: int) -> None:
        self._held = -1
        if button == LEFT_BUTTON and self._sliders:
            for side, room in enumerate(self.places.strips):
                slider = strip.slider_of(self.fonts, room).inflate(0, self.fonts.px(8))
                if self.comparison.sides[side].nodes and slider.collidepoint(at):
                    self._held = side
            self.drag(at)

    def drag(self, at: Point) -> None:
        """Holding a slider: the checkpoint under the pointer."""
        if self._held >= 0:
            room, nodes = self.places.strips[self._held], self.comparison.sides[self._held].nodes
            self._want(self._held, strip.node_at(self.fonts, room, len(nodes), at[0]))

    def hover(self, at: Point) -> None:
        self._held = -1

    # -- drawing ------------------------------------------------------------------------------------------------

    def draw(self, p99_ms: float = 0.0) -> pygame.Surface:
        """Both sides as they are now; the same surface until the size changes."""
        surface = self._surface
        surface.fill(BORDER)
        for at, side in enumerate(self.comparison.sides):
            self._draw_side(surface, at, side)
        if not self._still:
            self._draw_foot(surface, p99_ms)
        if self.helped:
            helped = tuple((control.shown, control.doc) for control in self.controls if control.doc)
            draw_help(surface, surface.get_rect(), self.fonts, helped)
        return surface

    def _draw_side(self, surface: pygame.Surface, at: int, side: Side) -> None:
        village, room = self.places.villages[at], self.places.strips[at]
        moment = side.stage.moment()
        if moment is None:
            self._draw_text(surface, village, side.session.turn.observation)
        else:
            if self._still:
                moment = _still(moment)
            self._scenes[at].draw(surface, village, moment)
            self._words.draw(surface, village, self._scenes[at], moment)
        facts = facts_of(side.session, side.stage.revealed)
        self._strip.draw(surface, room, side.policy, facts)
        if self._sliders and side.nodes:
            strip.draw_slider(surface, self.fonts, room, side.nodes, self._node(at))
        verdict = strip.verdict(self.fonts, facts)
        if verdict is not None:
            surface.blit(verdict, verdict.get_rect(midtop=(village.centerx, village.top + self.fonts.px(10))))

    def _draw_text(self, surface: pygame.Surface, room: Rect, text: str) -> None:
        """Instead of the village, for a scenario that is not played there."""
        surface.fill(DARK, room)
        y = room.y + self.fonts.px(60)  # under the verdict
        for part in text.split("\n"):
            for line in wrap(self.fonts.normal, part, room.width - self.fonts.px(40), 20):
                write(surface, self.fonts.normal, line, (room.x + self.fonts.px(20), y), INK)
                y += self.fonts.px(22)

    def _draw_foot(self, surface: pygame.Surface, p99_ms: float) -> None:
        act, foot, font, px = self.comparison, self.places.foot, self.fonts.small, self.fonts.px
        surface.fill(DARK, foot)
        words = [f"frame p99 {p99_ms:.1f} ms"] if p99_ms else []
        words += [f"seed {act.seed}", "paused" if act.paused else f"speed ×{act.speed}"]
        colour = RED if act.note else GOLD if act.paused else INK
        right, y = foot.right - px(MARGIN), foot.y + px(7)
        taken = write(surface, font, act.note or "  ·  ".join(words), (0, y), colour, right=right).width
        keys = fit(font, keys_line(self.controls), foot.width - taken - px(3 * MARGIN))
        write(surface, font, keys, (foot.x + px(MARGIN), y), DIM)


def _still(moment: Moment) -> Moment:
    """The same moment, with little that changes from one picture to the next but for the people: a smaller film."""
    tick = moment.before.tick // STILL_TICKS * STILL_TICKS
    return replace(
        moment, before=moment.before._replace(tick=tick), after=moment.after._replace(tick=tick),
        time_s=math.floor(moment.time_s / STILL_S) * STILL_S,
    )  # fmt: skip
