"""Who can be asked to play: the policies that are there, by name, and the players made of them. No pygame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

from game.view.person import PERSON, Person
from game.view.players import Player, make_player
from npc import catalog
from rl.files import is_run
from rl.policies import PLAYERS, parse_policy
from scenarios.contract import Scenario

MOST_RUNS = 6  # of the folder `runs`, the newest first


class Roster:
    """The players of one game, each made when it is first asked for. Closes them all."""

    def __init__(self, scenario: Scenario, make: Callable[..., Player] = make_player) -> None:
        self.person = Person()
        self._scenario = scenario
        self._make = make
        self._players: dict[str, Player] = {PERSON: self.person}

    def check(self, policy: str) -> None:
        """Raises one of the errors of `parse_policy` for a name that names nothing."""
        if policy not in self._players:
            parse_policy(policy)

    def player(self, policy: str) -> Player:
        """The player of that name. Raises one of the errors of `parse_policy` and `make_player`."""
        if policy not in self._players:
            self._players[policy] = self._make(parse_policy(policy), self._scenario)
        return self._players[policy]

    def add(self, policy: str, player: Player) -> None:
        """A player that was made elsewhere."""
        self._players[policy] = player

    def drop(self, policy: str) -> None:
        """Forgets a player that can't play."""
        self._players.pop(policy).close()

    def trouble(self) -> list[str]:
        """What is wrong for good with any of the players."""
        return [player.trouble for player in self._players.values() if player.trouble]

    def names(self) -> tuple[str, ...]:
        """Policies to choose from: those at play first, then the rules, the shipped models, and the runs here."""
        there = [name for name in self._players if name != PERSON]
        return tuple(dict.fromkeys([*there, *PLAYERS, *_shipped(), *_runs(Path("runs"))]))

    def close(self) -> None:
        for player in self._players.values():
            player.close()


def _shipped() -> Iterator[str]:
    for model in catalog.NAMES:
        if model == catalog.AUTO or not catalog.is_there(model):
            continue
        yield model
        home = Path(str(resources.files("assets") / "adapters" / model))
        if home.is_dir():
            yield from (f"{model}:{folder.name}" for folder in sorted(home.iterdir()) if folder.is_dir())


def _runs(folder: Path) -> list[str]:
    """Run folders in this folder that have something to play, the newest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if is_run(path) and (path / "checkpoints" / "head").exists()]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.as_posix() for path in found[:MOST_RUNS]]
