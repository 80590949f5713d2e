"""The trainers, ours and the peers', on the same turns, round by round in turn."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import TRAINERS, Child, Peer, PeerError, say
from benchmarks.peers.figures import PARTS, rates, ratios, spread, tokens_a_turn
from benchmarks.peers.ours import KL_WEIGHT, Ours
from benchmarks.peers.turns import logps_of, rows_of, write_model

CLOSE_ENOUGH = 0.01  # nats a completion: float32 sums in another order
COMPARED = 3  # completions whose log-probability a trainer must find as we do before it is measured


def measure_training(args: argparse.Namespace, ready: Mapping[str, tuple[Peer, Path]], folder: Path,
                     versions: dict[str, str], reasons: dict[str, str]) -> dict[str, Any]:  # fmt: skip
    """Rounds of ours and of the trainers in turn."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        say(f"{args.model}: {args.groups} groups of {args.group_size} ...")
        ours = Ours(args.model, args.groups, args.group_size, args.workers, folder)
        stack.callback(ours.close)
        first = ours.round()
        prefix_ids = ours.brain.tokenizer.encode(ours.scenario.prefix)
        rows = rows_of(ours.episodes, ours.scenario.prefix, prefix_ids, args.group_size)
        few = rows[: args.turns // args.group_size * args.group_size]
        job = {"rows": few, "group_size": args.group_size, "beta": KL_WEIGHT, "adapter": ours.adapter_folder,
               "longest": max(len(row["completion_ids"]) for row in rows), "model": str(folder / "model"),
               "peft": str(folder / "model" / "peft")}  # fmt: skip
        trainers = [ready[name] for name in TRAINERS if name in ready]
        if trainers:
            write_model(ours.brain, folder / "model")
            job["logps"] = logps_of(ours.brain, rows[:COMPARED])
        children = []
        for peer, python in trainers:
            say(f"{peer.name}: starting ...")
            child = started(peer, python, job, folder, args.workers, reasons)
            if child is not None:
                stack.callback(child.close)
                versions |= child.facts["versions"]
                children.append(child)
        rounds: dict[str, list[dict[str, Any]]] = {"ours": [], **{child.name: [] for child in children}}
        for number in range(args.rounds):
            rounds["ours"].append(ours.round())
            for child in list(children):
                try:
                    rounds[child.name].append(child.ask())
                except PeerError as error:
                    reasons[child.name] = str(error)
                    say(str(error))
                    children.remove(child)
                    del rounds[child.name]
            say(f"round {number + 1} of {args.rounds}: " + ", ".join(
                f"{name} {each[-1]['turns'] / each[-1]['loop_s']:.2f} turns/s" for name, each in rounds.items()))
        for child in children:
            word = child.name.replace("-", "_")
            found[word] = rates(rounds[child.name]) | {"turns": rounds[child.name][0]["turns"], **child.facts}
            for part in PARTS:
                each = ratios(rounds["ours"], rounds[child.name], part)
                name = f"{'train' if part == 'update' else part}_vs_{word}"
                found[name], found[f"{name}_range"] = spread(each)["median"], spread(each)
                found[f"{name}_cpu"] = spread(ratios(rounds["ours"], rounds[child.name], f"{part}_cpu"))["median"]
        for child in children:
            child.close()
        say("the machine's matmul rate, and the share of it that is reached ...")
        shares = ours.shares_of_matmul()
        found |= {name: value for name, value in shares.items() if name.startswith("matmul")}
        found["ours"] = rates(rounds["ours"]) | {
            "turns": first["turns"], "live_turns": first["live"], "log_s": rounds["ours"][-1]["log_s"],
            "tokens_a_turn": shares["tokens_per_turn_update"],
        }  # fmt: skip
        found["tokens_a_turn_unshared"] = unshared = tokens_a_turn(few)
        for child in children:
            each = found[child.name.replace("-", "_")]
            for part, operations in (("rollout", 2), ("update", 6)):  # for each weight and token, as benchmarks.speed
                work = unshared * shares["weights"] * operations / 1e9
                each[f"matmul_share_{part}"] = (
                    each[f"{part}_turns_per_cpu_s"]["median"] * work / shares["matmul_gflops_cpu"]
                )
        if args.plain_mlx and "mlx-lm-lora" in ready:
            peer, python = ready["mlx-lm-lora"]
            found |= plain_mlx(peer, python, job, folder, args, rounds["ours"])
    return found


def plain_mlx(peer: Peer, python: Path, job: dict[str, Any], folder: Path, args: argparse.Namespace,
              ours: Sequence[Mapping[str, float]]) -> dict[str, Any]:  # fmt: skip
    """One group of turns by mlx-lm-lora on the BLAS that it comes with, without a warm-up: it takes minutes."""
    say("mlx-lm-lora on the BLAS that it installs with: one group of turns ...")
    few = {**job, "rows": job["rows"][: args.group_size], "logps": []}
    plain = Peer("mlx-lm-lora-plain", peer.script, peer.requirements, {"batch": 1, "blas": ""})
    child = Child(plain, python, few, folder, args.workers)
    try:
        one = child.ask()
    finally:
        child.close()
    return {"mlx_lm_lora_plain": rates([one]) | {"turns": one["turns"]},
            "loop_vs_mlx_lm_lora_plain": spread(ratios(ours, [one] * len(ours), "loop"))["median"]}


def started(peer: Peer, python: Path, job: dict[str, Any], folder: Path, threads: int,
            reasons: dict[str, str]) -> Child | None:  # fmt: skip
    """A trainer that is ready and has shown that it computes the same; None, with the reason, otherwise."""
    try:
        child = Child(peer, python, job, folder, threads)
        if child.facts["off"] > CLOSE_ENOUGH:
            child.close()
            raise PeerError(f"{peer.name}: log-probabilities {child.facts['off']:.3g} from ours: not the same model")
    except PeerError as error:
        reasons[peer.name] = str(error)
        say(str(error))
        return None
    return child
