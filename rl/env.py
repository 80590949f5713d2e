"""A scenario as a Gymnasium environment whose observations and actions are plain text.

    import gymnasium
    env = gymnasium.make("rl.env:Errand-v0", difficulty="2")
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step(info["legal_actions"][0])

Importing this module registers `Errand-v0` (any scenario: `scenario="..."`, by default fetch_item) and one
`Errand/NAME-v0` for each scenario. Any agent can play: a model, a person at the keyboard, a remote model.

Seeds
    `reset(seed=n)` builds exactly the scenario's world n, and seeds the environment's own generator with n.
    `reset()` draws a world from the train split with that generator, so that the next episode is another one
    and a validation or test seed is never met by accident. `info["seed"]` always names the world.
Options
    `reset(options={...})` changes the options that it names, from that episode on; options that were given to
    the constructor or to an earlier reset stay in force, whether or not a seed is given.
Ending
    `terminated` when the scenario ended for a reason of its own, `truncated` at its turn cap. There is no
    autoreset: a step after the end raises.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from typing import Any

from gymnasium import Env
from gymnasium.envs.registration import register, registry
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text

import scenarios
from scenarios import ScenarioError

ENV_ID = "Errand-v0"  # takes any scenario, a "module:Class" too
TURN_CAP = "turn_cap"  # the word by which a scenario says that its turns are used up
MAX_OBSERVATION = 2000  # characters
MAX_ACTION = 200  # characters
MAX_TEXT = 8000  # characters, where a turn is a free text
PRINTABLE = frozenset(map(chr, range(32, 127))) | {"\n"}


class ErrandEnv(Env[str, str]):
    """One scenario, played turn by turn. `scenario` is its name; the options are the scenario's own.

    Raises ScenarioError for an unknown scenario, option or value.

    `info` after a reset and after a step:
        legal_actions  the phrases that are legal now; empty once the episode is over, and where a turn is a free text
        seed, options  which world this is
    and after a step:
        terms          reward term -> what it earned in this turn; the reward is their sum
        outcome_kind, outcome_text   how the action went ("illegal" for a proposal that was not legal)
        ticks          how long the turn took in the scenario's own time
        ended          why the episode is over, or None
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, scenario: str = "fetch_item", **options: object) -> None:
        self.scenario = scenarios.get(scenario)
        self.options = self.scenario.resolve_options(_words(options))
        letters = PRINTABLE | {letter for word in self.scenario.vocabulary for letter in word}
        self.observation_space = Text(MAX_OBSERVATION, charset=letters)
        self.action_space = Text(MAX_TEXT if self.scenario.free_text else MAX_ACTION, charset=letters)
        self.seed_of_world: int | None = None
        self.turn = 0
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: its first observation and info.

        Raises ScenarioError for a bad seed or option; the episode that was running then goes on as it was.
        """
        chosen = self.scenario.resolve_options({**self.options, **_words(options or {})})
        if seed is not None:
            world = _whole(seed)
            state = self.scenario.build(world, chosen)
            super().reset(seed=world)
        else:
            super().reset()
            train = self.scenario.splits["train"]
            world = train[int(self.np_random.integers(len(train)))]
            state = self.scenario.build(world, chosen)
        self._state, self.seed_of_world, self.options, self.turn = state, world, chosen, 0
        return self._observation(), self._info(self.scenario.ended(state))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn. A proposal that is not a legal phrase uses the turn up, as kind "illegal".

        Raises ResetNeeded before the first reset and after the end, ScenarioError where `action` is no text.
        """
        if self._state is None:
            raise ResetNeeded("step() before reset(): there is no episode yet")
        over = self.scenario.ended(self._state)
        if over is not None:
            raise ResetNeeded(f"step() after the episode ended ({over}): call reset() first")
        if not isinstance(action, str):
            raise ScenarioError(f"action {action!r}: an action is a text, one of info['legal_actions']")
        outcome = self.scenario.apply(self._state, str(action))
        self.turn += 1
        info = self._info(outcome.ended)
        info["terms"] = dict(outcome.terms)
        info["outcome_kind"] = outcome.kind
        info["outcome_text"] = outcome.text
        info["ticks"] = outcome.ticks
        info["ended"] = outcome.ended
        terminated = outcome.ended is not None and outcome.ended != TURN_CAP
        reward = float(sum(outcome.terms.values()))
        return self._observation(), reward, terminated, outcome.ended == TURN_CAP, info

    def clone(self) -> ErrandEnv:
        """An environment of its own in the same state, generator included; neither can touch the other."""
        twin = type(self)(self.scenario.name, **self.options)
        twin.restore(self)
        return twin

    def restore(self, saved: ErrandEnv) -> None:
        """Goes (back) to the state that `saved`, a clone, is in; `saved` keeps its own, to be restored again.

        Raises ScenarioError when `saved` plays another scenario.
        """
        if saved.scenario is not self.scenario:
            raise ScenarioError(f"{self.scenario.name}: can't take up a state of {saved.scenario.name}")
        self.options = dict(saved.options)
        self.seed_of_world = saved.seed_of_world
        self.turn = saved.turn
        self._state = None if saved._state is None else self.scenario.clone(saved._state)
        self._np_random = copy.deepcopy(saved._np_random)
        self._np_random_seed = saved._np_random_seed

    def digest(self) -> dict[str, str]:
        """Part of the state -> 16 hex digits. Raises ResetNeeded before the first reset."""
        if self._state is None:
            raise ResetNeeded("digest() before reset(): there is no episode yet")
        return self.scenario.digest(self._state)

    def _observation(self) -> str:
        text = self.scenario.observation(self._state)
        if len(text) > MAX_OBSERVATION:
            raise ScenarioError(
                f"{self.scenario.name}: {len(text)} characters of observation; at most {MAX_OBSERVATION} fit"
            )
        return text

    def _info(self, ended: str | None) -> dict[str, Any]:
        legal = self.scenario.legal(self._state) if ended is None else ()
        return {"legal_actions": legal, "seed": self.seed_of_world, "options": dict(self.options)}


def _words(options: Mapping[str, object]) -> dict[str, str]:
    """Option values as the words that scenarios take: `difficulty=2` means "2"."""
    return {name: str(value) for name, value in options.items()}


def _whole(seed: Any) -> int:
    """Any kind of whole number (NumPy's too) as an int; what isn't one is left for the scenario to refuse."""
    try:
        return seed if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        return seed


def _register() -> None:
    ids: dict[str, dict[str, str]] = {ENV_ID: {}}
    ids |= {f"Errand/{name}-v0": {"scenario": name} for name in scenarios.names()}
    for env_id, fixed in ids.items():
        if env_id not in registry:
            register(id=env_id, entry_point="rl.env:ErrandEnv", kwargs=fixed)


_register()
