"""What the adapters share: which route a request is for, and what the two endpoints answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from .gate import Gate, Route, Verdict
from .problem import Refusal, document
from .stores import Store

_log = logging.getLogger("actionproof")
Answer = tuple[int, list[tuple[str, str]], bytes]
ENDPOINT = "/.well-known/actionproof/"
MAX_ENDPOINT_BODY = 256 << 10
EARLY = "the body ended early, or was read before: put this middleware before every body parser"


class Routes:
    """The protected routes of an application, by method and path such as "POST /posts/{id}"."""

    def __init__(self, gate: Gate, store: Store, routes: Mapping[str, Route]) -> None:
        self.gate, self.store = gate, store
        self._routes = [(*self._pattern(name), route) for name, route in routes.items()]

    @staticmethod
    def _pattern(name: str) -> tuple[str, re.Pattern[str]]:
        method, _, path = name.partition(" ")
        if not method.isupper() or not path.startswith("/"):
            raise ValueError(f"{name!r} is no route, such as 'POST /posts/{{id}}'")
        parts = re.split(r"\{[^/{}]+\}", path.rstrip("/"))
        return method, re.compile("[^/]+".join(map(re.escape, parts)), re.IGNORECASE)

    def find(self, method: str, *paths: str) -> Route | None:
        """The route of a request, or None. It takes more spellings of a path than any framework, so none goes by."""
        for path in paths:
            normal = re.sub("/{2,}", "/", path).rstrip("/\n")
            for known, pattern, route in self._routes:
                if method.upper() == known and pattern.fullmatch(normal):
                    return route
        return None

    def use(self, route: Route, verdict: Verdict) -> Verdict:
        """Uses up the evidence before the handler, unless the handler does so itself."""
        return verdict if route.consume == "handler" else verdict.consume(route.store or self.store)

    def answer(self, endpoint: str, body: bytes) -> Answer:
        """Answers the endpoint challenge or verify."""
        try:
            said: Any = self.gate.answer(endpoint, body, self.store)
        except Refusal as refusal:
            return document(refusal.code, refusal.detail)
        except Exception:  # of the store
            _log.exception("the endpoint %s failed", endpoint)
            return document("internal", "")
        return 200, [("content-type", "application/json"), ("cache-control", "no-store")], json.dumps(said).encode()


def endpoint_of(method: str, path: str) -> str | None:
    """The endpoint that a request is for."""
    name = path.removeprefix(ENDPOINT)
    return name if method == "POST" and path.startswith(ENDPOINT) and name in ("challenge", "verify") else None


def unused(verdict: Verdict, status: int) -> bool:
    """Whether a handler has answered as if it had acted, but has not used up the evidence."""
    return verdict.status == "verified" and status < 400 and not verdict.used
