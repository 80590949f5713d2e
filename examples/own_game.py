"""A shop with a keeper who learns: a whole game of its own that uses Errand's brain, recorder and trainer.

    python -m examples.own_game --brain runs/keeper --record shop.b22     (docs/embedding.md tells how it is taught)

A customer at the inn wants an item that lies on one of four shelves. Taking it earns `fetch` 0.5, giving it `serve`
0.5; giving something else ends the episode as "wrong", and the eighth turn as "turn_cap".
"""

import argparse
from contextlib import nullcontext

import msgspec

from game.sim.rng import draw  # any keyed draw will do; this one is at hand
from npc.brain_process import BrainProcess
from recorder import EpisodeBegin, EpisodeEnd, Header, Turn, Writer
from rl.policies import parse_policy
from scenarios.contract import Outcome, RewardTerm, check_seed
from scenarios.plain import PlainScenario

SHELVES = ("mill", "forge", "well", "garden")
ITEMS = ("rope", "bread", "fish", "book", "key", "apple", "candle", "flute")
CUSTOMERS = ("Mara", "Tom", "Nell", "Olin")


class Counter(msgspec.Struct):
    stock: list[str]  # what lies on each shelf, "" for nothing
    wants: str
    customer: str
    at: str = "inn"
    hand: str = ""
    turn: int = 0
    ended: str = ""


class Shop(PlainScenario):
    name, version, turn_cap, state_type = "examples.own_game:Shop", 1, 8, Counter
    reward_terms = (RewardTerm("fetch", "took what is wanted", 0, 0.5), RewardTerm("serve", "gave it", 0, 0.5))
    prefix = "You find the item and bring it . You can go to the PLACE , take the ITEM , give the ITEM to PERSON ."
    vocabulary = (*prefix.split(), *SHELVES, *ITEMS, *CUSTOMERS, "inn", "item", "at", "hold", "goal", "none")

    def build(self, seed, options=None):
        order = sorted(ITEMS, key=lambda item: draw(check_seed(seed), "stock", 0, item))
        wants = order[draw(seed, "wants", 0, "") % len(SHELVES)]
        return Counter(order[: len(SHELVES)], wants, CUSTOMERS[draw(seed, "who", 0, "") % len(CUSTOMERS)])

    def observation(self, state):
        shelves = " ".join(f"{item or 'none'} {place}" for place, item in zip(SHELVES, state.stock, strict=True))
        item = SHELVES[state.stock.index(state.wants)] if state.wants in state.stock else "none"
        return f"{shelves} at {state.at} goal {state.wants} {state.customer} hold {state.hand or 'none'} item {item}"

    def legal(self, state):
        found = [f"go to the {place}" for place in (*SHELVES, "inn") if place != state.at]
        if state.at == "inn":
            return (*found, f"give the {state.hand} to {state.customer}") if state.hand else tuple(found)
        item = "" if state.hand else state.stock[SHELVES.index(state.at)]
        return (*found, f"take the {item}") if item else tuple(found)

    def apply(self, state, phrase, on_tick=None):
        legal, terms, text = self.legal(state), {}, phrase
        state.turn += 1
        if phrase not in legal:
            return self.illegal(state, phrase, terms)
        verb, *_, last = phrase.split()
        if verb == "go":
            state.at = last
        elif verb == "take":
            state.hand, state.stock[SHELVES.index(state.at)] = last, ""
            terms = {"fetch": 0.5} if last == state.wants else {}
        else:
            right = state.hand == state.wants
            state.ended, terms = ("success", {"serve": 0.5}) if right else ("wrong", {})
            text = f"{state.customer}: {'thank you!' if right else 'what is this for?'}"
        return Outcome(verb, text, 1, terms, self.ended(state))

    def ended(self, state):
        return state.ended or ("turn_cap" if state.turn >= self.turn_cap else None)

    def oracle(self, state):
        return self.teacher(None, self.observation(state))[0]

    def teacher(self, memory, observation):
        *_, at, _, wants, customer, _, hand, _, where = observation.split()
        if hand == wants:
            return (f"give the {wants} to {customer}" if at == "inn" else "go to the inn"), memory
        return (f"take the {wants}" if at == where else f"go to the {where}"), memory


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m examples.own_game")
    parser.add_argument("--brain", default="nano", type=parse_policy, help="MODEL, MODEL:ADAPTER or a run folder")
    parser.add_argument("--customers", type=int, default=-1, help="ends after so many (default: never)")
    parser.add_argument("--record", default="", metavar="FILE.b22")
    args = parser.parse_args(argv)
    log_or_none = Writer(args.record, header=Header.here("own_game")) if args.record else nullcontext()
    with log_or_none as log, BrainProcess(args.brain.model, args.brain.adapter, Shop.prefix) as brain:
        play(args, brain, log)


def play(args, brain, log):
    import pygame  # here, since the trainer's workers import this file and need no window

    shop = Shop()
    pygame.font.init()
    screen, clock, font = pygame.display.set_mode((480, 270)), pygame.time.Clock(), pygame.font.Font(None, 20)
    spots = dict(zip((*SHELVES, "inn"), range(50, 481, 92), strict=False))
    state, x, said, wait_until, served, episode, earned = None, float(spots["inn"]), "", 0, 0, 0, 0.0
    while served != args.customers and not any(event.type == pygame.QUIT for event in pygame.event.get()):
        if state is None:
            seed, earned = shop.splits["test"][served], 0.0  # customers that training never saw
            state = shop.build(seed)
            if log:
                episode = log.next_episode
                log.begin_episode(EpisodeBegin(
                    episode=episode, scenario=shop.name, scenario_version=shop.version, source_hash=shop.source_hash,
                    seed=seed, policy=args.brain.text, digest_start=shop.digest(state)))  # fmt: skip
        seen, legal = shop.observation(state), shop.legal(state)
        if brain.state == "ready" and pygame.time.get_ticks() >= wait_until:  # the picture never waits for the brain
            brain.ask(served * shop.turn_cap + state.turn, seen, legal)
        if (decision := brain.poll()) is not None:
            outcome = shop.apply(state, decision.phrase)
            said, wait_until = outcome.text, pygame.time.get_ticks() + 700
            turn = Turn(episode=episode, turn=state.turn - 1, observation=seen, legal=list(legal), greedy=True,
                        proposed=decision.phrase, executed=decision.phrase, outcome_kind=outcome.kind,
                        outcome_text=outcome.text, terms=outcome.terms, digest_after=shop.digest(state))  # fmt: skip
            earned += turn.reward
            if log:
                log.turn(turn)
            if outcome.ended:
                if log:
                    log.end_episode(EpisodeEnd(episode=episode, ended=outcome.ended, turns=state.turn,
                                               success=outcome.ended == "success", total_reward=earned))  # fmt: skip
                served, state = served + 1, None
                continue
        x += (spots[state.at] - x) * 0.15
        screen.fill((38, 30, 52))
        for place, item in zip((*SHELVES, "inn"), (*state.stock, f"{state.customer}: {state.wants}!"), strict=True):
            pygame.draw.rect(screen, (96, 72, 60), (spots[place] - 32, 110, 64, 40))
            screen.blit(font.render(item, True, (240, 220, 170)), (spots[place] - 32, 92))
        pygame.draw.circle(screen, (200, 120, 80), (int(x), 200), 16)
        screen.blit(font.render(f"{said}   (in hand: {state.hand or '-'}; {brain.state})", True, "white"), (12, 244))
        pygame.display.flip()
        clock.tick(60)
    pygame.quit()


if __name__ == "__main__":
    main()
