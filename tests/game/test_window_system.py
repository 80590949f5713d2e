"""The game as a process of its own: under an X server where there is one, and ended by Ctrl-C at a bad moment."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pygame
import pytest

from recorder import Reader

GAME = [sys.executable, "-m", "game", "--brain", "teacher"]


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="Xvfb is not installed")
def test_a_real_window_opens_plays_and_closes_under_x(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x900x24", "-nolisten", "tcp"],
        pass_fds=[writing], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    try:
        with os.fdopen(reading) as numbers:
            display = numbers.readline().strip()
        assert display, "Xvfb says on which display it listens"
        env = {name: value for name, value in os.environ.items() if name not in ("SDL_VIDEODRIVER", "WAYLAND_DISPLAY")}
        env |= {"DISPLAY": f":{display}", "SDL_VIDEODRIVER": "x11"}
        command = [*GAME, "--turns", "1", "--screenshot", str(tmp_path / "x.png")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    finally:
        server.terminate()
        server.wait(timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    picture = pygame.image.load(str(tmp_path / "x.png"))
    assert picture.get_size() == (1320, 686)
    assert len({tuple(picture.get_at((x, y))) for x in range(0, 960, 9) for y in range(0, 640, 9)}) > 100


def test_ctrl_c_while_it_still_loads_leaves_no_traceback() -> None:
    command = [sys.executable, "-X", "importtime", *GAME[1:], "--headless", "--turns", "999999"]
    game = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert game.stderr is not None
    for line in game.stderr:
        if line.endswith(" argparse\n"):
            break
    game.send_signal(signal.SIGINT)
    out, err = game.communicate(timeout=60)
    assert "Traceback" not in err and "KeyboardInterrupt" not in err and out == ""
    assert game.returncode == -signal.SIGINT


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_at_play_ends_cleanly_and_says_what_was_played(sent: int, code: int, tmp_path: Path) -> None:
    log = tmp_path / "play.b22"
    words = ["--headless", "--turns", "999999", "--record", str(log)]
    game = subprocess.Popen([*GAME, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert game.stdout is not None
    first = game.stdout.readline()
    game.send_signal(sent)
    out, err = game.communicate(timeout=60)
    assert first.startswith("episode 0, seed 0: success") and err == ""
    said = out.splitlines()[-1]
    assert "episodes ended" in said and game.returncode == code
    with Reader(log) as read:
        assert read.clean, "the log was closed"
        recorded = sum(len(episode.turns) for episode in read.episodes())
        assert 0 <= recorded - int(said.split()[0]) <= 1, "what it says lies in the log"
