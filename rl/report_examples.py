"""Three test seeds of a run, before and after: stepped through in pictures, and told in words."""

from __future__ import annotations

from html import escape

from recorder import Episode
from rl.examples import RULES, Example, TurnInWords, choose, headline, mission, tell
from rl.run_folder import Run, solved
from rl.stepping import Films


def examples(run: Run) -> str:
    """The examples that the rules choose; empty where the test seeds were not played twice."""
    chosen, none = choose(run.played["before"], run.played["after"])
    if not chosen:
        return ""
    films = Films()
    told = "".join(_example(run.config.scenario, example, films) for example in chosen)
    missing = "".join(f'<p class="dim">There is no seed for: {rule}.</p>' for rule in none)
    rules = "; ".join(rule for rule, *_ in RULES)
    return (
        f'<h2>Episodes, step by step</h2><p class="dim">From episodes.b22, test seeds, sampled. Chosen by rule, not by '
        f"hand: {rules}. The figure behind a choice is the probability that it had.</p>{told}{missing}"
        f"{films.script()}"
    )


def _example(scenario: str, example: Example, films: Films) -> str:
    turns = example.before.turns or example.after.turns
    what = mission(scenario, turns[0].observation) if turns else ""
    about = f": {escape(what)}" if what else ""
    panels = "".join(_panel(when, scenario, episode, films)
                     for when, episode in (("Before", example.before), ("After", example.after)))
    title = f'<h3>Seed {example.seed}{about}</h3><p class="dim">{example.rule}</p>'
    return f'{title}<div class="pair">{panels}</div>'


def _panel(when: str, scenario: str, episode: Episode, films: Films) -> str:
    colour = "good" if solved(episode) else "bad"
    turns = [tell(scenario, turn) for turn in episode.turns]
    film = films.add(episode, [f"{turn.chose} → {turn.outcome}" for turn in turns], headline(episode))
    lines = "".join(map(_turn, turns))
    head = f'<b>{when}: <span class="{colour}">{escape(headline(episode))}</span></b>'
    return f'<div class="panel">{head}{film}<ol>{lines}</ol></div>'


def _turn(told: TurnInWords) -> str:
    instead = f" (done instead: {escape(told.instead)})" if told.instead else ""
    return (
        f'<li><span class="dim">{told.number}. {escape(told.situation)}</span><br><b>{escape(told.chose)}</b>'
        f'{instead} <span class="dim">{told.odds}</span> → {escape(told.outcome)} '
        f'<span class="dim">{told.reward:+.3f}</span></li>'
    )
