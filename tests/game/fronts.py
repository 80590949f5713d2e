"""What the tests of the game's front share: sessions, and a tiny model with an adapter."""

import multiprocessing
from pathlib import Path

import scenarios
from game.view.journal import Journal
from game.view.person import PERSON, Person
from game.view.play_show import PlayShow
from game.view.players import Player, make_player
from game.view.roster import Roster
from game.view.session import OVER, THINKING, Session
from game.view.stage import Stage
from rl.policies import parse_policy

FETCH = scenarios.get("fetch_item")


def make_session(
    brain: str = "teacher",
    options: dict[str, str] | None = None,
    *,
    journal: Journal | None = None,
    greedy: bool = False,
    deadline_s: float = 5.0,
    traced: bool = True,
    player: Player | None = None,
) -> Session:
    player = player or (Person() if brain == PERSON else make_player(parse_policy(brain), FETCH))
    return Session(
        FETCH, options or {}, player, brain, journal=journal, greedy=greedy, deadline_s=deadline_s, traced=traced
    )


def make_show(session: Session, turns: int | None = None) -> PlayShow:
    """The show of a session, as the game makes it."""
    roster = Roster(FETCH)
    if isinstance(session.player, Person):
        roster.person = session.player
    roster.add(session.deciding, session.player)
    return PlayShow(session, Stage(session, turns), roster)


def play_turn(session: Session) -> None:
    """One turn without a picture; afterwards the next question is asked, or the next seed begun."""
    if session.phase != THINKING:
        session.proceed()
        if session.phase == OVER:
            session.start(session.next_seed())
    while session.answer is None:
        session.wait(0.05)
    session.play()


def play_turns(session: Session, seed: int, turns: int) -> list[dict[str, str]]:
    """The digests after each of so many turns."""
    session.start(seed)
    digests: list[dict[str, str]] = []
    while len(digests) < turns:
        play_turn(session)
        digests.append(session.turn.digest_after)
    return digests


def stage_turns(stage: Stage, seed: int, turns: int, frame_s: float, on_frame: object = None) -> list[dict[str, str]]:
    """The same, through a stage that shows every moment."""
    session = stage.session
    stage.start(seed)
    digests: list[dict[str, str]] = []
    while len(digests) < turns:
        stage.advance(frame_s)
        if callable(on_frame):
            on_frame()
        if session.turns_played > len(digests):
            digests.append(session.turn.digest_after)
    return digests


def make_tiny_model(folder: Path) -> str:
    """A model with random weights and an adapter that acts on them; the policy's name."""
    from npc import adapters, models
    from npc.llama import LlamaConfig
    from npc.mlx import mx
    from npc.tokenizer import TextTokenizer, build_nano_tokenizer

    tokenizer = TextTokenizer(build_nano_tokenizer(FETCH.vocabulary))
    config = LlamaConfig(
        tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, intermediate_size=64,
        num_attention_heads=2, num_key_value_heads=2, head_dim=16,
    )  # fmt: skip
    brain = models.create(config, tokenizer, seed=3, name="tiny")
    models.save_model(brain, folder / "tiny")
    adapters.attach(brain, rank=4, scale=2.0, seed=1)
    tensors = {name: mx.ones(value.shape) * 0.1 for name, value in adapters.get_adapter(brain).items()}
    adapters.set_adapter(brain, tensors)
    adapters.save_adapter(brain, folder / "adapter", {"scenario": "fetch_item"})
    return f"{folder / 'tiny'}:{folder / 'adapter'}"


def brains() -> list[int]:
    """The process ids of all brains that run now."""
    running = multiprocessing.active_children()
    return [child.pid for child in running if child.name == "errand-brain" and child.pid is not None]
