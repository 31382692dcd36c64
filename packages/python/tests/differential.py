"""Judges calls as Go has judged them: python differential.py FILE, whose lines test/differential writes."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from actionproof import Gate, MemoryStore, Refusal, Route
from actionproof.problem import UNAVAILABLE

VERIFY = "/.well-known/actionproof/verify"


def judged(code: str) -> tuple[str, str]:
    """Status and code of a refusal."""
    return ("unavailable" if code in UNAVAILABLE else "refused"), code


class Api:
    """An API that forgets what was used."""

    gate: Gate
    route: Route
    now = 0.0

    def trust(self, t: Any) -> tuple[str, str]:
        """Takes other files, if the gate accepts them."""
        files = {"registry.jwk": t["registry"], "auditor.jwk": t["auditor"], "manifest.json": t["manifest"],
                 "bundle.json": t["bundle"], "secret": t["secret"]}
        raw = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
        try:
            self.gate = Gate(t["name"], raw, clock=lambda: self.now)
        except Refusal as refusal:
            return judged(refusal.code)
        self.route = Route(self.gate, t["subject"], t["action"], raw=t["raw"])
        return "verified", "ok"

    def request(self, r: Any) -> tuple[str, str]:
        """Judges a call."""
        body = base64.b64decode(r["body"] or "")
        if (r["method"], r["url"]) == ("POST", VERIFY):
            try:
                self.gate.answer("verify", body, MemoryStore())
            except Refusal as refusal:
                return judged(refusal.code)
            return "verified", "ok"
        v = self.route.verify(r["method"], r["url"], [(name, value) for name, value in r["headers"]], body)
        return v.status, v.code


def main(path: str) -> int:
    """Compares all lines of a file; 1 if one differs."""
    api, lines, different = Api(), 0, 0
    with open(path, encoding="utf-8") as file:
        for number, row in enumerate(file, 1):
            line = json.loads(row)
            api.now = line["now"]
            got = api.trust(line["trust"]) if "trust" in line else api.request(line["request"])
            lines += 1
            if got != (line["status"], line["code"]):
                different += 1
                print(f"line {number}, {line['fault']}: {got}, but Go says {line['status']} {line['code']}")
    print(f"{lines} lines, {different} differ")
    return 1 if different or not lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
