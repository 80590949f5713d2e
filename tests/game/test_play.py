"""A person at the window: takes over, chooses by key and by click, hands back, branches off; the log says who did what.

All of it goes through the real event loop: events are posted, frames are run.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pygame
import pytest

from game.sim.observation import OUTCOME_KINDS
from game.view.intents import Target, intents
from game.view.journal import Journal
from game.view.person import PERSON, Person
from game.view.play_show import PlayShow
from game.view.players import BrainFailed, Identity, RulePlayer
from game.view.session import OVER, PLAYED, THINKING
from game.view.sound import OUTCOMES, TUNES, Sounds, samples
from game.view.window import Window
from npc.decision import Decision
from recorder import Episode, Reader
from recorder.__main__ import main as recorder_main
from tests.game.fronts import FETCH, make_session, make_show, play_turn, play_turns

FRAME = 1 / 4  # long frames: there are few of them
LONG = 400  # frames within which anything comes


class Table:
    """A person's seat: posts events to a window and runs its frames."""

    def __init__(self, brain: str, log: Path | None = None, seed: int = 0) -> None:
        self.journal = Journal(log, "1") if log is not None else None
        self.session = make_session(brain, journal=self.journal)
        self.session.start(seed)
        self.show: PlayShow = make_show(self.session)
        self.show.stage.speed = 4
        self.window = Window(self.show)

    def close(self) -> None:
        self.window.close()
        self.show.roster.close()
        if self.journal is not None:
            self.journal.close()

    def press(self, *keys: int) -> None:
        for key in keys:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, unicode="", mod=0))
        self.window.frame(0)

    def point(self, at: tuple[int, int]) -> None:
        pygame.event.post(pygame.event.Event(pygame.MOUSEMOTION, pos=at, rel=(0, 0), buttons=(0, 0, 0)))
        self.window.frame(0)

    def click(self, at: tuple[int, int]) -> None:
        pygame.event.post(pygame.event.Event(pygame.MOUSEBUTTONDOWN, pos=at, button=1))
        self.window.frame(0)

    def frames(self, count: int) -> None:
        for _ in range(count):
            self.window.frame(FRAME)

    def until(self, true: Callable[[], bool]) -> None:
        for _ in range(LONG):
            if true():
                return
            self.window.frame(FRAME)
        raise AssertionError(f"it did not come in {LONG} frames")

    def asked(self) -> None:
        """Runs until a person is asked."""
        self.until(lambda: self.show.asked)

    def where(self, place: str) -> tuple[int, int]:
        """The pixels of a place's tile in the window."""
        spot = self.show.picture.scene.village.place(place)
        return self._pixels(self.show.picture.scene.tile_rect(spot.x, spot.y).center)

    def person(self, name: str) -> tuple[int, int]:
        spot = self.show.picture.scene.spots[name]
        return self._pixels((spot.centerx, spot.bottom - 8))

    def _pixels(self, source: tuple[int, int]) -> tuple[int, int]:
        layout = self.show.picture.layout
        left, top = layout.village.topleft
        return left + round(source[0] * layout.zoom), top + round(source[1] * layout.zoom)

    def row(self, phrase: str) -> tuple[int, int]:
        """Where the panel has a phrase."""
        row = dict(self.show.picture.panel.rows)[phrase]
        left, top = self.show.picture.layout.panel.topleft
        return left + row.centerx, top + row.centery

    def line(self, words: str) -> tuple[int, int]:
        """Where the open menu has a line."""
        assert self.show.menu is not None
        return self.show.picture.menu_rows[self.show.menu.lines.index(words)].center


@pytest.fixture
def seat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Table]]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    tables: list[Table] = []

    def sit(brain: str = "teacher", log: Path | None = None, seed: int = 0) -> Table:
        tables.append(Table(brain, log, seed))
        return tables[-1]

    yield sit
    for table in tables:
        table.close()


def read(log: Path) -> list[Episode]:
    with Reader(log) as reader:
        return sorted(reader.episodes(), key=lambda episode: episode.begin.episode)


