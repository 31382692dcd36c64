"""Verifies, in ten portions, the chains of a file that test/differential writes.

Prints the CPU seconds that a chain of the fastest portion took: python speed.py FILE.
"""

from __future__ import annotations

import base64
import json
import math
import sys
import time

from actionproof import Gate, MemoryStore


def main(path: str) -> None:
    """All chains are valid."""
    with open(path, encoding="utf-8") as file:
        first, *lines = [json.loads(row) for row in file]
    t, now = first["trust"], first["now"]
    files = {"registry.jwk": t["registry"], "auditor.jwk": t["auditor"], "manifest.json": t["manifest"],
             "bundle.json": t["bundle"], "secret": t["secret"]}
    gate = Gate(t["name"], {name: text.encode() for name, text in files.items()}, clock=lambda: now)
    bodies = [base64.b64decode(line["request"]["body"]) for line in lines]
    store, size, least = MemoryStore(lambda: now), -(-len(bodies) // 10), math.inf
    for at in range(0, len(bodies), size):
        portion, before = bodies[at : at + size], time.process_time()
        for body in portion:
            gate.answer("verify", body, store)
        least = min(least, (time.process_time() - before) / len(portion))
    print(least)


if __name__ == "__main__":
    main(sys.argv[1])
