"""Advantages against values worked out by hand."""

import math

import numpy as np
import pytest

from recorder import Turn
from rl.credit import advantages, credit_episodes, episode_advantages
from rl.rollout import FAILED, Episode, Plan
from rl.values import Values


def test_episode_advantages_by_hand():
    # returns 1, 0, 0: mean 1/3, deviations 2/3, -1/3, -1/3, variance (4+1+1)/9/2 = 1/3
    std = math.sqrt(1 / 3)
    found = episode_advantages(np.array([1.0, 0.0, 0.0]))
    assert found == pytest.approx([2 / 3 / (std + 1e-4), -1 / 3 / (std + 1e-4), -1 / 3 / (std + 1e-4)])


def test_episode_credit_is_the_same_for_all_turns_of_an_episode():
    rewards = [np.array([0.0, 1.0]), np.array([0.0, 0.0, 0.0])]
    # returns 1 and 0: mean 1/2, std with ddof 1 = sqrt(1/2)
    size = 0.5 / (math.sqrt(0.5) + 1e-4)
    first, second = advantages(rewards, "episode")
    assert first == pytest.approx([size, size])
    assert second == pytest.approx([-size, -size, -size])


def test_turn_credit_by_hand():
    # returns-to-go: [1, 1] and [0.5, 0.5, 0]; a sibling that has ended counts with 0 at turn 2
    rewards = [np.array([0.0, 1.0]), np.array([0.0, 0.5, 0.0])]
    scale = math.sqrt(0.125) + 1e-4  # returns 1 and 0.5: deviations 0.25, variance 0.125
    first, second = advantages(rewards, "turn")
    assert first == pytest.approx([0.25 / scale, 0.25 / scale])
    assert second == pytest.approx([-0.25 / scale, -0.25 / scale, 0.0])


def test_turn_credit_blames_only_what_follows():
    """A reward before a turn is not that turn's merit."""
    rewards = [np.array([1.0, 0.0]), np.array([0.0, 0.0])]
    first, second = advantages(rewards, "turn")
    assert first[0] > 0 > second[0]
    assert first[1] == second[1] == 0.0


@pytest.mark.parametrize("credit", ["episode", "turn"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1 + 0.2])
def test_dead_groups_teach_nothing(credit, value):
    rewards = [np.array([0.0, value]), np.array([value, 0.0])]
    assert advantages(rewards, credit) is None


def test_unknown_credit_is_refused():
    with pytest.raises(ValueError, match="credit 'luck'"):
        advantages([np.array([1.0]), np.array([0.0])], "luck")


def test_longer_episodes_do_not_move_the_baseline():
    """The mean is over episodes, not over turns."""
    short = [np.array([1.0]), np.array([0.0])]
    long = [np.array([0.0] * 9 + [1.0]), np.array([0.0])]
    assert advantages(short, "episode")[0][0] == pytest.approx(advantages(long, "episode")[0][0])


def episodes(*rewards: list[float], group: str = "g") -> list[Episode]:
    made = []
    for values in rewards:
        turns = [Turn(episode=0, turn=i, observation=str(i), proposed="", executed="", terms={"r": v})
                 for i, v in enumerate(values)]  # fmt: skip
        made.append(Episode(Plan(0, {}, group, ""), {}, turns, "success"))
    return made


@pytest.mark.parametrize("credit", ["episode", "turn", "state", "branch", "stage"])
def test_a_dead_group_has_no_credit_and_leaves_the_others_theirs(credit):
    live, flat = episodes([0.0, 1.0], [0.0, 0.0], group="live"), episodes([0.5], [0.5], group="flat")
    alone = credit_episodes(live, lambda text: (), Values(), credit, 0.5)
    both = credit_episodes([*live, *flat], lambda text: (), Values(), credit, 0.5)
    assert [c.state for c in both] == ["live", "live", "dead", "dead"]
    assert both[2].advantage is None
    if credit != "stage":  # the worth of stages is learned from all
        for one, other in zip(alone, both, strict=False):
            assert one.advantage == pytest.approx(other.advantage)


@pytest.mark.parametrize("credit", ["episode", "turn", "state", "branch", "stage"])
def test_a_failed_episode_drops_its_group_and_no_other(credit):
    broken, live = episodes([0.0], [1.0], group="broken"), episodes([0.0], [1.0], group="live")
    broken[0].ended = FAILED
    found = credit_episodes([*broken, *live], lambda text: (), Values(), credit, 0.5)
    assert [c.state for c in found] == ["failed", "failed", "live", "live"]
    assert found[2].advantage is not None
    assert found[2].advantage[0] < 0 < found[3].advantage[0]


