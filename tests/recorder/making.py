"""Small logs for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from recorder import EpisodeBegin, EpisodeEnd, Reader, Turn, Writer, pack_floats
from recorder.framing import Flag, Op, pack
from recorder.scan import Damage, Frame, Source

PLACES = ("dock", "inn", "market", "mill", "well")
ITEMS = ("lantern", "rope", "bread")


def a_begin(episode: int, **other: Any) -> EpisodeBegin:
    given: dict[str, Any] = {
        "scenario": "count", "scenario_version": 1, "seed": episode + 100, "group": f"g{episode // 2}",
        "options": {"difficulty": "easy"}, "policy": "teacher", "engine_version": "0.1.0",
    }
    return EpisodeBegin(episode=episode, **{**given, **other})


def a_turn(episode: int, turn: int, **other: Any) -> Turn:
    dice = np.random.default_rng(abs(int(episode) * 1000 + int(turn)))
    legal = [f"go to the {place}" for place in PLACES] + [f"take the {item}" for item in ITEMS] + ["wait"]
    probs = dice.random(len(legal), dtype=np.float32)
    action = legal[int(dice.integers(len(legal)))]
    given: dict[str, Any] = {
        "observation": f"goal {ITEMS[turn % 3]}, at {PLACES[episode % 5]}, {14 - turn} turns left",
        "proposed": action, "executed": action,
        "prompt_ids": dice.integers(0, 300, 40).tolist(), "sampled_ids": dice.integers(0, 300, 3).tolist(),
        "logps": pack_floats(-dice.random(3, dtype=np.float32)), "tau": 0.8, "legal": legal,
        "probs": pack_floats(probs / probs.sum()), "outcome_kind": "arrived", "outcome_text": "you are there",
        "ticks": int(dice.integers(1, 30)), "terms": {"found": 0.1, "success": 0.0},
        "digest_after": {"map": f"{dice.integers(1 << 60):016x}", "npc": f"{dice.integers(1 << 60):016x}"},
        "decision_ms": float(dice.random()),
    }
    return Turn(episode=episode, turn=turn, **{**given, **other})


def an_end(episode: int, turns: int, **other: Any) -> EpisodeEnd:
    given: dict[str, Any] = {"ended": "success", "success": True, "total_reward": 0.1 * turns}
    return EpisodeEnd(episode=episode, turns=turns, **{**given, **other})


def write_episodes(log: Writer, episodes: range, turns: int = 3, **begin: Any) -> list[Turn]:
    """Episodes one after the other; returns their turns in order."""
    made = []
    for episode in episodes:
        log.begin_episode(a_begin(episode, **begin))
        for at in range(turns):
            made.append(a_turn(episode, at))
            log.turn(made[-1])
        log.end_episode(an_end(episode, turns))
    return made


def a_log(path: Path, episodes: int = 2, turns: int = 3, **options: Any) -> list[Turn]:
    """A closed log; returns its turns in order."""
    options.setdefault("dictionary", None)
    options.setdefault("sync", "none")
    with Writer(path, **options) as log:
        prefix = log.add_prefix("You run errands in a village.", [1, 2, 3])
        return write_episodes(log, range(episodes), turns, prefix_hash=prefix)


def frames_of(path: Path) -> list[Frame]:
    """All records of an undamaged file, as they lie."""
    source, damage = Source(path), Damage()
    found = list(source.frames(damage))
    source.close()
    assert not damage.damaged and not damage.torn_bytes
    return found


def turns_of(path: Path, **options: Any) -> tuple[list[Turn], Damage]:
    """Every turn that can be read, and what the reader says of the damage."""
    with Reader(path, **options) as reader:
        return list(reader.turns("all")), reader.damage


def zstd(content: bytes) -> bytes:
    return zstandard.compress(content)


def extra_record(path: Path, op: int, payload: bytes, flags: int = Flag.ZSTD) -> None:
    """Puts a hand-made record with the right sequence number in the place of the FOOTER."""
    data, footer = path.read_bytes(), frames_of(path)[-1]
    assert footer.op == Op.FOOTER
    path.write_bytes(data[: footer.offset] + pack(op, flags, footer.sequence, payload))
