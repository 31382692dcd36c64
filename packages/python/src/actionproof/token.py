"""One token: its form, its signatures, and what is expected of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .claims import Claims, Kind, decode, sha256, size
from .problem import Refusal, refuse, refuse_if
from .strictjson import Malformed, canonical, parse

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_MAX_HEADER = 4096  # characters; a key id of 256 bytes takes less
_VERSION = re.compile(r"(.+):v([0-9]+)", re.DOTALL)
SECOND = 1_000_000  # times and ages are whole microseconds


def b64(data: bytes) -> str:
    """Unpadded base64url."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: str) -> bytes | None:
    """The bytes of unpadded base64url with a single spelling, or None."""
    if _BASE64URL.fullmatch(text) is None or len(text) % 4 == 1:
        return None
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return data if b64(data) == text else None


def unb64_padded(text: str) -> bytes | None:
    """The bytes of padded base64, or None. b64decode alone takes padding that is too long."""
    try:
        return base64.b64decode(text, validate=True) if len(text) % 4 == 0 else None
    except ValueError:
        return None


def token_hash(token: str) -> str:
    """The hash by which artifacts name each other: of header and payload as sent."""
    return sha256(token[: token.rfind(".")] if "." in token else token)


@dataclass(frozen=True)
class Parsed:
    """The parts of a token, none of them verified. second is the other JWS of a root's token."""

    kid: str
    payload: bytes
    signature: bytes
    signed: bytes
    second: str = ""


def parse_token(token: str, alg: str, typ: str, limit: int) -> Parsed:
    """Takes a compact JWS apart. Its header must be canonical, with alg, kid and typ alone."""
    refuse_if(token == "", "artifact_missing", f"the {typ} is missing")
    refuse_if(size(token) > limit, "artifact_malformed", f"the {typ} has more than {limit} bytes")
    parts = token.split(".")
    payload, signature = [unb64(part) for part in parts[1:]] if len(parts) == 3 else (None, None)
    if payload is None or signature is None:
        refuse("artifact_malformed", f"the {typ} is not a compact JWS of three parts")
    kid = _key_id(parts[0], alg, typ) if len(parts[0]) <= _MAX_HEADER else None
    if kid is None:
        refuse("artifact_malformed", f"the header of the {typ} is not the canonical one with {alg}")
    return Parsed(kid, payload, signature, token[: token.rindex(".")].encode())


@lru_cache(256)
def _key_id(header: str, alg: str, typ: str) -> str | None:
    """The key id of a header, or None if it is not canonical. All tokens of one key have the same header."""
    raw = unb64(header)
    try:
        kid: str = parse(raw or b"")["kid"]
        good = 0 < size(kid) <= 256 and raw == canonical({"alg": alg, "kid": kid, "typ": typ}).encode()
    except (Malformed, KeyError, TypeError, AttributeError):
        return None
    return kid if good else None


def key_id_of(token: str) -> str:
    """The key id that a token names, unverified; empty if there is none."""
    try:
        kid = parse(unb64(token.partition(".")[0]) or b"")["kid"]
    except (Malformed, KeyError, TypeError):
        return ""
    return kid if isinstance(kid, str) else ""


def parse_rooted(token: str, kind: Kind) -> Parsed:
    """Takes apart a token of a root, which may be two JWS joined by ~."""
    refuse_if(size(token) > kind.size, "artifact_malformed", f"the {kind.typ} has more than {kind.size} bytes")
    first, twice, second = token.partition("~")
    p = parse_token(first, "EdDSA", kind.typ, kind.size)
    refuse_if(twice and not second, "artifact_malformed", f"the {kind.typ} announces a second signature")
    return Parsed(p.kid, p.payload, p.signature, p.signed, second)


def unverified(kind: Kind, token: str, alg: str = "EdDSA") -> Claims:
    """The claims of a token of which only the form is checked."""
    return decode(kind, parse_token(token, alg, kind.typ, kind.size).payload)


