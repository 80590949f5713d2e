"""A model's own words may stand in an outcome's bubble. They come off the decision's path, and change no play."""

from __future__ import annotations

import scenarios
from game.view.players import ModelPlayer, RulePlayer
from game.view.remarks import plight
from game.view.session import PLAYED
from game.view.stage import Stage
from tests.game.fronts import make_session

FETCH = scenarios.get("fetch_item")


class Chatty(RulePlayer, ModelPlayer):
    """Decides by the teacher's rule, and can speak; what it was asked to say is kept."""

    def __init__(self) -> None:
        RulePlayer.__init__(self, "teacher", FETCH)
        self.asked: list[tuple[int, str]] = []
        self.says: tuple[int, str] | None = None

    def speak(self, key: int, situation: str) -> None:
        self.asked.append((key, situation))

    def line(self) -> tuple[int, str] | None:
        said, self.says = self.says, None
        return said


def shown(player: RulePlayer, reply: str | None, late: bool = False) -> list[tuple[str, str]]:
    """(who, words) of each turn's outcome, as the picture shows it, of one whole episode."""
    session = make_session(player=player)
    stage = Stage(session)
    stage.start(3)
    found = []
    while session.ended is None:
        while session.phase != PLAYED:
            stage.advance(0.1)
        if reply is not None and isinstance(player, Chatty) and player.asked:
            key = player.asked[-1][0]
            if not late:
                player.says = (key, reply)
        stage.advance(0.01)
        stage.finish()
        if late and isinstance(player, Chatty) and player.asked:
            player.says = (player.asked[-1][0], reply or "")
        stage.advance(0.01)
        moment = stage.moment()
        assert moment is not None
        if moment.speech is not None:
            found.append((moment.speech.who, moment.speech.words))
        turn = session.turns_played
        while session.ended is None and session.turns_played == turn:
            stage.advance(0.1)
    return found


def test_a_line_takes_the_place_of_the_ready_words_where_it_was_asked_for_and_no_other() -> None:
    plain, player = shown(RulePlayer("teacher", FETCH), None), Chatty()
    spoken = shown(player, "Well, well.")
    assert player.asked and len(spoken) == len(plain)
    changed = [i for i, (one, other) in enumerate(zip(plain, spoken, strict=True)) if one != other]
    assert 0 < len(changed) < len(plain)  # answers that hold facts are said as they are
    assert all(spoken[i] == (plain[i][0], "Well, well.") for i in changed)


def test_a_line_that_comes_too_late_is_dropped() -> None:
    assert shown(Chatty(), "Too late.", late=True) == shown(RulePlayer("teacher", FETCH), None)


def test_what_is_said_changes_no_play() -> None:
    digests = []
    for reply in (None, "Well, well."):
        player = Chatty()
        session = make_session(player=player)
        stage = Stage(session)
        stage.start(3)
        while session.ended is None:
            stage.advance(0.1)
            player.says = (session.turns_played, reply) if reply else None
        digests.append([turn.digest_after for turn in session.turns])
    assert digests[0] == digests[1]


def test_only_a_mood_is_put_into_a_models_words() -> None:
    session = make_session(player=RulePlayer("teacher", FETCH))
    kinds = {}
    for seed in range(12):
        session.start(seed)
        while session.ended is None:
            session.listen()
            session.play()
            kinds.setdefault(session.turn.outcome_kind, plight(session.turn, session.trace[-1]))
            if session.ended is None:
                session.proceed()
    assert kinds["delivered"] and not kinds["told"]
