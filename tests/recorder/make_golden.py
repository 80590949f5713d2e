"""Writes the golden file of the format as it is now: `python -m tests.recorder.make_golden NAME`.

Once a version is released, its file is never written again; a new version adds one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from recorder import Amend, Header, Writer, dictionary
from recorder.framing import MINOR
from tests.recorder.making import a_begin, a_turn, an_end, write_episodes


def main(name: str) -> None:
    path = Path(__file__).parent / "golden" / f"{name}.b22"
    trained = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)], 1024)
    who = {"engine_version": "0.1.0", "program": "golden", "python": "3.11", "platform": "any"}
    header = Header(minor=MINOR, created_unix=1.75e9, **who)  # type: ignore[arg-type]
    with Writer(path, header=header, dictionary=trained, index_every=6) as log:
        prefix = log.add_prefix("You run errands in a village.", [1, 2, 3], "tok")
        turns = write_episodes(log, range(2), prefix_hash=prefix, run="r", update=1)
        log.amend(Amend(episode=0, turn=2, terms={"found": 1.0}, labels={"by": "hand"}))
        log.amend(Amend(episode=1, turn_terms={"found": [0.0, 0.0, 2.0]}, reward_version="2", author="golden"))
    with Writer(path, header=header, dictionary=None, append=True) as log:
        turns += write_episodes(log, range(2, 3), 2, run="r", update=2)
        log._losses.begin_failed(a_begin(3))  # as if the disk had been full for a begin and two turns
        log._losses.turn_failed(3, 1, "not written: No space left on device")
        turns.append(a_turn(3, 2))
        log.turn(turns[-1])
        log.end_episode(an_end(3, 3))
    path.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(turns), indent=1) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
