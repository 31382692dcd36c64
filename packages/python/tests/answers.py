"""Prints the signed answers of three APIs, for another implementation to verify."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from actionproof import MemoryStore
from actionproof.httpsig import content_digest
from tests.test_gate import BODY, KIT, Flask, fastapi_app, starlette_app


def answered(make: Any) -> dict[str, Any]:
    """A request and its answer."""
    gate, key = KIT.gate(), Ed25519PrivateKey.generate()
    client = make(gate, MemoryStore(), sign=key, public_url="https://API.example.com:443")
    headers = KIT.headers(gate, "POST", "/posts", BODY)
    claims = json.loads(base64.urlsafe_b64decode(headers["actionproof-capability"].split(".")[1] + "=="))
    headers |= {"content-digest": content_digest(BODY), "idempotency-key": claims["jti"]}
    answer = client.post("/posts", content=BODY, headers=headers)
    return {"Name": make.__name__, "Sent": headers, "Status": answer.status_code, "Header": dict(answer.headers),
            "Body": base64.b64encode(answer.content).decode(),
            "Key": key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()}


if __name__ == "__main__":
    print(json.dumps([answered(make) for make in (fastapi_app, starlette_app, Flask)]))
