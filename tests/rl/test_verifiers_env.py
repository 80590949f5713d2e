"""The scenario plays in `verifiers`' own evaluator, against a server that answers by the teacher's rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("verifiers.v1")

import scenarios

FETCH = scenarios.get("fetch_item")
ROOT = Path(__file__).resolve().parents[2]
MODULE = """
from rl.verifiers_env import ErrandTaskset, ErrandVerifiersEnv

__all__ = ["ErrandTaskset", "ErrandVerifiersEnv"]
"""


def answer(messages):
    """The teacher's phrase for the last user message; its memory comes from those before."""
    memory, phrase = None, ""
    for message in messages:
        if message["role"] == "user":
            content = message["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            observation = text.split("\n\nActions:")[0].split("\n")[-1]
            phrase, memory = FETCH.teacher(memory, observation)
    return phrase


class Server(BaseHTTPRequestHandler):
    """An OpenAI-compatible server, streaming or not."""

    def log_message(self, *_):
        return

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        phrase = answer(body["messages"])
        usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        head = {"id": "x", "created": 0, "model": "m"}
        if body.get("stream"):
            head["object"] = "chat.completion.chunk"
            said = {"index": 0, "delta": {"role": "assistant", "content": phrase}, "finish_reason": None}
            ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks = [head | {"choices": [said]}, head | {"choices": [ended]}, head | {"choices": [], "usage": usage}]
            sent = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        else:
            said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": phrase}}
            sent = json.dumps(head | {"object": "chat.completion", "choices": [said], "usage": usage})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("content-length", str(len(sent.encode())))
        self.end_headers()
        self.wfile.write(sent.encode())


def test_the_evaluator_plays_and_records_each_reward_term(tmp_path):
    (tmp_path / "errand_env.py").write_text(MODULE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {
        "--client.base-url": f"http://127.0.0.1:{server.server_port}/v1", "--client.api-key-var": "NO_KEY",
        "--env.player.runtime.type": "subprocess", "--env.player.harness.id": "null",
        "--env.taskset.split": "validation", "--select.limit": "2",
    }  # fmt: skip
    program = str(Path(sys.executable).parent / "vf-eval")
    given = [word for pair in options.items() for word in pair]
    words = [program, "errand_env", "-m", "m", *given, "--no-push", "-o", "out"]
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "NO_KEY": "x"}
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, timeout=300)
    server.shutdown()
    found = [json.loads(line) for path in (tmp_path / "out").rglob("traces.jsonl") for line in path.open()]
    assert len(found) == 2, done.stdout + done.stderr
    for one in found:
        (trace,) = one["traces"]
        assert not trace["errors"]
        assert set(trace["rewards"]) == {term.name for term in FETCH.reward_terms}
        assert trace["metrics"]["success"] == 1.0
        assert sum(reward["score"] for reward in trace["rewards"].values()) > 0.9
