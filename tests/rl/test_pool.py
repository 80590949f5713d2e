"""Workers: the order of results, and errors and deaths that are told."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rl.pool import LocalPool, Pool, WorkerError


def set_up(base: int) -> dict[str, int]:
    return {"base": base, "jobs": 0}


def broken_set_up() -> None:
    raise RuntimeError("no model here")


def add(state: dict[str, int], payload: int) -> int:
    return state["base"] + payload


def add_slowly(state: dict[str, int], payload: int) -> int:
    """The first payloads take longest, so that whoever answers first is not the first."""
    time.sleep(max(0.0, 0.2 - 0.1 * payload))
    return state["base"] + payload


def count(state: dict[str, int], payload: int) -> int:
    state["jobs"] += 1
    return state["jobs"]


def fail_on_three(state: dict[str, int], payload: int) -> int:
    if payload == 3:
        raise ValueError("three is too much")
    return payload


def die(state: Any, payload: Any) -> None:
    os._exit(3)


def threads(state: Any, payload: Any) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(2, set_up, [100]) as pool:
        yield pool


def test_results_come_in_the_order_of_the_payloads(pool: Pool) -> None:
    assert pool.map(add_slowly, [0, 1, 2, 3, 4]) == [100, 101, 102, 103, 104]


def test_fewer_payloads_than_workers_and_none(pool: Pool) -> None:
    assert pool.map(add, [7]) == [107]
    assert pool.map(add, []) == []


def test_payload_i_runs_on_worker_i_modulo_their_number() -> None:
    """What a worker keeps from one job to the next is met again by the next map."""
    with Pool(2, set_up, [0]) as pool:
        assert pool.map(count, [None] * 5) == [1, 1, 2, 2, 3]
        assert pool.map(count, [None] * 2) == [4, 3]


def test_a_local_pool_gives_the_same(pool: Pool) -> None:
    with LocalPool(set_up, [100]) as local:
        assert local.map(add, list(range(9))) == pool.map(add, list(range(9)))


def test_an_error_in_a_worker_is_told_with_its_traceback_and_the_pool_goes_on(pool: Pool) -> None:
    with pytest.raises(WorkerError, match="three is too much") as caught:
        pool.map(fail_on_three, [1, 2, 3, 4, 5])
    assert "fail_on_three" in str(caught.value)
    assert pool.map(add, [1, 2]) == [101, 102]


def test_a_worker_that_could_not_be_set_up_says_why_at_its_first_job() -> None:
    with Pool(1, broken_set_up) as pool, pytest.raises(WorkerError, match="no model here"):
        pool.map(add, [1])


def test_a_job_that_kills_its_worker_every_time_is_told() -> None:
    said: list[str] = []
    with Pool(2, set_up, [0], remember, said.append) as pool:
        with pytest.raises(WorkerError, match="worker 0 died 3 times over the same job"):
            pool.map(die, [None])
        assert pool.restarts == len(said) == 2 and "exit code 3" in said[0]


def test_a_workers_death_is_told_where_nobody_knows_what_it_had() -> None:
    with Pool(2, set_up, [0]) as pool, pytest.raises(WorkerError, match="worker 0 died"):
        pool.map(die, [None])


def hoard(state: dict[str, Any], payload: int) -> list[int]:
    state.setdefault("hoard", []).append(payload)
    return list(state["hoard"])


def forget(state: dict[str, Any], payload: int) -> None:
    state["hoard"] = [payload]


def look(state: dict[str, Any], payload: Any) -> tuple[int, list[int]]:
    return os.getpid(), list(state["hoard"])


def kill_once(state: dict[str, Any], payload: Path) -> list[int]:
    """Kills its worker in the middle of the job, the first time."""
    try:
        payload.touch(exist_ok=False)
    except FileExistsError:
        return list(state["hoard"])
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def remember(job: Any, payload: Any) -> str:
    return {hoard: "more", forget: "new"}.get(job, "")


def test_a_killed_worker_is_started_again_with_what_it_had_and_its_job_is_done(tmp_path: Path) -> None:
    said: list[str] = []
    with Pool(2, set_up, [0], remember, said.append) as pool:
        pool.map(hoard, [90, 91])  # forgotten by the next
        pool.map(forget, [1, 2])
        pool.map(hoard, [3, 4])
        (first, _), (second, _) = pool.map(look, [None, None])
        (tmp_path / "b").touch()  # the second worker lives
        assert pool.map(kill_once, [tmp_path / "a", tmp_path / "b"]) == [[1, 3], [2, 4]]
        assert pool.restarts == len(said) == 1 and "exit code -9" in said[0]
        pids = [pid for pid, _ in pool.map(look, [None, None])]
        os.kill(pids[1], signal.SIGKILL)  # while it has nothing to do
        again = pool.map(look, [None, None])
        assert [had for _, had in again] == [[1, 3], [2, 4]]
        assert again[1][0] != pids[1] and first != second
        assert pool.restarts == 2 and [job for job, _ in pool.lost] == [kill_once, look]


def test_workers_have_one_blas_thread_and_the_caller_keeps_its_own(pool: Pool) -> None:
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    assert pool.map(threads, [None, None]) == ["1", "1"]
    assert os.environ.get("OPENBLAS_NUM_THREADS") == before
