"""Offers a scenario to outside agents as an MCP server: `python -m rl.serve --scenario fetch_item`.

Three tools: `start` an episode, `act` in it, `look` again. Every answer holds the observation and the legal actions, so
that an agent needs nothing else; an action that is not legal uses up the turn, as for everybody. An episode is named by
the number that `start` gave, so agents may play several, and a client that reconnects goes on where it was. With
`--record FILE.b22` what they do is recorded like any other play, turn by turn.

On stdio by default (the client starts the command); `--http PORT` serves on this machine's loopback address alone.
"""

import inspect
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scenarios
from recorder import RecorderError, Turn
from rl.command import BAD_USE, INTERRUPTED, CommandError, Parser, fail, options_from
from rl.logbook import Author, Logbook
from rl.rollout import Episode, Plan, uniform
from scenarios.contract import Scenario, ScenarioError

LOOPBACK = "127.0.0.1"
MISSING = "rl.serve needs the package mcp: pip install 'errand[mcp]'"
MOST_OPEN = 256  # episodes that are under way; the one that was left alone the longest is given up


@dataclass
class Seat:
    """An episode that somebody plays."""

    state: Any
    episode: Episode
    number: int | None  # in the log
    used: float


class Host:
    """The episodes that agents play. Knows nothing of MCP; every method returns what the agent is told.

    Raises ScenarioError for a bad seed, option or episode number, RecorderError where the log can't be written.
    """

    def __init__(self, scenario: Scenario, options: dict[str, str], log: Logbook | None, split: str = "train") -> None:
        self.scenario = scenario
        self.options = scenario.resolve_options(options)
        self._log = log
        self._split = split
        self._seats: dict[int, Seat] = {}
        self._count = 0

    def start(self, player: str, seed: int | None = None, options: dict[str, str] | None = None) -> dict[str, Any]:
        """A new episode on `seed`, or on one drawn from the training seeds."""
        chosen = self.scenario.resolve_options({**self.options, **(options or {})})
        seeds = self.scenario.splits[self._split]
        count = self._count
        world = seeds[int(uniform("serve", count) * len(seeds))] if seed is None else seed
        state = self.scenario.build(world, chosen)
        self._count += 1
        episode = Episode(Plan(world, chosen, f"serve/{count}", f"serve/{count}"), self.scenario.digest(state))
        number = None
        if self._log is not None:
            split = next((name for name, there in self.scenario.splits.items() if world in there), "")
            number = self._log.begin(episode, Author(player), "serve", split)
        self._seats[count] = Seat(state, episode, number, time.monotonic())
        if len(self._seats) > MOST_OPEN:
            del self._seats[min(self._seats, key=lambda one: self._seats[one].used)]
        return {"episode": count, "seed": world, "options": chosen, "task": self.scenario.prefix} | self.look(count)

    def look(self, episode: int) -> dict[str, Any]:
        """The observation and the legal actions."""
        seat = self._seat(episode)
        ended = self.scenario.ended(seat.state)
        return {
            "observation": self.scenario.observation(seat.state),
            "legal_actions": list(self.scenario.legal(seat.state)) if ended is None else [],
            "turns_left": self.scenario.turn_cap - len(seat.episode.turns),
            "ended": ended,
        }

    def act(self, episode: int, action: str) -> dict[str, Any]:
        """Plays one turn: how it went, what it earned, and what is seen now."""
        seat = self._seat(episode)
        if (over := self.scenario.ended(seat.state)) is not None:
            raise ScenarioError(f"episode {episode} is over ({over}); start another")
        began = time.monotonic()
        seen, legal = self.scenario.observation(seat.state), self.scenario.legal(seat.state)
        outcome = self.scenario.apply(seat.state, action)
        turn = Turn(
            episode=0, turn=len(seat.episode.turns), observation=seen, proposed=action, executed=action,
            legal=list(legal), outcome_kind=outcome.kind, outcome_text=outcome.text, ticks=outcome.ticks,
            terms=outcome.terms, digest_after=self.scenario.digest(seat.state),
            decision_ms=(began - seat.used) * 1000,
        )  # fmt: skip
        seat.used = time.monotonic()
        seat.episode.turns.append(turn)
        seat.episode.ended = outcome.ended or ""
        if self._log is not None and seat.number is not None:
            self._log.turn(seat.number, turn)
            if outcome.ended is not None:
                self._log.end(seat.number, seat.episode)
        told = {"outcome": outcome.kind, "said": outcome.text, "reward": turn.reward, "terms": outcome.terms}
        if outcome.ended is not None:
            told |= {"success": seat.episode.success, "total_reward": seat.episode.reward}
        return told | self.look(episode)

    def _seat(self, episode: int) -> Seat:
        if episode not in self._seats:
            raise ScenarioError(f"there is no episode {episode!r} here; start one")
        return self._seats[episode]


