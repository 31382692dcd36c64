"""What the adapters share: which route a request is for, and what the two endpoints answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from . import http
from .gate import Gate, Route, Verdict
from .problem import Refusal, document
from .stores import Store

_log = logging.getLogger("actionproof")
Answer = tuple[int, list[tuple[str, str]], bytes]
ENDPOINT = "/.well-known/actionproof/"
MAX_ENDPOINT_BODY = 256 << 10
EARLY = "the body ended early, or was read before: put this middleware before every body parser"
_PARAMETER = re.compile(r"\{[A-Za-z_]\w*(:path)?\}")  # of FastAPI and Starlette


class Routes:
    """The protected routes of an application, by method and path such as "POST /posts/{id}"."""

    def __init__(self, gate: Gate, store: Store, routes: Mapping[str, Route]) -> None:
        self.gate, self.store = gate, store
        self._routes = [(*self._pattern(name), route) for name, route in routes.items()]

    @staticmethod
    def _pattern(name: str) -> tuple[str, re.Pattern[str]]:
        method, _, path = name.partition(" ")
        literals = _PARAMETER.split(path)[::2]
        if not method.isupper() or not path.startswith("/") or re.search("[{}<>*?#]", "".join(literals)):
            raise ValueError(f"{name!r} is no route, such as 'POST /posts/{{id}}' or 'PUT /files/{{name:path}}'")
        kinds = [".*" if several else "[^/]+" for several in _PARAMETER.findall(path)]
        parts = [re.escape(a) + b for a, b in zip(literals, [*kinds, ""], strict=True)]
        return method, re.compile("".join(parts).rstrip("/") + "/?", re.IGNORECASE | re.DOTALL)

    def find(self, method: str, url: str, headers: http.Headers, *paths: str) -> Route | None:
        """The route of a request, or None. It takes more spellings of a path than any framework, so none goes by.

        A request that some frameworks take for one by another method, which the route then refuses, is for any method.
        """
        methods, routes = {method.upper()}, self._routes
        try:
            http.refuse_overrides(method, url, http.Fields(headers))
        except Refusal:
            methods |= {known for known, _, _ in routes}
            routes = sorted(routes, key=lambda one: one[2].mode == "observe")
        spellings = [spelling.rstrip("/\n") + "/" for path in paths for spelling in (path, re.sub("/{2,}", "/", path))]
        for known, pattern, route in routes:
            if known in methods and any(map(pattern.fullmatch, spellings)):
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