# -- state -----------------------------------------------------------------------------------------------------


def test_state_credit_by_hand():
    """Stage "a" is stood at by both, "b" by the first alone."""
    rewards = [np.array([0.0, 1.0]), np.array([0.0])]
    keys = [[("a",), ("b",)], [("a",)]]
    # returns 1 and 0, and returns-to-go at "a" 1 and 0: the same advantage twice
    size = 0.5 / (math.sqrt(0.5) + 1e-4)
    first, second = advantages(rewards, "state", keys)
    assert first == pytest.approx([2 * size, size])
    assert second == pytest.approx([-2 * size])


def test_state_credit_compares_turns_wherever_they_are_in_their_episodes():
    rewards = [np.array([0.0, 0.0, 1.0]), np.array([0.0])]
    keys = [[("x",), ("y",), ("a",)], [("a",)]]
    first, second = advantages(rewards, "state", keys)
    assert first[2] > first[1] == first[0] > 0 > second[0]


def test_a_stage_where_all_earned_the_same_adds_nothing():
    rewards = [np.array([1.0, 0.0]), np.array([0.0, 0.0])]
    keys = [[("s",), ("a",)], [("t",), ("a",)]]
    found = advantages(rewards, "state", keys)
    assert found[0] == pytest.approx(advantages(rewards, "episode")[0])
    assert found[1] == pytest.approx(advantages(rewards, "episode")[1])


# -- branch ----------------------------------------------------------------------------------------------------


def branched(*, root: list[float], other: list[float], branches: list[list[float]], at: int) -> list[Episode]:
    made = episodes(root, other, *branches)
    made[0].fork = ("g", at)
    for branch in made[2:]:
        branch.fork = ("g", at)
        branch.plan = Plan(0, {}, "g", "", opening=tuple(branch.turns[:at]), fork="g")
    return made


def credit_of(made: list[Episode]):
    return [c.given for c in credit_episodes(made, lambda text: (), Values(), "branch", 0.5)]


def test_branch_credit_by_hand():
    made = branched(root=[0.0, 0.0, 1.0], other=[0.0], branches=[[0.0, 0.0, 0.0]], at=1)
    size = 0.5 / (math.sqrt(0.5) + 1e-4)
    root, other, branch = credit_of(made)
    # the shared turn by the roots' returns 1 and 0; from the fork on 1 against 0
    assert root.advantage == pytest.approx([size, size, size])
    assert other.advantage == pytest.approx([-size])
    assert branch.advantage[1:] == pytest.approx([-size, -size])


def test_the_shared_part_counts_once():
    made = branched(root=[0.5, 0.0], other=[0.0], branches=[[0.5, 1.0], [0.5, 0.0]], at=1)
    root, _, first, second = credit_of(made)
    assert root.counts.tolist() == [True, True]
    assert first.counts.tolist() == second.counts.tolist() == [False, True]
    # what was earned before the fork is not the branches' merit
    assert first.advantage[1] > 0 > second.advantage[1] == root.advantage[1]


def test_a_dead_fork_leaves_the_roots_their_credit_and_a_dead_start_the_fork_its():
    made = branched(root=[0.0, 1.0], other=[0.0], branches=[[0.0, 1.0]], at=1)
    root, other, branch = credit_of(made)
    assert root.advantage[1] > 0 > other.advantage[0] and branch is None
    made = branched(root=[0.0, 1.0], other=[1.0], branches=[[0.0, 0.0]], at=1)
    root, other, branch = credit_of(made)
    assert other is None
    assert root.counts.tolist() == [False, True]
    assert root.advantage[1] > 0 > branch.advantage[1]


# -- without the spread, and without the truncated ---------------------------------------------------------------


@pytest.mark.parametrize("credit", ["episode", "turn"])
def test_unscaled_advantages_are_differences(credit):
    first, second = advantages([np.array([3.0]), np.array([1.0])], credit, scaled=False)
    assert first == pytest.approx([1.0])
    assert second == pytest.approx([-1.0])


def test_what_was_truncated_is_compared_with_and_teaches_nothing():
    made = episodes([0.0, 0.0], [1.0])
    made[0].ended = "turn_cap"
    found = credit_episodes(made, lambda text: (), Values(), "episode", 0.5, drop="turn_cap")
    assert [c.state for c in found] == ["live", "live"]
    assert found[0].given is None
    assert found[1].advantage[0] > 0
