"""HTTP message signatures (RFC 9421) with Ed25519: Web Bot Auth, and an API's signature on its answer."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from . import fields, http
from .fields import InnerList, Item
from .problem import Refusal, refuse, refuse_if
from .strictjson import canonical
from .token import b64, unb64

_MAX_BASE, _MAX_FIELD, _MAX_COMPONENTS = 16 << 10, 8 << 10, 32
_PARAMS = {"created": int, "expires": int, "nonce": str, "keyid": str, "alg": str, "tag": str}
_PLAIN = re.compile(r"[\t -~]*")
_LAST = '"@signature-params": '


@dataclass(frozen=True)
class Message:
    """A request, or an answer with the request that it is for."""

    headers: http.Fields
    method: str = ""
    url: str = ""  # absolute, as the client addressed it
    status: int = 0  # of an answer
    request: Message | None = None

    def value(self, component: Item) -> str:
        """The value of a component (section 2)."""
        name = component.value
        key = component.params.get("key")
        if not isinstance(name, str) or name != name.lower() or not component.params.keys() <= {"req", "key"}:
            _bad(f"the component {component} is not known here")
        m = self.request if component.params.get("req") is True else self
        if m is None or component.params.get("req", True) is not True:
            _bad(f"the component {component} is of a request, and there is none")
        value = m._derived(name) if name.startswith("@") else m._field(name, key)
        if _PLAIN.fullmatch(value) is None or name.startswith("@") and key is not None:
            _bad(f"the component {component} has no plain value")
        return value

    def _derived(self, name: str) -> str:
        if self.status:
            if name != "@status":
                _bad(f"an answer has no {name}")
            return str(self.status)
        if any(c <= " " or c == "\x7f" for c in self.url):  # urlsplit drops some of them
            _bad("the request's URL has a space or a control character")
        at = urlsplit(self.url)
        scheme, authority = at.scheme.lower(), at.netloc.lower()
        if not scheme or not authority or at.fragment:
            _bad("the request's URL is not absolute")
        authority = authority.removesuffix({"http": ":80", "https": ":443"}.get(scheme, ":"))
        path, query = at.path or "/", at.query
        mark = "?" if "?" in self.url else ""
        values = {"@method": self.method, "@target-uri": f"{scheme}://{authority}{path}{mark}{query}",
                  "@authority": authority, "@scheme": scheme, "@path": path, "@query": "?" + query}
        if name not in values:
            _bad(f"the component {name} is not known here")
        return values[name]

    def _field(self, name: str, key: Any) -> str:
        lines = self.headers.all(name)
        if not lines:
            _bad(f"the message has no field {name}")
        if key is None:
            return ", ".join(line.strip(" \t") for line in lines)
        member = _dictionary(self.headers, name).get(key)
        if member is None:
            _bad(f"the field {name} has no member {key}")
        return str(member)

    def base(self, covered: InnerList) -> bytes:
        """What is signed (section 2.5)."""
        lines = {str(c): self.value(c) for c in covered.items}
        if len(lines) < len(covered.items) or len(lines) > _MAX_COMPONENTS:
            _bad("a component is covered twice, or there are too many")
        text = "".join(f"{name}: {value}\n" for name, value in lines.items()) + _LAST + str(covered)
        if len(text) > _MAX_BASE:
            _bad("the signature covers too much")
        return text.encode()


def _bad(why: str) -> NoReturn:
    refuse("signature_invalid", why)


def _dictionary(headers: http.Fields, name: str) -> dict[str, fields.Member]:
    lines = headers.all(name)
    if sum(len(line) + 2 for line in lines) > _MAX_FIELD:
        _bad(f"the field {name} is too large")
    try:
        return fields.dictionary(lines)
    except fields.Malformed as error:
        raise Refusal("signature_invalid", f"the field {name}: {error}") from None


def key_id(public: bytes) -> str:
    """A key's JWK thumbprint (RFC 7638)."""
    return b64(hashlib.sha256(canonical({"crv": "Ed25519", "kty": "OKP", "x": b64(public)}).encode()).digest())


def raw_public(key: Ed25519PrivateKey) -> bytes:
    """The public key's 32 bytes."""
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def content_digest(body: bytes) -> str:
    """The field Content-Digest (RFC 9530) of a body."""
    return "sha-256=" + str(Item(hashlib.sha256(body).digest()))


def has_digest(headers: http.Fields, body: bytes) -> bool:
    """Whether Content-Digest has the body's SHA-256."""
    try:
        member = _dictionary(headers, "content-digest").get("sha-256")
    except Refusal:
        return False
    return isinstance(member, Item) and member.value == hashlib.sha256(body).digest()


def sign(m: Message, label: str, components: Sequence[str], tag: str, created: int,
         key: Ed25519PrivateKey) -> list[tuple[str, str]]:
    """The fields with a signature over components such as '"@method";req'."""
    params: dict[str, fields.Bare] = {"created": created, "keyid": key_id(raw_public(key)), "tag": tag}
    covered = InnerList([fields.item(c) for c in components], params)
    signature = key.sign(m.base(covered))
    return [("signature-input", f"{label}={covered}"), ("signature", f"{label}={Item(signature)}")]


