"""The benchmark beside the peers: what they are given, how ratios come about, and the object that others rely on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import environments, figures, talk, turns
from benchmarks.peers.environments import PEERS, Child, Peer, PeerError
from npc.adapters import get_adapter, load_adapter
from npc.forward import prefix_kv
from npc.generate import completion_logps
from npc.mlx import mx
from npc.models import load
from recorder import Turn
from rl.policies import find_adapter
from rl.rollout import Episode, Plan

KEYS = {"loop_vs_trl", "train_vs_trl", "rollout_vs_trl", "loop_vs_mlx_lm_lora", "env_vs_minigrid", "text_steps_per_s",
        "matmul_share_update", "matmul_share_rollout"}  # fmt: skip

# a peer's script that computes nothing: it answers what its job says, one answer a question
SCRIPT = f"""
import sys
sys.path.insert(0, {str(environments.HERE)!r})
from talk import Talk
talk = Talk()
print("what libraries print is no answer")
talk.say(**talk.job["facts"])
while talk.asked():
    talk.say(**talk.job["answer"])
"""


def episode(group: str, words: list[str]) -> Episode:
    played = Episode(Plan(0, {}, group, ""), {})
    for at, word in enumerate(words):
        played.turns.append(Turn(episode=0, turn=at, observation=word, proposed="", executed="", outcome_kind="",
                                 prompt_ids=[len(word)], sampled_ids=[7, at],
                                 terms={"time": -1.0}))  # fmt: skip
    return played


def fake(tmp_path: Path, name: str, answer: dict[str, object], facts: dict[str, object] | None = None) -> Peer:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return Peer(name, str(script), (), {"facts": facts or {"versions": {name: "1"}, "off": 0.0}, "answer": answer})


def test_siblings_turns_of_the_same_moment_stand_side_by_side() -> None:
    episodes = [episode("g", ["a", "bb", "ccc"]), episode("h", ["x"]), episode("g", ["d", "ee"]), episode("h", ["yy"])]
    rows = turns.rows_of(episodes, "Rules.", [1, 2], 2)
    assert [row["prompt"] for row in rows] == [f"Rules. {said} do" for said in ("a", "d", "bb", "ee", "x", "yy")]
    assert rows[2] == {"prompt": "Rules. bb do", "prompt_ids": [1, 2, 2], "completion_ids": [7, 1], "reward": -3.0}
    assert figures.tokens_a_turn(rows) == 5


def test_ratios_are_taken_within_a_round() -> None:
    ours = [{"turns": 8, "loop_s": 2.0, "update_s": 1.0}, {"turns": 8, "loop_s": 4.0, "update_s": 2.0}]
    theirs = [{"turns": 4, "loop_s": 4.0, "update_s": 1.0}, {"turns": 4, "loop_s": 8.0, "update_s": 8.0}]
    assert figures.ratios(ours, theirs, "loop") == [4.0, 4.0]
    assert figures.ratios(ours, theirs, "update") == [2.0, 8.0]
    assert figures.spread([2.0, 8.0, 3.0]) == {"median": 3.0, "low": 2.0, "high": 8.0}
    assert figures.in_words(figures.spread([2.0, 8.0, 3.0])) == "3.00 (2.00 to 8.00)"
    assert figures.reached("loop_vs_trl", 10.0) and not figures.reached("loop_vs_trl", 9.9)
    assert figures.reached("env_share_nano", 0.05) and not figures.reached("env_share_nano", 0.06)


def test_a_peer_is_given_the_weights_that_act_here(tmp_path: Path) -> None:
    brain = load("nano")
    load_adapter(brain, find_adapter("nano", "fetch_item"))
    rows = turns.rows_of([episode("g", ["left 3"]), episode("g", ["left 2"])], "You run", [5, 6], 2)
    expected = turns.logps_of(brain, rows)
    turns.write_model(brain, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "peft" / "adapter_config.json").read_text())
    stored = mx.load(str(tmp_path / "model" / "peft" / "adapter_model.safetensors"))
    assert isinstance(stored, dict) and len(stored) == len(get_adapter(brain))
    base = load(tmp_path / "model")
    for layer, (part, name) in ((i, key) for i in range(len(base.model.layers)) for key in
                                (("self_attn", "q_proj"), ("self_attn", "k_proj"), ("self_attn", "v_proj"),
                                 ("self_attn", "o_proj"), ("mlp", "gate_proj"), ("mlp", "up_proj"),
                                 ("mlp", "down_proj"))):  # fmt: skip
        place = f"base_model.model.model.layers.{layer}.{part}.{name}"
        a, b = stored[f"{place}.lora_A.weight"], stored[f"{place}.lora_B.weight"]
        module = base.model.layers[layer][part][name]
        module.weight = module.weight + config["lora_alpha"] / config["r"] * (b @ a)  # as peft adds it
    found, _, _ = completion_logps(base.model, prefix_kv(base.model, []), [row["prompt_ids"] for row in rows],
                                   [row["completion_ids"] for row in rows])  # fmt: skip
    np.testing.assert_allclose(np.array(found.sum(axis=1)), expected, atol=1e-4)


def test_the_object_that_others_rely_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours is measured, the peers are scripts that answer at once; one of them is another model, and is left out."""
    answer = {"turns": 8, **talk.rest({"loop_s": 8.0, "loop_cpu_s": 16.0}, {"rollout_s": 4.0, "rollout_cpu_s": 8.0})}
    assert (answer["update_s"], answer["update_cpu_s"]) == (4.0, 8.0)
    worlds = {"steps_per_s": {"Fetch": 2.0, "FourRooms": 1.0}}
    for peer in (fake(tmp_path, "trl", answer), fake(tmp_path, "minigrid", worlds),
                 fake(tmp_path, "mlx-lm-lora", answer, {"versions": {}, "off": 3.0})):  # fmt: skip
        monkeypatch.setitem(PEERS, peer.name, peer)
    monkeypatch.setattr("benchmarks.peers.worlds.environment_share", lambda *_: [{"environment": 0.03, "apply": 0.02}])
    use = [f"--python-of={name}={sys.executable}" for name in ("trl", "minigrid", "mlx-lm-lora")]
    few = ["--model", "nano", "--groups", "1", "--group-size", "2", "--rounds", "1", "--seconds", "0.05"]
    assert command.main([*few, *use, "--peers", "trl,minigrid,mlx-lm-lora", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    assert set(found) >= KEYS
    own = found["ours"]["loop_turns_per_s"]["median"]
    update = found["ours"]["update_turns_per_s"]["median"]
    assert (found["loop_vs_trl"], found["train_vs_trl"]) == pytest.approx((own / 1.0, update / 2.0))
    assert 0 < found["loop_vs_trl_cpu"] < np.inf
    assert found["env_vs_minigrid"] == pytest.approx(found["text_steps_per_s"] / 2)
    assert found["loop_vs_mlx_lm_lora"] is None and "not the same model" in found["reasons"]["loop_vs_mlx_lm_lora"]
    assert found["versions"] == {"trl": "1", "minigrid": "1"}
    assert 0 < found["matmul_share_update"] < 1 and 0 < found["matmul_share_rollout"] < 1
    assert any(line.startswith("loop_vs_trl: ") and "(goal: at least 10)" in line for line in printed.out.splitlines())


def test_a_script_that_ends_says_why(tmp_path: Path) -> None:
    peer = fake(tmp_path, "trl", {})
    Path(peer.script).write_text("import sys\nsys.exit('no such wheel')\n")
    with pytest.raises(PeerError, match="trl: its script ended: no such wheel"):
        Child(peer, Path(sys.executable), {}, tmp_path, 1)


def test_an_environment_is_made_once_and_an_index_out_of_reach_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the interpreter that was made is a script that installs nothing, and says of it what pip would."""
    made = []

    def create(folder: Path, with_pip: bool) -> None:
        made.append(folder)
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho 'WARNING: retrying' >&2\necho 'ERROR: no index' >&2\nexit {code}\n")
        python.chmod(0o755)

    monkeypatch.setenv("ERRAND_CACHE", str(tmp_path))
    monkeypatch.setattr(environments.venv, "create", create)
    peer, code = PEERS["minigrid"], 1
    for _ in range(2):  # what was not finished is begun anew
        with pytest.raises(PeerError, match=r"^minigrid: pip .*: ERROR: no index; .*--python-of minigrid=PATH[^\n]*$"):
            environments.python_of(peer)
    code = 0
    assert environments.python_of(peer) == environments.python_of(peer) == tmp_path / "bench/minigrid/bin/python"
    assert len(made) == 3
    environments.python_of(replace(peer, requirements=("minigrid==2",)))
    assert len(made) == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--peers", "trl,nobody"], "no peer 'nobody'"), (["--python-of", "trl"], "NAME=PATH"),
     (["--rounds", "0"], "1 or more"), (["--turns", "3"], "--group-size 4 or more"),
     (["--seconds", "0"], "above 0"), (["--model", "no/such"], "no/such")],
)  # fmt: skip
def test_bad_use(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--peers", "none", *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said.splitlines()[-1]
