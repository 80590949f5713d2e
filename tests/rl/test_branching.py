"""Forks: where they are, that branches stand in the same world, and that all of it is in the log."""

from __future__ import annotations

import numpy as np
import pytest

import scenarios
from recorder import Reader
from rl.branching import fork, play_branched, roots_of, uncertainty
from rl.credit import Credited
from rl.logbook import Author, Logbook
from rl.rollout import SHARED, Episode, Plan, play
from rl.share import make_share
from tests.rl.making import Clumsy

FETCH = scenarios.get("fetch_item")


class Wavering(Clumsy):
    """Clumsy, and less sure the more it sees."""

    def decide(self, turns, uniforms):
        self.share = 0.5
        return super().decide(turns, uniforms)


def plans(groups: int = 2, size: int = 4) -> list[Plan]:
    options = FETCH.resolve_options({})
    return [Plan(seed, options, f"g{seed}", f"{seed}/{member}") for seed in range(groups) for member in range(size)]


@pytest.fixture(scope="module")
def played() -> list[Episode]:
    return play_branched(Wavering(0.5), FETCH, plans())


def test_uncertainty_is_entropy():
    assert uncertainty(np.array([0.5, 0.5, 0.0], dtype=np.float32)) == pytest.approx(np.log(2))
    assert uncertainty(np.array([1.0], dtype=np.float32)) == 0.0


def test_half_of_a_group_are_roots_and_the_others_fork_from_the_least_sure_turn_of_them(played):
    assert roots_of(4) == 2 and roots_of(3) == 1
    for at in (0, 4):
        roots, branches = played[at : at + 2], played[at + 2 : at + 4]
        root, turn = fork(roots)
        most = max(uncertainty(t.prob_values) for r in roots for t in r.turns)
        assert uncertainty(root.turns[turn].prob_values) == most
        assert root.fork == (root.plan.group, turn)
        for branch in branches:
            assert branch.fork == root.fork
            assert [t.executed for t in branch.turns[:turn]] == [t.executed for t in root.turns[:turn]]
            assert [t.policy_note for t in branch.turns] == [SHARED] * turn + [""] * (len(branch.turns) - turn)


def test_branches_are_drawn_afresh(played):
    told = {str([t.executed for t in e.turns]) for e in played[:4]}
    assert len(told) > 2


def test_a_branch_stands_in_the_world_that_its_record_says(played):
    """Played again turn by turn, every digest of a branch is the one recorded, the shared part's too."""
    for branch in (e for e in played if e.plan.fork):
        state = FETCH.build(branch.plan.seed, branch.plan.options)
        assert FETCH.digest(state) == branch.digest_start
        for number, turn in enumerate(branch.turns):
            assert turn.turn == number
            assert FETCH.observation(state) == turn.observation
            FETCH.apply(state, turn.executed)
            assert FETCH.digest(state) == turn.digest_after


def test_plain_play_is_not_changed_by_an_opening(played):
    """A branch with the root's own dice is the root."""
    root = next(e for e in played if e.fork and not e.plan.fork and e.fork[1] > 0)
    again = Plan(root.plan.seed, root.plan.options, "g", root.plan.draws, tuple(root.turns[: root.fork[1]]), "g")
    (same,) = play(Wavering(0.5), FETCH, [again])
    assert [t.executed for t in same.turns] == [t.executed for t in root.turns]


def test_shared_turns_are_learned_from_once(played):
    share = make_share(played, [Credited(np.ones(len(e.turns))) for e in played], 64, imitate=True)
    own = sum(t.policy_note != SHARED for e in played for t in e.turns)
    assert len(share.turns) == own < sum(len(e.turns) for e in played)


def test_branches_are_in_the_log_as_whole_episodes(played, tmp_path):
    with Logbook(tmp_path / "log.b22", FETCH, "test", "run") as log:
        log.add(played, Author("clumsy"), "train", "train")
    with Reader(tmp_path / "log.b22") as log:
        read = list(log.episodes())
    assert len(read) == len(played)
    assert all(e.whole and e.begin.group_size == 4 for e in read)
