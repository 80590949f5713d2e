"""Two villages with one seed and the same dice, played by two policies. No pygame.

Each side plays at its own pace; the one that is done first stands at its end until the other is done too. A policy
that is a run folder can be turned to any of the run's checkpoints, which starts the same seed again on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from game.view.players import BrainFailed, Player, make_player
from game.view.session import OVER, THINKING, Session
from game.view.stage import OVER_S, SPEEDS, Stage
from rl.files import CheckpointError, is_run
from rl.policies import PolicyNameError, parse_policy
from rl.tree import Tree
from scenarios.contract import Scenario


@dataclass(frozen=True)
class Node:
    """A checkpoint of a run; `success` is its share of solved validation seeds, None where it was not measured."""

    name: str
    success: float | None


class SideStage(Stage):
    """A stage that stays at the end of an episode."""

    def after_episode(self) -> None:
        """The other side may still be at play."""


class Side:
    """One village and who plays it. `nodes` are the checkpoints of its run, in order; () where it is no run."""

    def __init__(
        self, policy: str, scenario: Scenario, options: Mapping[str, str], greedy: bool, deadline_s: float
    ) -> None:
        """Starts the player. Raises PolicyNameError, CheckpointError or BrainFailed for one that can't be had."""
        self.policy = policy
        self._scenario, self._options, self._greedy, self._deadline_s = scenario, options, greedy, deadline_s
        folder, _, node = policy.partition("@")
        self.nodes: tuple[Node, ...] = ()
        self.node = -1  # which of them plays
        self._run = Path(folder)
        spec = parse_policy(policy)
        if is_run(self._run):
            tree = Tree(self._run / "checkpoints")
            names = [name for name in tree.names() if not tree.read(name).get("pruned")]
            scores = tree.scores()
            self.nodes = tuple(Node(name, scores.get(name)) for name in names)
            self.node = names.index(node or tree.head())
        self._take(make_player(spec, scenario))

    def _take(self, player: Player) -> None:
        self.session = Session(
            self._scenario, self._options, player, self.policy, greedy=self._greedy, deadline_s=self._deadline_s
        )
        self.stage = SideStage(self.session)

    def choose(self, node: int) -> bool:
        """Another checkpoint of the run plays from here on; the episode must be started again. Whether it is another.

        Raises PolicyNameError, CheckpointError or BrainFailed where it isn't there any more; the old one plays on.
        """
        if node == self.node:
            return False
        policy = f"{self._run}@{self.nodes[node].name}"
        player = make_player(parse_policy(policy), self._scenario)
        self.close()
        self.policy, self.node = policy, node
        self._take(player)
        return True

    @property
    def over(self) -> bool:
        return self.session.phase == OVER

    def answer(self, patience_s: float) -> None:
        """Waits until the question that is open, if one is, has an answer or is given up."""
        session = self.session
        while session.phase == THINKING and session.answer is None:
            session.listen()
            session.wait(patience_s)

    def close(self) -> None:
        self.session.player.close()


class Comparison:
    """Both sides, and what is done with them together."""

    def __init__(
        self,
        scenario: Scenario,
        options: Mapping[str, str],
        seed: int,
        policies: tuple[str, str],
        *,
        greedy: bool = False,
        deadline_s: float = 5.0,
    ) -> None:
        """Starts both players and the episode. Raises as `Side` does; no process is left behind then."""
        self.seed = seed
        self.speed = SPEEDS[0]
        self.paused = False
        self.note = ""  # why something that was asked for can't be had
        self._over_s = 0.0
        left = Side(policies[0], scenario, options, greedy, deadline_s)
        try:
            self.sides = (left, Side(policies[1], scenario, options, greedy, deadline_s))
            self.start(seed)
        except Exception:
            left.close()
            raise

    def start(self, seed: int) -> None:
        """Begins an episode on both sides."""
        self.seed, self._over_s = seed, 0.0
        for side in self.sides:
            side.stage.start(seed)

    @property
    def over(self) -> bool:
        """Whether both sides are at their end."""
        return all(side.over for side in self.sides)

    @property
    def shown(self) -> bool:
        """Whether the end was shown long enough."""
        return self._over_s >= max(OVER_S, OVER_S / 3 * self.speed)

    def advance(self, seconds: float, onward: bool = True) -> None:
        """One frame of so many seconds; `onward`: after the end, on to the next seed."""
        for side in self.sides:
            side.stage.speed, side.stage.paused = self.speed, self.paused
            side.stage.advance(seconds)
        if self.paused or not self.over:
            return
        self._over_s += seconds * self.speed
        if self.shown and onward:
            self.next()

    def next(self) -> None:
        """On to the next seed."""
        self.start(self.sides[0].session.next_seed())

    def pause(self) -> None:
        """Stops, or goes on."""
        self.paused = not self.paused

    def faster(self, by: int) -> None:
        """The next speed, or with -1 the one before."""
        at = SPEEDS.index(self.speed) + by
        self.speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]

    def choose(self, side: int, node: int) -> None:
        """Puts another checkpoint on a side, and starts the same seed again on both; `note` says why it can't."""
        self.note = ""
        try:
            if self.sides[side].choose(node):
                self.start(self.seed)
        except (PolicyNameError, CheckpointError, BrainFailed) as error:
            self.note = str(error)

    def wait(self, seconds: float) -> None:
        """Until one of the sides that think may have an answer, or for so long."""
        for side in self.sides:
            side.session.wait(seconds / len(self.sides))

    def close(self) -> None:
        for side in self.sides:
            side.close()
