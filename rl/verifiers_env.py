"""Any scenario as an environment of the `verifiers` package (0.4 and later), for tools that train and evaluate there.

That package finds an environment by the name of a top-level module. Two lines in a file of yours, say `errand_env.py`:

    from rl.verifiers_env import ErrandTaskset, ErrandVerifiersEnv
    __all__ = ["ErrandTaskset", "ErrandVerifiersEnv"]

and `vf-eval errand_env --env.taskset.scenario fetch_item …` plays it. Each turn the agent is told the observation and
the legal actions and answers with one of them; what is no action uses up the turn, as everywhere. The reward terms are
recorded one by one, and whether the episode was solved as a metric.
"""

from collections.abc import Iterator

import verifiers.v1 as vf

import scenarios
from rl.remote import page_of, read_reply, told
from rl.serve import Host

__all__ = ["ErrandTaskset", "ErrandVerifiersEnv"]


class ErrandConfig(vf.TasksetConfig):
    """Which scenario, with which of its options, on which of its seeds."""

    scenario: str = "fetch_item"
    options: dict[str, str] = {}  # noqa: RUF012
    split: str = "train"


class ErrandData(vf.TaskData):
    """What an episode is started from again."""

    info: dict


class ErrandTask(vf.Task[ErrandData, vf.State, vf.TaskConfig]):
    """One seed of a scenario."""


class ErrandTaskset(vf.Taskset[ErrandTask, ErrandConfig]):
    """The seeds of a split, in order."""

    def load(self) -> Iterator[ErrandTask]:
        scenario = scenarios.get(self.config.scenario)
        options = scenario.resolve_options(self.config.options)
        for seed in scenario.splits[self.config.split]:
            state = scenario.build(seed, options)
            prompt = told(scenario, scenario.observation(state), scenario.legal(state))
            info = {"scenario": scenario.name, "options": options, "seed": seed}
            data = ErrandData(name=f"{scenario.name}#{seed}", prompt=prompt, system_prompt=page_of(scenario), info=info)
            yield ErrandTask(data, self.config.task)


class ErrandEnvConfig(vf.EnvConfig):
    """The one seat."""

    player: vf.AgentConfig = vf.AgentConfig()


class ErrandVerifiersEnv(vf.Env[ErrandEnvConfig]):
    """Plays an episode with the agent: its reply is the action, the next observation is the user's turn."""

    async def run(self, task: ErrandTask, agents: vf.Agents) -> None:
        info = task.data.info
        scenario = scenarios.get(info["scenario"])
        host = Host(scenario, info["options"], None)
        seen = host.start("verifiers", info["seed"])
        number, terms = seen["episode"], dict.fromkeys((term.name for term in scenario.reward_terms), 0.0)
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                seen = host.act(number, read_reply(scenario, segment.last_reply, seen["legal_actions"]))
                for name, value in seen["terms"].items():
                    terms[name] += value
                if seen["ended"] is not None:
                    break
                segment = await interaction.turn(
                    f"{seen['said']}\n\n{told(scenario, seen['observation'], seen['legal_actions'])}"
                )
        for name, value in terms.items():
            interaction.trace.record_reward(name, value)
        interaction.trace.record_metric("success", float(seen["ended"] == "success"))
