"""Random legal play with a text after every step, timed; runs in the environment of the library that is played.

MiniGrid has no text wrapper of its own; the cheapest text that it makes of a state is `pprint_grid` (the whole grid,
two letters a cell), which is what is taken here, behind the mission. PettingZoo's board games keep their boards as
lists of numbers: the text joins them; chess has the "ansi" form of its own. TextArena's observations are texts.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from talk import Talk, timed

# plays one random legal step (a new game where one has ended) and returns the text to act on next
Step = Callable[[], str]


def minigrid(name: str, dice: random.Random) -> Step:
    import gymnasium
    import minigrid  # noqa: F401  registers its environments

    env = gymnasium.make(name)
    plain: Any = env.unwrapped
    seeds = iter(range(1 << 40))
    env.reset(seed=next(seeds))

    def step() -> str:
        observation, _, terminated, truncated, _ = env.step(dice.randrange(7))
        if terminated or truncated:
            observation, _ = env.reset(seed=next(seeds))
        return observation["mission"] + "\n" + plain.pprint_grid()

    return step


def pettingzoo(name: str, dice: random.Random) -> Step:
    from importlib import import_module

    env = import_module(f"pettingzoo.classic.{name}").env(render_mode="ansi" if name.startswith("chess") else None)
    plain: Any = env.unwrapped
    seeds = iter(range(1 << 40))
    env.reset(seed=next(seeds))

    def text() -> str:
        if name.startswith("chess"):
            return str(env.render())
        board = plain.board
        return " ".join(map(str, getattr(board, "squares", board)))

    def step() -> str:
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            env.reset(seed=next(seeds))
            observation = env.last()[0]
        env.step(int(dice.choice(observation["action_mask"].nonzero()[0])))
        return text()

    return step


def textarena(name: str, dice: random.Random) -> Step:
    import textarena as library

    seeds = iter(range(1 << 40))

    def game() -> Any:  # made anew: what the players were told stays with the wrapper, game after game
        env = library.make(name)
        env.reset(num_players=2, seed=next(seeds))
        return env

    now, free = [game()], list(range(9))

    def step() -> str:
        done, _ = now[0].step(f"[{free.pop(dice.randrange(len(free)))}]")
        if done:
            now[0], free[:] = game(), range(9)
        return str(now[0].get_observation()[1])

    return step


MAKERS = {"minigrid": minigrid, "pettingzoo": pettingzoo, "textarena": textarena}


def main() -> int:
    talk = Talk()
    library, seconds = talk.job["library"], talk.job["seconds"]
    steps = {name: MAKERS[library](name, random.Random(1)) for name in talk.job["worlds"]}
    letters = {name: sum(len(step()) for _ in range(500)) / 500 for name, step in steps.items()}
    talk.say(versions={library: version(library)}, letters=letters)
    while talk.asked():
        talk.say(steps_per_s={name: timed(step, seconds) for name, step in steps.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
