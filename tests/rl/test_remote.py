"""A model behind a server: strict parsing, requests sent again, costs counted, and one line where it can't go on."""

from __future__ import annotations

import json

import httpx
import pytest

import scenarios
from rl.policies import PolicyNameError, TurnView, make_policy, parse_policy
from rl.remote import LONGEST_REPLY, RemoteError, RemotePolicy, parse_reply, parse_url
from rl.rollout import Plan, play

FETCH = scenarios.get("fetch_item")
LEGAL = ("go to the inn", "take the red lantern", "wait")


def view(seed=0):
    state = FETCH.build(seed)
    return TurnView(state, FETCH.observation(state), FETCH.legal(state))


def chat(text, **usage):
    return httpx.Response(200, json={"choices": [{"message": {"content": text}}], "usage": usage})


def policy(answers, text="http:http://teacher.test/v1#big", **settings):
    """A policy whose server gives these answers in turn (the last one for ever), and the requests that it saw."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        answer = answers[min(len(seen), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = RemotePolicy(text, FETCH, transport=httpx.MockTransport(handle), side_by_side=1, **settings)
    made.pause_s = 0.0
    return made, seen


@pytest.mark.parametrize(
    ("reply", "phrase"),
    [
        ("go to the inn", "go to the inn"),
        ("  Go to the  inn. \n", "go to the inn"),
        ('"wait"', "wait"),
        ("<think>the inn, or\nwait?</think>\nwait", "wait"),
        ("", None),
        ("I will go to the inn", None),
        ("go to the inn\nwait", None),
        ("take the lantern", None),
        ("waiting", None),
        ("red", None),  # a part of a word of a phrase is no phrase
        ("<think>wait", None),
    ],
)
def test_only_a_whole_legal_phrase_is_an_action(reply, phrase):
    assert parse_reply(reply, LEGAL) == phrase


@pytest.mark.parametrize(
    ("text", "endpoint", "model"),
    [
        ("http:http://h:1/v1", "http://h:1/v1/chat/completions", ""),
        ("http://h:1/v1/#m/x", "http://h:1/v1/chat/completions", "m/x"),
        ("https://h/v1/completions", "https://h/v1/completions", ""),
        ("http:https://h/v1/chat/completions#m", "https://h/v1/chat/completions", "m"),
    ],
)
def test_where_a_policy_string_points(text, endpoint, model):
    assert parse_url(text) == (endpoint, model)
    assert parse_policy(text).kind == "http"


@pytest.mark.parametrize("text", ["http:", "http://", "http:ftp://h/v1", "http:localhost:80/v1", "http:http://[::1/v1"])
def test_what_is_no_address_is_named(text):
    with pytest.raises(PolicyNameError, match="policy 'http"):
        parse_policy(text)


def test_a_turn_is_told_in_full_and_costs_are_counted(monkeypatch):
    monkeypatch.setenv("ERRAND_API_KEY", "sesame")
    turn = view()
    player, seen = policy([chat(turn.legal[2], prompt_tokens=70, completion_tokens=5)])
    (decision,) = player.decide([turn], [0.25])
    assert decision.phrase == turn.legal[2] and decision.index == 2
    assert decision.probs == [float(i == 2) for i in range(len(turn.legal))]
    body = json.loads(seen[0].content)
    assert body["model"] == "big" and body["temperature"] == 1.0 and body["seed"] == 2**29
    assert turn.observation in body["messages"][1]["content"]
    assert all(phrase in body["messages"][1]["content"] for phrase in turn.legal)
    assert seen[0].headers["authorization"] == "Bearer sesame"
    assert player.costs() == {"turns": 1, "requests": 1, "asked_again": 0, "refused": 0, "retried": 0,
                              "prompt_tokens": 70, "completion_tokens": 5}  # fmt: skip
    player.decide([turn], None)
    assert json.loads(seen[1].content)["temperature"] == 0.0 and "seed" not in json.loads(seen[1].content)


def test_prose_is_asked_again_once_and_then_played_as_it_stands():
    turn = view()
    player, seen = policy([chat("Sure! I would " + turn.legal[0]), chat(turn.legal[0])])
    assert player.decide([turn], None)[0].phrase == turn.legal[0]
    assert [m["role"] for m in json.loads(seen[1].content)["messages"]] == ["system", "user", "assistant", "user"]
    assert player.costs()["asked_again"] == 1 and player.costs()["refused"] == 0

    player, _ = policy([chat("x" * 1000)])
    plans = [Plan(0, {}, "g", "d")]
    (episode,) = play(player, FETCH, plans, greedy=True)
    first = episode.turns[0]
    assert first.executed == "x" * LONGEST_REPLY and first.outcome_kind == "illegal" and not episode.success
    assert player.costs()["refused"] == len(episode.turns) == FETCH.turn_cap


@pytest.mark.parametrize("reply", [None, ""])
def test_an_empty_reply_loses_the_turn_and_nothing_else(reply):
    player, _ = policy([chat(reply)])
    (decision,) = player.decide([view()], None)
    assert decision.phrase == "" and decision.index == -1


def test_a_busy_server_and_a_broken_line_are_asked_again():
    turn = view()
    busy = httpx.Response(429, headers={"retry-after": "0"}, text="slow down")
    player, seen = policy([busy, httpx.ConnectError("no route"), httpx.ReadTimeout("late"), chat(turn.legal[0])])
    assert player.decide([turn], None)[0].phrase == turn.legal[0]
    assert len(seen) == 4 and player.costs()["retried"] == 3


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([httpx.Response(401, text="wrong\nkey")], "status 401: wrong key"),
        ([httpx.Response(503, text="busy")], "status 503"),
        ([httpx.ConnectError("refused")], "no answer after 3 tries (refused)"),
        ([httpx.ReadTimeout("")], "no answer after 3 tries (ReadTimeout)"),
        ([httpx.Response(200, text="<html>")], "no JSON"),
        ([httpx.Response(200, json={"choices": []})], "no completion"),
        ([httpx.Response(200, json=[1])], "no completion"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_in_one_line(answers, says):
    player, _ = policy(answers, retries=2)
    with pytest.raises(RemoteError) as caught:
        player.decide([view()], None)
    assert says in str(caught.value) and "teacher.test" in str(caught.value) and "\n" not in str(caught.value)


def test_the_name_makes_the_player():
    made = make_policy(parse_policy("http:http://127.0.0.1:9/v1"), FETCH)
    assert isinstance(made, RemotePolicy) and made.chat
    made.close()
