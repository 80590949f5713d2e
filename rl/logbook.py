"""Played episodes into the log: who played, from which state, in which group, with which weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from recorder import Amend, EpisodeBegin, EpisodeEnd, Header, Turn, Writer
from rl.rollout import Episode
from scenarios.contract import Scenario


@dataclass(frozen=True)
class Author:
    """Who plays: what of an EpisodeBegin is the same for all episodes of a policy."""

    policy: str
    model: str = ""
    adapter: str = ""
    weights_hash: str = ""
    base_hash: str = ""
    tokenizer_hash: str = ""


def adapter_name(folder: str) -> str:
    """An adapter as logs name it: one that ships by its name, since where it lies differs from machine to machine."""
    shipped = Path(str(resources.files("assets") / "adapters"))
    return Path(folder).name if folder and Path(folder).is_relative_to(shipped) else folder


def begin_record(episode: Episode, number: int, author: Author, scenario: Scenario, run: str, size: int,
                 **occasion: Any) -> EpisodeBegin:  # fmt: skip
    """The begin of a played episode as logs hold it. `occasion`: purpose, split, prefix_hash, update, attempt."""
    return EpisodeBegin(
        episode=number, scenario=scenario.name, scenario_version=scenario.version, source_hash=scenario.source_hash,
        seed=episode.plan.seed, options=scenario.resolve_options(episode.plan.options),
        group=f"{run}/{episode.plan.group}", group_size=size, run=run, engine_version=scenario.engine_version,
        digest_start=episode.digest_start, policy=author.policy, model=author.model,
        adapter=adapter_name(author.adapter), weights_hash=author.weights_hash, base_hash=author.base_hash,
        tokenizer_hash=author.tokenizer_hash, **occasion,
    )  # fmt: skip


def end_record(episode: Episode, number: int) -> EpisodeEnd:
    """The end of a played episode as logs hold it."""
    return EpisodeEnd(
        episode=number, ended=episode.ended, success=episode.success, turns=len(episode.turns),
        total_reward=episode.reward, terms=episode.terms, wall_s=episode.wall_s,
    )  # fmt: skip


class Logbook:
    """A log that takes episodes, whole or turn by turn. A block (`with`) that made it and recorded nothing leaves no
    file behind."""

    def __init__(self, path: Path, scenario: Scenario, program: str, run: str, append: bool = False) -> None:
        self.scenario = scenario
        self.run = run
        self._made = path if not path.exists() else None
        self._writer = Writer(path, header=Header.here(program, scenario.engine_version), append=append)

    def add_prefix(self, token_ids: Sequence[int] = (), tokenizer_hash: str = "") -> str:
        """The scenario's static prefix, stored once; its hash."""
        return self._writer.add_prefix(self.scenario.prefix, token_ids, tokenizer_hash)

    def add(self, episodes: Sequence[Episode], author: Author, purpose: str, split: str, prefix_hash: str = "",
            update: int = 0, attempt: int = 0) -> list[int]:  # fmt: skip
        """Writes episodes and returns their numbers. What was not sampled by a model has no prefix."""
        sizes: dict[str, int] = {}
        numbers = []
        for episode in episodes:
            sizes[episode.plan.group] = sizes.get(episode.plan.group, 0) + 1
        for episode in episodes:
            number = self.begin(episode, author, purpose, split, prefix_hash, update, attempt,
                                sizes[episode.plan.group])  # fmt: skip
            numbers.append(number)
            for turn in episode.turns:
                self.turn(number, turn)
            self.end(number, episode)
        return numbers

    def begin(self, episode: Episode, author: Author, purpose: str, split: str, prefix_hash: str = "", update: int = 0,
              attempt: int = 0, size: int = 1) -> int:  # fmt: skip
        """Writes the begin of an episode whose turns will follow one by one; its number."""
        number = self._writer.next_episode
        self._writer.begin_episode(
            begin_record(episode, number, author, self.scenario, self.run, size, purpose=purpose, split=split,
                         prefix_hash=prefix_hash, update=update, attempt=attempt)
        )  # fmt: skip
        return number

    def turn(self, number: int, turn: Turn) -> None:
        """Writes a turn of episode `number`."""
        self._writer.turn(replace(turn, episode=number))

    def end(self, number: int, episode: Episode) -> None:
        """Writes the end of episode `number`."""
        self._writer.end_episode(end_record(episode, number))

    def amend(self, amend: Amend) -> None:
        """Writes a late label or reward of an episode that is in the log."""
        self._writer.amend(amend)

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> Logbook:
        return self

    def __exit__(self, *_: object) -> None:
        nothing = self._writer.next_episode == 0
        self.close()
        if nothing and self._made is not None:
            self._made.unlink()
