"""`show FILE EPISODE [--turn N]`: what the character saw, could do, did and earned, for people."""

from __future__ import annotations

import argparse
import math
import textwrap
from typing import Any

from recorder import fields
from recorder.commands.common import (
    BAD_LOG,
    GOOD,
    Commands,
    UsageError,
    action_text,
    command,
    failed,
    one_line,
    outcome_text,
    print_json,
    reward,
    say,
    terms_text,
)
from recorder.errors import RecorderError
from recorder.reader import Episode, Reader
from recorder.records import Amend, Turn, as_plain

WIDTH = 100


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = command(commands, "show", run, "one episode: what the character saw, could do, did and earned")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("episode", type=int, metavar="EPISODE", help="its number, as `ls` prints it")
    parser.add_argument("--turn", type=int, metavar="N", help="one turn, with all that is known of it")


def run(options: argparse.Namespace) -> int:
    """Prints the episode, or the turn."""
    try:
        with Reader(options.file) as reader:
            episode = reader.episode(options.episode)
    except RecorderError as error:
        return failed(error)
    turns = episode.turns
    if options.turn is not None:
        turns = [turn for turn in turns if turn.turn == options.turn]
        if not turns:
            raise UsageError(f"{options.file}: episode {options.episode} has no turn {options.turn}; {_has(episode)}")
    if options.json:
        print_json(_plain(episode, turns))
    else:
        print("\n".join(episode_text(episode) if options.turn is None else turn_in_full(episode, turns[0])))
    if episode.end is not None and not episode.whole:
        say(f"{options.file}: episode {options.episode} has lost turns: {_has(episode)} of {episode.end.turns}")
        return BAD_LOG
    return GOOD


def _has(episode: Episode) -> str:
    return f"it has {len(episode.turns)}, 0 to {episode.turns[-1].turn}" if episode.turns else "it has none"


def _plain(episode: Episode, turns: list[Turn]) -> dict[str, Any]:
    amended = [{**fields.plain_turn(turn), "terms": episode.terms(turn.turn)} for turn in turns]
    for plain in amended:
        plain["reward"] = math.fsum(plain["terms"].values())
    return {
        "begin": as_plain(episode.begin),
        "turns": amended,
        "end": None if episode.end is None else as_plain(episode.end),
        "amends": [as_plain(amend) for amend in episode.amends],
        "whole": episode.whole,
        "return": episode.total(),
    }


# ---------------------------------------------------------------- for people


def episode_text(episode: Episode) -> list[str]:
    """The lines of a whole episode."""
    begin, total, terms = episode.begin, episode.total(), episode.terms()
    if not math.isclose(math.fsum(terms.values()), total, abs_tol=1e-6):  # an end without its sums
        terms = {}
    lines = [f"episode {begin.episode}"]
    options = "".join(f", {name} {value}" for name, value in begin.options.items())
    facts = [
        ("scenario", f"{begin.scenario} {begin.scenario_version}, seed {begin.seed}{options}"),
        ("player", _player(episode)),
        ("weights", ", ".join(part for part in (begin.adapter, begin.weights_hash) if part)),
        ("run", f"{begin.run}, update {begin.update}, attempt {begin.attempt}" if begin.run else ""),
        ("group", f"{begin.group} of {begin.group_size}" if begin.group else ""),
        ("played for", ", ".join(part for part in (begin.purpose, begin.split and f"{begin.split} seed") if part)),
        ("ended", _end(episode)),
        ("earned", reward(total) + (f" ({terms_text(terms)})" if terms else "")),
    ]
    lines += [f"  {name:<10}  {one_line(text)}" for name, text in facts if text]
    lines += [f"  {'amended':<10}  {one_line(_amend(amend))}" for amend in episode.amends]
    for turn in episode.turns:
        lines += ["", *turn_text(episode, turn)]
    return lines


def _player(episode: Episode) -> str:
    begin = episode.begin
    sampled = [turn for turn in episode.turns if turn.sampled_ids]
    how = sorted({"greedy" if turn.greedy else f"sampled at {turn.tau:g}" for turn in sampled})
    return ", ".join(part for part in (begin.policy or "unknown", *how) if part)


def _end(episode: Episode) -> str:
    if episode.end is None:
        return f"never (open after {len(episode.turns)} turns)"
    word = "with success" if episode.end.success else "without success"
    return f"{word}: {episode.end.ended}, after {episode.end.turns} turns"


