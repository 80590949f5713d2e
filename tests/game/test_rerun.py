"""An episode of a log run again: what it shows is what happened, and what can't be shown is said in one line."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from game.__main__ import main
from game.view.rerun import LogBook, Rerun, RerunError
from game.view.session import Session
from recorder import Amend, EpisodeBegin, EpisodeEnd, Header, Reader, RecorderError, Turn, Writer
from tests.game.fronts import FETCH, make_session, play_turn


def played(seed: int, brain: str = "teacher", turns: int = 99) -> Session:
    """One episode, to its end or so many turns far, with its traces kept in `session.kept`."""
    session = make_session(brain)
    session.start(seed)
    session.kept = []  # type: ignore[attr-defined]
    while session.ended is None and len(session.turns) < turns:
        play_turn(session)
        session.kept.append(session.trace)  # type: ignore[attr-defined]
    return session


def write_log(path: Path, *sessions: Session, amends: tuple[Amend, ...] = ()) -> Path:
    """The episodes of the sessions as a closed log, numbered from 0."""
    with Writer(path, header=Header.here("test", "1")) as log:
        log.add_prefix(FETCH.prefix, (), "")
        for number, session in enumerate(sessions):
            log.begin_episode(replace(session.begin, episode=number))
            for turn in session.turns:
                log.turn(replace(turn, episode=number))
            if session.ended is not None:
                result = session.results[-1]
                end = EpisodeEnd(
                    episode=number, ended=session.ended, success=result.success, turns=result.turns,
                    total_reward=result.reward,
                )  # fmt: skip
                log.end_episode(end)
        for amend in amends:
            log.amend(amend)
    return path


def rewritten(session: Session, begin: dict[str, object] | None = None, turns: list[Turn] | None = None) -> Session:
    """The same session, as if another program had recorded it."""
    session.begin = replace(session.begin, **(begin or {}))
    session.turns = session.turns if turns is None else turns
    return session


@pytest.mark.parametrize("brain", ["teacher", "random"])
def test_the_rerun_shows_the_ticks_of_the_play(brain: str, tmp_path: Path) -> None:
    sessions = [played(seed, brain) for seed in (3, 4)]
    book = LogBook(write_log(tmp_path / "a.b22", *sessions))
    assert book.numbers == [0, 1]
    for number, session in enumerate(sessions):
        rerun = book.rerun(number)
        assert rerun.traces == session.kept  # type: ignore[attr-defined]
        assert [turn.digest_after for turn in rerun.turns] == [turn.digest_after for turn in session.turns]
        assert (rerun.begin.seed, rerun.ended, rerun.scenario) == (session.seed, session.ended, FETCH)
    book.close()


def test_an_episode_that_was_broken_off_is_shown_as_far_as_it_went(tmp_path: Path) -> None:
    session = played(5, "random", turns=3)
    rerun = LogBook(write_log(tmp_path / "a.b22", session)).rerun(0)
    assert (len(rerun.turns), rerun.ended) == (3, None)


OTHERS = [("tile_2048", "random"), ("sudoku", "random"), ("trade_chain", "teacher")]


@pytest.mark.parametrize(("scenario", "policy"), OTHERS)
def test_every_scenario_can_be_replayed(scenario: str, policy: str, tmp_path: Path) -> None:
    path = tmp_path / "other.b22"
    words = ["--scenario", scenario, "--brain", policy, "--headless", "--turns", "12", "--record", str(path)]
    assert main(words) == 0
    book = LogBook(path)
    reruns = [book.rerun(number) for number in book.numbers]
    assert sum(len(rerun.turns) for rerun in reruns) == 12 and reruns[0].scenario.name == scenario
    assert main(["replay", str(path), "--screenshot", str(tmp_path / "shot.png"), "--size", "640x400"]) == 0


def test_late_rewards_are_shown(tmp_path: Path) -> None:
    session = played(5, "random", turns=3)
    late = Amend(episode=0, turn=1, terms={"time": -0.5, "manners": 0.25})
    rerun = LogBook(write_log(tmp_path / "a.b22", session, amends=(late,))).rerun(0)
    assert rerun.turns[1].terms == {"time": -0.5, "manners": 0.25}
    assert rerun.turns[0].terms == session.turns[0].terms


def rerun_of(kinds: list[str], terms: list[dict[str, float]], ended: str | None, fallback: int = -1) -> Rerun:
    turns = [
        Turn(episode=0, turn=at, observation="", proposed="", executed="", outcome_kind=kind, terms=term,
             fallback=at == fallback)
        for at, (kind, term) in enumerate(zip(kinds, terms, strict=True))
    ]  # fmt: skip
    begin = EpisodeBegin(episode=0, scenario="fetch_item", scenario_version=1, seed=0)
    return Rerun(FETCH, begin, turns, [[]] * len(turns), ended)


COST = {"time": -0.005}


def test_the_first_failure() -> None:
    fine = ["arrived", "taken", "delivered"]
    assert rerun_of(fine, [COST] * 3, "success").failure is None, "a cost that every turn has is none"
    assert rerun_of(fine, [COST] * 3, "turn_cap").failure == 2
    assert rerun_of(fine, [COST] * 3, None).failure is None, "broken off is not failed"
    assert rerun_of(["arrived", "gone", "robbed"], [COST] * 3, None).failure == 1
    assert rerun_of(fine, [COST, {**COST, "find": -0.2}, COST], "success").failure == 1, "a reward taken back"
    assert rerun_of(fine, [COST] * 3, "success", fallback=1).failure == 1


def one_turn(session: Session, at: int, **changes: object) -> list[Turn]:
    turns = list(session.turns)
    turns[at] = replace(turns[at], **changes)
    return turns


FOREIGN = {
    "another version": ({"scenario_version": 2}, None, "is of fetch_item version 2, and this is version 1"),
    "another scenario": ({"scenario": "fetch_itm"}, None, "did you mean 'fetch_item'"),
    "another option": ({"options": {"dificulty": "1"}}, None, "did you mean 'difficulty'"),
    "another start": ({"digest_start": {"map": "0" * 16}}, None, "start: map, characters, npc, clock differ"),
    "another world": (None, {"digest_after": {"npc": "0" * 16}}, "turn 2: map, characters, npc, clock differ"),
    "another way": (None, {"executed": "wait"}, "turn 2: map, characters, npc, clock differ"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_log_is_one_line_that_names_the_place(kind: str, tmp_path: Path) -> None:
    begin, turn, words = FOREIGN[kind]
    session = played(7)
    turns = None if turn is None else one_turn(session, 2, **turn)
    path = write_log(tmp_path / "a.b22", rewritten(session, begin, turns))
    with pytest.raises(RerunError, match="episode 0") as caught:
        LogBook(path).rerun(0)
    said = str(caught.value)
    assert words in said and str(path) in said and "\n" not in said


def test_a_log_whose_scenario_ends_earlier_now(tmp_path: Path) -> None:
    session = played(7)
    more = [*session.turns, replace(session.turns[-1], turn=len(session.turns))]
    session.ended = None
    with pytest.raises(RerunError, match="is over by then"):
        LogBook(write_log(tmp_path / "a.b22", rewritten(session, turns=more))).rerun(0)


def test_an_episode_that_is_not_there_is_said_with_those_that_are(tmp_path: Path) -> None:
    book = LogBook(write_log(tmp_path / "a.b22", *(played(seed, turns=1) for seed in range(3))))
    with pytest.raises(RerunError, match=r"a\.b22: no episode 7; there is 0 to 2"):
        book.rerun(7)


def test_no_log_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "text.b22").write_text("a diary")
    with pytest.raises(RecorderError, match="not a \\.b22 log"):
        LogBook(tmp_path / "text.b22")
    with pytest.raises(RecorderError, match="can't be opened"):
        LogBook(tmp_path / "none.b22")
    with pytest.raises(RerunError, match="no episode can be read"):
        LogBook(write_log(tmp_path / "empty.b22"))
    with pytest.raises(RerunError, match="broken off before its first turn"):
        LogBook(write_log(tmp_path / "a.b22", played(1, turns=0))).rerun(0)


def test_whatever_byte_is_damaged_the_episode_is_whole_or_said_to_be_damaged(tmp_path: Path) -> None:
    """Bytes are flipped all through the log: no turn is ever left out without a word."""
    path = write_log(tmp_path / "a.b22", played(7), played(8))
    whole = path.read_bytes()
    with Reader(path) as log:
        turns = {number: log.episode(number).turns for number in (0, 1)}
    outcomes = set()
    for at in range(16, len(whole), 251):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        for number in (0, 1):
            try:
                assert LogBook(path).rerun(number).turns == turns[number]
                outcomes.add("whole")
            except (RerunError, RecorderError) as error:
                assert "a.b22" in str(error) and "\n" not in str(error)
                outcomes.add("lost from the damaged log" if "lost from" in str(error) else "said")
    assert {"whole", "lost from the damaged log"} <= outcomes
