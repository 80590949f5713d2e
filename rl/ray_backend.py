"""Actors of Ray as players: started on this machine, or on the cluster at an address. Ray is imported only here, and
only where it is asked for."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rl.crew import PlayerLost, PlayersError
from rl.players import Player, Start, Work
from rl.pool import WorkerError

STORE_BYTES = 256 << 20  # of a Ray that is started here: an adapter and a few parcels
REACH_S = 10.0  # how long a cluster's address may take to answer
NO_STATISTICS = "RAY_USAGE_STATS_ENABLED"  # "0": Ray sends nothing about its use anywhere


def check_installed() -> Any:
    """Ray itself. Raises PlayersError where it is missing."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise PlayersError(
            "--runtime ray: ray is not installed; pip install 'errand[ray]', or pip install ray"
        ) from error


class RayBackend:
    """`size` actors can be started: here, or at `address` (what `ray.init` takes: HOST:PORT, `auto`). Raises
    PlayersError where there is no cluster."""

    def __init__(self, start: Start, size: int, address: str = "") -> None:
        os.environ.setdefault(NO_STATISTICS, "0")
        self._ray = check_installed()
        self._start = start
        if ":" in address:
            _reach(address)
        how: dict[str, Any] = {"address": address} if address else {
            "address": "local", "num_cpus": size, "include_dashboard": False, "object_store_memory": STORE_BYTES,
        }  # fmt: skip
        signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._ray.init(**how, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where, remedy = "here", "try --runtime process"
            if address:
                where, remedy = f"at {address}", "look with: ray status (RAY_AUTH_MODE has to be the cluster's)"
            raise PlayersError(f"--runtime ray: no Ray {where}: {_first_line(error)}; {remedy}") from error
        _hush()
        if threading.current_thread() is threading.main_thread():  # Ray takes signals that the command answers itself
            for number, answer in signals.items():
                signal.signal(number, answer)
        # an actor that is lost is replaced by the crew, which knows what it was at
        self._actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Player)

    def put(self, adapter: Mapping[str, Any]) -> Any:
        """Hands an adapter to the cluster once; what is returned goes with every piece of work."""
        try:
            return self._ray.put(dict(adapter))
        except self._ray.exceptions.RayError as error:
            raise PlayersError(f"the Ray cluster takes no adapter: {_first_line(error)}") from error

    def start(self) -> Any:
        return self._actor.remote(self._start)

    def introduction(self, player: Any) -> Any:
        return player.introduction.remote()

    def send(self, player: Any, work: tuple[Any, Work]) -> Any:
        adapter, plans = work
        return player.play.remote(adapter, plans)

    def wait(self, answers: Sequence[Any], seconds: float) -> list[Any]:
        there, _ = self._ray.wait(list(answers), num_returns=1, timeout=seconds)
        if there and len(answers) > 1:  # and whoever else is ready by now
            there, _ = self._ray.wait(list(answers), num_returns=len(answers), timeout=0)
        return list(there)

    def answer(self, answer: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer)
        except errors.RayTaskError as error:  # the work itself: it would fail anywhere
            raise WorkerError(str(error)) from error
        except errors.RayError as error:
            raise PlayerLost(_how(error)) from error

    def stop(self, player: Any) -> None:
        self._ray.kill(player)

    def close(self) -> None:
        self._ray.shutdown()


def _reach(address: str) -> None:
    """Raises PlayersError where nothing listens at HOST:PORT, which Ray itself takes minutes to say."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), REACH_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise PlayersError(
            f"--ray-address {address}: no Ray answers there ({error}); start one with ray start --head --port=6379, or "
            "leave it out to start one here"
        ) from error


def _how(error: Exception) -> str:
    """How an actor was lost, in a few words: Ray's own texts are pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("creation task" in line or "__init__" in line for line in lines):
        return f"could not be set up ({lines[-1]})"
    return f"died ({type(error).__name__})"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _hush() -> None:
    """Ray prints a page for every actor that dies, on standard output; the crew says it in a line."""
    worker = importlib.import_module("ray._private.worker")
    if hasattr(worker, "print_to_stdstream"):
        setattr(worker, "print_to_stdstream", lambda *_, **__: None)  # noqa: B010
