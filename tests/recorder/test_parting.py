"""`diff` and `stats`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder import Amend, EpisodeEnd, Reader, Writer
from recorder.figures import SAMPLE, figures
from recorder.parting import part
from recorder.records import Turn
from tests.recorder.calling import call
from tests.recorder.making import a_begin, a_log, a_turn, an_end, write_episodes


def play(log: Writer, episode: int, policy: str, actions: str, **other: Any) -> None:
    """An episode of seed 7 unless said otherwise, a letter a turn; what is seen is what was done before."""
    begin = {"seed": 7, "policy": policy, "digest_start": {"map": "00"}, **other}
    log.begin_episode(a_begin(episode, **begin))
    for at, action in enumerate(actions):
        seen = f"so far {actions[:at]}"
        log.turn(Turn(episode=episode, turn=at, observation=seen, proposed=action, executed=action,
                      outcome_kind="done", terms={"time": -0.1}, digest_after={"map": actions[: at + 1]}))  # fmt: skip
    success = actions.endswith("!")
    log.end_episode(
        EpisodeEnd(episode=episode, ended="success" if success else "turn_cap", success=success, turns=len(actions),
                   total_reward=-0.1 * len(actions))
    )  # fmt: skip


def test_diff_of_two_policies_in_one_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        play(log, 0, "old", "abcc")
        play(log, 1, "new", "abd!")
        play(log, 2, "old", "xy", seed=8)
        play(log, 3, "new", "xy", seed=8)
        play(log, 4, "old", "x", seed=9)
    code, out, said = call(capsys, "diff", path, "--left", "old", "--right", "new")
    assert (code, said) == (1, "")
    assert out == (
        "count, seed 7, difficulty easy: turn 2, they did otherwise\n"
        "  both saw   so far ab\n"
        "  left did   c -> done\n"
        "  right did  d -> done\n"
        "  left       episode 0, old: ended without success (turn_cap) after 4 turns, return -0.400\n"
        "  right      episode 1, new: ended with success after 4 turns, return -0.400\n"
        "\n"
        "2 pairs of one start: 1 alike, 1 part; without a partner: 1 left, 0 right\n"
    )
    out = call(capsys, "diff", path, "--left", "old", "--right", "new", "--json")[1]
    pairs = [json.loads(line) for line in out.splitlines()]
    assert [(pair["turn"], pair["why"]) for pair in pairs] == [(2, "action"), (None, "")]
    assert pairs[0]["left_turn"]["executed"] == "c" and pairs[0]["right"]["success"]
    assert call(capsys, "diff", path, "--left", "old", "--right", "new", "--seed", 8)[0] == 0


@pytest.mark.parametrize(
    ("right", "turn", "why", "says"),
    [
        ({"actions": "ab"}, 2, "end", "right      had ended"),
        ({"actions": "abc", "seen": 1}, 1, "observation", "they saw otherwise after the same actions"),
        ({"actions": "abc", "digest": 1}, 1, "digest", "parts      map"),
        ({"actions": "abc", "digest_start": {"map": "11"}}, 0, "start", "they began in different states"),
    ],
)
def test_diff_tells_players_and_rules_apart(
    right: dict[str, Any], turn: int, why: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a.b22", tmp_path / "b.b22"
    with Writer(a, dictionary=None, sync="none") as log:
        play(log, 3, "p", "abc")
    with Writer(b, dictionary=None, sync="none") as log:
        actions = right["actions"]
        log.begin_episode(a_begin(0, seed=7, policy="p", digest_start=right.get("digest_start", {"map": "00"})))
        for at, action in enumerate(actions):
            seen = "otherwise" if right.get("seen") == at else f"so far {actions[:at]}"
            digest = "??" if right.get("digest") == at else actions[: at + 1]
            log.turn(Turn(episode=0, turn=at, observation=seen, proposed=action, executed=action,
                          digest_after={"map": digest}))  # fmt: skip
        log.end_episode(an_end(0, len(actions)))
    code, out, _ = call(capsys, "diff", a, b)
    assert code == 1 and f"turn {turn}, " in out and says in out
    assert json.loads(call(capsys, "diff", a, b, "--json")[1])["why"] == why
    assert call(capsys, "diff", a, a)[0] == 0


def test_diff_pairs_groups_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        for number, (policy, actions) in enumerate([("o", "a"), ("o", "b"), ("n", "a"), ("n", "b"), ("n", "c")]):
            play(log, number, policy, actions)
    code, out, _ = call(capsys, "diff", path, "--left", "o", "--right", "n")
    assert code == 0 and out == "2 pairs of one start: 2 alike, 0 part; without a partner: 0 left, 1 right\n"


def test_diff_shows_ten_and_counts_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        for number in range(12):
            play(log, 2 * number, "o", "a", seed=number)
            play(log, 2 * number + 1, "n", "b", seed=number)
    out = call(capsys, "diff", path, "--left", "o", "--right", "n")[1]
    assert out.count("did otherwise") == 10 and "... and 2 more pairs that part" in out
    assert call(capsys, "diff", path, "--left", "o", "--right", "n", "--all")[1].count("did otherwise") == 12


def test_diff_with_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.b22", tmp_path / "b.b22"
    a_log(a)
    with Writer(b, dictionary=None) as log:
        write_episodes(log, range(50, 52))
    code, out, said = call(capsys, "diff", a, b)
    assert code == 2 and out == "" and "nothing to compare" in said and "2 episodes on the left, 2 on the right" in said
    code, _, said = call(capsys, "diff", a)
    assert code == 2 and "give --left POLICY and --right POLICY" in said and said.count("\n") == 1


# ---------------------------------------------------------------- stats


def test_stats_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        write_episodes(log, range(4), 3, policy="p")
        log.begin_episode(a_begin(4, policy="q"))
        log.turn(a_turn(4, 0, proposed="fly", executed="wait", fallback=True, greedy=True))
        log.end_episode(an_end(4, 1, success=False, ended="turn_cap", total_reward=-1.0))
        log.begin_episode(a_begin(5, policy="q"))
        log.amend(Amend(episode=0, labels={"a": "b"}))
    code, out, _ = call(capsys, "stats", path, "--json")
    found = json.loads(out)
    assert code == 0 and found["turns"] == 13 and found["bytes_per_turn"] == path.stat().st_size / 13
    assert sum(kind["bytes"] for kind in found["kinds"].values()) == path.stat().st_size
    assert found["kinds"]["TURN"]["records"] == 13 and found["kinds"]["AMEND"]["records"] == 1
    assert sum(found["actions"].values()) == 13 and found["actions"]["wait"] >= 1
    assert (found["fallbacks"], found["greedy"], found["replaced"]) == (1, 1, 1)
    assert found["policies"]["p"]["successes"] == 4 and found["policies"]["q"]["episodes"] == 2
    assert found["policies"]["q"]["low"] == -1.0 and found["policies"]["q"]["ended"] == 1
    assert found["ended"] == {"success": 4, "turn_cap": 1, "open": 1}
    assert found["fields"]["probs"]["plain"] == pytest.approx(6 + 2 + 36)  # name, its head, nine floats
    assert found["fields"]["probs"]["stored"] > 30  # random floats don't compress
    out = call(capsys, "stats", path)[1]
    assert "1 fallbacks, 1 greedy, 1 executed otherwise than proposed" in out
    assert "ended: success (4), turn_cap (1), open (1)" in out


def test_stats_sample_is_spread_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    a_log(path, episodes=300, turns=4)
    with Reader(path) as reader:
        found = figures(reader)
    assert found.turns == 1200 > 2 * SAMPLE
    assert all(math.isfinite(size.stored) for size in found.fields.values())
    assert found.fields["observation"].plain == pytest.approx(45, abs=6)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_turn_that_is_lost_is_not_taken_for_an_end_or_for_the_next_one(lost: int, tmp_path: Path) -> None:
    path = tmp_path / "a.b22"
    with Writer(path, dictionary=None, sync="none") as log:
        play(log, 0, "p", "abc")
    with Reader(path) as reader:
        whole = reader.episode(0)
    damaged = msgspec.structs.replace(whole, turns=[turn for turn in whole.turns if turn.turn != lost])
    for left, right in ((whole, damaged), (damaged, whole)):
        found = part(left, right)
        assert (found.turn, found.why) == (lost, "lost")
        assert (found.left_turn is None) != (found.right_turn is None)
