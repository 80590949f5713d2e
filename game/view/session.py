"""The turn loop of the game, for the window and for headless play alike. Knows no picture.

One turn: the player is asked, its answer (or, after a deadline, a fallback) is played, and the finished record of
it goes to the log and to whoever shows it. The world is settled before anything is drawn, the draw for a sampled
action depends on seed and turn alone, and thinking takes no time in the world: so equal seeds and equal players
give equal play, whatever the speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from game.sim.rng import MAX_SEED
from game.view.answers import Answer, Result, fallback, split_of, summed_terms, uniform
from game.view.journal import Journal
from game.view.person import PERSON
from game.view.players import NoAnswer, Player
from game.view.snapshot import Snapshot, snapshot
from recorder import EpisodeBegin, EpisodeEnd, Turn, pack_floats, prefix_hash
from rl.policies import TurnView
from scenarios.contract import Scenario

THINKING, PLAYED, OVER = "thinking", "played", "over"


class Session:
    """Plays episodes, a turn at a time.

    `phase` is THINKING (the player was asked; `answer` is what came of it), PLAYED (`turn` is the finished record,
    `trace` the ticks it took) or OVER. `turn` is in THINKING the record as far as it stands: what is seen and what
    is legal. `begin` and `turns` are the episode so far, as they are logged. `policy` is who plays the episode, and
    `deciding` who decides now: a person may take over from the policy and hand back.

    The front calls `listen` as often as it likes, `play` once there is an answer, `proceed` after it, and `start`
    for an episode; `hand_to` and `fork` between any two of these.
    """

    def __init__(
        self,
        scenario: Scenario,
        options: Mapping[str, str],
        player: Player,
        policy: str,
        *,
        journal: Journal | None = None,
        greedy: bool = False,
        deadline_s: float = 5.0,
        traced: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scenario = scenario
        self.options = scenario.resolve_options(options)
        self.player = player
        self.policy = self.deciding = policy
        self.journal = journal
        self.greedy = greedy
        self.deadline_s = deadline_s
        self.traced = traced
        self.results: list[Result] = []
        self.turns_played = 0
        self.phase = OVER
        self.answer: Answer | None = None
        self.seed = 0
        self.begin = EpisodeBegin(episode=0, scenario=scenario.name, scenario_version=scenario.version, seed=0)
        self.turn = Turn(episode=0, turn=0, observation="", proposed="", executed="")
        self.turns: list[Turn] = []
        self.trace: list[Snapshot] = []
        self.ended: str | None = None
        self._clock = clock
        self._questions = 0
        self._next_episode = 0
        self._begun = 0.0
        self._state: Any = None
        self._told = False  # the episode has a turn of its own, which was recorded
        self._owner = player  # plays `policy`, whoever decides now
        self._states: list[Any] = []  # before each turn
        self._asked_of = player
        self._view: TurnView | None = None
        self._since = 0.0

    # -- episodes -----------------------------------------------------------------------------------------------

    def start(self, seed: int) -> None:
        """Begins an episode; one that was running is broken off, and stays open in the log."""
        cut = self.broken_off()
        if cut is not None:
            self.results.append(cut)
        if self.phase == THINKING:
            self._asked_of.forget()
        if not self.player.person:
            self._owner, self.policy = self.player, self.deciding
        scenario = self.scenario
        self.seed = seed
        self._state = scenario.build(seed, self.options)
        self._begun = self._clock()
        self.turns = []
        self._told = False
        self._states = []
        self.ended = None
        self.begin = EpisodeBegin(
            episode=self._new_number(), scenario=scenario.name, scenario_version=scenario.version, seed=seed,
            source_hash=scenario.source_hash, options=self.options, policy=self.policy,
            engine_version=scenario.engine_version, split=split_of(scenario, seed), purpose="play",
            digest_start=scenario.digest(self._state), created_unix=time.time(),
        )  # fmt: skip
        self._name_player()
        self._view = None
        self._ask()

    def next_seed(self) -> int:
        """The seed after this one, within its split, so that test seeds are met only by who asks for one."""
        split = self.scenario.splits.get(split_of(self.scenario, self.seed))
        if split is None:
            return self.seed + 1 if self.seed < MAX_SEED else 0
        return self.seed + 1 if self.seed + 1 in split else split[0]

    def state(self) -> Any:
        """A copy of the state, to look at."""
        return self.scenario.clone(self._state)

    def broken_off(self) -> Result | None:
        """The episode that is not at its end, when there is one with turns in it."""
        return self._result(None) if self._told and self.phase != OVER and self.ended is None else None

    def _new_number(self) -> int:
        number = self._next_episode
        if self.journal is not None:
            number = max(number, self.journal.next_episode)
        self._next_episode = number + 1
        return number

    def _name_player(self) -> None:
        who = self._owner.identity
        self.begin = replace(
            self.begin, model=who.model, adapter=who.adapter, base_hash=who.base_hash,
            tokenizer_hash=who.tokenizer_hash, weights_hash=who.weights_hash,
            prefix_hash=prefix_hash(self.scenario.prefix, who.prefix_ids),
        )  # fmt: skip

    # -- turns --------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        observation, legal = self.scenario.observation(self._state), self.scenario.legal(self._state)
        number = len(self.turns)
        self.turn = Turn(
            episode=self.begin.episode, turn=number, observation=observation, proposed="", executed="",
            legal=list(legal), greedy=self.greedy,
        )  # fmt: skip
        first = snapshot(self._state)
        self.trace = [first] if first is not None else []
        memory = self._view.memory if self._view is not None else None
        self._view = TurnView(self._state, observation, legal, memory)
        self._states[number:] = [self.scenario.clone(self._state)]
        self.phase = THINKING
        self._put_question()

    def _put_question(self) -> None:
        """Asks whoever decides now."""
        assert self._view is not None
        self.answer = None
        self._since = self._clock()
        self._asked_of = self.player
        drawn = None if self.greedy else uniform(self.seed, self.turn.turn)
        self.player.ask(self._questions, self._view, drawn)
        self._questions += 1
        self.listen()

    # -- who decides --------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> str:
        """What is waited for in THINKING, in words."""
        if self.player.person:
            return "your turn"
        return "waking up …" if self.player.waking else "thinking …"

    def hand_to(self, player: Player, name: str) -> None:
        """Another decides from now on, the open question included. `name` is the policy's name, "human" for a person.

        A person's turns are marked in the record. Any other than the episode's own policy makes a fork of it, so that
        the log never shows one policy's turns under the name of another.
        """
        if player is self.player:
            return
        self.player, self.deciding = player, name
        if self.phase == OVER or self.ended is not None:
            return
        if self.phase == THINKING:
            self._asked_of.forget()
        if not player.person and player is not self._owner:
            self._branch(player, name, self.turns)
        if self.phase == THINKING:
            self._put_question()

    def fork(self, player: Player, name: str) -> None:
        """The turn on show is decided again, by `player`, in an episode that branches off before it."""
        if self.phase == THINKING:
            self._asked_of.forget()
        at = self.turn.turn
        self.player, self.deciding = player, name
        self._branch(player, name, self.turns[:at])
        self._state = self.scenario.clone(self._states[at])
        self._view, self.ended = None, None
        self._ask()

    def _branch(self, owner: Player, name: str, shared: list[Turn]) -> None:
        """The episode goes on as `name`'s: under a new number, with copies of the turns that they share."""
        cut = self.broken_off()
        if cut is not None:
            self.results.append(cut)
        self._owner, self.policy = owner, name
        before, at = self.begin, len(shared)
        if self._told:
            self.begin = replace(
                before, episode=self._new_number(), fork_of=before.episode, fork_turn=at, created_unix=time.time()
            )
            self._begun, self._told = self._clock(), False
        elif before.fork_of is not None:
            self.begin = replace(before, fork_turn=min(before.fork_turn, at))
        self.begin = replace(self.begin, policy=name)
        self._name_player()
        number = self.begin.episode
        self.turns = [replace(turn, episode=number, player=turn.player or before.policy) for turn in shared]
        self.turn = replace(self.turn, episode=number)

    def listen(self) -> None:
        """Takes in an answer, or the end of the waiting for one. Raises BrainFailed where there can't be any."""
        if self.phase != THINKING or self.answer is not None:
            return
        try:
            decision = self.player.poll()
        except NoAnswer as fault:
            self.answer = Answer(None, self._waited_ms(), str(fault))
            return
        if decision is not None:
            finite = all(map(math.isfinite, (*decision.probs, *decision.node_logps)))
            note = "" if finite else "the model's probabilities are not numbers; its weights are damaged"
            self.answer = Answer(decision if finite else None, self._waited_ms(), note)
        elif self.player.waking:
            self._since = self._clock()
        elif not self.player.person and self._clock() - self._since > self.deadline_s:
            self.player.forget()
            self.answer = Answer(None, self._waited_ms(), f"no answer within {self.deadline_s:g} s")

    def wait(self, seconds: float) -> None:
        """Blocks until an answer may be there, or for so long."""
        if self.phase == THINKING and self.answer is None:
            self.player.wait(seconds)
            self.listen()

    def _waited_ms(self) -> float:
        return (self._clock() - self._since) * 1000

    def play(self) -> Turn:
        """Plays the answer and records the turn; the trace holds the state before and after each tick."""
        assert self.phase == THINKING and self.answer is not None
        answer, decision = self.answer, self.answer.decision
        person = self.player.person
        if self._told and not person and self._owner.identity.weights_hash != self.begin.weights_hash:
            self._branch(self._owner, self.policy, self.turns)  # a person had begun while the model still loaded
        seen = replace(
            self.turn, decision_ms=answer.took_ms, policy_note=answer.note, player=PERSON if person else ""
        )
        if decision is None:
            seen = replace(seen, executed=fallback(seen.legal), fallback=True, greedy=False)
        else:
            seen = replace(
                seen, proposed=decision.phrase, executed=decision.phrase, prompt_ids=decision.prompt_ids,
                sampled_ids=decision.sampled_ids, logps=pack_floats(decision.node_logps), tau=decision.tau,
                probs=pack_floats(decision.probs), greedy=decision.greedy,
            )  # fmt: skip
        outcome = self.scenario.apply(self._state, seen.executed, on_tick=self._tick if self.traced else None)
        self.turn = replace(
            seen, outcome_kind=outcome.kind, outcome_text=outcome.text, ticks=outcome.ticks, terms=outcome.terms,
            digest_after=self.scenario.digest(self._state),
        )  # fmt: skip
        after = snapshot(self._state)
        if after is not None and (not self.traced or self.trace[-1] != after):
            self.trace.append(after)
        self.turns.append(self.turn)
        self.ended = outcome.ended
        self.phase = PLAYED
        self._record()
        self.turns_played += 1  # a signal may end the game in between: what is counted lies in the log
        return self.turn

    def _tick(self, state: Any) -> None:
        tick = snapshot(state)
        if tick is not None:
            self.trace.append(tick)

    def proceed(self) -> None:
        """After a turn: the next question, or OVER."""
        assert self.phase == PLAYED
        if self.ended is None:
            self._ask()
        else:
            self.phase = OVER

    def _record(self) -> None:
        first, self._told = not self._told, True
        if first:
            self._name_player()
        if self.journal is not None:
            if first:
                self.journal.begin(self.begin, self.scenario.prefix, self._owner.identity.prefix_ids)
            for turn in self.turns if first else self.turns[-1:]:  # a fork begins with the turns that it shares
                self.journal.turn(turn)
        if self.ended is None:
            return
        result = self._result(self.ended)
        self.results.append(result)
        if self.journal is not None:
            end = EpisodeEnd(
                episode=self.begin.episode, ended=self.ended, success=result.success, turns=result.turns,
                total_reward=result.reward, terms=summed_terms(self.turns), wall_s=self._clock() - self._begun,
            )  # fmt: skip
            self.journal.end(end)

    def _result(self, ended: str | None) -> Result:
        return Result(
            self.begin.episode, self.seed, ended, ended == "success", len(self.turns),
            math.fsum(turn.reward for turn in self.turns), sum(turn.fallback for turn in self.turns),
            self.turns[-1].digest_after,
        )  # fmt: skip
