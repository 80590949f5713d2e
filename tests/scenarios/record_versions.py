"""Records each scenario's version and the hash of its rules: python -m tests.scenarios.record_versions

Refuses to record another hash under the same version: logs that carry that version would mix two rules.
`--same-play` records it all the same: for an edit that changes no play and no reward, such as a comment.
"""

import json
import sys
from pathlib import Path
from typing import TypedDict

import scenarios

RECORD = Path(__file__).with_name("versions.json")
COMMAND = "python -m tests.scenarios.record_versions"


class Recorded(TypedDict):
    version: int
    source_hash: str


def read() -> dict[str, Recorded]:
    """What was recorded last."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def current() -> dict[str, Recorded]:
    """What the scenarios say of themselves."""
    found = ((name, scenarios.get(name)) for name in scenarios.names())
    return {name: {"version": s.version, "source_hash": s.source_hash} for name, s in found}


def forgotten(before: dict[str, Recorded], now: dict[str, Recorded]) -> list[str]:
    """One line for each scenario whose rules or reward changed while its version was not raised."""
    lines = []
    for name, recorded in before.items():
        found = now.get(name, recorded)
        if found["source_hash"] != recorded["source_hash"] and found["version"] <= recorded["version"]:
            lines.append(
                f"{name}: its rules or reward changed (source hash {recorded['source_hash']} -> "
                f"{found['source_hash']}) but its version is still {found['version']}. If any play or reward "
                f"can differ, raise `version` in its scenario file, then run: {COMMAND}. "
                f"If none can (a comment, a name): {COMMAND} --same-play"
            )
    return lines


def main(arguments: list[str]) -> int:
    now = current()
    lines = [] if "--same-play" in arguments else forgotten(read(), now)
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        return 2
    RECORD.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    print(f"recorded {len(now)} scenario(s) in {RECORD.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