def make_server(host: Host) -> Any:
    """The host's episodes as MCP tools. Raises CommandError where the package is missing."""
    try:
        from mcp.server.mcpserver import Context, MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise CommandError(MISSING) from error

    scenario = host.scenario
    page = inspect.getdoc(type(scenario)) or scenario.name
    server = MCPServer("errand", title=f"Errand: {scenario.name}", instructions=page, log_level="WARNING")

    def told(work: Any, *words: Any) -> str:
        try:
            return json.dumps(work(*words))
        except (ScenarioError, RecorderError) as error:
            raise ToolError(str(error)) from error

    def start(context: Context, seed: int | None = None, options: dict[str, str] | None = None) -> str:
        client = context.session.client_params
        name = client.client_info.name if client is not None else "agent"
        return told(host.start, f"mcp:{name}", seed, options)

    def act(episode: int, action: str) -> str:
        return told(host.act, episode, action)

    def look(episode: int) -> str:
        return told(host.look, episode)

    options = "; ".join(f"{o.name}: {o.doc} ({', '.join(o.choices)}; {o.default})" for o in scenario.options)
    text = "a free text" if scenario.free_text is not None else "one of legal_actions, in the same words"
    server.add_tool(start, description=f"Starts an episode of {scenario.name}. Options: {options or 'none'}.")
    server.add_tool(act, description=f"Plays one turn of an episode. `action` is {text}; all else uses the turn up.")
    server.add_tool(look, description="The observation and legal actions of an episode once more; takes no turn.")
    return server


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(prog="python -m rl.serve", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="a setting of the scenario")
    parser.add_argument("--split", choices=("train", "validation"), default="train",
                        help="which seeds are drawn where the agent names none (default: %(default)s)")  # fmt: skip
    parser.add_argument("--record", metavar="FILE.b22", help="records what agents play")
    parser.add_argument("--http", type=int, metavar="PORT", help=f"serves on http://{LOOPBACK}:PORT/mcp, not on stdio")
    args = parser.parse_args(argv)
    log = None
    try:
        if args.http is not None and not 0 < args.http < 65536:
            raise CommandError(f"--http {args.http}: a port from 1 to 65535")
        scenario = scenarios.get(args.scenario)
        options = scenario.resolve_options(options_from(args.option))
        if args.record:
            path = Path(args.record)
            log = Logbook(path, scenario, "python -m rl.serve", f"serve-{time.time_ns()}", append=path.exists())
        server = make_server(Host(scenario, options, log, args.split))
        if args.http is None:
            server.run("stdio")
        else:
            print(f"{scenario.name} on http://{LOOPBACK}:{args.http}/mcp (Ctrl-C ends it)", file=sys.stderr)
            server.run("streamable-http", host=LOOPBACK, port=args.http)
    except (ScenarioError, RecorderError, CommandError, OSError) as error:
        return fail("rl.serve", error)
    except SystemExit as error:  # the web server's way of saying that the port is taken
        print(f"python -m rl.serve: can't serve on port {args.http}", file=sys.stderr)
        return BAD_USE if error.code else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if log is not None:
            log.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
