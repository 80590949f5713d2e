"""A run's checkpoint tree as plain values, as lines for a terminal, and as a picture for a page."""

from __future__ import annotations

from html import escape
from typing import Any

from rl.tree import Tree, branch_of


def facts_of(tree: Tree) -> dict[str, Any]:
    """The whole tree as plain values: the nodes in the order of their updates, and who is what."""
    head, best, scores = tree.head(), tree.best(), tree.scores()
    nodes = []
    for name in tree.names():
        facts = tree.read(name)
        metrics = facts.get("metrics") or {}
        nodes.append({
            "node": name, "update": facts["update"], "parent": facts.get("parent"), "branch": branch_of(name),
            "episodes": facts.get("episodes", 0), "success": metrics.get("success"), "kl": metrics.get("kl"),
            "entropy": metrics.get("entropy"), "validation": scores.get(name), "head": name == head,
            "best": name == best, "pruned": bool(facts.get("pruned")),
        })  # fmt: skip
    branches = [{"branch": one.branch, "from": one.start, "settings": one.settings} for one in tree.branches()]
    return {"head": head, "head_by_hand": tree.head_by_hand(), "best": best, "goes_on_from": tree.tip(),
            "nodes": nodes, "branches": branches}  # fmt: skip


def drawn(found: dict[str, Any]) -> list[str]:
    """The tree as lines for people: a branch is set in under the node that it left."""
    children: dict[str | None, list[dict[str, Any]]] = {}
    for node in found["nodes"]:
        children.setdefault(node["parent"], []).append(node)
    lines: list[str] = []

    def follow(node: dict[str, Any], depth: int) -> None:
        while True:
            lines.append("  " * depth + _told(node, found["goes_on_from"]))
            further = children.get(node["node"], [])
            same = next((child for child in reversed(further) if child["branch"] == node["branch"]), None)
            for child in further:
                if child is not same:
                    other = child["branch"] != node["branch"]
                    lines.append("  " * depth + (f"└ branch {child['branch']}" if other else "└ taken back"))
                    follow(child, depth + 1)
            if same is None:
                return
            node = same

    known = {node["node"] for node in found["nodes"]}
    for parent, nodes in children.items():
        if parent not in known:
            for node in nodes:
                follow(node, 0)
    return lines


def _told(node: dict[str, Any], tip: str | None) -> str:
    words = [f"{node['node']:<9}"]
    if node["validation"] is not None:
        words.append(f"validation {100 * node['validation']:.1f} %")
    if node["success"] is not None:
        words.append(f"training {100 * node['success']:.1f} %")
    words += [f"{name} {node[name]:.4f}" for name in ("kl", "entropy") if node[name] is not None]
    marks = [word for word in ("head", "best", "pruned") if node[word]]
    if node["node"] == tip:
        marks.append("training goes on from here")
    return "  ".join([*words, f"[{', '.join(marks)}]"] if marks else words).rstrip()


def tree_svg(found: dict[str, Any]) -> str:
    """The tree as one `<svg>`: updates from left to right, a row for the trunk and for each branch."""
    nodes = {node["node"]: node for node in found["nodes"]}
    rows = {number: row for row, number in enumerate(sorted({node["branch"] for node in nodes.values()}))}
    last = max(1, max(node["update"] for node in nodes.values()))
    left, width, high = 60, 860, 64
    place = {name: (left + node["update"] / last * (width - left - 30), 30 + rows[node["branch"]] * high)
             for name, node in nodes.items()}  # fmt: skip
    parts = [f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {20 + len(rows) * high}" '
             'role="img" aria-label="the checkpoint tree">']  # fmt: skip
    for number, row in rows.items():
        name = f"branch {number}" if number else "trunk"
        parts.append(f'<text x="4" y="{34 + row * high}">{name}</text>')
    for name, node in nodes.items():
        x, y = place[name]
        if node["parent"] in place:
            from_x, from_y = place[node["parent"]]
            parts.append(f'<path d="M{from_x:.1f} {from_y}C{(from_x + x) / 2:.1f} {from_y} {(from_x + x) / 2:.1f} {y} '
                         f'{x:.1f} {y}" fill="none" stroke="var(--grid)" stroke-width="2"/>')  # fmt: skip
    crowded = last > 24  # then only what matters gets its name
    for name, node in nodes.items():
        x, y = place[name]
        colour = "dead" if node["pruned"] else "train" if node["validation"] is None else "valid"
        ring = f'<circle cx="{x:.1f}" cy="{y}" r="9" fill="none" stroke="var(--test)" stroke-width="2.5"/>'
        words = "".join(f"<title>{escape(_told(node, found['goes_on_from']))}</title>")
        parts.append(f'<g>{words}{ring if node["head"] else ""}<circle cx="{x:.1f}" cy="{y}" r="5" '
                     f'fill="var(--{colour})"/></g>')  # fmt: skip
        if node["validation"] is not None and (not crowded or node["head"] or node["best"]):
            parts.append(f'<text x="{x:.1f}" y="{y + 23}" text-anchor="middle">{100 * node["validation"]:.3g}</text>')
        if node["head"]:
            parts.append(f'<text x="{x:.1f}" y="{y - 14}" text-anchor="middle">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])
