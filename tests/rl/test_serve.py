"""Outside agents play over MCP: by a real client, in process, over stdio and over loopback; their play is recorded."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("mcp")

import scenarios
from recorder import Reader
from rl import serve
from rl.logbook import Logbook
from rl.serve import Host, make_server
from scenarios import ScenarioError

FETCH = scenarios.get("fetch_item")


def host(path=None, scenario=FETCH, **options):
    log = None if path is None else Logbook(path, scenario, "test", "serve-test")
    return Host(scenario, options, log), log


def teach(told, memory):
    phrase, memory = FETCH.teacher(memory, told["observation"])
    return phrase, memory


def test_an_agent_plays_and_its_play_is_recorded_turn_by_turn(tmp_path):
    path = tmp_path / "s.b22"
    table, log = host(path, difficulty="1")
    told, memory = table.start("mcp:tester", seed=5), None
    assert told["seed"] == 5 and told["options"]["difficulty"] == "1" and told["task"] == FETCH.prefix
    number = told["episode"]
    earned = 0.0
    while told["ended"] is None:
        before = told["turns_left"]
        phrase, memory = FETCH.teacher(memory, told["observation"])
        assert phrase in told["legal_actions"]
        told = table.act(number, phrase)
        earned += told["reward"]
        assert told["turns_left"] == before - 1
        with Reader(path) as reader:  # it is there at once
            assert len(reader.episode(0).turns) == FETCH.turn_cap - told["turns_left"]
    assert told["success"] and told["total_reward"] == pytest.approx(earned) and told["legal_actions"] == []
    log.close()
    with Reader(path) as reader:
        episode = reader.episode(0)
    assert episode.whole and episode.begin.policy == "mcp:tester" and episode.begin.split == "train"
    state = FETCH.build(5, told.get("options") or {"difficulty": "1"})
    for turn in episode.turns:
        FETCH.apply(state, turn.executed)
        assert FETCH.digest(state) == turn.digest_after
    with pytest.raises(ScenarioError, match="is over"):
        table.act(number, "wait")


def test_an_illegal_action_uses_the_turn_up_and_bad_use_is_named():
    table, _ = host()
    told = table.start("mcp:x")
    assert told["seed"] in FETCH.splits["train"]
    after = table.act(told["episode"], "fly to the moon")
    assert after["outcome"] == "illegal" and after["turns_left"] == told["turns_left"] - 1
    for bad in (lambda: table.act(99, "wait"), lambda: table.look(99), lambda: table.start("x", -1),
                lambda: table.start("x", 1, {"colour": "red"})):  # fmt: skip
        with pytest.raises(ScenarioError):
            bad()


def test_episodes_lie_side_by_side_and_the_one_left_alone_is_given_up(monkeypatch):
    monkeypatch.setattr(serve, "MOST_OPEN", 2)
    table, _ = host()
    first, second = table.start("a", 1)["episode"], table.start("b", 2)["episode"]
    seen = table.look(second)
    table.act(first, "wait")
    assert table.look(second) == seen
    table.start("c", 3)
    with pytest.raises(ScenarioError, match="no episode"):
        table.look(second)  # the longest without a move
    assert table.look(first)["ended"] is None


def play_over(client_of, server):
    """One whole episode by a real client; what it was told last."""

    async def run():
        async with client_of(server) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["start", "act", "look"]
            answer = await client.call_tool("start", {"seed": 5, "options": {"difficulty": "1"}})
            told, memory = json.loads(answer.content[0].text), None
            number = told["episode"]
            while told["ended"] is None:
                phrase, memory = FETCH.teacher(memory, told["observation"])
                answer = await client.call_tool("act", {"episode": number, "action": phrase})
                told = json.loads(answer.content[0].text)
            wrong = await client.call_tool("act", {"episode": number, "action": "wait"})
            assert wrong.is_error and "is over" in wrong.content[0].text
            return told

    return asyncio.run(run())


def test_a_client_in_process():
    from mcp import Client

    table, _ = host()
    assert play_over(Client, make_server(table))["success"]


def test_a_client_over_stdio(tmp_path):
    from mcp import Client, StdioServerParameters

    path = tmp_path / "s.b22"
    words = ["-m", "rl.serve", "--scenario", "fetch_item", "--record", str(path)]
    told = play_over(Client, StdioServerParameters(command=sys.executable, args=words))
    assert told["success"]
    with Reader(path) as reader:
        (episode,) = list(reader.episodes())
    assert episode.whole and episode.end.success and episode.begin.policy.startswith("mcp:")


def test_a_client_over_loopback(tmp_path):
    from mcp import Client

    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port = made.getsockname()[1]
    command = [sys.executable, "-m", "rl.serve", "--scenario", "fetch_item", "--http", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            time.sleep(0.1)
        assert play_over(Client, f"http://127.0.0.1:{port}/mcp")["success"]
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--scenario", "nothing"], "nothing"),
        (["--scenario", "fetch_item", "--option", "difficulty=9"], "difficulty"),
        (["--scenario", "fetch_item", "--http", "0"], "--http 0"),
        (["--scenario", "fetch_item", "--record", "/nowhere/at/all.b22"], "/nowhere/at/all.b22"),
    ],
)
def test_bad_use_gets_one_line_and_exit_code_2(words, says, capsys):
    assert serve.main(words) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
