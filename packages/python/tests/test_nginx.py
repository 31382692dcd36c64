"""Behind Debian's nginx, which cuts a prefix off the path and changes Host."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask
import uvicorn
import werkzeug.serving
from fastapi import FastAPI

from actionproof import Gate, MemoryStore, Route, asgi, wsgi
from actionproof.kit import Kit

BODY = b'{"text": "hello"}'
KIT = Kit()
CONFIG = """daemon off; {user} pid {folder}/pid; error_log stderr; events {{}}
http {{ access_log off; {temp}
  server {{ listen 127.0.0.1:{port}; location /api/ {{
    proxy_pass http://127.0.0.1:{upstream}/; proxy_set_header Host internal.example; }} }} }}
"""


def answers(port: int) -> bool:
    """Whether a server listens."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def nginx(upstream: int) -> Iterator[int]:
    """The port of an nginx before a server."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        temp = " ".join(f"{of}_temp_path {folder}/{of};" for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        file = Path(folder, "nginx.conf")
        file.write_text(CONFIG.format(folder=folder, temp=temp, port=port, upstream=upstream,
                                      user="" if os.getuid() else "user root;"))
        with subprocess.Popen(["/usr/sbin/nginx", "-p", folder, "-c", file, "-e", "stderr"]) as process:
            try:
                while not answers(port):
                    if process.poll() is not None:
                        raise RuntimeError("nginx ended")
                    time.sleep(0.02)
                yield port
            finally:
                process.terminate()


def served_fastapi(gate: Gate, route: Route) -> tuple[Any, socket.socket]:
    """A server's function, and where it listens."""
    app = FastAPI()

    @app.post("/posts", status_code=201)
    def make_post(post: dict[str, str]) -> dict[str, str]:
        return post

    app.add_middleware(asgi.Middleware, gate=gate, store=MemoryStore(), routes={"POST /posts": route})
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    server.install_signal_handlers = lambda: None  # it is not on the main thread
    listener = socket.create_server(("127.0.0.1", 0))
    return lambda: server.run(sockets=[listener]), listener


def served_flask(gate: Gate, route: Route) -> tuple[Any, socket.socket]:
    """A server's function, and where it listens."""
    app = flask.Flask("api")

    @app.post("/posts")
    def make_post() -> tuple[Any, int]:
        return flask.request.get_json(), 201

    middleware = wsgi.Middleware(app.wsgi_app, gate=gate, store=MemoryStore(), routes={"POST /posts": route})
    server = werkzeug.serving.make_server("127.0.0.1", 0, middleware)
    return server.serve_forever, server.socket


class BehindNginx(unittest.TestCase):
    """FastAPI and Flask."""

    def posted(self, served: Any, public_url: str) -> tuple[list[int], str]:
        """The statuses of a post, a repeated one and one without evidence, and why the first was refused."""
        gate = KIT.gate()
        route = Route(gate, "agent:worker-1", "create_post", public_url=public_url)
        run, listener = served(gate, route)
        threading.Thread(target=run, daemon=True).start()
        headers = KIT.headers(gate, "POST", "/api/posts", BODY)
        statuses = []
        with nginx(listener.getsockname()[1]) as port:
            for fields in (headers, headers, {}):
                call = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                call.request("POST", "/api/posts", BODY, fields or {"Content-Type": "application/json"})
                answer = call.getresponse()
                statuses.append(answer.status)
                json.load(answer)
                call.close()
        return statuses, route.verify("POST", "/posts", headers, BODY).detail

    def test_public_url(self) -> None:
        for served in (served_fastapi, served_flask):
            with self.subTest(served.__name__):
                self.assertEqual(self.posted(served, "https://api.example.com/api")[0], [201, 409, 401])
                statuses, why = self.posted(served, "")
                self.assertEqual(statuses, [403, 403, 401])
                self.assertEqual(why, "the capability is for POST /api/posts, not POST /posts; "
                                      "if a proxy changes the path, set public_url")


if __name__ == "__main__":
    unittest.main()
