"""Writes the golden file of the format as it is now: `python -m tests.recorder.make_golden NAME`.

Once a version is released, its file is never written again; a new version adds one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from recorder import Amend, Header, Writer, dictionary
from tests.recorder.making import a_turn, write_episodes


def main(name: str) -> None:
    path = Path(__file__).parent / "golden" / f"{name}.b22"
    trained = dictionary.train([dictionary.sample(a_turn(i // 8, i % 8)) for i in range(600)], 1024)
    header = Header(engine_version="0.1.0", created_unix=1.75e9, program="golden", python="3.11", platform="any")
    with Writer(path, header=header, dictionary=trained, index_every=6) as log:
        prefix = log.add_prefix("You run errands in a village.", [1, 2, 3], "tok")
        turns = write_episodes(log, range(2), prefix_hash=prefix, run="r", update=1)
        log.amend(Amend(episode=0, turn=2, terms={"found": 1.0}, labels={"by": "hand"}))
    with Writer(path, header=header, dictionary=None, append=True) as log:
        turns += write_episodes(log, range(2, 3), 2, run="r", update=2)
    path.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(turns), indent=1) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
