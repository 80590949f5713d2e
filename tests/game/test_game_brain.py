"""A model at play: its process may be slow, late or killed, and the log says so."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from game.__main__ import main
from game.view.facts import facts_of
from game.view.journal import Journal
from game.view.picture import state_line
from game.view.players import BrainFailed, RulePlayer
from game.view.remarks import spoken
from game.view.session import PLAYED, THINKING, Session
from game.view.stage import Stage
from npc.decision import Decision
from recorder import Reader, Turn
from recorder.__main__ import main as recorder_main
from rl.policies import TurnView
from tests.game.fronts import (
    FETCH,
    brains,
    make_session,
    make_show,
    make_tiny_model,
    play_turn,
    play_turns,
    stage_turns,
)

PATIENCE_S = 120.0  # for what must come, on a busy machine as well


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_tiny_model(tmp_path_factory.mktemp("models"))


@pytest.fixture
def session(tiny: str) -> Iterator[Session]:
    """A session whose brain is awake, at the first question of seed 0."""
    made = make_session(tiny, deadline_s=PATIENCE_S)
    made.start(0)
    wait_for(made, lambda: made.answer is not None)
    made.deadline_s = 0.3
    yield made
    made.player.close()
    assert brains() == []


def wait_for(session: Session, true: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come"
        session.wait(0.02)


def prompt_of(tiny: str, turn: Turn) -> tuple[int, ...]:
    """The ids that the turn's own observation has."""
    return ids_of(tiny, f" {turn.observation} do")


def ids_of(tiny: str, text: str) -> tuple[int, ...]:
    from npc.tokenizer import load_tokenizer

    return tuple(load_tokenizer(Path(tiny.partition(":")[0])).encode(text))