def test_take_over_act_and_hand_back(seat: Callable[..., Table], tmp_path: Path) -> None:
    table = seat("teacher", tmp_path / "log.b22")
    session = table.session
    table.until(lambda: session.turns_played == 1 and session.phase == THINKING)
    table.press(pygame.K_t)
    assert table.show.asked and session.deciding == PERSON
    table.frames(40)
    assert session.turns_played == 1, "a person has all the time in the world"
    fourth = session.turn.legal[3]
    table.press(pygame.K_4)
    table.until(lambda: session.phase == PLAYED)
    assert session.turn.executed == fourth and session.turn.player == PERSON
    table.asked()
    chosen = session.turn.legal[2]
    table.click(table.row(chosen))
    table.until(lambda: session.turns_played == 3)
    assert session.turn.executed == chosen
    table.press(pygame.K_t)
    table.until(lambda: session.turns_played == 4)
    table.close()
    (episode,) = read(tmp_path / "log.b22")
    assert [turn.player for turn in episode.turns] == ["", PERSON, PERSON, ""]
    assert episode.begin.policy == "teacher" and episode.begin.fork_of is None
    assert [bool(turn.probs) for turn in episode.turns] == [True, False, False, True], "a person tells no probabilities"
    assert all(turn.proposed == turn.executed for turn in episode.turns)
    assert recorder_main(["verify", "--resim", str(tmp_path / "log.b22")]) == 0


def test_a_person_may_play_from_the_first_turn(seat: Callable[..., Table], tmp_path: Path) -> None:
    table = seat(PERSON, tmp_path / "log.b22")
    for _ in range(2):
        table.asked()
        table.press(pygame.K_1)
        table.until(lambda: not table.show.asked)
    table.asked()
    table.press(pygame.K_t)
    assert table.show.menu is not None and "Hand" in table.show.menu.caption, "there is no brain yet to hand back to"
    table.click(table.line("teacher"))
    table.until(lambda: table.session.turns_played == 3)
    table.close()
    mine, handed = read(tmp_path / "log.b22")
    assert (mine.begin.policy, [turn.player for turn in mine.turns]) == (PERSON, [PERSON, PERSON])
    assert (handed.begin.policy, handed.begin.fork_of, handed.begin.fork_turn) == ("teacher", mine.begin.episode, 2)
    assert [turn.player for turn in handed.turns] == [PERSON, PERSON, ""]
    assert [turn.digest_after for turn in handed.turns[:2]] == [turn.digest_after for turn in mine.turns]
    assert recorder_main(["verify", "--resim", str(tmp_path / "log.b22")]) == 0


def test_clicks_offer_what_is_legal_there_and_nothing_else(seat: Callable[..., Table]) -> None:
    table = seat(PERSON, seed=3)
    table.asked()
    table.frames(2)
    session, show = table.session, table.show
    for place in ("dock", "mill", "garden", "chapel"):
        table.click(table.where(place))
        assert show.menu is not None and show.menu.lines == (f"go to the {place}",)
        table.press(pygame.K_ESCAPE)
        assert show.menu is None and table.window.open, "escape closes the menu, not the window"
    table.click(table.person("runner"))
    assert show.menu is not None and show.menu.lines == ("wait",)
    table.click((2, 2))
    assert show.menu is None and session.turns_played == 0
    asker = session.trace[0].asker
    table.click(table.person(asker))
    assert show.menu is not None and show.menu.lines == (f"ask {asker}",)
    table.point(table.line(f"ask {asker}"))
    table.click(table.line(f"ask {asker}"))
    table.until(lambda: session.turns_played == 1)
    assert session.turn.executed == f"ask {asker}" and show.menu is None


def test_arrows_go_through_the_list_and_the_way_is_shown(seat: Callable[..., Table]) -> None:
    table = seat(PERSON)
    table.asked()
    table.press(pygame.K_DOWN, pygame.K_DOWN)
    second = table.session.turn.legal[1]
    view = table.show.view()
    assert view.pointed == second and view.ghosts and view.ghosts[0].chosen
    table.press(pygame.K_UP, pygame.K_UP)
    assert table.show.view().pointed == table.session.turn.legal[-1]
    table.press(pygame.K_DOWN, pygame.K_RETURN)
    table.until(lambda: table.session.turns_played == 1)
    assert table.session.turn.executed == table.session.turn.legal[0]


