"""An API's signature on its answer (RFC 9421): the post's outcome is then the API's word, not the mediator's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from . import http
from .httpsig import Message, content_digest, has_digest, sign

TAG = "actionproof-answer"
COMPONENTS = ('"@status"', '"content-digest"', '"@method";req', '"@target-uri";req', '"content-digest";req',
              '"idempotency-key";req')  # the last is the capability's id
MOST = 4 << 20  # bytes of a body; a larger answer goes out unsigned


@dataclass(frozen=True)
class Signer:
    """Signs the answer to one request."""

    key: Ed25519PrivateKey
    request: Message
    clock: Callable[[], float] = time.time

    def sign(self, status: int, headers: list[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
        """The answer's headers with its signature."""
        out = [(name, value) for name, value in headers if name.lower() != "content-digest"]
        out.append(("content-digest", content_digest(body)))
        message = Message(http.Fields(out), status=status, request=self.request)
        return out + sign(message, "actionproof", COMPONENTS, TAG, int(self.clock()), self.key)


def signer(key: Ed25519PrivateKey | None, method: str, url: str, fields: http.Fields, body: bytes, capability_id: str,
           clock: Callable[[], float]) -> Signer | None:
    """None if nothing is to be signed: no mediator sent a request that does not name its content and capability."""
    named = fields.all("idempotency-key") == [capability_id]
    if key is None or not named or not has_digest(fields, body):
        return None
    return Signer(key, Message(fields, method, url), clock)


def streams(headers: list[tuple[str, str]]) -> bool:
    """Whether an answer is to go out as it comes, and so unsigned."""
    return any(name.lower() == "content-type" and value.lower().startswith("text/event-stream")
               for name, value in headers)