def test_a_model_plays_the_same_in_every_way_of_playing(tiny: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log.b22", "1")
    headless = make_session(tiny, journal=journal, traced=False, deadline_s=PATIENCE_S)
    plain = play_turns(headless, 4, 23)
    headless.player.close()
    journal.close()
    shown = make_session(tiny, deadline_s=PATIENCE_S)
    stage = Stage(shown)
    stage.speed = 16
    assert stage_turns(stage, 4, 23, 0.05) == plain
    shown.player.close()
    assert recorder_main(["verify", "--resim", str(tmp_path / "log.b22")]) == 0
    with Reader(tmp_path / "log.b22") as log:
        episodes = list(log.episodes())
        begin, turns = episodes[0].begin, episodes[0].turns
        prefix = log.prefix(begin.prefix_hash)
        assert prefix.tokenizer_hash == begin.tokenizer_hash
        assert tuple(prefix.token_ids) == ids_of(tiny, FETCH.prefix), "the ids are those that the brain reads"
    assert begin.model == "tiny" and begin.adapter == tiny.partition(":")[2]
    assert begin.weights_hash and begin.base_hash and begin.weights_hash != begin.base_hash
    assert not any(turn.greedy or turn.fallback for turn in turns)
    assert len({turn.executed for turn in turns}) > 2
    for turn in turns:
        assert tuple(turn.prompt_ids) == prompt_of(tiny, turn)
        assert len(turn.logps) == 4 * len(turn.sampled_ids) and turn.tau == 1.0
        assert turn.prob_values.sum() == pytest.approx(1, abs=1e-5) and len(turn.prob_values) == len(turn.legal)


def test_greedy_takes_the_most_probable_and_says_so(tiny: str) -> None:
    session = make_session(tiny, greedy=True, deadline_s=PATIENCE_S)
    play_turns(session, 2, 4)
    session.player.close()
    for turn in session.turns:
        assert turn.greedy and turn.executed == turn.legal[int(turn.prob_values.argmax())]
    assert facts_of(session, revealed=True).how.startswith("greedy")


def test_after_the_deadline_a_fallback_acts_and_the_late_answer_is_dropped(session: Session, tiny: str) -> None:
    session.play()
    (brain,) = brains()
    os.kill(brain, signal.SIGSTOP)
    play_turn(session)
    late = session.turn
    assert late.fallback and (late.proposed, late.executed) == ("", "wait") and late.probs == b""
    assert late.policy_note == "no answer within 0.3 s" and late.decision_ms >= 300
    assert state_line(session) == ("daydreaming: no answer within 0.3 s; not recording", True)
    assert facts_of(session, revealed=True).note == "daydreaming: no answer within 0.3 s"
    assert spoken(late, session.trace[-1]) == ("runner", "I was daydreaming … waited a little")
    session.deadline_s = PATIENCE_S
    os.kill(brain, signal.SIGCONT)
    play_turn(session)
    assert not session.turn.fallback and tuple(session.turn.prompt_ids) == prompt_of(tiny, session.turn)
    assert session.turn.observation != late.observation
    assert state_line(session)[1] is False


class Silent(RulePlayer):
    """Never answers; keeps what it was told."""

    def __init__(self) -> None:
        super().__init__("random", FETCH)
        self.told: list[int | str] = []

    def ask(self, number: int, view: TurnView, uniform: float | None) -> None:
        self.told.append(number)

    def forget(self) -> None:
        self.told.append("forget")


def test_no_number_of_a_question_comes_twice_and_an_open_one_is_given_up() -> None:
    player = Silent()
    session = make_session(player=player, deadline_s=1e-6)
    for seed in (0, 1, 1):
        session.start(seed)
    play_turn(session)
    play_turn(session)
    assert [told for told in player.told if told != "forget"] == [0, 1, 2, 3]
    assert all(after == "forget" for told, after in itertools.pairwise(player.told) if told != "forget")
    assert player.told[-1] == "forget"
    assert [turn.executed for turn in session.turns] == ["wait", "wait"]


def test_an_answer_for_the_seed_before_is_not_taken_for_this_one(session: Session, tiny: str) -> None:
    """Both questions are the first of their episode: turn numbers alone would not tell them apart."""
    session.deadline_s = PATIENCE_S
    session.start(6)
    os.kill(brains()[0], signal.SIGSTOP)
    session.start(7)
    before = session.turn.observation
    session.start(8)
    os.kill(brains()[0], signal.SIGCONT)
    play_turn(session)
    assert session.seed == 8 and session.turn.observation != before
    assert tuple(session.turn.prompt_ids) == prompt_of(tiny, session.turn)


def test_a_killed_brain_daydreams_is_started_again_once_and_then_given_up(session: Session) -> None:
    session.play()
    weights = session.begin.weights_hash
    session.deadline_s = PATIENCE_S
    (first,) = brains()
    os.kill(first, signal.SIGKILL)
    play_turn(session)
    assert session.turn.fallback and session.turn.proposed == "" and session.turn.executed == "wait"
    assert "ended unexpectedly" in session.turn.policy_note and "started again" in session.turn.policy_note
    assert state_line(session)[0].startswith("daydreaming: the brain process ended")
    play_turn(session)
    assert not session.turn.fallback, "the new brain is waited for"
    (second,) = brains()
    assert second != first and session.begin.weights_hash == weights and not session.player.trouble
    os.kill(second, signal.SIGKILL)
    for _ in range(3):
        play_turn(session)
        assert session.turn.fallback and "a second time" in session.turn.policy_note
    assert brains() == [] and "a second time" in session.player.trouble


def test_other_weights_after_a_restart_do_not_play_under_the_old_name(tmp_path: Path) -> None:
    policy = make_tiny_model(tmp_path)
    session = make_session(policy, deadline_s=PATIENCE_S)
    session.start(0)
    play_turn(session)
    replace_adapter(policy)
    os.kill(brains()[0], signal.SIGKILL)
    play_turn(session)
    play_turn(session)
    session.player.close()
    assert session.turn.fallback and "was changed while it played" in session.turn.policy_note


def replace_adapter(policy: str) -> None:
    from npc import adapters, models

    model, _, adapter = policy.partition(":")
    brain = models.load(model)
    adapters.attach(brain, rank=4, scale=2.0, seed=9)
    adapters.save_adapter(brain, adapter, {})


def test_damaged_weights_are_a_fallback_not_a_crash() -> None:
    player = RulePlayer("random", FETCH)
    session = make_session(player=player)
    session.start(0)
    session.answer = None
    player._answer = Decision("wait", 0, [float("nan")], 0.0, [], [], [], 1.0, False)
    session.listen()
    assert session.play().fallback and "not numbers" in session.turn.policy_note


def test_a_broken_model_ends_the_game_in_one_line(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _, adapter = tiny.partition(":")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in Path(model).iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "model.safetensors").write_bytes(b"no weights")
    log = tmp_path / "log.b22"
    assert main(["--brain", f"{broken}:{adapter}", "--headless", "--turns", "2", "--record", str(log)]) == 2
    said = capsys.readouterr()
    assert "model.safetensors" in said.err and said.err.count("\n") == 1
    assert not log.exists() and brains() == []


def test_closing_while_the_brain_wakes_up_is_quick_and_clean(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pygame

    from game.view.window import Window

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    session = make_session(tiny, deadline_s=PATIENCE_S)
    session.start(0)
    window = Window(make_show(session))
    assert session.player.waking and facts_of(session, False).how == "waking up …"
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    began = time.monotonic()
    window.run()
    window.close()
    session.player.close()
    assert time.monotonic() - began < 30 and session.phase == THINKING and brains() == []


def test_the_window_goes_on_while_the_brain_hangs(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from game.view.window import Window

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    session.play()
    os.kill(brains()[0], signal.SIGSTOP)  # before it is asked: it answers within milliseconds
    session.proceed()
    session.deadline_s = 2
    window = Window(make_show(session))
    frames = []

    def count() -> None:
        frames.append(time.monotonic())
        window.open = session.phase != PLAYED

    window._on_frame = count
    window.run()
    window.close()
    os.kill(brains()[0], signal.SIGCONT)
    assert session.turn.fallback and len(frames) > 10
    longest = max(after - before for before, after in itertools.pairwise(frames))
    assert longest < session.deadline_s, "the picture never waits for the brain"


def test_a_model_that_is_not_there_is_named_before_any_process_starts(tmp_path: Path) -> None:
    with pytest.raises(BrainFailed, match=r"config\.json: missing"):
        make_session(str(tmp_path))
    assert brains() == []