def test_intents_of_places_people_and_things() -> None:
    legal = ("go to the dock", "go to the inn", "take the rope", "drop the fish", "give the fish to Tom", "ask Tom")
    legal = (*legal, "wait")
    assert intents(Target("place", "dock", "dock"), legal, "mill") == ("go to the dock",)
    assert intents(Target("place", "mill", "mill"), legal, "mill") == ("take the rope", "drop the fish", "wait")
    assert intents(Target("person", "Tom", "mill"), legal, "mill") == ("give the fish to Tom", "ask Tom")
    assert intents(Target("person", "Pip", "inn"), legal, "mill") == ("go to the inn",)
    assert intents(Target("person", "Pip", ""), legal, "mill") == ()
    assert intents(Target("person", "runner", "mill"), legal, "mill") == ("drop the fish", "wait")
    assert intents(Target("item", "rope", "mill"), legal, "mill") == ("take the rope",)
    assert intents(Target("item", "book", "dock"), legal, "mill") == ("go to the dock",)
    about = intents(Target("item", "fish", "mill"), ("move left", *legal), "mill")
    assert about == ("drop the fish", "give the fish to Tom")


def test_a_click_while_a_brain_plays_offers_to_take_over(seat: Callable[..., Table]) -> None:
    table = seat("teacher")
    table.frames(2)
    table.click(table.where("dock"))
    assert table.show.menu is not None and table.show.menu.lines == ("take over here",)
    table.press(pygame.K_RETURN)
    table.asked()
    assert table.session.deciding == PERSON


def test_a_choice_while_paused_plays_that_turn_and_stops(seat: Callable[..., Table]) -> None:
    table = seat(PERSON)
    table.asked()
    table.press(pygame.K_SPACE)
    table.press(pygame.K_1)
    table.until(lambda: table.session.turns_played == 1 and table.session.phase == THINKING)
    assert table.show.stage.paused


def test_branch_off_with_another_brain(seat: Callable[..., Table], tmp_path: Path) -> None:
    table = seat("random", tmp_path / "log.b22", seed=5)
    session = table.session
    table.until(lambda: session.turns_played == 3 and session.phase == PLAYED)
    before = [turn.digest_after for turn in session.turns]
    table.press(pygame.K_f)
    assert table.show.menu is not None and table.show.menu.caption.startswith("Play turn 3 again")
    table.click(table.line("oracle"))
    assert session.phase == THINKING and session.turn.turn == 2 and session.deciding == "oracle"
    table.until(lambda: session.phase == OVER)
    turns = len(session.turns)
    assert session.ended == "success"
    table.press(pygame.K_f)
    table.press(pygame.K_3)
    assert session.turn.turn == turns - 1 and session.phase == THINKING, "the last turn again"
    table.close()
    first, fork = read(tmp_path / "log.b22")[:2]
    assert (fork.begin.policy, fork.begin.fork_of, fork.begin.fork_turn) == ("oracle", first.begin.episode, 2)
    assert [turn.player for turn in fork.turns] == ["random"] * 2 + [""] * (turns - 2)
    assert [turn.digest_after for turn in first.turns] == before
    assert [turn.digest_after for turn in fork.turns[:2]] == before[:2]
    assert first.end is None and fork.end is not None and fork.end.success
    assert recorder_main(["verify", "--resim", str(tmp_path / "log.b22")]) == 0


def test_a_brain_that_is_not_there_is_said_and_nothing_is_lost(
    seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = seat("teacher")
    monkeypatch.setattr(table.show.roster, "names", lambda: ("runs/nowhere",))
    table.until(lambda: table.session.turns_played == 1)
    table.press(pygame.K_f, pygame.K_1)
    assert "runs/nowhere can't play" in table.show.view().status
    assert table.session.deciding == "teacher" and table.session.turns_played == 1


class Broken(RulePlayer):
    """A brain whose file turns out to be damaged when it wakes up."""

    def poll(self) -> Decision | None:
        raise BrainFailed("broken/model.safetensors: damaged")


def test_a_chosen_brain_that_does_not_wake_leaves_the_errand_to_the_person(seat: Callable[..., Table]) -> None:
    table = seat("teacher")
    table.show.roster.add("broken", Broken("random", FETCH))
    table.until(lambda: table.session.turns_played == 1)
    table.press(pygame.K_f)
    table.click(table.line("broken"))
    table.frames(2)
    assert table.show.asked and "broken can't play, it is your turn" in table.show.view().status
    assert "broken" not in table.show.roster.names()
    table.press(pygame.K_t)
    table.until(lambda: table.session.turns_played == 2)
    assert table.session.deciding == "teacher"


def test_help_shows_every_control_and_goes_away(seat: Callable[..., Table]) -> None:
    table = seat("teacher")
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_MINUS, unicode="?", mod=0))
    table.window.frame(0)
    lines = table.show.view().help
    assert {control.shown for control in table.show.controls} <= {key for key, _ in lines}
    keys = list(itertools.chain.from_iterable(control.keys for control in table.show.controls))
    assert len(keys) == len(set(keys)), "no key has two meanings"
    table.press(pygame.K_ESCAPE)
    assert not table.show.view().help and table.window.open