_P = 2**255 - 19
_SMALL_ORDER = {0, 1, _P - 1} | {
    int.from_bytes(bytes.fromhex(y), "little")
    for y in ("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
              "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
}


def public_key(raw: bytes) -> bytes:
    """An Ed25519 public key that every implementation reads alike."""
    y = int.from_bytes(raw, "little") % 2**255
    if len(raw) != 32 or y >= _P or y in _SMALL_ORDER:
        refuse("trust_malformed", "an Ed25519 public key is malformed, not reduced, or of small order")
    return raw


_ed25519 = lru_cache(1024)(Ed25519PublicKey.from_public_bytes)


def verifies(public: bytes, p: Parsed) -> bool:
    """Whether an Ed25519 key has signed a token."""
    if len(p.signature) != 64:
        return False
    try:
        _ed25519(public).verify(p.signature, p.signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def post_quantum_key(raw: bytes | None) -> Any:
    """An ML-DSA-65 public key. It needs a cryptography with ML-DSA."""
    if raw is None or len(raw) != 1952 or not any(raw[32:]):
        refuse("trust_malformed", "an ML-DSA-65 public key is malformed or degenerate")
    try:
        mldsa = importlib.import_module("cryptography.hazmat.primitives.asymmetric.mldsa")

        return mldsa.MLDSA65PublicKey.from_public_bytes(raw)
    except (ImportError, UnsupportedAlgorithm) as error:
        raise Refusal("internal", "a pinned root has an ML-DSA-65 key, which this cryptography lacks") from error


@dataclass(frozen=True)
class Root:
    """A pinned public key: the key registry's, or the deployment auditor's."""

    kid: str
    purpose: str
    public: bytes
    post_quantum: Any = None
    raw_post_quantum: bytes = b""

    def verify(self, typ: str, p: Parsed, required: bool) -> None:
        """Demands every signature that the root must have made."""
        refuse_if(not verifies(self.public, p), "signature_invalid", f"the signature of the {typ} is wrong")
        absent = self.post_quantum is None
        refuse_if(required and absent, "roots_not_pinned", f"no post-quantum key is pinned for {self.kid}")
        refuse_if(not absent and not p.second, "signature_invalid", f"the {typ} lacks its post-quantum signature")
        if not p.second:
            return
        second = parse_token(p.second, "ML-DSA-65", typ, size(p.second))
        refuse_if(second.kid != p.kid, "signature_invalid", f"the signatures of the {typ} are by two keys")
        refuse_if(second.payload != p.payload, "artifact_malformed", f"the {typ} has two payloads")
        if not absent:
            try:
                self.post_quantum.verify(second.signature, second.signed)
            except (InvalidSignature, ValueError):
                refuse("signature_invalid", f"the post-quantum signature of the {typ} is wrong")


class Secret:
    """A shared secret: whoever verifies with it can also sign."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 32:
            refuse("config_malformed", "a secret has fewer than 32 bytes")
        self._secret = secret
        self.kid = "mac:" + b64(self.mac(b"kid")[:9])

    def __repr__(self) -> str:
        return "Secret(REDACTED)"

    def mac(self, text: bytes) -> bytes:
        """The HMAC-SHA256 of a text."""
        return hmac.new(self._secret, text, hashlib.sha256).digest()

    def is_key(self, key: bytes) -> bool:
        """Whether the secret is a public key, raw or as base64url."""
        return bool(key) and (
            hmac.compare_digest(self._secret, key) or hmac.compare_digest(self._secret, b64(key).encode())
        )

    def authenticates(self, p: Parsed) -> bool:
        """Whether the secret has authenticated a token."""
        return hmac.compare_digest(p.signature, self.mac(p.signed))


@dataclass(frozen=True)
class Expected:
    """What is demanded of an artifact; an empty one refuses all. Ages are in µs."""

    issuers: Sequence[str] = ()
    audiences: Sequence[str] = ()
    key_ids: Sequence[str] = ()
    max_age: int = 0
    custody: Sequence[str] = ()
    require_non_exportable: bool = False
    require_post_quantum: bool = False
    secrets: Sequence[Secret] = ()

    def admit(self, what: str, kid: str, claims: Claims, key: Claims | None, at: Moment) -> None:
        """Refuses registered claims, or a key: its custody, unless it is None."""
        if not (self.issuers and self.audiences and self.key_ids and self.max_age > 0):
            refuse("not_allowed", f"the policy for the {what} accepts nothing")
        refuse_if(claims["iss"] not in self.issuers, "not_allowed", f"the {what} has another issuer")
        refuse_if(claims["aud"] not in self.audiences, "not_allowed", f"the {what} is for another audience")
        refuse_if(not match_key_id(self.key_ids, kid), "not_allowed", f"the {what} is by another key, {kid}")
        iat, exp = claims["iat"] * SECOND, claims["exp"] * SECOND
        refuse_if(at.now + at.skew < iat, "clock_skew", f"the {what} is issued in the future")
        refuse_if(
            at.now - at.skew >= exp or at.now - iat > self.max_age + at.skew, "expired", f"the {what} is too old"
        )
        if key is not None:
            refuse_if(
                self.require_non_exportable and key["keyExportable"], "key_custody",
                f"the {what} rests on a key that can be exported",
            )
            refuse_if(
                self.custody and key["keyCustody"] not in self.custody, "key_custody",
                f"the {what} rests on a key in another custody",
            )


@dataclass(frozen=True)
class Moment:
    """A time, and the tolerated difference of clocks, in µs."""

    now: int
    skew: int = 2 * SECOND


def cut_key_id(kid: str) -> tuple[str, int]:
    """A key's name and version, which is 0 if the kid has none."""
    match = _VERSION.fullmatch(kid)
    if match is None or int(match[2]) >= 2**31:
        return kid, 0
    return match[1], int(match[2])


def match_name(allowed: Sequence[str], name: str) -> bool:
    """Whether a list has a name, or one with /* in place of its last segment."""
    before, slash, last = name.rpartition("/")
    return name in allowed or bool(before and slash and last) and before + "/*" in allowed


def match_key_id(allowed: Sequence[str], kid: str) -> bool:
    """Whether a list has a key id, or its name."""
    return kid in allowed or match_name(allowed, cut_key_id(kid)[0])


def open_mac(secret: Secret, kind: Kind, token: str, expected: Expected, at: Moment) -> Claims:
    """The claims of a token that a gate wrote to itself."""
    p = parse_token(token, "HS256", kind.typ, kind.size)
    refuse_if(not secret.authenticates(p), "signature_invalid", f"this gate did not issue the {kind.typ}")
    claims = decode(kind, p.payload)
    own = Expected(expected.issuers, expected.audiences, [secret.kid], expected.max_age)
    own.admit(kind.typ, p.kid, claims, None, at)
    return claims
