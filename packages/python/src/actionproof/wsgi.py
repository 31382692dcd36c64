"""Puts routes in front of a WSGI application: Flask, Django and others.

    app.wsgi_app = wsgi.Middleware(app.wsgi_app, gate=gate, store=store, routes={"POST /posts": Route(gate, ...)})

A handler finds the Verdict in request.environ["actionproof"].
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import responses
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from .adapter import EARLY, MAX_ENDPOINT_BODY, Answer, Routes, endpoint_of, unused
from .answer import MOST, Signer, streams
from .gate import Gate, Route, Verdict
from .problem import Refusal, document, refuse_if
from .stores import Store

Environ = dict[str, Any]
Start = Callable[..., Any]
App = Callable[[Environ, Start], Iterable[bytes]]


class Middleware:
    """A WSGI application in front of another. It also answers the endpoints of the gate."""

    def __init__(self, app: App, *, gate: Gate, store: Store, routes: Mapping[str, Route]) -> None:
        self._app, self._routes = app, Routes(gate, store, routes)

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Serves one request."""
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        whole = environ.get("SCRIPT_NAME", "") + path
        if endpoint := endpoint_of(method, whole):
            try:
                return _send(start, self._routes.answer(endpoint, _body(environ, MAX_ENDPOINT_BODY)))
            except Refusal as refusal:
                return _send(start, document(refusal.code, refusal.detail))
        headers, query = _headers(environ), "?" + environ.get("QUERY_STRING", "")
        route = self._routes.find(method, query, headers, _text(path), _text(whole))
        if route is None:
            return self._app(environ, start)
        try:
            url = _url(environ, whole)
            body = _body(environ, route.max_body)
        except Refusal as refusal:
            verdict = Verdict("refused", refusal.code, refusal.detail)
        else:
            verdict = self._routes.use(route, route.verify(method, url, headers, body))
            environ = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        if verdict.status != "verified" and route.mode == "enforce":
            return _send(start, document(verdict.code, verdict.detail))

        demanded = route.mode == "enforce" and route.consume == "handler"

        def checked(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
            if demanded and unused(verdict, int(status[:3])):
                raise RuntimeError("the handler has not called consume of the verdict")
            return start(status, headers, *([error] if error else []))

        environ = {**environ, "actionproof": verdict}
        return _signed(self._app, environ, checked, verdict.signer) if verdict.signer else self._app(environ, checked)


def _signed(app: App, environ: Environ, start: Start, signer: Signer) -> Iterable[bytes]:
    """Holds an answer until it is whole, and signs it."""
    said: list[tuple[str, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def held(status: str, headers: list[tuple[str, str]], _: Any = None) -> Any:
        said[:] = [(status, headers)]
        return written.append

    parts = app(environ, held)
    rest = _Rest(written, parts)
    try:
        for part in rest.left:
            written.append(part)
            if streams(said[0][1]) or sum(map(len, written)) > MOST:
                start(*said[0])
                return rest
        status, headers = said[0]
        start(status, signer.sign(int(status[:3]), headers, b"".join(written)))
        return rest
    except BaseException:
        rest.close()
        raise


class _Rest:
    """What is held of an answer, and then what is left of it."""

    def __init__(self, held: list[bytes], parts: Iterable[bytes]) -> None:
        self.held, self.parts, self.left = held, parts, iter(parts)

    def __iter__(self) -> Iterator[bytes]:
        yield from self.held
        yield from self.left

    def close(self) -> None:
        """Ends the application's answer (PEP 3333)."""
        getattr(self.parts, "close", lambda: None)()


def _headers(environ: Environ) -> list[tuple[str, str]]:
    found = {"content-type": environ.get("CONTENT_TYPE", "")}
    found |= {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    return [(name, _text(value)) for name, value in found.items() if value or name != "content-type"]


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")  # PEP 3333: each character is a byte


def _text(text: str) -> str:
    return _bytes(text).decode(errors="surrogateescape")


def _body(environ: Environ, most: int) -> bytes:
    length = environ.get("CONTENT_LENGTH") or ""
    whole = environ.get("wsgi.input_terminated", False)
    refuse_if(not length.isdecimal() and not whole and environ.get("HTTP_TRANSFER_ENCODING"), "content_incomplete",
              "this server does not say where a chunked body ends")
    want = int(length) if length.isdecimal() else most + 1 if whole else 0
    body: bytes = environ["wsgi.input"].read(min(want, most + 1))
    refuse_if(length.isdecimal() and len(body) < min(want, most + 1), "content_incomplete", EARLY)
    return body


def _url(environ: Environ, whole: str) -> str:
    """The path as sent, which most servers tell."""
    sent = environ.get("REQUEST_URI") or environ.get("RAW_URI") or quote(_bytes(whole), safe="/$&+,:;=@!'()*~")
    path, mark, query = sent.partition("?")
    at = path.find("/", path.find("://") + 3) if "://" in path else 0
    refuse_if(unquote_to_bytes(path[max(at, 0):]) != _bytes(whole), "request_malformed", "two paths differ")
    return path[max(at, 0):] + (mark + query or ("?" + environ["QUERY_STRING"] if environ.get("QUERY_STRING") else ""))


def _send(start: Start, answer: Answer) -> list[bytes]:
    status, headers, body = answer
    start(f"{status} {responses.get(status, '')}", [*headers, ("content-length", str(len(body)))])
    return [body]
