"""Draw which room of josrc imports which: packages, and modules beside them.

    python tools/package_graph.py docs/develop/packages.svg [--src OTHER/src]

Rooms stand in a column, each above those that it imports, as far as that can be: rooms that import
each other in a ring have no such order. Arcs on the left lead down, those on the right lead back
up. The number is how many imports between modules an arc stands for; imports inside of functions
count.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOWN, UP = "#9ca3af", "#dc2626"
Edges = Counter[tuple[str, str]]


def main() -> None:
    """Read the imports, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the SVG to write")
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the folder of josrc")
    options = parser.parse_args()
    edges = read_edges(options.src)
    order = in_order(edges)
    up = {edge: n for edge, n in edges.items() if order.index(edge[0]) > order.index(edge[1])}
    draw(order, edges, options.out)
    print(f"{len(order)} rooms, {len(edges)} of the pairs import; {len(up)} arcs lead up:")
    for (here, there), count in sorted(up.items()):
        print(f"  {here} -> {there} ({count})")


def read_edges(src: Path) -> Edges:
    """How many modules of each room import how many of each other one."""
    sys.path.insert(0, str(src.resolve()))
    import grimp

    graph = grimp.build_graph("josrc", cache_dir=None)
    edges: Edges = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            here, there = (name.split(".")[1] if "." in name else "" for name in (module, imported))
            if here and there and here != there and here != "__main__":
                edges[here, there] += 1
    return edges


def in_order(edges: Edges) -> list[str]:
    """Rooms so that as few imports as possible lead up: who imports most and is imported least.

    From those that are left the one is taken that no other imports; in a ring, the one with the
    greatest difference (Eades, Lin and Smyth, 1993).
    """
    left = {room for edge in edges for room in edge}
    first: list[str] = []
    last: list[str] = []
    while left:
        inner = {edge: n for edge, n in edges.items() if set(edge) <= left}
        out = Counter(dict.fromkeys(left, 0))
        into = Counter(dict.fromkeys(left, 0))
        for (here, there), count in inner.items():
            out[here] += count
            into[there] += count
        sinks = sorted(room for room in left if not out[room])
        sources = sorted(room for room in left if not into[room])
        if sources:
            room = max(sources, key=lambda name: (out[name], name))
            first.append(room)
        elif sinks:
            room = sinks[0]
            last.insert(0, room)
        else:
            room = max(sorted(left), key=lambda name: out[name] - into[name])
            first.append(room)
        left.remove(room)
    return first + last


def draw(order: list[str], edges: Edges, out: Path) -> None:
    """An arc diagram."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "josrc", "font.size": 9})
    import matplotlib.pyplot as plt
    from matplotlib.patches import Arc

    height = len(order)
    figure, axis = plt.subplots(figsize=(7, 0.36 * height + 0.6))
    place = {room: -number for number, room in enumerate(order)}
    for (here, there), count in sorted(edges.items()):
        top, bottom = place[here], place[there]
        down = top > bottom
        reach = abs(top - bottom)
        side = -1 if down else 1
        axis.add_patch(
            Arc(
                (2.4 * side, (top + bottom) / 2),
                0.62 * reach,
                reach,
                theta1=90 if down else -90,
                theta2=270 if down else 90,
                color=DOWN if down else UP,
                linewidth=0.5 + 0.5 * count**0.5,
                alpha=0.55 if down else 0.9,
            )
        )
    for room, y in place.items():
        axis.text(0, y, room, ha="center", va="center", family="monospace")
    wide = 2.8 + 0.31 * height
    axis.set(xlim=(-wide, wide), ylim=(-height, 1))
    axis.axis("off")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