def verifies(public: bytes, signature: object, base: bytes) -> bool:
    """Whether a key has signed a base."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, base)  # type: ignore[arg-type]
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def known_params(covered: InnerList) -> Mapping[str, Any]:
    """The parameters. One that is not known could limit what the signature means, and is refused."""
    for name, value in covered.params.items():
        if type(value) is not _PARAMS.get(name):
            _bad(f"the signature has a parameter {name} that is not known, or of another type")
    return covered.params


def open_base(base: str, signature: bytes, public: bytes) -> tuple[dict[str, str], Mapping[str, Any]]:
    """The values and parameters of a signed base, by component as '"@method";req'."""
    refuse_if(len(base) > _MAX_BASE or not verifies(public, signature, base.encode()), "record_mismatch",
              "the API's answer is not signed by its key")
    *lines, last = base.split("\n")
    try:
        covered = fields.inner_list(last.removeprefix(_LAST))
        values = {str(c): line.removeprefix(f"{c}: ") for c, line in zip(covered.items, lines, strict=True)
                  if line.startswith(f"{c}: ")}
        if len(values) < len(lines) or _LAST + str(covered) != last:
            raise fields.Malformed("the lines are not those of its components")
        return values, known_params(covered)
    except (ValueError, Refusal) as error:
        raise Refusal("record_mismatch", f"the API's answer: {error}") from None


@dataclass(frozen=True)
class BotVerdict:
    """Whose key has signed a request: absent without a signature, refused with a wrong one."""

    status: Literal["verified", "refused", "absent"]
    code: str  # ok if verified
    detail: str = ""
    key_id: str = ""
    agent: str = ""  # the origin that Signature-Agent names, whose directory the caller has fetched
    components: Sequence[str] = field(default_factory=tuple)  # what the signature covers


def verify_web_bot_auth(method: str, url: str, headers: http.Headers, directory: Mapping[str, Any], *,
                        raw_body: bytes | None = None, now: float | None = None) -> BotVerdict:
    """Verifies the Web Bot Auth signature alone. url is absolute, as the client sees it.

    directory is the JWK Set at /.well-known/http-message-signatures-directory of an agent that the API knows. The
    signature must cover @authority or @target-uri, and Signature-Agent if that is sent; it is good for a day at most.
    A covered Content-Digest is compared with raw_body. Nothing is used up. Raises nothing.
    """
    try:
        given = http.Fields(headers)
        if not given.all("signature-input") and not given.all("signature"):
            return BotVerdict("absent", "proof_missing", "the request has no signature")
        return _verify(Message(given, method, url), directory, raw_body, time.time() if now is None else now)
    except Refusal as refusal:
        return BotVerdict("refused", refusal.code, refusal.detail)
    except Exception as error:  # of a header or a directory of another type
        return BotVerdict("refused", "signature_invalid", str(error))


_SKEW, _DAY = 60, 24 * 3600
_DIGESTS = {'"content-digest"', '"content-digest";key="sha-256"'}


def _verify(m: Message, directory: Mapping[str, Any], body: bytes | None, now: float) -> BotVerdict:
    inputs = _dictionary(m.headers, "signature-input")
    found = [(label, i) for label, i in inputs.items() if i.params.get("tag") == "web-bot-auth"]
    if len(found) != 1 or not isinstance(found[0][1], InnerList):
        _bad(f"{len(found)} signatures have the tag web-bot-auth, not one")
    label, covered = found[0]
    assert isinstance(covered, InnerList)
    params = known_params(covered)
    refuse_if(params.get("alg", "ed25519") != "ed25519" or not {"created", "expires", "keyid"} <= params.keys(),
              "signature_invalid", "the signature is not Ed25519, or lacks created, expires or keyid")
    created, expires = params["created"], params["expires"]
    refuse_if(created > now + _SKEW, "clock_skew", "the signature is of the future")
    refuse_if(expires <= now - _SKEW or not created < expires <= created + _DAY, "expired",
              "the signature has expired, or is good for more than a day")
    names = [str(c) for c in covered.items]
    agents = m.headers.all("signature-agent")
    whole = {'"@authority"', '"@target-uri"'} & set(names)
    of_agent = not agents or any(c.value == "signature-agent" and "req" not in c.params for c in covered.items)
    refuse_if(not whole or not of_agent, "signature_invalid",
              "the signature does not cover @authority or @target-uri, or not Signature-Agent")
    public = _key(directory, params["keyid"], now)
    refuse_if(public is None, "key_unknown", "the directory does not have the key, or not at this time")
    signature = _dictionary(m.headers, "signature").get(label)
    good = isinstance(signature, Item) and verifies(public or b"", signature.value, m.base(covered))
    refuse_if(not good, "signature_invalid", "the signature is wrong")
    digests = {str(c) for c in covered.items if c.value == "content-digest"}
    refuse_if(not digests <= _DIGESTS, "signature_invalid", "the signature covers another digest than SHA-256")
    refuse_if(body is not None and bool(digests) and not has_digest(m.headers, body), "signature_invalid",
              "the body is not the one of Content-Digest")
    return BotVerdict("verified", "ok", "", params["keyid"], _agent(m, covered) if agents else "", names)


def _key(directory: Mapping[str, Any], wanted: str, now: float) -> bytes | None:
    for jwk in directory["keys"]:
        if not isinstance(jwk, Mapping) or (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
            continue
        x, begin, end = jwk.get("x"), jwk.get("nbf", now), jwk.get("exp", now + 1)
        public = unb64(x) if isinstance(x, str) and jwk.get("use", "sig") == "sig" else None
        timed = isinstance(begin, int | float) and isinstance(end, int | float) and begin <= now < end
        if public is not None and timed and key_id(public) == wanted:
            return public
    return None


def _agent(m: Message, covered: InnerList) -> str:
    """The origin in a dictionary's covered member, or in the string of earlier drafts."""
    component = next(c for c in covered.items if c.value == "signature-agent")
    try:
        named = fields.item(m.value(component)).value
    except fields.Malformed:
        named = ""
    return named if type(named) is str else ""
