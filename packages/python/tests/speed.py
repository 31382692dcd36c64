"""Verifies the chains of a file that test/differential writes, and prints the user CPU time: python speed.py FILE."""

from __future__ import annotations

import base64
import json
import resource
import sys

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
    store, before = MemoryStore(lambda: now), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for body in bodies:
        gate.answer("verify", body, store)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)


if __name__ == "__main__":
    main(sys.argv[1])