def _amend(amend: Amend) -> str:
    where = "episode" if amend.turn is None else f"turn {amend.turn}"
    what = ", ".join((terms_text(amend.terms), *(f"{k}: {v}" for k, v in amend.labels.items()))).strip(", ")
    return f"{where}: {what}" + (f" (by {amend.author})" if amend.author else "")


def turn_text(episode: Episode, turn: Turn) -> list[str]:
    """The lines of one turn of an episode."""
    return [
        f"turn {turn.turn}",
        *_wrapped("saw", turn.observation),
        *_packed("could", _choices(turn)),
        *_wrapped("did", _did(turn)),
        *_wrapped("earned", _earned(episode, turn)),
    ]


def _did(turn: Turn) -> str:
    outcome, ticks = outcome_text(turn), f"{turn.ticks} ticks" if turn.ticks else ""
    after = "; ".join(part for part in (outcome, ticks) if part)
    return action_text(turn) + (f" -> {after}" if after else "")


def _earned(episode: Episode, turn: Turn) -> str:
    terms = episode.terms(turn.turn)
    return reward(math.fsum(terms.values())) + (f" ({terms_text(terms)})" if terms else "")


def _choices(turn: Turn) -> list[str]:
    """The legal phrases, the likeliest first where probabilities are known."""
    if not turn.probs:
        return list(turn.legal)
    ranked = sorted(zip(turn.prob_values.tolist(), turn.legal, strict=True), key=lambda pair: -pair[0])
    return [f"{phrase} {percent(share)}" for share, phrase in ranked]


def percent(share: float) -> str:
    """A probability as people read it."""
    return f"{100 * share:.1f} %"


def turn_in_full(episode: Episode, turn: Turn) -> list[str]:
    """The lines of one turn on its own, a legal phrase a line."""
    begin = episode.begin
    shares = dict(zip(turn.legal, turn.prob_values.tolist(), strict=True)) if turn.probs else {}
    where = f"{begin.scenario} {begin.scenario_version}, seed {begin.seed}"
    lines = [one_line(f"episode {begin.episode}, turn {turn.turn} ({where})")]
    lines += _wrapped("saw", turn.observation)
    phrases = sorted(turn.legal, key=lambda phrase: -shares.get(phrase, 0.0))
    for at, phrase in enumerate(phrases):
        share = f"{percent(shares[phrase]):>8}  " if shares else ""
        mark = "  <- done" if phrase == turn.executed else ""
        lines.append(f"  {'could' if not at else '':<10}  {share}{one_line(phrase)}{mark}")
    lines += _wrapped("did", _did(turn))
    lines += _wrapped("earned", _earned(episode, turn))
    sampled = f"{len(turn.sampled_ids)} tokens at {turn.tau:g}, log-probability {turn.logprob:.6f}"
    facts = [
        ("proposed", turn.proposed if turn.proposed != turn.executed else ""),
        ("sampled", sampled if turn.sampled_ids else ""),
        ("prompt ids", " ".join(map(str, turn.prompt_ids))),
        ("drawn ids", " ".join(map(str, turn.sampled_ids))),
        ("took", f"{turn.decision_ms:.2f} ms" if turn.decision_ms else ""),
        ("note", turn.policy_note),
        ("digest", ", ".join(f"{part} {value}" for part, value in turn.digest_after.items())),
    ]
    for name, text in facts:
        lines += _wrapped(name, text) if text else []
    labels = {k: v for a in episode.amends if a.turn == turn.turn for k, v in a.labels.items()}
    return lines + [f"  {'label':<10}  {one_line(f'{name}: {value}')}" for name, value in labels.items()]


def _packed(name: str, items: list[str]) -> list[str]:
    """Items with commas between, none of them broken over two lines."""
    lines = [""]
    for at, item in enumerate(map(one_line, items)):
        text = item + ("," if at + 1 < len(items) else "")
        if lines[-1] and len(lines[-1]) + 1 + len(text) > WIDTH:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    return [f"  {name if not at else '':<10}  {line or '-'}" for at, line in enumerate(lines)]


def _wrapped(name: str, text: str) -> list[str]:
    lines = textwrap.wrap(one_line(text), WIDTH, break_long_words=False, break_on_hyphens=False) or ["-"]
    return [f"  {name if not at else '':<10}  {line}" for at, line in enumerate(lines)]