@pytest.mark.parametrize("speed", [1, 4, 16])
def test_the_window_plays_as_headless_does_at_every_speed(seat: Callable[..., Table], speed: int) -> None:
    plain = play_turns(make_session("random", traced=False), 7, 6)
    table = seat("random", seed=7)
    table.show.stage.speed = speed
    digests: list[dict[str, str]] = []
    for _ in range(LONG):
        if len(digests) == len(plain):
            break
        table.window.frame(FRAME)
        if table.session.turns_played > len(digests):
            digests.append(table.session.turn.digest_after)
    assert digests == plain


def test_a_resize_in_the_middle_of_a_choice_loses_nothing(seat: Callable[..., Table]) -> None:
    table = seat(PERSON)
    table.asked()
    table.click(table.where("dock"))
    pygame.display.set_mode((960, 540), pygame.RESIZABLE)
    pygame.event.post(pygame.event.Event(pygame.VIDEORESIZE, size=(960, 540), w=960, h=540))
    table.frames(2)
    assert table.show.menu is None and table.show.asked
    table.click(table.where("dock"))
    table.click(table.line("go to the dock"))
    table.until(lambda: table.session.turns_played == 1)
    assert table.session.turn.executed == "go to the dock"


def test_sounds_follow_what_is_shown_and_only_on_request(
    seat: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    table = seat("oracle", seed=3)
    assert pygame.mixer.get_init() is None and "m" not in {control.shown for control in table.show.controls}
    sounds = Sounds()
    loud = PlayShow(table.session, table.show.stage, table.show.roster, sounds=sounds)
    table.show = table.window.show = loud  # type: ignore[assignment]
    table.until(lambda: "delivered" in sounds.played)
    assert {"step", "taken"} <= set(sounds.played) and set(sounds.played) <= set(TUNES)
    before = list(sounds.played)
    table.press(pygame.K_m)
    table.until(lambda: table.session.seed == 4 and table.session.turns_played > len(before))
    assert sounds.played == before, "off is off"
    sounds.close()
    assert pygame.mixer.get_init() is None


def test_every_outcome_has_a_tune_that_can_be_heard() -> None:
    for tune in TUNES.values():
        wave = samples(tune)
        assert wave.dtype == np.int16 and 2000 < abs(wave).max() < 12_000 and len(wave) > 100
    assert set(OUTCOMES.values()) | {"step", "failed"} == set(TUNES)
    assert set(OUTCOMES) <= set(OUTCOME_KINDS)


class Late(RulePlayer):
    """A brain that a person is quicker than: it can be named only after a while."""

    known = Identity()

    @property
    def identity(self) -> Identity:  # type: ignore[override]
        return self.known


def test_turns_of_a_model_stand_in_an_episode_that_names_its_weights(tmp_path: Path) -> None:
    player, person = Late("random", FETCH), Person()
    journal = Journal(tmp_path / "log.b22", "1")
    session = make_session(player=player, journal=journal)
    session.start(4)
    session.hand_to(person, PERSON)
    person.choose("wait")
    play_turn(session)
    session.proceed()
    player.known = Identity("late", "adapter", "aa", "bb", "cc")
    session.hand_to(player, "teacher")
    play_turn(session)
    play_turn(session)
    journal.close()
    mine, named = read(tmp_path / "log.b22")
    assert mine.begin.weights_hash == "" and [turn.player for turn in mine.turns] == [PERSON]
    assert named.begin.weights_hash == "cc" and named.begin.fork_of == mine.begin.episode
    assert [turn.player for turn in named.turns] == [PERSON, "", ""]
    assert recorder_main(["verify", "--resim", str(tmp_path / "log.b22")]) == 0


def test_the_docs_say_what_every_key_does(seat: Callable[..., Table]) -> None:
    table = seat("teacher")
    page = (Path(__file__).parents[2] / "docs" / "game.md").read_text(encoding="utf-8")
    for key, words in table.show.help_lines():
        assert f"| {key} | {words} |" in page
