"""Puts routes in front of an ASGI application: FastAPI, Starlette, Quart and others.

    app.add_middleware(asgi.Middleware, gate=gate, store=store, routes={"POST /posts": Route(gate, ...)})

A handler finds the Verdict in request.scope["actionproof"].
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from .adapter import EARLY, MAX_ENDPOINT_BODY, Answer, Routes, endpoint_of, unused
from .answer import MOST, Signer, streams
from .gate import Gate, Route, Verdict
from .problem import Refusal, document, refuse_if
from .stores import Store

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Middleware:
    """An ASGI application in front of another. It also answers the endpoints of the gate."""

    def __init__(self, app: App, *, gate: Gate, store: Store, routes: Mapping[str, Route],
                 body_timeout: float = 30) -> None:
        self._app, self._routes, self._timeout = app, Routes(gate, store, routes), body_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"]
        if endpoint := endpoint_of(scope["method"], path):
            try:
                body = await self._body(receive, MAX_ENDPOINT_BODY, [])
            except Refusal as refusal:
                return await _send(send, document(refusal.code, refusal.detail))
            # Other work of the loop goes on while signatures are verified.
            return await _send(send, await asyncio.to_thread(self._routes.answer, endpoint, body))
        headers = [(_text(name), _text(value)) for name, value in scope["headers"]]
        query = "?" + _text(scope.get("query_string", b""))
        route = self._routes.find(scope["method"], query, headers, path, path.removeprefix(scope.get("root_path", "")))
        if route is None:
            return await self._app(scope, receive, send)
        body = b""
        try:
            url = _url(scope)
            body = await self._body(receive, route.max_body, headers)
        except Refusal as refusal:
            verdict = Verdict("refused", refusal.code, refusal.detail)
        else:
            verdict = await asyncio.to_thread(route.verify, scope["method"], url, headers, body)
        verdict = await asyncio.to_thread(self._routes.use, route, verdict)
        if verdict.status != "verified" and route.mode == "enforce":
            return await _send(send, document(verdict.code, verdict.detail))
        demanded = route.mode == "enforce" and route.consume == "handler"
        held = _Held(send, verdict.signer) if verdict.signer else None
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> MutableMapping[str, Any]:
            return pending.pop() if pending else await receive()

        async def checked(message: MutableMapping[str, Any]) -> None:
            if demanded and message["type"] == "http.response.start" and unused(verdict, message["status"]):
                raise RuntimeError("the handler has not called consume of the verdict")
            await (held.send if held else send)(message)

        await self._app({**scope, "actionproof": verdict}, replay, checked)

    async def _body(self, receive: Receive, most: int, headers: list[tuple[str, str]]) -> bytes:
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._timeout):
                while more and len(body) <= most:
                    message = await receive()
                    refuse_if(message["type"] != "http.request", "content_incomplete", EARLY)
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal("content_incomplete", EARLY) from None
        announced = [value for name, value in headers if name == "content-length"]
        short = not more and announced and announced[0].isdecimal() and int(announced[0]) != len(body)
        refuse_if(short, "content_incomplete", EARLY)
        return bytes(body)


class _Held:
    """Holds an answer until it is whole, and signs it."""

    def __init__(self, send: Send, signer: Signer) -> None:
        self._send, self._signer = send, signer
        self._start: MutableMapping[str, Any] = {}
        self._body, self._passing = b"", False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._passing or not message["type"].startswith("http.response."):
            return await self._send(message)
        if message["type"] == "http.response.start":
            self._start = message
            headers = [(_text(name), _text(value)) for name, value in message["headers"]]
            if message.get("trailers") or streams(headers):
                await self._pass()
            return
        self._body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(self._body) > MOST:
            await self._pass()
            await self._send({**message, "body": self._body})
        elif not more:
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._start["headers"]]
            signed = self._signer.sign(self._start["status"], headers, self._body)
            self._start["headers"] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in signed]
            await self._pass()
            await self._send({**message, "body": self._body})

    async def _pass(self) -> None:
        self._passing = True
        await self._send(self._start)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def _url(scope: Scope) -> str:
    path = scope["path"]
    raw = scope.get("raw_path")
    sent = _text(raw).partition("?")[0] if raw is not None else ""
    if raw is not None:
        prefixed = scope.get("root_path", "") + path
        refuse_if(unquote(sent) not in (path, prefixed), "request_malformed", "path and raw_path differ")
    query = _text(scope.get("query_string", b""))
    return (sent or quote(path, safe="/$&+,:;=@!'()*~")) + ("?" + query if query else "")


async def _send(send: Send, answer: Answer) -> None:
    status, headers, body = answer
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    encoded.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
