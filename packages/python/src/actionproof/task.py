"""The task of a challenge: the cheapest route through a graph."""

from __future__ import annotations

import secrets
from typing import Any

_INSTRUCTIONS = (
    'Input: an undirected weighted graph. Each of "edges" is [node,node,cost] and can be used in both directions. Find '
    'the route from node "from" to node "to" with the least total cost; there is exactly one. The answer text is the '
    "route's nodes in order, joined by \"-\", then \":\" and the total cost, such as 3-0-7:19. The answer is the "
    "lowercase hex SHA-256 of the answer text."
)
_NODES, _EDGES, _HOPS = 10, 20, 3


def new_task(task_id: str) -> tuple[dict[str, Any], str]:
    """A task and its answer text."""
    random = secrets.SystemRandom()
    while True:
        pairs = {(random.randrange(n), n) for n in range(1, _NODES)}  # a tree reaches every node
        while len(pairs) < _EDGES:
            a, b = sorted(random.sample(range(_NODES), 2))
            pairs.add((a, b))
        edges = [[a, b, random.randint(2, 60)] for a, b in pairs]
        random.shuffle(edges)
        start = random.randrange(_NODES)
        for to, (cost, path, unique) in routes(edges, start).items():
            if unique and len(path) > _HOPS:
                task = {"id": task_id, "kind": "route", "instructions": _INSTRUCTIONS,
                        "input": {"edges": edges, "from": start, "to": to}}
                return task, answer(path, cost)


def answer(path: list[int], cost: int) -> str:
    """The answer text of a route."""
    return "-".join(map(str, path)) + f":{cost}"


def routes(edges: list[list[int]], start: int) -> dict[int, tuple[int, list[int], bool]]:
    """For each node the cost of its cheapest route, one such route, and whether it is the only one."""
    best: dict[int, tuple[int, list[int], bool]] = {start: (0, [start], True)}
    settled: set[int] = set()
    while open_nodes := best.keys() - settled:
        at = min(open_nodes, key=lambda n: best[n][0])
        settled.add(at)
        cost, path, unique = best[at]
        for a, b, more in edges:
            if at not in (a, b):
                continue
            to = b if at == a else a
            known = best.get(to)
            if known is None or cost + more < known[0]:
                best[to] = cost + more, [*path, to], unique
            elif cost + more == known[0]:
                best[to] = known[0], known[1], False
    return best
