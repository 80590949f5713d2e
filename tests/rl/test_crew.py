"""Work that is handed out, and handed out again: with players that die, hang, are slow or never come up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from rl.crew import SLOW_S, TRIES, Crew, Done, PlayerLost, PlayersError
from rl.pool import WorkerError


class Stage:
    """A backend of make-believe players on a clock of its own. `acts` says how a player (by its number, from 0) does a
    piece of work (None: to introduce itself): the seconds that it takes and what comes of it (an error is raised)."""

    def __init__(self, acts: Callable[[int, Any], tuple[float, Any]]) -> None:
        self.acts = acts
        self.now = 0.0
        self.started = 0
        self.stopped: list[int] = []
        self.given: list[tuple[int, Any]] = []
        self._free: dict[int, float] = {}
        self._answers: list[tuple[float, Any]] = []

    def start(self) -> int:
        self.started += 1
        self._free[self.started - 1] = self.now
        return self.started - 1

    def introduction(self, player: int) -> int:
        return self._do(player, None)

    def send(self, player: int, work: Any) -> int:
        self.given.append((player, work))
        return self._do(player, work)

    def _do(self, player: int, work: Any) -> int:
        seconds, what = self.acts(player, work)
        self._free[player] = max(self._free[player], self.now) + seconds
        self._answers.append((self._free[player], what))
        return len(self._answers) - 1

    def wait(self, answers: Sequence[int], seconds: float) -> list[int]:
        self.now = min(min(self._answers[one][0] for one in answers), self.now + seconds) if not self._there(answers) \
            else self.now  # fmt: skip
        return self._there(answers)

    def _there(self, answers: Sequence[int]) -> list[int]:
        return [one for one in answers if self._answers[one][0] <= self.now]

    def answer(self, answer: int) -> Any:
        what = self._answers[answer][1]
        if isinstance(what, Exception):
            raise what
        return what

    def put(self, adapter: Mapping[str, Any]) -> Any:
        return adapter

    def stop(self, player: int) -> None:
        self.stopped.append(player)

    def close(self) -> None: ...


def crew_of(acts: Callable[[int, Any], tuple[float, Any]], size: int = 2, patience: float = 10.0,
            **how: Any) -> tuple[Crew, Stage, list[str]]:  # fmt: skip
    stage, said = Stage(acts), []
    crew = Crew(stage, size, patience, said.append, clock=lambda: stage.now, start_s=30.0, **how)
    crew.gather()
    return crew, stage, said


def everything(crew: Crew, works: Sequence[Any]) -> list[Done]:
    numbers = [crew.submit(work) for work in works]
    done = [crew.next() for _ in numbers]
    return sorted(done, key=lambda one: one.number)


def well(player: int, work: Any) -> tuple[float, Any]:
    return 1.0, (player, work)


def test_work_goes_round_and_comes_back_as_it_ends() -> None:
    crew, stage, said = crew_of(lambda player, work: (3.0 if work == "long" else 1.0, work))
    for work in ("long", "b", "c", "d"):
        crew.submit(work)
    assert [crew.next().answer for _ in range(4)] == ["b", "c", "long", "d"]
    assert stage.given == [(0, "long"), (1, "b"), (1, "c"), (1, "d")] and not said


def test_a_dead_players_work_is_done_by_another() -> None:
    died = PlayerLost("died (killed)")
    acts = lambda player, work: (1.0, died if player == 0 and work else work)  # noqa: E731
    crew, stage, said = crew_of(acts, welcome=lambda facts: " on node7")
    done = everything(crew, ["a", "b", "c"])
    assert [one.answer for one in done] == ["a", "b", "c"]
    assert crew.restarts == 1 and crew.lost == ["a"] and stage.stopped == [0]
    assert said == [
        "actor 0 on node7 died (killed): another is started in its place, and what it was at is played again"
    ]


def test_a_player_that_hangs_is_replaced_after_its_time() -> None:
    crew, stage, said = crew_of(lambda player, work: (1e9 if player == 1 and work else 1.0, work))
    assert [one.answer for one in everything(crew, ["a", "b", "c"])] == ["a", "b", "c"]
    assert stage.stopped == [1] and crew.lost == ["b"] and "gave no answer for 10 s" in said[0]
    assert stage.now < 15


def test_a_slow_player_within_its_time_is_left_alone() -> None:
    crew, stage, said = crew_of(lambda player, work: (9.0 if player == 1 else 1.0, work))
    assert [one.answer for one in everything(crew, list("abcdef"))] == list("abcdef")
    assert not said and not stage.stopped
    assert [work for player, work in stage.given if player == 1] == ["b"]


def test_a_slow_players_work_is_done_by_one_who_has_nothing_to_do_and_who_is_first_counts() -> None:
    """Long before its time is over, since others need a second for what it is at."""
    crew, stage, said = crew_of(lambda player, work: (100.0 if player == 1 and work else 1.0, (player, work)),
                                patience=1000.0)  # fmt: skip
    assert [one.answer for one in everything(crew, ["a", "b"])] == [(0, "a"), (0, "b")]
    assert stage.now == pytest.approx(1 + SLOW_S + 1, abs=1) and not stage.stopped
    assert said == ["actor 1 is slow: actor 0 plays what it is at as well"] and crew.lost == ["b"]
    # it goes on with what it has, the other takes what comes, and its late answer is nobody's
    assert [one.answer for one in everything(crew, ["c", "d", "e"])] == [(0, "c"), (0, "d"), (0, "e")]
    stage.now = 150.0
    assert [one.answer for one in everything(crew, ["f", "g"])] == [(0, "f"), (0, "g")]
    assert [work for player, work in stage.given if player == 1] == ["b", "g"]


def test_work_is_slow_by_its_weight() -> None:
    crew, stage, said = crew_of(lambda player, work: (2.0 * work if work else 1.0, work), patience=1000.0,
                                weight=lambda work: work)  # fmt: skip
    assert [one.answer for one in everything(crew, [1, 50, 2])] == [1, 50, 2]
    assert not said and stage.now < 110
    seconds = {"rules": 0.01, "model": 60.0}
    crew, stage, said = crew_of(lambda player, work: (seconds.get(work, 1.0) + player, work), patience=1000.0,
                                weight=lambda work: 0.0 if work == "rules" else 1.0)  # fmt: skip
    everything(crew, ["rules"] * 6)
    everything(crew, ["model"] * 2)
    assert not said


def test_of_two_who_do_the_same_one_may_be_lost() -> None:

    def acts(player: int, work: Any) -> tuple[float, Any]:
        if player == 0 and work == "b":
            return 30.0, PlayerLost("died")
        return 60.0 if player == 1 and work else 1.0, (player, work)

    crew, stage, _ = crew_of(acts, patience=1000.0)
    assert [one.answer for one in everything(crew, ["a", "b"])] == [(0, "a"), (2, "b")]
    assert crew.restarts == 1 and stage.stopped == [0] and crew.lost == ["b", "b"]
    assert not any(task.tries for member in crew._members for task, _ in member.mail if task)


def test_what_waits_behind_lost_work_keeps_its_tries_and_its_turn() -> None:
    lost: list[Any] = []

    def acts(player: int, work: Any) -> tuple[float, Any]:
        if work == "a" and len(lost) < TRIES - 1:
            lost.append(player)
            return 1.0, PlayerLost("died")
        return 1.0, work

    crew, stage, _ = crew_of(acts, size=1, depth=3)
    assert [one.answer for one in everything(crew, ["a", "b", "c"])] == ["a", "b", "c"]
    assert crew.lost == ["a"] * (TRIES - 1)
    assert [work for player, work in stage.given if player == stage.started - 1] == ["a", "b", "c"]


def test_work_that_every_player_is_lost_over_is_given_up_and_the_rest_is_done() -> None:
    crew, _, said = crew_of(lambda player, work: (1.0, PlayerLost("died") if work == "poison" else work))
    done = everything(crew, ["a", "poison", "b"])
    assert [(one.answer, bool(one.failed)) for one in done] == [("a", False), (None, True), ("b", False)]
    assert "given up after 3 actors" in done[1].failed and len(said) == TRIES
    assert everything(crew, ["c", "d"])[1].answer == "d"


def test_an_error_of_the_work_itself_is_raised() -> None:
    crew, _, _ = crew_of(lambda player, work: (1.0, WorkerError("no such rule") if work else None))
    crew.submit("a")
    with pytest.raises(WorkerError, match="no such rule"):
        crew.next()


def test_a_place_that_never_comes_up_is_given_up_and_the_others_go_on() -> None:
    ok = (0,)
    crew, stage, said = crew_of(lambda player, work: (1.0, work if player in ok else PlayerLost("could not be set up")))
    assert stage.started == 1 + TRIES and "did not come up 3 times" in said[0]
    assert {player for player, _ in stage.given} <= {0}
    assert [one.answer for one in everything(crew, ["a", "b"])] == ["a", "b"]


def test_where_no_player_comes_up_it_is_said_in_one_line() -> None:
    with pytest.raises(PlayersError, match="no actor can be started: could not be set up") as caught:
        crew_of(lambda player, work: (1.0, PlayerLost("could not be set up")))
    assert "\n" not in str(caught.value)
    with pytest.raises(PlayersError, match="no actor came up within 30 s"):
        crew_of(lambda player, work: (1e9, None))


def test_who_is_late_is_not_waited_for_and_joins_in() -> None:
    crew, stage, said = crew_of(lambda player, work: (40.0 if player == 1 and not work else 8.0, work), patience=60.0)
    assert "1 of 2 actors are not up after 30 s" in said[0] and stage.now == 30
    everything(crew, list("abcdef"))
    assert {player for player, _ in stage.given} == {0, 1}


def test_an_introduction_that_will_not_do_ends_it() -> None:
    def welcome(facts: Any) -> str:
        raise PlayersError("install the same version")

    with pytest.raises(PlayersError, match="same version"):
        crew_of(well, welcome=welcome)


def test_a_crew_that_dies_out_in_the_middle_says_so() -> None:
    crew, _, _ = crew_of(lambda player, work: (1.0, work if player < 2 and work is None else PlayerLost("node lost")))
    crew.submit("a")
    with pytest.raises(PlayersError, match="no actor can be started: node lost"):
        for _ in range(9):
            assert crew.next().failed


def test_players_keep_work_ahead_up_to_the_depth() -> None:
    crew, stage, _ = crew_of(well, depth=2)
    for work in "abcde":
        crew.submit(work)
    assert stage.given == [(0, "a"), (1, "b"), (0, "c"), (1, "d")]
    assert [crew.next().answer[1] for _ in range(5)] == list("abcde")


def test_time_spent_elsewhere_is_not_held_against_what_waits_behind() -> None:
    """The trainer learns for longer than a piece of work may take: what is ready counts, and what was begun since."""
    crew, stage, said = crew_of(lambda player, work: (6.0, work), size=1, depth=3)
    for work in "abc":
        crew.submit(work)
    stage.now += 11.0
    assert [crew.next().answer for _ in range(3)] == ["a", "b", "c"]
    assert not said
