"""Routes, stores and adapters, by their public surface."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import io
import os
import shutil
import socket
import subprocess
import tempfile
import time
import types
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flask
import psycopg
import redis
import starlette.applications
import starlette.responses
import starlette.routing
from fastapi import FastAPI, Request
from starlette.testclient import TestClient
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from actionproof import Gate, MemoryStore, PostgresStore, RedisStore, Refusal, Route, Store, asgi, wsgi
from actionproof.adapter import Routes
from actionproof.answer import MOST
from actionproof.httpsig import content_digest
from actionproof.kit import Kit

BODY = b'{"text": "hello"}'
KIT = Kit()


def route(gate: Gate, **more: Any) -> Route:
    """The route of most tests."""
    return Route(gate, "agent:worker-1", "create_post", **more)


class Verdicts(unittest.TestCase):
    """What verify and consume say."""

    def setUp(self) -> None:
        self.gate = KIT.gate()
        self.route = route(self.gate, store=MemoryStore())

    def headers(self, **more: Any) -> dict[str, str]:
        """The headers of a post."""
        return KIT.headers(self.gate, "POST", "/posts?a=1", BODY, authorization="Bearer t", **more)

    def test_verified_once(self) -> None:
        v = self.route.verify("POST", "https://api.example.com/posts?a=1", self.headers(), b'{ "text":"hello"}')
        self.assertEqual((v.status, v.code), ("verified", "ok"), v.detail)
        assert v.post is not None
        self.assertEqual((v.post.resource, v.post.event["source"]), ("POST /posts?a=1", "kit"))
        self.assertEqual([v.consume().code, v.consume().code, v.used], ["ok", "replayed", True])

    def test_refused(self) -> None:
        good = self.headers()
        for name, method, url, headers, body, want in [
            ("nothing", "POST", "/posts?a=1", {}, BODY, ("absent", "proof_missing")),
            ("one header", "POST", "/posts?a=1", {k: good[k] for k in good if "proof" not in k[13:]}, BODY,
             ("refused", "proof_missing")),
            ("another path", "POST", "/other", good, BODY, ("refused", "artifacts_mismatch")),
            ("another body", "POST", "/posts?a=1", good, b"{}", ("refused", "artifacts_mismatch")),
            ("no JSON", "POST", "/posts?a=1", good, b"{", ("refused", "content_malformed")),
            ("another credential", "POST", "/posts?a=1", good | {"authorization": "x"}, BODY,
             ("refused", "proof_access_token")),
            ("method override", "POST", "/posts?a=1", good | {"x_http_method": "PUT"}, BODY,
             ("refused", "override_refused")),
            ("a URL in the query", "POST", "/posts?a=http://h1", good, BODY, ("refused", "artifacts_mismatch")),
            ("an escape that is none", "POST", "/posts%zz?a=1", good, BODY, ("refused", "request_malformed")),
            ("a charset by RFC 2231", "POST", "/posts?a=1",
             good | {"content-type": "application/json; charset*=iso-8859-1''utf-7"}, BODY,
             ("refused", "content_malformed")),
            ("too large", "POST", "/posts?a=1", good, b" " * (1 << 20) + BODY, ("refused", "content_too_large")),
        ]:
            with self.subTest(name):
                v = self.route.verify(method, url, headers, body)
                self.assertEqual((v.status, v.code, v.consume()), (*want, v))

    def test_one_resource_for_each_url(self) -> None:
        headers = KIT.headers(self.gate, "POST", "/posts?to=/y", BODY)
        for url in ("/posts?to=http://other/y", "/posts?to=x://y/y", "/http://other/posts?to=/y"):
            self.assertEqual(self.route.verify("POST", url, headers, BODY).code, "artifacts_mismatch", url)
        self.assertEqual(self.route.verify("POST", "http://h/posts?to=/y", headers, BODY).code, "ok")

    def test_public_url(self) -> None:
        behind = route(self.gate, public_url="https://api.example.com/v1")
        headers = KIT.headers(self.gate, "POST", "/v1/posts", BODY)
        self.assertEqual(behind.verify("POST", "/posts", headers, BODY).code, "ok")
        self.assertEqual(behind.verify("POST", "/v1/posts", headers, BODY).code, "artifacts_mismatch")

    def test_broken_chains(self) -> None:
        for artifact, claims, code in [
            ("attestation", {"humanInteractive": True}, "human_involved"),
            ("grant", {"subject": "x"}, "artifacts_mismatch"),
            ("policyDecision", {"decision": "deny"}, "policy_denied"),
            ("sessionReceipt", {"iat": 1}, "artifact_malformed"),
            ("triggerReceipt", {"kind": "human_request"}, "artifacts_mismatch"),
            ("originProof", {"bindingHash": "x"}, "artifact_malformed"), ("attestation", {"iss": "x"}, "key_purpose"),
        ]:
            with self.subTest(artifact), self.assertRaises(Refusal) as refused:
                self.headers(tamper={artifact: claims})
            self.assertEqual(refused.exception.code, code)
        v = self.route.verify("POST", "/posts?a=1", self.headers(tamper={"requestProof": {"action": "x"}}), BODY)
        self.assertEqual((v.status, v.code), ("refused", "artifacts_mismatch"))

    def test_expiry(self) -> None:
        now = time.time()
        kit = Kit(lambda: now)
        gate = kit.gate()
        headers = kit.headers(gate, "POST", "/posts", BODY)
        now += 16
        self.assertEqual(route(gate).verify("POST", "/posts", headers, BODY).code, "ok")
        now += 2
        self.assertEqual(route(gate).verify("POST", "/posts", headers, BODY).code, "expired")

    def test_store_fails(self) -> None:
        class Broken:
            def consume(self, keys: object) -> None:
                raise OSError("no route to host")

        v = self.route.verify("POST", "/posts?a=1", self.headers(), BODY)
        with self.assertLogs("actionproof"):
            used = v.consume(Broken())
        self.assertEqual((used.status, used.code, used.used), ("unavailable", "internal", False))


class Folders(unittest.TestCase):
    """The files of a gate, which may change."""

    def test_changes(self) -> None:
        now, said = time.time(), list[str]()
        kit = Kit(lambda: now)
        with tempfile.TemporaryDirectory() as folder:
            for name, raw in kit.files.items():
                Path(folder, name).write_bytes(raw)
            gate = Gate.from_folder("api", folder, clock=lambda: now, changed=lambda e: said.append(str(e)))
            headers = kit.headers(gate, "POST", "/posts", BODY)
            judged = lambda: route(gate).verify("POST", "/posts", headers, BODY)
            Path(folder, "bundle.json").write_bytes(b'{"certificates": []}')
            self.assertEqual(judged().code, "ok")  # read at most every two seconds
            now += 2
            self.assertEqual(judged().code, "key_unknown")
            Path(folder, "bundle.json").write_bytes(b"{")
            for _ in range(2):
                now += 2
                self.assertEqual(judged().code, "key_unknown")  # the last good bundle
            Path(folder, "bundle.json").write_bytes(kit.files["bundle.json"])
            now -= 3600  # the clock is set right: no hour passes before the files are read again
            self.assertEqual(judged().code, "clock_skew")
            now += 3600
            Path(folder, "bundle.json").write_bytes(b"{")
            now += 602
            self.assertEqual((judged().status, judged().code), ("unavailable", "trust_stale"))
            self.assertEqual([text == "None" for text in said], [True, False] * 2, said)


class Stores(unittest.TestCase):
    """Of 64 callers with one capability, one wins."""

    def race(self, store: Store) -> None:
        gate = KIT.gate()
        headers = KIT.headers(gate, "POST", "/posts", BODY)
        v = route(gate, store=store).verify("POST", "/posts", headers, BODY)
        self.assertEqual(v.status, "verified")
        with ThreadPoolExecutor(64) as pool:
            codes = [f.result().code for f in [pool.submit(v.consume) for _ in range(64)]]
        self.assertEqual(sorted(codes), ["ok"] + ["replayed"] * 63)

    def test_memory(self) -> None:
        self.race(MemoryStore())

    def test_redis(self) -> None:
        with server("redis-server", "--port", "{port}", "--save", "", "--bind", "127.0.0.1") as port:
            client = redis.Redis(port=port)
            wait(client.ping)
            self.race(RedisStore(client))
            self.assertGreater(min(client.ttl(key) for key in client.keys()), 60)

    def test_postgres(self) -> None:
        with postgres() as dsn:
            connect = lambda: psycopg.connect(dsn)
            with connect() as connection:
                connection.execute(PostgresStore.TABLE)
                connection.execute("CREATE TABLE posts (text text)")
            self.race(PostgresStore(connect))
            gate = KIT.gate()
            headers = KIT.headers(gate, "POST", "/posts", BODY)
            v = route(gate).verify("POST", "/posts", headers, BODY)
            with connect() as connection:  # both happen, or neither
                connection.execute("INSERT INTO posts VALUES ('a')")
                self.assertEqual(v.consume(PostgresStore.within(connection)).code, "ok")
                connection.rollback()
            with connect() as connection:
                self.assertEqual(v.consume(PostgresStore.within(connection)).code, "ok")
                self.assertEqual(connection.execute("SELECT count(*) FROM posts").fetchone(), (0,))
            with psycopg.connect(dsn, autocommit=True) as connection, self.assertLogs("actionproof"):
                self.assertEqual(v.consume(PostgresStore.within(connection)).status, "unavailable")


@contextlib.contextmanager
def server(*command: str) -> Iterator[int]:
    """A process that listens on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([part.format(port=port) for part in command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A cluster of its own, reached by a socket in its folder."""
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    folder = tempfile.mkdtemp()
    if user:
        shutil.chown(folder, "postgres", "postgres")
    try:
        subprocess.run([*user, f"{binaries}/initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "postgres"],
                       check=True, capture_output=True, cwd=folder)
        with server(*user, f"{binaries}/postgres", "-D", f"{folder}/data", "-k", folder, "-p", "{port}",
                    "-c", "listen_addresses=") as port:
            dsn = f"host={folder} port={port} user=postgres dbname=postgres"
            wait(lambda: psycopg.connect(dsn).close())
            yield dsn
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait(ready: Callable[[], object]) -> None:
    """Waits until ready raises nothing."""
    deadline = time.monotonic() + 120
    while True:
        try:
            ready()
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def parts(text: str) -> Iterator[bytes]:
    """A stream, or a large answer."""
    yield from [b"data: a\n\n", b"\n\n"] if text == "stream" else [bytes(MOST)] * 2


TYPES = {"stream": "text/event-stream", "large": "application/octet-stream"}


def fastapi_app(gate: Gate, store: Store, **more: Any) -> Any:
    """An API with FastAPI, which parses the body."""
    app = FastAPI()
    app.add_middleware(asgi.Middleware, gate=gate, store=store, routes={"POST /posts": route(gate, **more)})

    @app.post("/posts", status_code=201)
    def make(post: dict[str, str], request: Request) -> Any:
        verdict = request.scope["actionproof"]
        if post["text"] in TYPES:
            return starlette.responses.StreamingResponse(parts(post["text"]), 201, media_type=TYPES[post["text"]])
        return {"made": post["text"], "code": verdict.code}

    return TestClient(app, raise_server_exceptions=False)


def starlette_app(gate: Gate, store: Store, **more: Any) -> Any:
    """An API with Starlette."""
    async def make(request: starlette.requests.Request) -> starlette.responses.Response:
        post = await request.json()
        if post["text"] in TYPES:
            return starlette.responses.StreamingResponse(parts(post["text"]), 201, media_type=TYPES[post["text"]])
        said = {"made": post["text"], "code": request.scope["actionproof"].code}
        return starlette.responses.JSONResponse(said, 201)

    app = starlette.applications.Starlette(routes=[starlette.routing.Route("/posts", make, methods=["POST"])])
    protected = asgi.Middleware(app, gate=gate, store=store, routes={"POST /posts": route(gate, **more)})
    return TestClient(protected, raise_server_exceptions=False)


class Flask:
    """A client of an API with Flask."""

    def __init__(self, gate: Gate, store: Store, **more: Any) -> None:
        app = flask.Flask("api")
        app.wsgi_app = wsgi.Middleware(
            app.wsgi_app, gate=gate, store=store, routes={"POST /posts": route(gate, **more)})

        @app.post("/posts")
        def make() -> Any:
            verdict, text = flask.request.environ["actionproof"], flask.request.get_json()["text"]
            if text in TYPES:
                return flask.Response(parts(text), 201, content_type=TYPES[text])
            return {"made": text, "code": verdict.code}, 201

        self._client = app.test_client()

    def post(self, path: str, content: bytes, headers: dict[str, str]) -> Any:
        """As the other clients do."""
        try:
            response = self._client.post(path, data=content, headers=headers)
        except RuntimeError:  # a server answers so
            return types.SimpleNamespace(status_code=500)
        return types.SimpleNamespace(
            status_code=response.status_code, headers=response.headers, content=response.data,
            json=lambda: response.json)


class Adapters(unittest.TestCase):
    """The same with each framework."""

    def test_enforced(self) -> None:
        for make in (fastapi_app, starlette_app, Flask):
            with self.subTest(make.__name__):
                gate, store = KIT.gate(), MemoryStore()
                client = make(gate, store)
                headers = KIT.headers(gate, "POST", "/posts", BODY)
                answers = [client.post("/posts", content=BODY, headers=h) for h in (headers, headers, {})]
                self.assertEqual([a.status_code for a in answers], [201, 409, 401])
                self.assertEqual(answers[0].json(), {"made": "hello", "code": "ok"})
                self.assertEqual([a.json()["code"] for a in answers[1:]], ["replayed", "proof_missing"])
                self.assertEqual(answers[2].headers["www-authenticate"], "ActionProof")

    def test_observed(self) -> None:
        for make in (fastapi_app, starlette_app, Flask):
            with self.subTest(make.__name__):
                client = make(KIT.gate(), MemoryStore(), mode="observe")
                answer = client.post("/posts", content=BODY, headers={"content-type": "application/json"})
                self.assertEqual(answer.json(), {"made": "hello", "code": "proof_missing"})

    def test_forgotten_consume(self) -> None:
        for make in (fastapi_app, starlette_app, Flask):
            with self.subTest(make.__name__):
                gate = KIT.gate()
                client = make(gate, MemoryStore(), consume="handler")
                answer = client.post("/posts", content=BODY, headers=KIT.headers(gate, "POST", "/posts", BODY))
                self.assertEqual(answer.status_code, 500)

    def test_endpoints(self) -> None:
        binding = {"subject": "agent:worker-1", "action": "create_post", "resource": "POST /posts",
                   "contentHash": "0" * 64}
        for make in (fastapi_app, starlette_app, Flask):
            with self.subTest(make.__name__):
                client = make(KIT.gate(), MemoryStore())
                ask = lambda name, body: client.post(f"/.well-known/actionproof/{name}", content=dump(body), headers={})
                challenge = ask("challenge", binding).json()
                request = {"envelope": KIT.envelope(challenge), "binding": challenge["binding"]}
                answers = [ask("verify", r) for r in (request, request, {"envelope": {}}, {"x": 1})]
                self.assertEqual([a.status_code for a in answers], [200, 409, 403, 400])
                self.assertEqual(set(answers[0].json()), {"capability", "capabilityId", "bindingHash", "expiresAt"})
                self.assertEqual([a.json()["code"] for a in answers[1:]],
                                 ["replayed", "artifact_missing", "query_malformed"])

    def test_signed_answers(self) -> None:
        key = Ed25519PrivateKey.generate()
        for make in (fastapi_app, starlette_app, Flask):
            for body, named, signed in [(BODY, True, True), (BODY, False, False), (b'{"text": "stream"}', True, False),
                                        (b'{"text": "large"}', True, False)]:
                with self.subTest(make.__name__, body=body, named=named):
                    gate = KIT.gate()
                    client = make(gate, MemoryStore(), sign=key)
                    headers = KIT.headers(gate, "POST", "/posts", body)
                    post = route(gate).verify("POST", "/posts", headers, body).post
                    assert post is not None
                    if named:
                        headers |= {"content-digest": content_digest(body), "idempotency-key": post.capability_id}
                    answer = client.post("/posts", content=body, headers=headers)
                    self.assertEqual(answer.status_code, 201)
                    self.assertEqual("signature" in answer.headers, signed)
                    sizes = {b'{"text": "large"}': 2 * MOST, b'{"text": "stream"}': 11}
                    self.assertEqual(len(answer.content), sizes.get(body, len(answer.content)))

    def test_body_read_before(self) -> None:
        gate = KIT.gate()
        app = asgi.Middleware(fastapi_app(gate, MemoryStore()).app, gate=gate, store=MemoryStore(),
                              routes={"POST /posts": route(gate)}, body_timeout=0.2)

        async def parsed(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await receive()
            await app(scope, receive, send)

        answer = TestClient(parsed).post("/posts", content=BODY, headers=KIT.headers(gate, "POST", "/posts", BODY))
        self.assertEqual((answer.status_code, answer.json()["code"]), (400, "content_incomplete"))
        self.assertIn("before every body parser", answer.json()["detail"])
        self.assertEqual(answer.json()["message"], answer.json()["detail"])
        self.assertEqual(answer.headers["content-type"], "application/problem+json; charset=utf-8")
        response: list[str] = []
        routes = {"POST /posts": route(gate)}
        inner: Any = None
        list(wsgi.Middleware(inner, gate=gate, store=MemoryStore(), routes=routes)(
            {"REQUEST_METHOD": "POST", "PATH_INFO": "/posts", "CONTENT_LENGTH": "9", "wsgi.input": io.BytesIO()},
            lambda status, _: response.append(status)))
        self.assertEqual(response, ["400 Bad Request"])

    def test_server_without_raw_path(self) -> None:
        gate, said = KIT.gate(), list[Any]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            said.append(scope["actionproof"].code)

        async def call(path: str) -> None:
            pending = [{"type": "http.request", "body": BODY[i : i + 1], "more_body": i + 1 < len(BODY)}
                       for i in range(len(BODY))]

            async def receive() -> Any:
                return pending.pop(0)

            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    said.append(message["status"])

            headers = KIT.headers(gate, "POST", "/posts/1?a=b", BODY)
            await asgi.Middleware(app, gate=gate, store=MemoryStore(), routes={"POST /posts/{id}": route(gate)})(
                {"type": "http", "method": "POST", "path": path, "raw_path": None,
                 "query_string": b"" if "?" in path else b"a=b",
                 "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}, receive, send)

        for path in ("/posts/1", "/posts/1?a=b"):  # the second is /posts/1%3Fa=b
            asyncio.run(call(path))
        self.assertEqual(said, ["ok", 403])

    def test_no_spelling_goes_by(self) -> None:
        gate = KIT.gate()
        names = ("POST /posts/{id}/x", "PUT /files/{name:path}", "PUT /raw/{name:path}/x", "POST /")
        routes = Routes(gate, MemoryStore(), dict.fromkeys(names, route(gate)))
        for method, path in (
            ("POST", "/posts/1/x"), ("POST", "//posts/1//x/"), ("POST", "/posts/1/x\n"), ("post", "/Posts/ü/X"),
            ("POST", "/"), ("PUT", "/files/a/b"), ("PUT", "/files/"), ("PUT", "/files/a\nb/"), ("PUT", "/raw//x"),
            ("PUT", "/raw/a/b/x"),
        ):
            self.assertIsNotNone(routes.find(method, "", {}, path), path)
            for url, headers in (("?_method=" + method, {}), ("", {"X-HTTP-Method-Override": method})):
                self.assertIsNotNone(routes.find("GET", url, headers, path), path)
        for path in ("/posts/1", "/posts/1/2/x", "/files", "/x"):
            self.assertIsNone(routes.find("POST", "", {}, path), path)
        for name in ("POST /<id>", "POST /{id:int}", "POST /{id", "POST /a?b", "POST posts", "post /posts"):
            with self.assertRaises(ValueError):
                Routes(gate, MemoryStore(), {name: route(gate)})

    def test_other_spellings_of_flask(self) -> None:
        gate, app, made = KIT.gate(), flask.Flask(__name__), list[str]()

        class Overriding:
            """Takes the method from a header, as Flask's documentation shows."""

            def __init__(self, app: Any) -> None:
                self._app = app

            def __call__(self, environ: Any, start: Any) -> Any:
                method = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE", environ["REQUEST_METHOD"])
                return self._app({**environ, "REQUEST_METHOD": method}, start)

        app.wsgi_app = wsgi.Middleware(Overriding(app.wsgi_app), gate=gate, store=MemoryStore(),
                                       routes={"POST /größe": route(gate)})

        @app.post("/größe")
        def make() -> str:
            made.append(flask.request.method)
            return "made"

        client = app.test_client()
        self.assertIn(client.post("/größe", data=BODY).status_code, (400, 401))
        self.assertEqual(client.get("/größe", headers={"X-HTTP-Method-Override": "POST"}).status_code, 400)
        self.assertEqual(made, [])

    def test_body_that_drips(self) -> None:
        gate, said = KIT.gate(), list[int]()
        inner: Any = None

        async def drip() -> Any:
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message: Any) -> None:
            said.extend([message["status"]] if "status" in message else [])

        scope = {"type": "http", "method": "POST", "path": "/posts", "headers": []}
        asyncio.run(asgi.Middleware(inner, gate=gate, store=MemoryStore(), routes={"POST /posts": route(gate)},
                                    body_timeout=0.1)(scope, drip, send))
        self.assertEqual(said, [400])


def dump(value: Any) -> bytes:
    """JSON."""
    return flask.json.dumps(value).encode()


if __name__ == "__main__":
    unittest.main()
